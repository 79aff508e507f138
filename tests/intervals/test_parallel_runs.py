"""Intervals whose rows are made of several replicates: PAR and HULC."""

import numpy as np
import pytest

from ldpflow.components.intervals.parallel_runs import ConvexHull, ParallelRuns, coins, hull_size
from ldpflow.components.problems.laws import Variate
from tests import draws
from tests.intervals.whole_paths import SCALAR, SEED, VECTOR, record_of, walk
from tests.oracles import sequences

CLOSE = {"rtol": 1e-10, "atol": 1e-12}
BOTH = pytest.mark.parametrize("path", [SCALAR, VECTOR], ids=["scalar", "vector"])


@BOTH
@pytest.mark.parametrize("K", [2, 5])
@pytest.mark.parametrize("n", [203, 5])
def test_parallel_runs_are_the_literal_formula(path, K, n):
    iterates = walk(path, n, replicates=3 * K)
    method = ParallelRuns(K=K)
    levels = [0.8, 0.9]
    assert [method.runs(level) for level in levels] == [K, K]
    result = method.intervals(record_of(path, iterates), n, levels)
    assert set(method.times(n, path.algorithm)) == {n // K}
    for row in range(3):
        for j in range(iterates.shape[1]):
            x = np.array([iterates[: n // K, j, row * K + k].mean() for k in range(K)])
            np.testing.assert_allclose(result.estimate[j, row], x.mean(), **CLOSE)
            for at, level in enumerate(levels):
                limits = sequences.student(x, level)
                ours = result.lower[at, j, row], result.upper[at, j, row]
                np.testing.assert_allclose(ours, limits, **CLOSE)


def test_parallel_runs_that_cannot_be():
    n, K = 4, 5
    record = record_of(SCALAR, walk(SCALAR, n, replicates=10))
    result = ParallelRuns(K=K).intervals(record, n, [0.9])
    assert result.lower.shape == (1, 1, 2) and np.isnan(result.lower).all()
    assert ParallelRuns(K=K).times(n, SCALAR.algorithm).min() >= 1
    # Runs that agree to the last bit say nothing about their spread.
    same = record_of(SCALAR, np.full((10, 1, 5), 1.5))
    assert np.isnan(ParallelRuns(K=K).intervals(same, 10, [0.9]).lower).all()
    alone = ConvexHull().intervals(record_of(SCALAR, walk(SCALAR, 4, 5)), 4, [0.9])
    assert np.isnan(alone.lower).all() == (coin_of(0.9, 0) > hull_size(0.9)[1])


def coin_of(level, row, path=SCALAR):
    key = f"{path.key}/level={level!r}"
    return draws.planes(SEED, "hull", key, row, [Variate("uniform")], 1)[0, 0]


@BOTH
@pytest.mark.parametrize(("level", "n"), [(0.75, 203), (0.8, 203), (0.9, 100), (0.99, 203)])
def test_convex_hull_is_the_literal_formula(path, level, n):
    B, p = sequences.hull_size(level)
    # At .75 the miss probability of B* is alpha itself: B* - 1 is never taken.
    assert hull_size(level) == (B, pytest.approx(p, rel=1e-9))
    # Of B estimates with median 0, all are on one side of it with probability 2^(1 - B).
    assert p * 2.0 ** (2 - B) + (1 - p) * 2.0 ** (1 - B) == pytest.approx(1 - level)
    iterates = walk(path, n, replicates=12 * B)
    method = ConvexHull()
    assert method.runs(level) == B
    assert {n // B, n // (B - 1)} <= set(method.times(n, path.algorithm).tolist())
    result = method.intervals(record_of(path, iterates), n, [level])
    assert result.se is None
    for row in range(12):
        used = B - 1 if coin_of(level, row, path) <= p else B
        for j in range(iterates.shape[1]):
            x = np.array([iterates[: n // used, j, row * B + k].mean() for k in range(used)])
            ours = [part[0, j, row] for part in (result.lower, result.estimate, result.upper)]
            np.testing.assert_allclose(ours, sequences.hull(x), **CLOSE)


def test_coins_are_tossed_once_per_row():
    rows = np.arange(3, 80)
    assert coins(SEED, SCALAR.key, 0.9, rows).tolist() == [coin_of(0.9, row) for row in rows]
