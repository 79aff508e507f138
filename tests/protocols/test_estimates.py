"""From F^ at edges to quantiles and intervals: against loops, and properties of the result."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ldpflow.components.problems.laws import Law
from ldpflow.components.protocols import PROTOCOLS
from ldpflow.components.protocols.collections import Histograms, run_one_shot
from tests.oracles import protocols as oracle
from tests.protocols.running import ONE_SHOT, Z90, keys, spread_of

TAUS = (0.1, 0.5, 0.9)
LEVELS_Z = (Z90, 2.5758293035489004)


def some_run(name, n=5000, replicates=20):
    protocol = PROTOCOLS[name](epsilon=1.0, range=(-6.3, 9.7), k=16)
    return run_one_shot(protocol, Law("normal"), 0.5, n, keys(f"estimates {name}", replicates))


@pytest.mark.parametrize("name", ONE_SHOT)
def test_estimates_and_limits_are_those_of_the_loops(name):
    run = some_run(name)
    line, outer = (run.intervals(TAUS, LEVELS_Z, limits) for limits in ("line", "outer"))
    found = np.stack([line.lower, line.upper, outer.lower, outer.upper], axis=-1)
    low, high = run.edges[0], run.edges[-1]
    for r, row in enumerate(run.values):
        heights = oracle.isotonic(row)
        for q, tau in enumerate(TAUS):
            crossing = oracle.crossing(heights, run.edges, tau)
            assert line.estimate[q, r] == outer.estimate[q, r] == pytest.approx(crossing, abs=1e-9)
            variance = spread_of(run.protocol, heights, tau)
            for level, z in enumerate(LEVELS_Z):
                expected = oracle.inversion(row, variance, run.received[r], run.edges, tau, z)
                assert found[level, q, r] == pytest.approx(expected, abs=1e-9)
    assert (line.range_end == outer.range_end).all()
    assert (outer.range_end == ((outer.lower == low) | (outer.upper == high))).all()


def test_hull_of_a_curve_that_crosses_the_level_several_times():
    """First edge that is not rejected from below, last from above."""
    protocol = PROTOCOLS["grr"](epsilon=1.0, range=(0.0, 8.0), k=8)
    row = np.array([[0.1, 0.5, 0.2, 0.9, 0.4, 0.95, 0.99]])
    run = Histograms(protocol, protocol.edges(8), row, np.array([1e9]), *np.zeros((3, 1)))
    line, outer = (run.intervals([0.5], [Z90], limits) for limits in ("line", "outer"))
    # F^ passes 1/2 at 2, between 3 and 4, 4 and 5, and last between 5 and 6.
    assert line.lower == pytest.approx(2.0, abs=1e-3) and 5.0 < line.upper < 6.0
    assert (outer.lower, outer.upper, outer.range_end) == (1.0, 6.0, False)


def test_no_report_gives_no_estimate():
    found = replace(some_run("grr", replicates=2), received=np.zeros(2)).intervals([0.5], [Z90], "line")
    assert np.isnan([*found.estimate, *found.lower[0], *found.upper[0]]).all()
