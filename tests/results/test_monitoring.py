"""Coverage at every n and at a stopping length, against a loop over replicates and exact yardsticks."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldpflow.results.columns import CellRows
from ldpflow.results.monitoring import Watch
from tests.oracles import monitoring

GRID = np.array([10, 20, 50, 100])


def cell(ok, covered, length):
    values = {name: np.zeros(len(ok)) for name in ("truth", "estimate", "se", "lower", "upper")}
    values |= {"covered": np.where(ok, covered, np.nan), "length": np.where(ok, length, np.nan)}
    return CellRows(replicate=np.arange(len(ok)), ok=ok, **values)


def key(n, method="BM"):
    return {"path": "p1", "n": int(n), "method": method, "level": 0.9, "coordinate": 0, "beta": None}


def show(watch, keys, cells):
    list(watch.observed([(pa.Table.from_pylist(keys), cells)]))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    replicates=st.integers(1, 30),
    first_n=st.sampled_from([1, 10, 11, 50, 100]),
    target=st.sampled_from([0.0, 2.0, 4.0, math.inf]),
    undefined=st.sampled_from([0.0, 0.3, 1.0]),
)
def test_a_watch_follows_replicates_over_n(seed, replicates, first_n, target, undefined):
    """Against a loop over replicates; the n's come in no order, and another method has no target."""
    rng = np.random.default_rng(seed)
    shape = (replicates, len(GRID))
    ok, covered, length = rng.random(shape) >= undefined, rng.random(shape) < 0.8, rng.gamma(4.0, size=shape)
    watch = Watch(first_n, lambda row: target if row["method"] == "BM" else None)
    for k in (2, 0, 3, 1):
        cells = [cell(ok[:, k], hits[:, k], length[:, k]) for hits in (covered, ~covered)]
        show(watch, [key(GRID[k], "BM"), key(GRID[k], "SN")], cells)
    for last, n in enumerate(GRID):
        found, without = watch.measures(key(n)), watch.measures(key(n, "SN"))
        if n < first_n:
            assert found == without == {}
            continue
        assert found["looks"] == without["looks"] == sum((GRID >= first_n) & (GRID <= n))
        assert "stopped_share" not in without
        for ours, hits in ((found, covered), (without, ~covered)):
            looks = range(last + 1)
            rows = [
                [(GRID[k], "ok" if ok[r, k] else "undefined", hits[r, k], length[r, k]) for k in looks]
                for r in range(replicates)
            ]
            names = ["coverage_all_n", "coverage_all_n_failures_as_misses"]
            expected = [*monitoring.every_n(rows, first_n)]
            if ours is found:
                names += ["stopped_share", "coverage_at_stop", "stop_n_mean", "stop_n_median"]
                expected += monitoring.at_stop(rows, first_n, target)
            assert [ours.get(name, math.nan) for name in names] == pytest.approx(expected, nan_ok=True)


def test_replicates_that_some_n_lack_are_left_out():
    covered = np.random.default_rng(4).random((50, 2)) < 0.8
    watch = Watch(1, lambda row: None)
    for k, count in ((0, 50), (1, 30)):
        ok = np.ones(count, dtype=bool)
        show(watch, [key(GRID[k])], [cell(ok, covered[:count, k], ok)])
    found = watch.measures(key(20))
    assert found["coverage_all_n"] == (covered[:30, 0] & covered[:30, 1]).mean()
    assert watch.measures(key(10))["coverage_all_n"] == covered[:, 0].mean()


def test_rounding_does_not_stop_a_replicate():
    length = np.array([0.3, np.nextafter(0.3, 0), 0.1 * 3, 0.29])
    watch = Watch(1, lambda row: 0.1 * 3)
    ok = np.ones(4, dtype=bool)
    show(watch, [key(10)], [cell(ok, ok, length)])
    assert watch.measures(key(10))["stopped_share"] == 0.25
