"""Intervals whose rows are made of several replicates, from the study to the stored rows."""

import shutil
from dataclasses import replace

import numpy as np
import pyarrow.compute as pc
import pytest

from ldpflow.engine.batching import gaps
from ldpflow.engine.check import check_run
from ldpflow.engine.replay import replay
from ldpflow.engine.run import run_study
from ldpflow.errors import InputError
from ldpflow.simulators.rows import rows_of as rows_of_record
from ldpflow.store.run_store import RunStore
from ldpflow.study import Study
from tests.oracles import sequences
from tests.studies import changed

N = 1000
STUDY = changed(
    seed=11, replicates=103, problem__tau=0.9, mechanism__epsilon=1, algorithm={"kind": "ldp_sgd"},
    grid={"n": [N // 5, N // 4, N], "level": 0.9},
    method=[{"kind": ["oracle", "HULC"]}, {"kind": "PAR", "K": [5, 2]}],
)  # fmt: skip


def swept(out, replicates=103, **more):
    study = Study.from_mapping(STUDY | {"replicates": replicates})
    result = run_study(study, out, engine="serial", **more)
    return study, result


def rows_of(out, method, n, **settings):
    table = RunStore(out).replicates.read(damaged="refuse")
    wanted = pc.and_(pc.equal(table["method"], method), pc.equal(table["n"], n))
    for name, value in settings.items():
        wanted = pc.and_(wanted, pc.equal(table[name], value))
    return table.filter(wanted).sort_by("replicate")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "run"
    return (out, *swept(out))


def test_a_row_is_students_interval_of_its_runs(run):
    out, _, result = run
    assert result.finished_replicates == 103 and result.failures == 0
    rows = rows_of(out, "PAR", N, K=5)
    assert rows["replicate"].to_pylist() == list(range(20))
    x = rows_of(out, "oracle", N // 5)["estimate"].to_numpy()[:100].reshape(20, 5)
    limits = [sequences.student(values, 0.9) for values in x]
    np.testing.assert_allclose(rows["lower"].to_numpy(), [low for low, _ in limits], rtol=1e-10)
    np.testing.assert_allclose(rows["upper"].to_numpy(), [high for _, high in limits], rtol=1e-10)
    assert len(rows_of(out, "PAR", N, K=2)) == 51
    summary = RunStore(out).read_summary().to_pylist()
    assert {(row["method"], row["K"]): row["replicates"] for row in summary} == {
        ("oracle", None): 103,
        ("HULC", None): 20,
        ("PAR", 5): 20,
        ("PAR", 2): 51,
    }
    assert check_run(str(out))[0] == []


def test_more_replicates_add_rows_and_change_none(run, tmp_path):
    out, _, _ = run
    shutil.copytree(out, tmp_path / "grown")
    for place in ("grown", "once"):
        assert swept(tmp_path / place, 105)[1].finished_replicates == 105
    for method, settings in (("PAR", {"K": 5}), ("HULC", {})):
        old, now, once = (
            rows_of(place, method, N, **settings) for place in (out, tmp_path / "grown", tmp_path / "once")
        )
        assert len(now) == 21 and now.equals(once)
        assert now.filter(pc.less(now["replicate"], 20)).equals(old)


def test_precision_counts_replicates(tmp_path):
    study = Study.from_mapping(STUDY | {"grid": {"n": [60]}, "method": [{"kind": ["PAR", "BM"]}]})
    options = {"target_mcse": 0.03, "min_replicates": 256, "max_replicates": 2000}
    run_study(study, tmp_path, engine="serial", **options)
    rows = RunStore(tmp_path).read_summary().to_pylist()
    for row in rows:
        share = (row["coverage"] * row["replicates"] + 2) / (row["replicates"] + 4)
        assert (share * (1 - share) / row["replicates"]) ** 0.5 <= 0.03
    (par,) = (row for row in rows if row["method"] == "PAR")
    # At most one step of the schedule, of 128 replicates, beyond what that takes.
    assert 0.9 * 0.1 / 0.03**2 / 2 < par["replicates"] <= 2000 // 5


def test_rows_are_replayed(run):
    out, study, _ = run
    key = study.plans()[0].simulator.key
    for first, last in ((3, None), (18, 25), (60, 60)):
        computed, stored = replay(out, key, first, last)
        assert computed.num_rows and computed.equals(stored)
    # Replicate 3 has rows of every method, replicate 60 of single runs alone.
    kinds = {r: set(replay(out, key, r)[0]["method"].to_pylist()) for r in (3, 40, 60)}
    assert kinds == {3: {"oracle", "PAR", "HULC"}, 40: {"oracle", "PAR"}, 60: {"oracle"}}


def test_what_is_missing_counts_rows(tmp_path):
    study = Study.from_mapping(STUDY)
    store = RunStore(tmp_path / "run")
    found = gaps(store, study.plans()[0], 11, 103)
    assert sorted((gap.first, gap.last, gap.cells[0].runs) for gap in found) == [
        (0, 20, 5), (0, 51, 2), (0, 103, 1),
    ]  # fmt: skip
    assert all(len({cell.runs for cell in gap.cells}) == 1 for gap in found)
    swept(tmp_path / "run")
    assert gaps(store, study.plans()[0], 11, 103) == []
    # 104 replicates make another row of two runs, and none of five.
    more = gaps(store, study.plans()[0], 11, 104)
    assert sorted((gap.first, gap.last, gap.cells[0].runs) for gap in more) == [(51, 52, 2), (103, 104, 1)]


def test_too_few_replicates_for_a_row_are_refused():
    with pytest.raises(InputError, match="HULC is made of 5 replicates"):
        Study.from_mapping(STUDY | {"replicates": 4, "method": [{"kind": ["oracle", "HULC"]}]})


def test_a_run_that_diverged_makes_its_row_diverged():
    plan = Study.from_mapping(STUDY).plans()[0]
    cells = tuple(cell for cell in plan.cells if cell.runs == 5 and cell.n == N)
    simulator = plan.simulator
    record = simulator.run(11, range(20), simulator.needs(cells))
    sums = record.prefix_sums.copy()
    sums[:, :, 7] = np.inf  # of the second row
    with np.errstate(all="ignore"):
        rows = rows_of_record(replace(record, prefix_sums=sums), cells)
    status = {(r["replicate"], r["method"]): r["status"] for r in rows.to_pylist()}
    for kind in ("PAR", "HULC"):
        assert [status[row, kind] for row in range(4)] == ["ok", "diverged", "ok", "ok"]
    assert rows.filter(pc.equal(rows["replicate"], 1))["covered"].null_count == 2
