"""Every command: what it prints, what it calls, and its exit code."""

import csv
import io
import json
import math
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from unittest.mock import Mock

import pyarrow as pa
import pytest

from ldpflow.__main__ import start
from ldpflow.columns import short
from ldpflow.engine.loop import Progress, RunResult
from ldpflow.engine.prediction import Prediction
from ldpflow.errors import InputError, LdpflowError
from ldpflow.run import open_run
from ldpflow.store.run_store import RunStore
from ldpflow.study.plugins import REGISTRIES
from tests.cli.conftest import cell
from tests.kernels import uncompiled


def test_list(ldpflow, monkeypatch):
    plugin = Path(__file__).parents[1] / "api" / "plugin_law.py"
    shown = ldpflow("list", "--plugin", plugin)
    assert shown.code == 0 and "``" not in shown.out
    assert all(text in shown.out for text in ("epsilon = 1.0", "multiplier = 'uniform'", "paper-table2: "))
    lines = [line for line in shown.out.splitlines() if "(from plugin_law.py)" in line]
    assert [line.split(":")[0].strip() for line in lines] == ["coarse_thresholds", "ramp"]
    methods = ldpflow("list", "methods").out
    assert "t_opt = required" in methods
    assert methods.startswith("Methods  [method]") and "  SN: " in methods and "quickstart" not in methods
    monkeypatch.setattr("ldpflow.study.plugins.REGISTRIES", {**REGISTRIES, "law": {}})
    assert ldpflow("list", "laws").out.startswith("Laws of plug-ins: none\n")


def test_summary_table(ldpflow, monkeypatch, run):
    monkeypatch.setenv("COLUMNS", "140")
    shown = ldpflow("summary", run)
    assert shown.code == 0 and shown.out.split()[:5] == ["epsilon", "n", "method", "beta", "coverage"]
    for said in (
        "gamma=0.51", "B=500", "replicates=500", "failures=0", "privacy_notion=eps-LDP", "unclear",
        "0.880 ± 0.01", "0.008512 ± 5.2e-5", "0.0106 ± -", "-0.00001 ± 0.00010",
    ):  # fmt: skip
        assert said in shown.out


def test_json_has_no_nan_and_csv_an_empty_text_for_nothing(ldpflow, run):
    RunStore(run).write_summary(pa.Table.from_pylist([cell(coverage=math.nan, beta=None)]))
    (row,) = json.loads(ldpflow("summary", run, "--format", "json").out)
    (line,) = csv.DictReader(io.StringIO(ldpflow("summary", run, "--format", "csv").out))
    assert row["coverage"] is None and line["beta"] == "" and [*line] == [*row]
    assert ldpflow("summary", run).code == 0


def test_short():
    values = {
        10**6: "1e6", 2_500_000: "2.5e6", 1_234_567: "1234567", 100: "100", 0.1 + 0.2: "0.3", 1e-9: "1e-9",
        0: "0", -100_000: "-1e5", None: "-", math.nan: "-", "BB": "BB",
    }  # fmt: skip
    assert [*map(short, values)] == [*values.values()]


