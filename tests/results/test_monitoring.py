"""Coverage at every n and at a stopping length, against a loop over replicates and exact yardsticks."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldpflow.components.intervals.nested import width_factor
from ldpflow.numerics import constants
from ldpflow.results.columns import CellRows
from ldpflow.results.monitoring import Looks, Watch, coverage_at_every_n, coverage_at_stop
from tests.oracles import monitoring

GRID = np.array([10, 20, 50, 100])


def looks_of(status, covered, length, target, grid=GRID):
    defined = status == "ok"
    return Looks(grid, covered & defined, defined, defined & (length < target))


def between(looks, first_n, last_n):
    """The looks at first_n <= n <= last_n."""
    wanted = (looks.n >= first_n) & (looks.n <= last_n)
    flags = (values[:, wanted] for values in (looks.covered, looks.defined, looks.short))
    return Looks(looks.n[wanted], *flags)


def random_rows(seed, replicates, grid=GRID, undefined=0.1):
    rng = np.random.default_rng(seed)
    shape = (replicates, len(grid))
    status = np.where(rng.random(shape) < undefined, "undefined", "ok")
    return status, rng.random(shape) < 0.8, rng.gamma(4.0, size=shape)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    replicates=st.integers(1, 30),
    first_n=st.sampled_from([1, 10, 11, 50, 100]),
    target=st.sampled_from([0.0, 2.0, 4.0, math.inf]),
    undefined=st.sampled_from([0.0, 0.3, 1.0]),
)
def test_measures_are_a_loop_over_replicates(seed, replicates, first_n, target, undefined):
    status, covered, length = random_rows(seed, replicates, undefined=undefined)
    looks = between(looks_of(status, covered, length, target), first_n, 100)
    rows = [
        [(int(n), status[r, k], bool(covered[r, k]), length[r, k]) for k, n in enumerate(GRID)]
        for r in range(replicates)
    ]
    every, stop = coverage_at_every_n(looks), coverage_at_stop(looks)
    over_defined, over_all = monitoring.every_n(rows, first_n)
    assert every["looks"] == sum(GRID >= first_n)
    assert every.get("coverage_all_n", math.nan) == pytest.approx(over_defined, nan_ok=True)
    assert every["coverage_all_n_failures_as_misses"] == pytest.approx(over_all)
    names = ("stopped_share", "coverage_at_stop", "stop_n_mean", "stop_n_median")
    ours = [stop.get(name, math.nan) for name in names]
    assert ours == pytest.approx(monitoring.at_stop(rows, first_n, target), nan_ok=True)


def test_brownian_motion_covers_at_every_n_as_often_as_it_should():
    # Independent normal iterates with known variance on eleven n's, ten per decade: 0.6367 for the
    # normal interval and 0.9752 for the sequence with t_opt = 1e4, each (sd .0005 and .0002) of 1e6
    # draws. Four MCSE each; false alarms below 1 in 7,000.
    grid = np.array([int(10 ** (4 + k / 10) + 0.5) for k in range(11)])
    replicates = 20_000
    rng = np.random.default_rng(5)
    steps = np.diff(np.concatenate([[0], grid]))
    S = np.cumsum(rng.normal(size=(replicates, 11)) * np.sqrt(steps), axis=1)
    for half, expected, error in (
        ([constants.normal_quantile(0.95)] * 11, 0.6367, 0.0005),
        ([width_factor(int(n), 10**4, 0.9) for n in grid], 0.9752, 0.0002),
    ):
        covered = np.abs(S) / np.sqrt(grid) <= np.array(half)
        found = coverage_at_every_n(Looks(grid, covered, np.ones_like(covered), covered))
        spread = math.hypot(found["coverage_all_n_mcse"], error)
        assert abs(found["coverage_all_n"] - expected) < 4 * spread


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


def test_a_watch_follows_replicates_over_n():
    status, covered, length = random_rows(9, 200)
    target = 3.0
    watch = Watch(20, lambda row: target if row["method"] == "BM" else None)
    for k in (2, 0, 3, 1):  # n's in no order
        keys = pa.Table.from_pylist([key(GRID[k], "BM"), key(GRID[k], "SN")])
        ours = cell(status[:, k], covered[:, k], length[:, k])
        watch.observe(keys, [ours, cell(status[:, k], ~covered[:, k], length[:, k])])
    for k, n in enumerate(GRID):
        found = watch.measures(key(n))
        if n < 20:
            assert found == {}
            continue
        looks = between(looks_of(status, covered, length, target), 20, int(n))
        assert found == coverage_at_every_n(looks) | coverage_at_stop(looks)
        assert found["looks"] == k
        without = watch.measures(key(n, "SN"))
        assert "stopped_share" not in without
        looks = between(looks_of(status, ~covered, length, target), 20, int(n))
        assert without == coverage_at_every_n(looks)


def test_replicates_that_some_n_lack_are_left_out():
    status, covered, length = random_rows(4, 50, undefined=0.0)
    watch = Watch(1, lambda row: None)
    for k, count in ((0, 50), (1, 30)):
        rows = cell(status[:count, k], covered[:count, k], length[:count, k])
        watch.observe(pa.Table.from_pylist([key(GRID[k])]), [rows])
    found = watch.measures(key(20))
    assert found["coverage_all_n"] == (covered[:30, 0] & covered[:30, 1]).mean()
    assert watch.measures(key(10))["coverage_all_n"] == covered[:, 0].mean()


def test_rounding_does_not_stop_a_replicate():
    target = 0.1 * 3
    length = np.array([0.3, np.nextafter(0.3, 0), target, 0.29])
    covered = np.ones(4, dtype=bool)
    watch = Watch(1, lambda row: target)
    watch.observe(pa.Table.from_pylist([key(10)]), [cell(np.array(["ok"] * 4), covered, length)])
    assert watch.measures(key(10))["stopped_share"] == 0.25
