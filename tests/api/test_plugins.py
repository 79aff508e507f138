"""Components from outside: files, packages, entry points, notebooks; on Ray, grown, edited, refused."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ldpflow as lf
from ldpflow.study.plugins import plugins_of
from ldpflow.testing import check_plugin

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent


def python(code, *arguments, cwd):
    """Run code in a process of its own; returns what it prints, and what it complains about."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *map(str, arguments)],
        capture_output=True, text=True, env=environment, cwd=cwd,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def ray_address(ray_session):
    """Of the Ray that the tests share: its workers are not those of a process that joins it."""
    import ray

    return ray.get_runtime_context().gcs_address


SWEEP = """
import sys
import ldpflow as lf
plugin, replicates, where = sys.argv[1:]
study = lf.Study(problem=lf.Quantile(), mechanism=lf.RandomizedResponse(epsilon=1.0), algorithm=lf.LdpSgd(),
                 methods={"kind": "fixed_width", "half": [0.1, 0.3]}, n=[200, 400],
                 replicates=int(replicates), plugins=[plugin], name="own")
executor, address = ("serial", None) if where == "serial" else ("ray", where)
run = lf.sweep(study, "run", executor=executor, address=address)
print(run.summary(columns=["n", "half", "whole_width_median"]).to_pylist())
print(run.replay(run.summary()["path"][0].as_py(), 3).equal, run.result.finished_replicates)
"""


def test_a_method_in_a_file_is_swept_on_ray_grown_and_refused_when_edited(tmp_path, ray_address):
    shutil.copy(HERE / "plugin_method.py", tmp_path / "mine.py")
    code, out, error = python(SWEEP, "mine.py", 10, ray_address, cwd=tmp_path)
    assert code == 0, error
    assert "'whole_width_median': 0.6" in out and "True 10" in out
    code, out, error = python(SWEEP, "mine.py", 20, "serial", cwd=tmp_path)
    assert code == 0 and "True 20" in out, error
    text = (tmp_path / "mine.py").read_text()
    (tmp_path / "mine.py").write_text(text.replace("FACTOR = 2.0", "FACTOR = 3.0"))
    code, out, error = python(SWEEP, "mine.py", 30, "serial", cwd=tmp_path)
    assert code == 1 and "plugins.mine" in error and error.count("SHA-256") >= 2
    (kept,) = (tmp_path / "run" / "plugins").iterdir()
    assert (kept / "mine.py").read_text() == text
    # Reading needs none of it.
    run = lf.open_run(tmp_path / "run")
    assert run.summary()["replicates"].to_pylist()[0] == 20 and run.rows(method="fixed_width").num_rows == 80
    with pytest.raises(lf.InputError, match="plugin is missing; .* mine .* copy: .*/plugins/mine-"):
        run.replay(run.summary()["path"][0].as_py(), 3)
    with pytest.warns(UserWarning, match="needs the plug-in mine, which is not loaded"):
        assert run.check().passed


PACKAGE = {
    "ownmethods/__init__.py": '"""Own methods."""\n\nfrom ownmethods.method import FixedWidth\n',
    "ownmethods-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: ownmethods\nVersion: 1.0\n",
    "ownmethods-1.0.dist-info/entry_points.txt": "[ldpflow.plugins]\nown = ownmethods\n",
}

INSTALLED = """
import sys
sys.path.insert(0, sys.argv[1])  # as an installed package; Ray's workers do not have this path
import ldpflow as lf
_, _, address, *plugins = sys.argv
study = lf.Study(problem=lf.Quantile(), mechanism=lf.RandomizedResponse(epsilon=1.0), algorithm=lf.LdpSgd(),
                 methods={"kind": "fixed_width"}, n=[200], replicates=10, plugins=plugins)
run = lf.sweep(study, "run", executor="ray", address=address)
print(run.summary(columns="whole_width_median").to_pylist(), sys.modules["ownmethods"].__file__)
from ldpflow.cli import main
main(["list"])
"""


@pytest.mark.parametrize("by", ["entry point", pytest.param("module", marks=pytest.mark.slow)])
def test_a_package_reaches_the_workers(by, tmp_path, ray_address):
    for name, text in PACKAGE.items():
        if by == "entry point" or "dist-info" not in name:
            (tmp_path / "site" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "site" / name).write_text(text)
    text = (HERE / "plugin_method.py").read_text()
    helper = "FACTOR = 2.0\n\n\ndef twice(value):\n    return FACTOR * value\n"
    assert helper in text
    (tmp_path / "site" / "ownmethods" / "helper.py").write_text(helper)
    (tmp_path / "site" / "ownmethods" / "method.py").write_text(
        text.replace(helper, "from ownmethods.helper import twice\n")
    )
    names = [] if by == "entry point" else ["ownmethods"]
    code, out, error = python(INSTALLED, tmp_path / "site", ray_address, *names, cwd=tmp_path)
    assert code == 0, error
    assert "0.2" in out and "fixed_width" in out
    (kept,) = (tmp_path / "run" / "plugins").iterdir()
    found = sorted(str(file.relative_to(kept)) for file in kept.rglob("*.py"))
    assert found == ["ownmethods/__init__.py", "ownmethods/helper.py", "ownmethods/method.py"]


