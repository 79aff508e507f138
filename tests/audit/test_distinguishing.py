"""Lower bounds by distinguishing tests: limits against scipy, and power on known mechanisms."""

import math

import numpy as np
import pytest
from scipy import stats

from ldpflow.practice.audit.distinguishing import (
    Claim,
    choose_event,
    lower_bounds,
    lower_limit,
    scores_for,
    upper_limit,
)

CONFIDENCE = 0.99


@pytest.mark.parametrize("count", [0, 1, 17, 500, 999, 1000])
def test_limits_are_clopper_and_pearsons(count):
    for error in (0.025, 0.001):
        exact = stats.binomtest(count, 1000).proportion_ci(1 - 2 * error, "exact")
        limits = lower_limit(count, 1000, error), upper_limit(count, 1000, error)
        assert limits == pytest.approx((exact.low, exact.high), abs=1e-12)


def test_bounds_from_counts():
    low, high = lower_limit(7300, 10_000, 0.005), upper_limit(2700, 10_000, 0.005)
    for claim, expected in (
        (Claim("pure", 1.0), math.log(low / high)),
        (Claim("approximate", 1.0, 0.01), math.log((low - 0.01) / high)),
        (Claim("gaussian", 1.0), stats.norm.ppf(low) - stats.norm.ppf(high)),
    ):
        assert lower_bounds(7300, 10_000, 2700, 10_000, claim, 0.99) == pytest.approx(expected)
        for count in (0, 100):
            assert lower_bounds(count, 100, count, 100, claim, 0.99) <= 0.0


def bound_on(draw, centres, claim, confidence, count):
    """The bound of a mechanism: ``draw(which, count)`` gives outputs on either input."""
    event = choose_event((draw(0, count), draw(1, count)), centres, claim, confidence)
    return lower_bounds(*event.counts(draw(0, count), draw(1, count)), claim, confidence)


def shifted(rng, law, d, distance):
    """Outputs on two inputs at a distance, by coordinate, and where the inputs lie."""
    centres = (np.full(d, distance / 2), np.full(d, -distance / 2))

    def draw(scale):
        return lambda which, k: centres[which] + getattr(rng, law)(0.0, scale, (k, d))

    return draw, centres


@pytest.mark.parametrize(
    ("law", "d", "distance", "notion", "least", "half"),
    [
        ("laplace", 1, 1.0, "pure", 0.9, 1.5),
        ("laplace", 3, 1 / 3, "pure", 0.9, 1.5),
        ("normal", 5, 1 / math.sqrt(5), "gaussian", 0.95, 1.9),
    ],
)
def test_noise_and_half_of_it(law, d, distance, notion, least, half):
    """Inputs at L1 or L2 distance 1, in several dimensions spread over the coordinates."""
    draw, centres = shifted(np.random.default_rng(2), law, d, distance)
    claim = Claim(notion, 1.0)
    assert least < bound_on(draw(1.0), centres, claim, CONFIDENCE, 50_000) <= 1.0
    assert bound_on(draw(0.5), centres, claim, CONFIDENCE, 50_000) > half
    if law == "normal":
        # The same noise as (epsilon, delta): 4.377 at 1e-5 is exact for mu = 1, far beyond for mu = 2.
        approximate = Claim("approximate", 4.377, 1e-5)
        assert bound_on(draw(1.0), centres, approximate, CONFIDENCE, 50_000) <= 4.377
        assert bound_on(draw(0.5), centres, approximate, CONFIDENCE, 50_000) > 4.377


@pytest.mark.parametrize(("d", "count"), [(1, 100_000), (65, 20_000)])
def test_a_leak_that_is_not_monotone(d, count):
    """Noise that leaves a hole on the line through the inputs: no threshold on an output finds it."""
    rng = np.random.default_rng(4)
    line = np.full(d, 1 / math.sqrt(d))

    def draw(which, count):
        noise = rng.normal(0.0, 1.0, (count, d))
        along = noise @ line
        moved = np.where(np.abs(along) < 0.2, 2 * along, 0.0) if which else np.zeros(count)
        return noise + moved[:, None] * line

    assert bound_on(draw, (1e-9 * line, 0.0 * line), Claim("pure", 0.1), CONFIDENCE, count) > 0.5


def test_reports_that_repeat_have_frequencies():
    """A leak at single values of which no score of a direction knows; the other outputs are continuous."""
    rng = np.random.default_rng(6)
    centres = (np.array([0.0]), np.array([0.0]))

    def draw(which, count):
        noise = rng.uniform(-1.0, 1.0, (count, 1))
        atoms = rng.choice([-0.5, 0.1, 0.3] if which else [-0.3, 0.2, 0.5], (count, 1))
        return np.where(rng.random((count, 1)) < 0.5, atoms, noise)

    names = {score.name for score in scores_for((draw(0, 1000), draw(1, 1000)), centres)}
    assert "log ratio of frequencies" in names
    assert bound_on(draw, centres, Claim("pure", 0.1), CONFIDENCE, 1000) > 2.0

    def smooth(which, count):
        return rng.normal(size=(count, 1))

    names = {score.name for score in scores_for((smooth(0, 1000), smooth(1, 1000)), centres)}
    assert "log ratio of frequencies" not in names
