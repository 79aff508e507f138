"""Coverage at every n and at a stopping length, against a loop over replicates and exact yardsticks."""

from __future__ import annotations

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


def literal(status, covered, length, first_n, last_n, target):
    """Measures by a loop over replicates, at first_n <= n <= last_n; NaN without value."""
    rows = [
        [(int(n), status[r, k], bool(covered[r, k]), length[r, k]) for k, n in enumerate(GRID) if n <= last_n]
        for r in range(len(status))
    ]
    names = ("coverage_all_n", "coverage_all_n_failures_as_misses")
    names += ("stopped_share", "coverage_at_stop", "stop_n_mean", "stop_n_median")
    values = (*monitoring.every_n(rows, first_n), *monitoring.at_stop(rows, first_n, target))
    return dict(zip(names, values, strict=True))


def random_rows(seed, replicates, undefined=0.1):
    rng = np.random.default_rng(seed)
    shape = (replicates, len(GRID))
    status = np.where(rng.random(shape) < undefined, "undefined", "ok")
    return status, rng.random(shape) < 0.8, rng.gamma(4.0, size=shape)


def cell(status, covered, length):
    """Rows of one cell."""
    ok = status == "ok"
    count = len(status)
    values = {name: np.zeros(count) for name in ("truth", "estimate", "se", "lower", "upper")}
    return CellRows(
        replicate=np.arange(count),
        covered=np.where(ok, covered, np.nan),
        length=np.where(ok, length, np.nan),
        ok=ok,
        **values,
    )


def key(n, method="BM"):
    """Keys of a cell."""
    return {"path": "p1", "n": int(n), "method": method, "level": 0.9, "coordinate": 0, "beta": None}


def watched(watch, *cells):
    """Show cells with their keys to a watch."""
    list(watch.observed((pa.Table.from_pylist(keys), found) for keys, found in cells))
    return watch


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
    status, covered, length = random_rows(seed, replicates, undefined=undefined)
    watch = Watch(first_n, lambda row: target if row["method"] == "BM" else None)
    for k in (2, 0, 3, 1):
        ours = [cell(status[:, k], hits[:, k], length[:, k]) for hits in (covered, ~covered)]
        watched(watch, ([key(GRID[k], "BM"), key(GRID[k], "SN")], ours))
    for n in GRID:
        found, without = watch.measures(key(n)), watch.measures(key(n, "SN"))
        if n < first_n:
            assert found == without == {}
            continue
        assert found["looks"] == without["looks"] == sum((GRID >= first_n) & (GRID <= n))
        for name, value in literal(status, covered, length, first_n, n, target).items():
            assert found.get(name, math.nan) == pytest.approx(value, nan_ok=True), name
        assert "stopped_share" not in without
        for name, value in [*literal(status, ~covered, length, first_n, n, target).items()][:2]:
            assert without.get(name, math.nan) == pytest.approx(value, nan_ok=True), name


def test_replicates_that_some_n_lack_are_left_out():
    status, covered, length = random_rows(4, 50, undefined=0.0)
    watch = Watch(1, lambda row: None)
    for k, count in ((0, 50), (1, 30)):
        rows = cell(status[:count, k], covered[:count, k], length[:count, k])
        watched(watch, ([key(GRID[k])], [rows]))
    found = watch.measures(key(20))
    assert found["coverage_all_n"] == (covered[:30, 0] & covered[:30, 1]).mean()
    assert watch.measures(key(10))["coverage_all_n"] == covered[:, 0].mean()


def test_rounding_does_not_stop_a_replicate():
    target = 0.1 * 3
    length = np.array([0.3, np.nextafter(0.3, 0), target, 0.29])
    covered = np.ones(4, dtype=bool)
    watch = Watch(1, lambda row: target)
    watched(watch, ([key(10)], [cell(np.array(["ok"] * 4), covered, length)]))
    assert watch.measures(key(10))["stopped_share"] == 0.25