def law_study(**changes):
    settings = {
        "problem": {"kind": "quantile", "law": "ramp", "shape": [1.0, 3.0], "tau": 0.25},
        "mechanism": lf.RandomizedResponse(epsilon=1.0),
        "algorithm": lf.LdpSgd(),
        "methods": [lf.SelfNormalization(), lf.Oracle()],
        "n": [500],
        "replicates": 8,
    }
    return lf.Study(plugins=[str(HERE / "plugin_law.py")], **settings | changes)


def test_a_data_law_of_a_plugin(tmp_path, ray_session):
    study = law_study()
    assert lf.Study.from_toml(study.to_toml()) == study and "plugin_law" in study.to_toml()
    truths = [simulator.problem.truth()[0] for simulator in study.simulators()]
    assert truths == [0.5, 1.5]  # shape * sqrt(0.25)
    assert study.simulators()[1].problem.curvature()[0][0] == 2 * 1.5 / 9
    run = lf.sweep(study, tmp_path / "run")
    serial = lf.sweep(study, tmp_path / "serial", executor="serial")
    assert run.summary().equals(serial.summary())
    assert set(run.summary()["law"].to_pylist()) == {"ramp"} and run.check().passed
    (plugin,) = plugins_of(study.components())
    assert plugin.name == "plugin_law"
    assert [str(finding) for finding in check_plugin(str(HERE / "plugin_law.py")) if not finding.passed] == []


def test_a_protocol_of_a_plugin(tmp_path, ray_session):
    lf.load_plugin(str(HERE / "plugin_law.py"))
    settings = {
        "mechanism": None, "algorithm": None, "methods": {"kind": "inversion"}, "n": [2000],
        "protocol": {"kind": "coarse_thresholds", "epsilon": 1.0, "range": [-4.0, 4.0]},
    }  # fmt: skip
    run = lf.sweep(law_study(problem=lf.Quantile(law="uniform", tau=0.25), **settings), tmp_path / "run")
    assert set(run.summary()["protocol"].to_pylist()) == {"coarse_thresholds"}
    assert run.summary()["truth"].to_pylist() == [0.25]
    with pytest.raises(lf.InputError, match="problem.law: 'ramp' is not allowed"):
        law_study(problem=lf.Quantile(law="ramp", tau=0.25), **settings)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"shape": 200.0}, "the shape of ramp must be a number in (0, 100]"),
        ({"df": 3.0}, "law = 'ramp' has no df"),
    ],
)
def test_settings_that_a_law_does_not_have_are_refused(settings, said):
    lf.load_plugin(str(HERE / "plugin_law.py"))
    with pytest.raises(lf.InputError) as caught:
        lf.Quantile(law="ramp", **settings)
    assert said in str(caught.value)


def test_a_law_that_cannot_be_registered(tmp_path):
    text = (HERE / "plugin_law.py").read_text()
    for name, right, wrong, said in (
        ("taken", '"ramp"', '"normal"', "ldpflow has this one"),
        ("settings", "    shape: ", "    other: float = 1.0\n    shape: ", "no setting but `shape`"),
        ("abstract", "def cdf", "def distribution", "cdf"),
    ):
        (tmp_path / f"law_{name}.py").write_text(text.replace(right, wrong))
        with pytest.raises(lf.InputError) as caught:
            lf.load_plugin(str(tmp_path / f"law_{name}.py"))
        assert said in str(caught.value) and f"law_{name}.py: Ramp" in str(caught.value)


SCRIPT = """
import sys
import ldpflow as lf
study = lf.Study(problem=lf.Quantile(), mechanism=lf.RandomizedResponse(epsilon=1.0), algorithm=lf.LdpSgd(),
                 methods=FixedWidth(half=[0.1, 0.3]), n=[200], replicates=int(sys.argv[2]))
executor, address = ("serial", None) if sys.argv[1] == "serial" else ("ray", sys.argv[1])
run = lf.sweep(study, "run", executor=executor, address=address)
print(run.summary(columns="whole_width_median").to_pylist())
"""


def script(text, *arguments, cwd):
    (cwd / "script.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "script.py", *map(str, arguments)],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=cwd,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
def test_a_method_defined_in_a_script_runs_on_ray_and_its_edit_is_refused(tmp_path, ray_address):
    text = (HERE / "plugin_method.py").read_text() + SCRIPT
    code, out, error = script(text, ray_address, 6, cwd=tmp_path)
    assert code == 0 and "0.6" in out, error
    # The script may change, the class and what it uses may not.
    code, out, error = script(text + "\nunrelated = 1\n", "serial", 9, cwd=tmp_path)
    assert code == 0, error
    code, out, error = script(text.replace("FACTOR = 2.0", "FACTOR = 3.0"), "serial", 12, cwd=tmp_path)
    assert code == 1 and "plugins.__main__.FixedWidth" in error
    with pytest.warns(UserWarning, match="needs the plug-in __main__.FixedWidth"):
        assert lf.open_run(tmp_path / "run").check().passed


def test_kernels_of_a_script_are_refused_on_ray_and_run_serially(tmp_path, ray_address):
    text = (HERE / "plugin_law.py").read_text() + SCRIPT.replace(
        "lf.Quantile()", 'lf.Quantile(law="ramp")'
    ).replace("FixedWidth(half=[0.1, 0.3])", "lf.Oracle()").replace('columns="whole_width_median"', "")
    code, _, error = script(text, "serial", 4, cwd=tmp_path)
    assert code == 0, error
    code, _, error = script(text, ray_address, 8, cwd=tmp_path)
    assert code == 1 and "law.kind: 'ramp' is not allowed" in error and "%%writefile" in error