def test_an_absent_run_is_refused(ldpflow, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.toml").touch()
    assert ldpflow("summary", "runs/mien").err.endswith("There is no run at this place.\n")
    assert "its run is runs/my by default" in ldpflow("summary", "my.toml").err


def test_verify(ldpflow, tmp_path):
    """A summary without rows proves nothing, whatever it says."""
    RunStore(tmp_path).write_summary(pa.Table.from_pylist([cell(coverage=0.5)]))
    shown = ldpflow("verify", tmp_path, "--against", "dette-graw")
    said = " ".join(shown.out.split())
    for text in ("the run has no rows", "2 numbers compared with dette-graw", "REFUTED",
                 "power: with 500 replicates", "not compared: table 2, quantile_regression"):  # fmt: skip
        assert text in said
    assert shown.code == 1


def test_verify_computes_the_numbers_from_the_rows(ldpflow, tmp_path, monkeypatch):
    uncompiled.use(monkeypatch)
    run = tmp_path / "run"
    flags = ["--epsilon", "1", "--n", "500", "--method", "SN", "--replicates", "6", "--engine", "serial"]
    assert ldpflow("sweep", *flags, "--out", run, "--quiet").code == 0
    assert open_run(str(run)).verify().findings == []
    store = RunStore(run)
    table = store.read_summary()
    assert table is not None
    for name, value in (("coverage", 0.9), ("epsilon", 2.0)):
        at = table.column_names.index(name)
        column = pa.array([value] * table.num_rows, table[name].type)
        store.write_summary(table.set_column(at, name, column))
        shown = ldpflow("verify", run)
        assert shown.code == 1 and "summary.parquet differs from the rows" in shown.out, name


@pytest.fixture
def engine(monkeypatch):
    notes = {"result": {}}

    def run_study(study, out, chosen, **options):
        notes.update(study=study, out=out, **asdict(chosen), **options)
        if isinstance(notes.get("raises"), BaseException):
            raise notes["raises"]
        options["on_event"](Progress(1, 2, 50, 100, 1.0))
        RunStore(out).write_summary(pa.Table.from_pylist([cell()]))
        defaults = {"finished_replicates": 200, "failures": 0, "failed_share": 0.0}
        return RunResult(str(out), **(defaults | {"wall_seconds": 1.5} | notes["result"]))

    import_module("ldpflow.practice.planning.plans")  # it has a name of its own for what is replaced here
    monkeypatch.setattr("ldpflow.engine.run.run_study", run_study)
    return notes


def test_sweep(ldpflow, engine, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = ldpflow("sweep")
    assert shown.code == 0 and shown.err == ""
    assert engine["study"].name == "quickstart" and engine["engine"] == "auto"
    assert "0.880" in shown.out and shown.out.endswith("rows in runs/quickstart\n")


def test_sweep_flags(ldpflow, engine, tmp_path):
    flags = "--n 1e4 --n 1_000 --epsilon 0.5 --epsilon 2 --beta .5 --gamma .6 --c 2 --level .8"
    flags += " --B 100 --tau .3 --method BB --replicates 10 --seed 7 --engine serial --num-cpus 2"
    shown = ldpflow("sweep", "paper-table1", *flags.split(), "--out", tmp_path, "--quiet")
    assert shown.code == 0 and shown.out == "" and "gamma < beta" in shown.err
    study = engine["study"]
    assert (study.n, study.level, study.seed, study.replicates) == ((1000, 10_000), (0.8,), 7, 10)
    assert study.mechanism[0].axes["epsilon"] == (0.5, 2.0) and study.method[0].axes["B"] == (100,)
    assert study.algorithm[0].axes == {"gamma": (0.6,), "c": (2.0,), "theta0": (0.0,)}
    assert (engine["engine"], engine["num_cpus"], engine["address"]) == ("serial", 2, None)


@pytest.mark.parametrize(
    ("result", "flags", "code"),
    [
        ({"failures": 3, "failed_share": 0.1}, [], 0),
        ({"failed_batches": ["p00 0..64: boom"]}, [], 1),
        ({"stopped": "--max-time of 1 s has passed"}, [], 0),
        ({"stopped": "--max-time of 1 s has passed"}, ["--fresh"], 0),
        (InputError("seed", 1, "the seed of the run, 2"), [], 2),
        (LdpflowError("no cluster"), [], 1),
        (KeyboardInterrupt("interrupted"), [], 130),
    ],
)
def test_sweep_exit_codes(ldpflow, engine, tmp_path, result, flags, code):
    engine["raises" if isinstance(result, BaseException) else "result"] = result
    shown = ldpflow("sweep", "--out", tmp_path, *flags)
    assert shown.code == code and "Traceback" not in shown.err
    if isinstance(result, BaseException):
        assert str(result) in shown.err
    elif "failed_batches" in result:
        assert "boom" in shown.err
    elif "stopped" in result:
        assert ("without `fresh`" in shown.err) == ("--fresh" in flags)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["sweep", "--n", "0"], "--n: 0"),
        (["sweep", "--espilon", "1"], "--epsilon"),
        (["sweeep"], "No such command 'sweeep'. Did you mean 'sweep'? See ldpflow --help."),
        (["sweep", "--n"], "Option '--n' requires an argument. See ldpflow sweep --help."),
        (["summary"], "RUN"),
        (["summary", "x", "--format", "xlsx"], "ldpflow: Invalid value for '--format': 'xlsx' is not one of"),
        (["sweep", "--set", "gama=0.6"], "gama: '0.6' is not allowed"),
        (["sweep", "--set", "0.5,1"], "expected NAME=VALUE or NAME=VALUE,VALUE.\n"),
        (["summary", "run", "--where", "n == 200", "--where=epsilon == 1"], "Join them: --where 'A and B'."),
        (["list", "foozle"], "There is: algorithms, laws, "),
        (["submit", "absent", "--out", "x", "--cpus", "2"], "STUDY: 'absent'"),  # former names
        (["export", "absent", "--duckdb=2"], "RUN: 'absent'"),
    ],
)
def test_bad_input_is_one_message_and_2(ldpflow, engine, arguments, said):
    shown = ldpflow(*arguments)
    assert shown.code == 2
    assert said in shown.err
    assert "Traceback" not in shown.err and shown.err.splitlines()[-1].startswith("ldpflow: ")
    assert "study" not in engine


