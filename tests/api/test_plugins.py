"""Components from outside: files, packages, entry points, notebooks; on Ray, grown, edited, refused."""

import linecache
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import ldpflow as lf
from ldpflow.study.plugins import plugins_of
from tests.kernels import uncompiled
from tests.studies import forget_plugins, small

HERE = Path(__file__).parent
METHOD = (HERE / "plugin_method.py").read_text()
LAW = (HERE / "plugin_law.py").read_text()


def python(code, *arguments, cwd):
    (cwd / "script.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "script.py", *map(str, arguments)],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(HERE.parents[1])}, cwd=cwd,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def ray_address(ray_session):
    import ray

    return ray.get_runtime_context().gcs_address


SWEEP = """
import sys
import ldpflow as lf
from tests.studies import small
methods = {"kind": "fixed_width", "half": [0.1, 0.3]}
study = small(methods=methods, n=[200, 400], replicates=10, plugins=["mine.py"], name="own")
if __name__ == "__main__":
    run = lf.sweep(study, "run", executor="ray", address=sys.argv[1])
    print(run.summary(columns=["n", "half", "whole_width_median"]).to_pylist())
"""


def test_a_method_in_a_file_is_swept_on_ray_grown_and_refused_when_edited(tmp_path, ray_address, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(METHOD)
    code, out, error = python(SWEEP, ray_address, cwd=tmp_path)
    assert code == 0 and "'whole_width_median': 0.6" in out, error
    names = {"__name__": "study"}
    exec(SWEEP, names)
    run = lf.sweep(names["study"].replace(replicates=20), "run", executor="serial")
    assert run.result.finished_replicates == 20 and run.replay(replicate=3).equal
    forget_plugins("fixed_width")
    Path("mine.py").write_text(METHOD.replace("FACTOR = 2.0", "FACTOR = 3.0"))
    with pytest.raises(lf.InputError, match="plugins.mine") as caught:
        exec(SWEEP, names)
        lf.sweep(names["study"].replace(replicates=30), "run", executor="serial")
    assert str(caught.value).count("SHA-256") >= 2
    (kept,) = (tmp_path / "run" / "plugins").iterdir()
    assert (kept / "mine.py").read_text() == METHOD
    forget_plugins("fixed_width")
    # Reading needs none of it.
    run = lf.open_run("run")
    assert run.summary()["replicates"].to_pylist()[0] == 20 and run.rows(method="fixed_width").num_rows == 80
    with pytest.raises(lf.InputError, match="plugin is missing; .* mine .* copy: .*/plugins/mine-"):
        run.replay(replicate=3)
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
address = sys.argv[2]
from tests.studies import small
run = lf.sweep(small(methods={"kind": "fixed_width"}), "run", executor="ray", address=address)
print(run.summary(columns="whole_width_median").to_pylist(), sys.modules["ownmethods"].__file__)
from ldpflow.cli import main
main(["list"])
"""


def test_a_package_reaches_the_workers_by_its_entry_point(tmp_path, ray_address):
    helper = "FACTOR = 2.0\n\n\ndef twice(value):\n    return FACTOR * value\n"
    assert helper in METHOD
    method = METHOD.replace(helper, "from ownmethods.helper import twice\n")
    code_of = {"ownmethods/helper.py": helper, "ownmethods/method.py": method}
    for name, text in {**PACKAGE, **code_of}.items():
        (tmp_path / "site" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "site" / name).write_text(text)
    code, out, error = python(INSTALLED, tmp_path / "site", ray_address, cwd=tmp_path)
    assert code == 0, error
    assert "0.2" in out and "fixed_width" in out
    (kept,) = (tmp_path / "run" / "plugins").iterdir()
    found = sorted(str(file.relative_to(kept)) for file in kept.rglob("*.py"))
    assert found == ["ownmethods/__init__.py", "ownmethods/helper.py", "ownmethods/method.py"]


def law_study(**changes):
    problem = {"kind": "quantile", "law": "ramp", "shape": [1.0, 3.0], "tau": 0.25}
    settings = {"problem": problem, "methods": [lf.SelfNormalization(), lf.Oracle()], "n": [500]}
    return small(plugins=[str(HERE / "plugin_law.py")], **settings | changes)


def test_a_data_law_of_a_plugin(tmp_path, monkeypatch):
    uncompiled.use(monkeypatch)
    study = law_study(n=50)
    assert lf.Study.from_toml(study.to_toml()) == study and "plugin_law" in study.to_toml()
    problems = [simulator.problem for simulator in study.simulators()]
    assert [problem.truth()[0] for problem in problems] == [0.5, 1.5]  # shape * sqrt(0.25)
    assert problems[1].curvature()[0][0] == 2 * 1.5 / 9
    run = lf.sweep(study.replace({"problem.shape": 3.0}), tmp_path / "run", executor="serial")
    assert set(run.summary()["law"].to_pylist()) == {"ramp"} and run.check().passed
    assert [plugin.name for plugin in plugins_of(study.components())] == ["plugin_law"]


def test_a_protocol_of_a_plugin(tmp_path):
    lf.load_plugin(str(HERE / "plugin_law.py"))
    settings = {
        "mechanism": None, "algorithm": None, "methods": {"kind": "inversion"}, "n": [2000],
        "protocol": {"kind": "coarse_thresholds", "epsilon": 1.0, "range": [-4.0, 4.0]},
    }  # fmt: skip
    study = law_study(problem=lf.Quantile(law="uniform", tau=0.25), **settings)
    run = lf.sweep(study, tmp_path / "run", executor="serial")
    assert set(run.summary()["protocol"].to_pylist()) == {"coarse_thresholds"}
    assert run.summary()["truth"].to_pylist() == [0.25]
    with pytest.raises(lf.InputError, match="problem.law: 'ramp' is not allowed"):
        law_study(problem=lf.Quantile(law="ramp", tau=0.25), **settings)


def test_settings_that_a_law_does_not_have_are_refused():
    lf.load_plugin(str(HERE / "plugin_law.py"))
    with pytest.raises(lf.InputError, match=r"the shape of ramp must be a number in \(0, 100\]"):
        lf.Quantile(law="ramp", shape=200.0)
    with pytest.raises(lf.InputError, match="law = 'ramp' has no df"):
        lf.Quantile(law="ramp", df=3.0)


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ('"ramp"', '"normal"', "ldpflow has this one"),
        ("    shape: ", "    other: float = 1.0\n    shape: ", "`shape` as its only setting"),
        ("def cdf", "def distribution", "cdf"),
    ],
)
def test_a_law_that_cannot_be_registered(tmp_path, right, wrong, said):
    (tmp_path / "wrong_law.py").write_text(LAW.replace(right, wrong))
    with pytest.raises(lf.InputError, match=f"wrong_law.py: Ramp.*{said}"):
        lf.load_plugin(str(tmp_path / "wrong_law.py"))


SCRIPT = """
import sys
import ldpflow as lf
study = lf.Study(problem=lf.Quantile(), mechanism=lf.RandomizedResponse(epsilon=1.0), algorithm=lf.LdpSgd(),
                 methods=FixedWidth(half=[0.1, 0.3]), n=[200], replicates=int(sys.argv[2]))
executor, address = ("serial", None) if sys.argv[1] == "serial" else ("ray", sys.argv[1])
run = lf.sweep(study, "run", executor=executor, address=address)
print(run.summary(columns="whole_width_median").to_pylist())
"""


@pytest.mark.slow
def test_a_method_defined_in_a_script_runs_on_ray_and_its_edit_is_refused(tmp_path, ray_address):
    text = METHOD + SCRIPT
    code, out, error = python(text, ray_address, 6, cwd=tmp_path)
    assert code == 0 and "0.6" in out, error
    # The script may change, the class and what it uses may not.
    code, out, error = python(text + "\nunrelated = 1\n", "serial", 9, cwd=tmp_path)
    assert code == 0, error
    code, out, error = python(text.replace("FACTOR = 2.0", "FACTOR = 3.0"), "serial", 12, cwd=tmp_path)
    assert code == 1 and "plugins.__main__.FixedWidth" in error
    with pytest.warns(UserWarning, match="needs the plug-in __main__.FixedWidth"):
        assert lf.open_run(tmp_path / "run").check().passed


def test_a_method_of_a_notebook_that_raises_names_its_line(tmp_path, monkeypatch):
    text = METHOD.replace("steps = record.steps(n)", "return record.nope")
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    monkeypatch.setitem(linecache.cache, "<cell>", (len(text), None, text.splitlines(True), "<cell>"))
    exec(compile(text, "<cell>", "exec", dont_inherit=True), vars(sys.modules["__main__"]))
    method = sys.modules["__main__"].FixedWidth()
    run = lf.sweep(small(methods=method), tmp_path / "run", executor="serial", allow_failures=True)
    line = text[: text.index("return record.nope")].count("\n") + 1
    (failed,) = run.result.failed_batches
    assert failed.endswith(f"'nope' (cell, line {line}: return record.nope)")  # no command can load a cell
    forget_plugins("fixed_width")


def test_kernels_of_a_script_are_refused_on_ray(tmp_path):
    text = LAW + SCRIPT.replace("lf.Quantile()", 'lf.Quantile(law="ramp")')
    text = text.replace("FixedWidth(half=[0.1, 0.3])", "lf.Oracle()")
    code, _, error = python(text, "127.0.0.1:1", 8, cwd=tmp_path)
    assert code == 1 and "law.kind: 'ramp' is not allowed" in error and "%%writefile" in error
