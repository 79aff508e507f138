"""Runs that a stranger made: no command and no method of Run executes what the reader did not name."""

import inspect
import shutil
import socketserver
import sys
from functools import cached_property
from pathlib import Path

import pytest

import ldpflow as lf
from ldpflow.documents import SUM_OF_TEXT
from ldpflow.errors import LdpflowError
from ldpflow.store.run_store import RunStore
from ldpflow.study import load_study
from tests.cli.conftest import ldpflow  # noqa: F401
from tests.cli.test_help import EVERY
from tests.studies import forget_plugins, small

MARKING = """
from pathlib import Path
from typing import Literal
import ldpflow as lf
Path(__file__ + ".mark").touch()

@lf.register
class Marking(lf.SelfNormalization):
    '''Self-normalisation under another name.'''
    kind: Literal["marking"] = "marking"
"""

PLUGIN_LINES = {
    "all": 'files = ["plug.py", "../deep/../plug.py", "{folder}/plug.py"]\nmodules = ["plug_module"]',
    "one text": 'modules = "plug_module"',
}

VALUES = {
    "replicate": "0", "output": "written.csv", "figure": "coverage", "path": "{path}",
    "file": "collected.csv", "files": "collected.csv", "component": "randomized_response",
    "mechanism": "randomized_response", "kind": "method", "name": "new_name", "source": "quickstart", "out": "s3://b/r",
}  # fmt: skip
"""Values of what a command or method needs beside a run or a study; a new one is added here."""

FURTHER = {
    ("check",): [["--repair", "--engine", "serial"], ["--recompute", "1.0"]],
    ("summary",): [["--format", "json"], ["--null", "0.0"]],
    ("cite",): [["--text"]],
    ("sweep",): [["--out", "{run}", "--engine", "serial"], ["--dry-run"]],
    ("export",): [["--force"]],
}


COMMANDS = {words: command for words, command in EVERY.items() if words}


def arguments_of(words, run, key):
    line = list(words)
    for parameter in COMMANDS[words].params:
        name = parameter.name
        if name == "run":
            value = str(run)
        elif name == "study":
            value = str(run / "study.toml")
        elif parameter.required:
            value = VALUES[name].format(path=key)
        else:
            continue
        line += [value] if parameter.param_type_name == "argument" else [max(parameter.opts, key=len), value]
    return line


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    run = tmp_path_factory.mktemp("swept") / "run"
    methods, trajectory = [lf.BatchMeans(), lf.SelfNormalization()], {"first": 10, "points": 3}
    study = small(methods=methods, n=[100, 200], name="swept", trajectory=trajectory)
    lf.sweep(study, run, executor="serial")
    return run


@pytest.fixture(params=["all"])
def foreign(request, swept, tmp_path, monkeypatch):
    """A copy of the run whose study names plug-ins, its checksum put right."""
    run = tmp_path / "deep" / "run"
    shutil.copytree(swept, run)
    for folder in (tmp_path, tmp_path / "deep", run):
        (folder / "plug.py").write_text(MARKING)
        (folder / "plug_module.py").write_text(MARKING.replace("marking", "marking_module"))
    store = RunStore(run)
    body = store.read_study().rpartition(SUM_OF_TEXT)[0]
    line = PLUGIN_LINES[request.param].format(folder=tmp_path)
    summaries = store.read_summary(), store.read_trajectory_summary()
    store.write_study(f"{body}\n[plugins]\n{line}\n")
    store.write_summary(summaries[0])  # they name the digest of study.toml
    store.write_summary(summaries[1], "trajectories.parquet")
    monkeypatch.chdir(tmp_path / "deep")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(socketserver.BaseServer, "serve_forever", lambda *a, **k: None)
    yield run
    for name in [name for name in sys.modules if "plug_module" in name]:
        del sys.modules[name]


def marks(run):
    return [str(file) for file in run.parent.parent.rglob("*.mark")]


def test_the_mark_is_left_where_the_reader_names_the_plugin(foreign, ldpflow):  # noqa: F811
    """The other tests could fail. A study that names files is not one that a sweep wrote."""
    done = ldpflow("summary", foreign, "--plugin", "plug_module")
    assert len(marks(foreign)) == 1
    assert done.code == 2 and "plugins" in done.err and "name the plug-in yourself" in done.err


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_command_executes_what_a_run_names(words, foreign, ldpflow):  # noqa: F811
    key = RunStore(foreign).replicates.path_keys()[0]
    line = arguments_of(words, foreign, f"p{key}")
    for more in ([], *FURTHER.get(words, [])):
        ldpflow(*line, *(text.format(run=foreign) for text in more))
    assert marks(foreign) == []


@pytest.mark.parametrize("foreign", PLUGIN_LINES, indirect=True)
def test_no_method_of_run_executes_what_a_run_names(foreign):
    for name in dir(lf.Run):
        if name.startswith("__") and name != "__repr__":
            continue
        run = lf.open_run(foreign)
        found = inspect.getattr_static(lf.Run, name)
        try:
            if isinstance(found, (property, cached_property)):
                getattr(run, name)
            else:
                parameters = list(inspect.signature(found).parameters.values())[1:]
                needed = [p.name for p in parameters if p.default is p.empty and p.kind < p.VAR_POSITIONAL]
                getattr(run, name)(**{name: VALUES[name] for name in needed})
        except LdpflowError:
            pass
        assert marks(foreign) == [], name
    with pytest.raises(lf.InputError, match="plugins"):
        _ = lf.open_run(foreign).study
    with pytest.raises(lf.InputError, match="plugins"):
        load_study(str(foreign / "study.toml"))


COMPUTING = {
    ("replay",): [], ("check",): ["--repair", "--recompute", "1.0"], ("transcript",): [], ("sweep",): []
}  # fmt: skip


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A run of a method in a plug-in, in a process that has not loaded it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plug.py").write_text(MARKING)
    study = small(methods=[lf.BatchMeans(), {"kind": "marking"}], plugins=["plug.py"])
    lf.sweep(study, "run", executor="serial")
    forget_plugins("marking")
    (tmp_path / "plug.py.mark").unlink()
    return tmp_path / "run"


@pytest.mark.parametrize("words", COMPUTING, ids=" ".join)
def test_what_computes_names_the_plugin_that_it_needs(words, own, ldpflow):  # noqa: F811
    line = [*arguments_of(words, own, f"p{RunStore(own).replicates.path_keys()[0]}"), *COMPUTING[words]]
    if words == ("check",):
        next((own / "replicates").rglob("*.parquet")).write_bytes(b"damaged")
    if words == ("sweep",):
        line += ["--out", str(own), "--engine", "serial"]
    done = ldpflow(*line)
    assert done.code in (1, 2) and "the plug-in plug of this run" in done.err + done.out, done
    assert "run/plugins/plug-" in done.err + done.out and not Path("plug.py.mark").exists()
    assert ldpflow(*line, "--plugin", "plug.py").code in (0, 1) and Path("plug.py.mark").exists()
