"""Settings of protocols, and quantiles and intervals from F^ at edges, against loops."""

from dataclasses import replace

import numpy as np
import pytest

import ldpflow as lf
from ldpflow.components.problems.laws import Law
from ldpflow.components.protocols import PROTOCOLS
from ldpflow.components.protocols.collections import Histograms, run_one_shot
from ldpflow.errors import InputError
from ldpflow.simulators.counts import Counts
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
    ends = outer.diagnosis["range_end"]
    assert (line.diagnosis["range_end"] == ends).all()
    assert (ends == ((outer.lower == low) | (outer.upper == high))).all()


def test_hull_of_a_curve_that_crosses_the_level_several_times():
    """First edge that is not rejected from below, last from above."""
    protocol = PROTOCOLS["grr"](epsilon=1.0, range=(0.0, 8.0), k=8)
    row = np.array([[0.1, 0.5, 0.2, 0.9, 0.4, 0.95, 0.99]])
    run = Histograms(protocol, protocol.edges(8), row, np.array([1e9]), *np.zeros((3, 1)))
    line, outer = (run.intervals([0.5], [Z90], limits) for limits in ("line", "outer"))
    # F^ passes 1/2 at 2, between 3 and 4, 4 and 5, and last between 5 and 6.
    assert line.lower == pytest.approx(2.0, abs=1e-3) and 5.0 < line.upper < 6.0
    assert (outer.lower, outer.upper, outer.diagnosis["range_end"]) == (1.0, 6.0, 0.0)


def test_no_report_gives_no_estimate():
    found = replace(some_run("grr", replicates=2), received=np.zeros(2)).intervals([0.5], [Z90], "line")
    assert np.isnan([*found.estimate, *found.lower[0], *found.upper[0]]).all()


@pytest.mark.parametrize("kind", ["grr", "rounds"])
def test_a_guarantee_is_for_all_answers_and_the_bound_for_one(kind):
    several, one = (PROTOCOLS[kind](range=(0.0, 1.0), epsilon=2.0, answers=count) for count in (4, 1))
    assert several.budget().epsilon == 0.5
    bounds = [Counts(lf.Quantile(), each, 1000).derived()["efficient_se"] for each in (several, one)]
    assert bounds[0] == bounds[1]


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        *((kind, {}) for kind in PROTOCOLS),
        *(("grr", {"range": ends}) for ends in [(1.0, 1.0), (2.0, 1.0), (0.0, np.inf), (np.nan, 1.0)]),
        *((kind, {"range": (0.0, 1.0), "k": k}) for kind, k in [("haar", 12), ("hrr", 6), ("tree", 32)]),
        *((kind, {"range": (0.0, 1.0), "k": k}) for kind, k in [("grr", 3), ("oue", 2000)]),
    ],
)
def test_ranges_and_bins_that_cannot_be(kind, settings):
    with pytest.raises(InputError, match="k" if "k" in settings else "range"):
        PROTOCOLS[kind](**settings)


def test_bits_of_a_report():
    """Of a tree the mean over its levels."""
    bits = {"thresholds": 1, "hrr": 1, "haar": 1, "rounds": 1, "grr": 4, "oue": 16, "tree": (4 + 16) / 2}
    for kind, expected in bits.items():
        settings = {} if kind == "rounds" else {"k": 16}
        assert PROTOCOLS[kind](range=(0.0, 1.0), **settings).bits(1000) == expected


def test_users_of_rounds():
    """Four pilot rounds of 10% to 15% each, the last the rest; every user is asked once."""
    protocol = PROTOCOLS["rounds"](range=(0.0, 1.0), epsilon=1.0)
    assert protocol.shares(10**6, 0.5) == pytest.approx([0.1, 0.1, 0.1, 0.1, 0.6])
    assert protocol.shares(10**3, 0.9) == pytest.approx([0.15, 0.15, 0.15, 0.15, 0.4])
    asked = protocol.asked(10**5, 0.5)
    assert asked == [1250, 3333, 3333, 3333, 30000]
    three = PROTOCOLS["rounds"](range=(0.0, 1.0), rounds=3)
    assert three.shares(10**6, 0.5) == pytest.approx([0.2, 0.2, 0.6])


@pytest.mark.parametrize("rounds", [3, 4, 12])
@pytest.mark.parametrize(("tau", "epsilon"), [(0.01, 1.0), (0.5, 0.01), (0.99, 16.0)])
def test_every_threshold_asks_some_user(rounds, tau, epsilon):
    protocol = PROTOCOLS["rounds"](range=(0.0, 1.0), epsilon=epsilon, rounds=rounds)
    for n in (protocol.least_users(), 1000, 10**12):
        asked = protocol.asked(n, tau)
        assert min(asked) >= 1
        counts = [8, *[3] * (rounds - 2), 2]
        assert n - rounds * 9 <= sum(a * c for a, c in zip(asked, counts, strict=True)) <= n


@pytest.mark.thorough
@pytest.mark.parametrize("name", ONE_SHOT)
@pytest.mark.parametrize(("k", "epsilon", "answers"), [(16, 0.5, 1), (256, 4.0, 1), (64, 1.0, 3)])
def test_the_rule_s_variance_is_that_at_the_middle_of_a_uniform_law(name, k, epsilon, answers):
    protocol = PROTOCOLS[name](epsilon=epsilon, answers=answers, range=(0.0, 8.0))
    flat = np.arange(k + 1) / k
    expected = spread_of(protocol, flat, 0.5)[k // 2 - 1]
    assert protocol.middle_variance(k) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("n", "expected"),
    [
        (10**5, {"haar": 64, "tree": 64, "oue": 32, "hrr": 32, "grr": 32, "thresholds": 32}),
        (10**4, {"haar": 64, "tree": 64, "oue": 32, "hrr": 32, "grr": 16, "thresholds": 32}),
    ],
)
def test_bins_of_the_rule(n, expected):
    found = {name: PROTOCOLS[name](epsilon=1.0, range=(-6.3, 9.7)).bins(n) for name in ONE_SHOT}
    assert found == expected
    assert PROTOCOLS["tree"](range=(-6.3, 9.7), k=16).bins(n) == 16