def test_a_setting_of_a_file_is_no_flag_and_several_flags_are_all_named(ldpflow, tmp_path, monkeypatch):
    uncompiled.use(monkeypatch)
    file, out = tmp_path / "s.toml", ("--quiet", "--out", tmp_path / "r")
    words = ["sweep", "--n", "100", "--epsilon", "1", "--method", "SN", "--replicates", "2"]
    assert ldpflow(*words, *out).code == 0
    refused = ldpflow(*words, *out, "--gamma", ".7", "--c", "2")
    assert refused.code == 2 and "ldpflow: --c, --gamma: '2.0; 0.7' is not" in refused.err
    text = (tmp_path / "r" / "study.toml").read_text()
    file.write_text(text.replace("seed = ", "seed = 1"))
    assert ldpflow("sweep", file, *out).err.startswith("ldpflow: seed: '1")
    file.write_text(text.replace("replicates = 2", "replicates = '2'"))
    for flags in ((), ("--replicates", "3")):
        assert ldpflow("sweep", file, *flags, *out).err.startswith("ldpflow: replicates: '2' is not allowed")


def test_an_interrupt_before_the_command_is_one_line(ldpflow, monkeypatch):
    interrupt = Mock(side_effect=KeyboardInterrupt)
    monkeypatch.setattr("ldpflow.cli.flags.FlagCommand.parse_args", interrupt)
    shown = ldpflow("sweep")
    assert (shown.code, shown.err) == (130, "ldpflow: interrupted\n")
    monkeypatch.setattr("ldpflow.cli.main", interrupt)
    assert start() == 130


ROWS = pa.table({"replicate": [3, 3], "n": [10, 20], "estimate": [0.1, math.nan], "se": [1.0, None]})


@pytest.mark.parametrize(
    "stored",
    [
        ROWS.set_column(2, "estimate", pa.array([0.1 + 2**-56, math.nan])),
        ROWS.set_column(2, "estimate", pa.array([0.1, None])),
        ROWS.slice(0, 1),
    ],
    ids=["one bit", "another type of nothing", "a row too few"],
)
def test_a_replay_that_differs(ldpflow, monkeypatch, tmp_path, stored):
    monkeypatch.setattr("ldpflow.engine.replay.replay", lambda *arguments: (ROWS, stored))
    (tmp_path / "provenance.json").touch()
    shown = ldpflow("replay", tmp_path, "--path", "p0123456789abcdef", "--replicate", "3")
    assert shown.code == 1 and "DIFFERENT" in shown.out


@pytest.mark.parametrize(("kind", "said"), [("method", "[[method]] kind ="), ("law", "[problem] law =")])
def test_new_says_how_a_study_asks_for_the_component(ldpflow, tmp_path, kind, said):
    shown = ldpflow("new", kind, "mine", "--folder", tmp_path)
    assert shown.code == 0 and f'{said} "mine"' in shown.err
    assert (tmp_path / "mine.py").is_file() and (tmp_path / "test_mine.py").is_file()


def test_a_dry_run_to_a_target_has_about_the_replicates_of_the_sweep(ldpflow, monkeypatch):
    """With .9(1 - .9)/.01^2 replicates a coverage of .9 has an MCSE of .01."""
    prediction = Prediction(1000, 1.0, 1.0, 1.0, "serial", (1.0,))
    monkeypatch.setattr("ldpflow.engine.prediction.predict", lambda *given: prediction)
    command = ("sweep", "quickstart", "--n", "1e3", "--epsilon", "1", "--method", "SN", "--dry-run")
    assert "probability of 80%" not in ldpflow(*command, "--replicates", "2014").out
    shown = ldpflow(*command, "--target-mcse", "0.01")
    assert "1 path, 1 cell, about 900 replicates" in shown.out
    assert "of 80% from 2,014 replicates on. With 900 replicates the probability is 44%." in " ".join(
        shown.out.split()
    )
    assert "at least 256 replicates" in ldpflow(*command, "--target-length", "0.01").out
    refused = ldpflow(*command, "--target-mcse", "0.01", "--max-replicates", "100")
    assert refused.code == 2 and "--max-replicates: 100" in refused.err
    refused = ldpflow("sweep", "gdp-trajectories", "--dry-run", "--target-length", "0.01")
    assert refused.code == 2 and "--target-length: 0.01 is not allowed; expected a study with" in refused.err
