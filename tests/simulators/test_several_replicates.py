"""Rows that take several consecutive replicates as one: PAR and HULC through batches, store and growth."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from ldpflow.components.intervals.parallel_runs import ParallelRuns
from ldpflow.engine.check import check_run
from ldpflow.engine.precision import Precision
from ldpflow.engine.replay import replay
from ldpflow.engine.run import run_study
from ldpflow.numerics.streams import LANES
from ldpflow.simulators.one_pass import run_path
from ldpflow.simulators.rows import Batch, simulate
from ldpflow.simulators.simulator import Cell
from ldpflow.store.run_store import RunStore
from ldpflow.study import Study

K = 5
STUDY = {
    "name": "runs",
    "seed": 3,
    "problem": {"kind": "quantile", "tau": 0.9},
    "mechanism": {"kind": "randomized_response", "epsilon": 1.0},
    "algorithm": {"kind": "ldp_sgd"},
    "grid": {"n": [203, 700]},
    "method": [{"kind": "BM"}, {"kind": "PAR"}, {"kind": "HULC"}],
}


def study(replicates=103, **changes):
    return Study.from_mapping(STUDY | {"replicates": replicates} | changes)


def rows_of(run, method):
    rows = RunStore(run).replicates.read(damaged="refuse")
    rows = rows.filter(pc.equal(rows["method"], method))
    return rows.sort_by([("n", "ascending"), ("replicate", "ascending")])


def test_a_row_is_the_interval_of_its_replicates(tmp_path):
    result = run_study(study(), tmp_path, engine="serial")
    assert result.finished_replicates == 103 and not result.failed_batches
    simulator = study().plans()[0].simulator
    method = ParallelRuns(K=K)
    found = rows_of(tmp_path, "PAR").filter(pc.equal(rows_of(tmp_path, "PAR")["n"], 203))
    assert found["replicate"].to_pylist() == list(range(103 // K))
    for row in (0, 6, 19):  # 6: replicates 30 to 34, of two rows of lanes
        record = run_path(simulator, 3, range(row * K, (row + 1) * K), [203 // K])
        expected = method.intervals(record, 203, [0.9])
        assert found["lower"][row].as_py() == expected.lower.item()
        assert found["estimate"][row].as_py() == expected.estimate.item()
    # Level .9: 5 replicates make a row of HULC too.
    assert len(rows_of(tmp_path, "HULC")) == 2 * 20 and len(rows_of(tmp_path, "BM")) == 2 * 103
    summary = RunStore(tmp_path).read_summary().select(["method", "replicates"]).to_pylist()
    assert {(r["method"], r["replicates"]) for r in summary} == {("BM", 103), ("PAR", 20), ("HULC", 20)}
    assert check_run(str(tmp_path))[0] == []


def test_more_replicates_add_rows_and_change_none(tmp_path):
    run_study(study(), tmp_path / "grown", engine="serial")
    before = {method: rows_of(tmp_path / "grown", method) for method in ("PAR", "HULC")}
    result = run_study(study(105), tmp_path / "grown", engine="serial")
    assert result.finished_replicates == 105
    run_study(study(105), tmp_path / "once", engine="serial")
    for method, old in before.items():
        now = rows_of(tmp_path / "grown", method)
        assert len(now) == 2 * 21 and now.equals(rows_of(tmp_path / "once", method))
        assert now.filter(pc.less(now["replicate"], 20)).equals(old)


def test_rows_do_not_depend_on_the_batch():
    simulator = study().plans()[0].simulator
    cells = (Cell(203, ParallelRuns(K=7), 0.9),)
    whole = simulate(Batch(simulator, 3, 0, 70, cells)).rows
    cut = [simulate(Batch(simulator, 3, a, b, cells)).rows for a, b in ((0, 11), (11, 43), (43, 70))]
    assert pa.concat_tables(cut).equals(whole)
    assert whole["replicate"].to_pylist() == list(range(70)) and 70 > LANES


def test_a_row_can_be_replayed(tmp_path):
    run_study(study(50), tmp_path, engine="serial")
    key = study().plans()[0].simulator.key
    computed, stored = replay(tmp_path, key, 4, 7)
    names = ["replicate", "n", "method", "estimate", "lower", "upper"]
    assert len(computed) == 4 * 3 * 2 and computed.select(names).equals(stored.select(names))


def test_one_run_that_diverges_marks_its_row():
    mapping = STUDY | {
        "mechanism": {"kind": "laplace", "epsilon": 1e-6},
        "algorithm": {"kind": "ldp_sgd", "c": 3e301},
    }
    simulator = Study.from_mapping(mapping).plans()[0].simulator
    sums = run_path(simulator, 1, range(32), range(1, 9)).prefix_sums[:, 0]
    whole = np.isfinite(sums).reshape(8, 16, 2).all(axis=2)
    steps = next(t for t in range(8) if 0 < whole[t].sum() < 16)
    cells = (Cell(2 * (steps + 1), ParallelRuns(K=2), 0.9),)
    status = simulate(Batch(simulator, 1, 0, 16, cells)).rows["status"].to_numpy()
    assert ((status == "diverged") == ~whole[steps]).all()


@pytest.mark.parametrize("kinds", [["PAR"], ["PAR", "BM"]])
def test_precision_counts_replicates(tmp_path, kinds):
    chosen = study(grid={"n": [60]}, method=[{"kind": kind} for kind in kinds])
    precision = Precision(target_mcse=0.03, min_replicates=256, max_replicates=2000)
    run_study(chosen, tmp_path, engine="serial", **asdict(precision))
    rows = RunStore(tmp_path).read_summary().to_pylist()
    for row in rows:
        share = (row["coverage"] * row["replicates"] + 2) / (row["replicates"] + 4)
        assert (share * (1 - share) / row["replicates"]) ** 0.5 <= 0.03
    (par,) = (row for row in rows if row["method"] == "PAR")
    # At most one step of the schedule, of 128 replicates, beyond what that takes.
    assert 0.9 * 0.1 / 0.03**2 / 2 < par["replicates"] <= 2000 // K
