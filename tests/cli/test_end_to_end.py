"""A small study with the engine itself: sweep, again, summary, replay."""

from __future__ import annotations

import csv
import io

from ldpflow.store.run_store import RunStore
from ldpflow.study import load_study


def test_sweep_summary_replay(ldpflow, tmp_path):
    run = tmp_path / "run"
    flags = ["--epsilon", "1", "--n", "1e3", "--n", "500", "--beta", "0.75", "--method", "BB"]
    flags += ["--method", "SN", "--B", "50", "--replicates", "10", "--engine", "serial"]
    first = ldpflow("sweep", *flags, "--out", run)
    assert first.code == 0, first.err
    study = load_study(str(run / "study.toml"))
    assert (study.n, study.replicates) == ((500, 1000), 10)
    (plan,) = study.plans()
    rows = list(csv.DictReader(io.StringIO(ldpflow("summary", run, "--format", "csv").out)))
    assert len(rows) == len(plan.cells) == 4
    assert {row["path"] for row in rows} == {f"p{plan.simulator.key}"}
    again = ldpflow("sweep", *flags, "--out", run, "--quiet")
    assert (again.code, again.out) == (0, "")
    assert RunStore(run).replicates.read(damaged="refuse").num_rows == 40
    replayed = ldpflow("replay", run, "--path", f"p{plan.simulator.key}", "--replicate", 7)
    assert replayed.code == 0, replayed.out
    assert "equal, bit for bit" in replayed.out
    for wrong in (
        ["--path", "p" + "0" * 16, "--replicate", 7],
        ["--path", plan.simulator.key, "--replicate", 10],
    ):
        assert ldpflow("replay", run, *wrong).code == 2
    other = ldpflow("sweep", *flags, "--seed", "1", "--out", run)
    assert other.code == 2
    assert "seed" in other.err


def test_the_last_line_of_a_sweep_says_what_is_there_and_what_was_computed(ldpflow, tmp_path):
    flags = ["--epsilon", "1", "--n", "500", "--method", "SN", "--engine", "serial", "--no-progress"]
    run = ["--out", tmp_path / "run"]

    def last(*more):
        shown = ldpflow("sweep", *flags, *run, *more)
        assert shown.code == 0, shown.err
        line = shown.out.splitlines()[-1]
        return line.partition("; rows in ")[0]

    assert last("--replicates", 40).startswith("1 cell with 40 replicates; computed in ")
    assert last("--replicates", 40) == "1 cell with 40 replicates; nothing was computed"
    stored = "1 cell with 40 replicates, all that are stored (asked for: 10); nothing was computed"
    assert last("--replicates", 10) == stored
    assert last("--replicates", 60, "--n", "700").startswith("2 cells with 60 replicates; computed in ")
    more = last("--replicates", 70, "--level", "0.8")
    assert more.startswith("3 cells with 60 to 70 replicates; computed in ")
    target = last("--target-mcse", "0.2", "--max-replicates", "256")
    assert "asked for" not in target


def test_a_run_that_does_not_exist_yet_is_not_read(ldpflow, tmp_path, monkeypatch):
    from ldpflow.cli import progress

    first = []
    monkeypatch.setattr(progress, "lines", lambda console, display: first.append(display.counts()) or str)
    flags = ["--epsilon", "1", "--n", "500", "--method", "SN", "--engine", "serial", "--replicates", "8"]
    for _ in range(2):
        assert ldpflow("sweep", *flags, "--out", tmp_path / "run").code == 0
    assert first == ["starting, 0s", "reading what is stored, 0s"]
    assert ldpflow("sweep", *flags, "--out", tmp_path / "run", "--fresh").code == 0
    assert first[2] == "starting, 0s"
