"""What was a traceback, or obeyed by a terminal, is one message."""

import io
import os
import resource
import shutil
import subprocess
import sys
from inspect import signature
from pathlib import Path

import pyarrow as pa
import pytest

from ldpflow.cli import COMMANDS, main, report_error
from ldpflow.engine.replay import replay
from ldpflow.errors import InputError
from ldpflow.store.run_store import RunStore
from ldpflow.study import load_study
from tests.cli.conftest import cell
from tests.faults.study import rewrite, serial, study
from tests.kernels import uncompiled

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    run = tmp_path_factory.mktemp("messages") / "run"
    serial(run, study(replicates=4))
    return run


def test_neither_terminal_escapes_nor_markup_of_a_summary_are_obeyed(tmp_path, capsys):
    rows = [cell(law="\x1b[2J[red]x[/red]", n=n) for n in (1000, 2000)]
    rows += [cell(law="[/nonsense]", n=n) for n in (1000, 2000)]
    RunStore(tmp_path).write_summary(pa.Table.from_pylist(rows))
    assert main(["summary", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown and "[red]x[/red]" in shown and "[/nonsense]" in shown


def test_a_key_of_a_study_file_is_shown_without_escapes(tmp_path, capsys):
    (tmp_path / "s.toml").write_text('"\\u001b[31mevil" = 1\n')
    assert main(["sweep", str(tmp_path / "s.toml"), "--out", str(tmp_path / "r")]) == 2
    assert "\x1b" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("plot RUN coverage -o", "--output: '' is"),
        ("plot RUN", "FIGURE: '' is"),
        ("transcript RUN --path pfd --replicate 0 -o", "--output: '' is"),
    ],
)
def test_an_empty_name_is_refused(run, words, said, monkeypatch, tmp_path, capsys):
    uncompiled.use(monkeypatch)
    monkeypatch.chdir(tmp_path)
    assert main([*words.replace("RUN", str(run)).split(), ""]) == 2
    assert said in capsys.readouterr().err and not [*tmp_path.iterdir()]


MORE_ARGUMENTS = {
    "plot": ["coverage"],
    "replay": ["--replicate", "0"],
    "export": ["-o", "x.duckdb"],
    "transcript": ["--replicate", "0", "-o", "x.csv"],
}
PARAMETERS = {
    name: {*signature(command).parameters} for panel in COMMANDS.values() for name, command in panel.items()
}
OF_RUNS = [name for name, has in PARAMETERS.items() if has & {"run", "out"} and name != "submit"]


@pytest.mark.parametrize("command", OF_RUNS)
def test_a_run_whose_name_is_not_utf8_is_one_message(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run = os.fsdecode(bytes(tmp_path / "r") + b"\xff")
    arguments = [run, *MORE_ARGUMENTS.get(command, [])]
    if "run" not in PARAMETERS[command]:
        arguments = ["--out", *arguments]
    assert main([command, *arguments]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "in UTF-8" in said, said
    assert list(tmp_path.iterdir()) == []


def test_a_study_file_may_begin_with_a_byte_order_mark(tmp_path):
    (tmp_path / "s.toml").write_bytes(b"\xef\xbb\xbf" + study().to_toml().encode())
    assert load_study(str(tmp_path / "s.toml")).hash() == study().hash()


def test_replay_of_a_path_of_an_unknown_kind_is_one_message(run, tmp_path):
    part = next((shutil.copytree(run, tmp_path / "run") / "replicates").rglob("*.parquet"))
    for settings in ({"problem": "x"}, {"problem": {}}, {"problem": {"kind": "unknown"}}, {}):
        rewrite(part, lambda table, meta, settings=settings: meta.update(path_settings=settings))
        with pytest.raises(InputError):
            replay(tmp_path / "run", part.parent.name.removeprefix("path="), 0)


@pytest.mark.parametrize("buffered", [True, False])
def test_standard_output_that_is_full_is_one_message(run, buffered, monkeypatch, capsys):
    with io.TextIOWrapper(open("/dev/full", "wb", -buffered), write_through=not buffered) as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(["summary", str(run)]) == 2
    said = capsys.readouterr().err
    assert "standard output" in said and said.count("\n") == 1


def test_a_locale_without_the_characters_is_no_traceback(run, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), "ascii"))
    assert main(["summary", str(run)]) == 0 and capsys.readouterr().err == ""
    assert b"?" in sys.stdout.buffer.getvalue()


def test_a_cache_that_cannot_be_used_is_bad_input_before_the_first_batch(tmp_path, monkeypatch, capsys):
    def refuse():
        raise InputError("LDPFLOW_CACHE_DIR", "/x", "a folder of one's own")

    monkeypatch.setattr("ldpflow.engine.run.cache_folder", refuse)
    assert main(["sweep", "--out", str(tmp_path / "r"), "--quiet"]) == 2
    assert "LDPFLOW_CACHE_DIR" in capsys.readouterr().err and not (tmp_path / "r").exists()


def limited(megabytes, *arguments):
    limit = (megabytes * 2**20,) * 2
    command = [sys.executable, "-m", "ldpflow", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=300, cwd=ROOT,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, limit),
    )  # fmt: skip


def test_little_memory_is_one_message(tmp_path):
    """Without the guard a thread cannot be started, or the process crashes."""
    done = limited(850, "sweep", "quickstart", "--out", tmp_path / "r")
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert "the limit is 850 MiB, and 1,280 are needed" in done.stderr and "ulimit -v" in done.stderr
    assert not (tmp_path / "r").exists()


def test_figures_without_addresses_are_one_message(tmp_path, run):
    """Without the guard V8 ends the process."""
    done = limited(4000, "plot", run, "coverage", "-o", tmp_path / "p.svg")
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "reserves 66 GiB" in done.stderr
    assert not (tmp_path / "p.svg").exists()


@pytest.mark.system
def test_ray_without_addresses_is_one_message(tmp_path):
    """Without the guard Ray's start waits without end, or ends in a crash after a minute."""
    done = limited(4000, "sweep", "quickstart", "--out", tmp_path / "r", "--engine", "ray", "--quiet")
    *_, said = done.stderr.splitlines()
    assert done.returncode == 2 and said.startswith("ldpflow: --engine: 'ray' is not allowed"), done.stderr
    assert "ulimit -v" in said and "Traceback" not in done.stderr


@pytest.mark.system
def test_help_and_a_large_enough_limit_work(run):
    assert limited(500, "--version").returncode == 0
    assert limited(2500, "summary", run).returncode == 0


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("can't start new thread"),
        OSError("Could not find/load shared object file 'libllvmlite.so'"),
        InputError("run", "Failed to launch worker thread", "a Parquet file"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_libraries_without_memory(capsys, error):
    assert report_error(error) == 2
    assert capsys.readouterr().err.startswith("ldpflow: not enough memory (")


def test_a_mistake_of_ours_keeps_its_traceback():
    with pytest.raises(ZeroDivisionError):
        report_error(ZeroDivisionError("division by zero"))
