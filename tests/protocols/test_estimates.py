"""From F^ at edges to quantiles and intervals: against loops, and properties of the result."""

from __future__ import annotations

import numpy as np
import pytest

from ldpflow.components.problems.laws import Law
from ldpflow.components.protocols import PROTOCOLS
from ldpflow.components.protocols.collections import edge_cdf, run_one_shot
from tests.oracles import protocols as oracle
from tests.protocols.running import ONE_SHOT, Z90, inverted, keys, one_shot, spread_of

TAUS = (0.1, 0.5, 0.9)
LEVELS_Z = (Z90, 2.5758293035489004)


def some_values(name, n=5000, replicates=20):
    protocol = PROTOCOLS[name](epsilon=1.0, range=(-6.3, 9.7), k=16)
    edges = protocol.edges(16)
    cdf = edge_cdf(Law("normal"), edges)
    values, received, _ = one_shot(protocol, cdf, n, keys(f"estimates {name}", replicates))
    return protocol, edges, values, received


@pytest.mark.parametrize("name", ONE_SHOT)
def test_estimates_and_limits_are_those_of_the_loops(name):
    protocol, edges, values, received = some_values(name)
    estimates, limits = inverted(protocol, values, received, edges, TAUS, LEVELS_Z)
    for r, row in enumerate(values):
        heights = oracle.isotonic(row)
        for q, tau in enumerate(TAUS):
            assert estimates[q, r] == pytest.approx(oracle.crossing(heights, edges, tau), abs=1e-9)
            variance = spread_of(protocol, heights, tau)
            for level, z in enumerate(LEVELS_Z):
                expected = oracle.inversion(row, variance, received[r], edges, tau, z)
                assert limits[level, q, r, :4] == pytest.approx(expected, abs=1e-9)
    _, _, low, high, ends = np.moveaxis(limits, -1, 0)
    assert (ends == (low == edges[0]).astype(int) + (high == edges[-1])).all()


def test_hull_of_a_curve_that_crosses_the_level_several_times():
    """First edge that is not rejected from below, last from above."""
    protocol = PROTOCOLS["grr"](epsilon=1.0, range=(0.0, 8.0), k=8)
    row = np.array([[0.1, 0.5, 0.2, 0.9, 0.4, 0.95, 0.99]])
    _, limits = inverted(protocol, row, np.array([1e9]), protocol.edges(8))
    # F^ passes 1/2 at 2, between 3 and 4, 4 and 5, and last between 5 and 6.
    assert limits[0, 0, 0, 0] == pytest.approx(2.0, abs=1e-3)
    assert 5.0 < limits[0, 0, 0, 1] < 6.0
    assert limits[0, 0, 0, 2:4].tolist() == [1.0, 6.0]
    assert limits[0, 0, 0, 4] == 0


def test_no_report_gives_no_estimate():
    protocol, edges, values, _ = some_values("grr", replicates=2)
    estimates, limits = inverted(protocol, values, np.zeros(2), edges)
    assert np.isnan(estimates).all()
    assert np.isnan(limits[..., :4]).all()


def test_the_line_interval_can_miss_always():
    """GRR, median of a lognormal law, eps = .5, n = 1e5: the bias inside the bin decides."""
    law = Law("lognormal", shape=1.0)
    protocol = PROTOCOLS["grr"](epsilon=0.5, range=(0.0, 25.0))
    run = run_one_shot(protocol, law, 0.5, 10**5, keys("misses", 500))
    shares = {}
    for kind in ("line", "outer"):
        found = run.intervals([0.5], [Z90], kind)
        shares[kind] = np.mean((found.lower[0, 0] <= 1.0) & (found.upper[0, 0] >= 1.0))
    assert shares["line"] < 0.02
    assert shares["outer"] > 0.98
