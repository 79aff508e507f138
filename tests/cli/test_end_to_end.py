"""A small study with the engine itself: sweep, again, summary, replay."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ldpflow.store import RunStore
from ldpflow.study import load_study


def test_sweep_summary_replay(ldpflow: Callable[..., Any], tmp_path: Path) -> None:
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
    assert RunStore(run).replicates.read().num_rows == 40
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
