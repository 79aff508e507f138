"""Plug-ins that end the process or cannot travel: a failed batch, or one message."""

import re
from pathlib import Path
from typing import Literal

import pytest

import ldpflow as lf
from ldpflow.cli import main
from ldpflow.engine.run import run_study
from ldpflow.errors import InputError
from ldpflow.simulators.one_pass import OnePass
from ldpflow.simulators.rows import Batch, simulate
from ldpflow.simulators.simulator import Cell
from ldpflow.study import Study
from ldpflow.study.plugins import load_plugin
from tests.faults.study import MAPPING

METHOD = (Path(__file__).parents[1] / "api" / "plugin_method.py").read_text()
ENDINGS = ["raise SystemExit(3)", "raise KeyboardInterrupt", "raise GeneratorExit"]
STUDY = MAPPING | {
    "replicates": 8,
    "problem": {"kind": "quantile"},
    "grid": {"n": [200], "level": [0.9]},
    "method": [{"kind": "fixed_width"}, {"kind": "BM"}],
}


def ending_study(folder: Path, ending: str) -> Study:
    """A study with a method of a plug-in whose intervals end so.

    Each ending has a kind and a file of its own: a Ray worker keeps the plug-ins of earlier tests.
    """
    number = ENDINGS.index(ending)
    file = folder / f"ending_{number}.py"
    head, found, rest = METHOD.partition("        steps = record.steps(n)\n")
    assert found
    file.write_text(f"{head}        {ending}\n{rest}".replace("fixed_width", f"ending_{number}"))
    load_plugin(str(file))
    return Study.from_mapping(STUDY | {"method": [{"kind": f"ending_{number}"}, {"kind": "BM"}]})


@pytest.mark.parametrize(
    ("ending", "engine"),
    [
        *((ending, "threads") for ending in ENDINGS),
        *(pytest.param(ending, "ray", marks=pytest.mark.system) for ending in ENDINGS[:2]),
    ],
)
def test_a_plugin_that_ends_the_process_fails_its_batch(request, tmp_path, ending, engine):
    if engine == "ray":
        request.getfixturevalue("ray_session")
    result = run_study(ending_study(tmp_path, ending), tmp_path / "run", engine=engine, num_cpus=2)
    assert result.failed_batches and result.stopped is None
    name = ending.removeprefix("raise ").partition("(")[0]
    place = re.compile(rf"{name}: .*\(ending_{ENDINGS.index(ending)}\.py, line \d+: {re.escape(ending)}\)")
    assert all(map(place.search, result.failed_batches)), result.failed_batches


UNPICKLABLE = """
import copyreg

def refuse(method):
    raise TypeError("cannot pickle '_thread.lock' object")

copyreg.pickle(FixedWidth, refuse)
"""


def test_a_component_that_cannot_be_pickled_is_one_message(tmp_path, ray_session):
    file = tmp_path / "locked.py"
    file.write_text(METHOD + UNPICKLABLE)
    load_plugin(str(file))
    with pytest.raises(InputError, match="engine: .*cannot pickle '_thread.lock'"):
        run_study(Study.from_mapping(STUDY), tmp_path / "run", engine="ray")


class Shifted(lf.Quantile):
    """Lacks ``taus``, which the bundled gradient reads."""

    kind: Literal["shifted"] = "shifted"

    def kernel_parameters(self):
        return {"tau": self.tau, "location": self.location, "scale": self.scale}


def test_a_subclass_with_kernel_parameters_of_its_own_learns_what_they_lack():
    path = OnePass(Shifted(), lf.Laplace(epsilon=1.0), lf.LdpSgd())
    with pytest.raises(NameError, match=r"problem\.taus.*kernel_parameters\(\) has to return it"):
        simulate(Batch(path, 1, 0, 8, (Cell(200, lf.BatchMeans(), 0.9),)))


@pytest.mark.parametrize(
    ("source", "ending"),
    [("leaving.py", "sys.exit(3)"), ("leaving.py", "sys.exit()"), ("leaving", "raise BaseException")],
)
def test_a_plugin_that_ends_the_process_when_it_is_imported(tmp_path, monkeypatch, capsys, source, ending):
    (tmp_path / "leaving.py").write_text(f"import sys\n{ending}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["list", "--plugin", source]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("ldpflow: plugins: ") and "Traceback" not in line
