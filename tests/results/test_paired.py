"""Paired comparisons against hand calculation, McNemar and repeated studies."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from ldpflow.results.comparison import compare_cells, compare_unpaired
from tests.oracles.rows_in_cells import cells_of
from tests.results.test_measures import rows


def pair(first: pa.Table, second: pa.Table):
    (a,), (b,) = (cells_of(table)[1] for table in (first, second))
    return compare_cells(a, b)


def test_by_hand():
    """Five replicates; the first has failed in one of the two, which is a miss; the last is in one only."""
    a = rows([0.0, 0.0, 3.0, 0.0], half=[1.0, 1.0, 2.0, 3.0], failed=[0])
    b = rows([0.0, 3.0, 3.0, 0.0, 0.0], half=[1.0, 2.0, 1.0, 2.0, 1.0])
    got = pair(a, b)
    # Pairs 0 to 3: covered (-, 1, 0, 1) and (1, 0, 0, 1); lengths (-, 2, 4, 6) and (2, 4, 2, 4).
    assert (got.pairs, got.only_this, got.only_baseline) == (4, 1, 1)
    assert got.coverage_difference == 0.0
    assert got.coverage_difference_mcse == pytest.approx(np.std([-1, 1, 0, 0], ddof=1) / math.sqrt(4))
    assert (got.undefined, got.undefined_baseline) == (0.25, 0.0)
    assert got.length_ratio == pytest.approx(12 / 10)
    psi = np.array([2, 4, 6]) / 4 - np.array([4, 2, 4]) / (10 / 3)
    assert got.length_ratio_mcse == pytest.approx(1.2 * math.sqrt(np.sum(psi**2) / 6))


def draw_pair(rng):
    """Two methods on 300 replicates, whose lengths go together."""
    x = rng.standard_normal(300)
    width = np.sqrt(rng.chisquare(9, (2, 300)) / 9)
    width[1] = 0.5 * (width[0] + width[1])
    return rows(x, half=1.6 * width[0]), rows(x, half=1.7 * width[1])


def draw_apart(rng):
    """Two methods on 150 and 80 replicates of their own."""
    first = rng.standard_normal(150), 1.6 * np.sqrt(rng.chisquare(9, 150) / 9)
    second = rng.standard_normal(80) + 0.3, 1.2 * np.sqrt(rng.chisquare(9, 80) / 9)
    return tuple(rows(x, half=half) for x, half in (first, second))


@pytest.mark.parametrize(
    ("compare", "draw", "pairs"), [(compare_cells, draw_pair, 300), (compare_unpaired, draw_apart, 80)]
)
def test_mcse_against_repeated_studies(compare, draw, pairs):
    """100 studies: the spread is known to 7%, and 30% are four standard errors."""
    rng = np.random.default_rng(2)
    found = [compare(*(cells_of(table)[1][0] for table in draw(rng))) for _ in range(100)]
    assert {(c.pairs, c.paired) for c in found} == {(pairs, compare is compare_cells)}
    for name in ("coverage_difference", "length_ratio"):
        spread = np.std([getattr(c, name) for c in found], ddof=1)
        mcse = np.sqrt(np.mean([getattr(c, f"{name}_mcse") ** 2 for c in found]))
        assert mcse == pytest.approx(spread, rel=0.3), name


def test_no_pairs():
    table = rows([1.0, 2.0])
    got = pair(table.slice(0, 1), table.slice(1, 1))
    assert got.pairs == 0 and math.isnan(got.coverage_difference)


def test_a_cell_without_an_interval_covers_nothing():
    cells = [cells_of(rows([0.0, 0.0], failed=failed))[1][0] for failed in ([], [0, 1])]
    for compare, paired in ((compare_cells, True), (compare_unpaired, False)):
        got = compare(*cells)
        assert (got.pairs, got.paired, got.coverage_difference) == (2, paired, 1.0)
        assert (got.undefined, got.undefined_baseline) == (0.0, 1.0) and math.isnan(got.length_ratio)


def test_a_method_is_not_better_by_leaving_out_the_hard_replicates():
    """Undefined in 54 of 200, it covers all others: behind a method that covers 180 of all."""
    x = np.where(np.arange(200) < 54, 3.0, 0.0)
    picky = rows(x, half=1.0, failed=list(range(54)))
    steady = rows(np.where(np.arange(200) < 20, 3.0, 0.0), half=1.0)
    for compare in (compare_cells, compare_unpaired):
        got = compare(cells_of(picky)[1][0], cells_of(steady)[1][0])
        assert got.coverage_difference == pytest.approx(146 / 200 - 180 / 200)
        assert got.undefined == pytest.approx(0.27)
