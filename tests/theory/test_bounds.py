"""The bounds against golden values of the specification, each other and exact moments (A1, A4 to A6)."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ldpflow.errors import InputError
from ldpflow.results import curves as bounds
from ldpflow.results.curves import BoundConstants
from tests.oracles import gaussian_bounds as oracle
from tests.oracles import gaussian_sgd
from tests.oracles.gaussian_bounds import psi

N = np.array([1, 10, 100, 1000, 10000])
GOLDEN = BoundConstants(0.4, 0.6, 1.0, 5, 2.0, 5.0, convexity=0.2, smoothness=2.0)


def test_psi():
    assert psi(0.4, 1000) == pytest.approx(37.1223298115, rel=1e-11)
    assert psi(0.0, 1000) == pytest.approx(6.9077552790, rel=1e-10)
    assert psi(-0.2, 1000) == pytest.approx(3.7440567842, rel=1e-10)
    assert abs(psi(1e-9, 1000) - psi(0, 1000)) < 1e-6
    k = np.arange(1, 100_001)
    for a in np.arange(0.1, 1.01, 0.1):
        sums = np.cumsum(k**-a)
        slack = 1e-9 * sums
        assert (psi(1 - a, k + 1) <= sums + slack).all()
        assert (sums <= 1 + psi(1 - a, k) + slack).all()
        assert not (sums <= psi(1 - a, k)).any()  # what the paper uses


@pytest.mark.parametrize(
    ("found", "golden"),
    [
        (
            bounds.distance_bound(GOLDEN, N),
            [5.16, 3.970535898, 1.348896884, 0.1540033612, 0.02660271077],
        ),
        (
            oracle.distance_bound_closed(GOLDEN, N),
            [13.49443231, 6.776645697, 3.317650738, 1.388472925, 0.2384142572],
        ),
        (
            oracle.distance_bound_printed(GOLDEN, N),
            [167, 65.05156641, 41.12237554, 28.3215663, 11.73800185],
        ),
        (
            oracle.distance_bound_printed(GOLDEN, N, 4.0),
            [17, 7.347377441, 3.599679952, 2.110084329, 0.8694824569],
        ),
        (
            oracle.fourth_moment_bound(GOLDEN, N, 25.0),
            [34.8524334, 23.61705046, 2.895227315, 0.03958462056, 0.001182159622],
        ),
        (
            bounds.excess_bound(GOLDEN, N, 5.0),
            [6.3086446881, 4.1938190575, 2.2713057626, 1.0725702229, 0.4673948114],
        ),
        (
            oracle.excess_bound_recursion(GOLDEN, N, 5.0),
            [3.96, 2.8762422349, 1.6720883806, 0.8526732801, 0.4137630492],
        ),
        (
            bounds.average_excess_bound(GOLDEN, N),
            [8.65, 4.2012343438, 1.8420424312, 0.7678433677, 0.313360886],
        ),
        (GOLDEN.energy(10000)[N], [5.96, 7.3690048306, 8.4589118175, 9.1623342028, 9.6071780185]),
    ],
)
def test_golden(found, golden):
    np.testing.assert_allclose(found, golden, rtol=2e-9)


def settings(count=60):
    rng = np.random.default_rng(5)
    for _ in range(count):
        alpha = rng.uniform(0.2, 0.99)
        m = rng.uniform(0.05, 1.0)
        eta = rng.uniform(0.05, 1.0) * min(1 / (2 * m), math.sqrt(m / 2), 1 / (m + 1))
        yield BoundConstants(
            eta,
            alpha,
            rng.uniform(0.5, 2),
            int(rng.integers(1, 20)),
            rng.uniform(0.5, 3),
            rng.uniform(0, 10),
            convexity=m,
            smoothness=m + 1,
        )


def test_sharper_forms_lie_below():
    n = np.array([1, 2, 3, 10, 57, 300, 2000])
    for s in settings():
        slack = 1 + 1e-12
        a = bounds.distance_bound(s, n)
        assert (a <= oracle.distance_bound_closed(s, n) * slack).all()
        recursion = oracle.excess_bound_recursion(s, n)
        assert (recursion <= bounds.excess_bound(s, n) * slack).all()
        printed = oracle.fourth_moment_bound_printed(s, n, exact_noise=True)
        assert (printed <= oracle.fourth_moment_bound_closed(s, n) * slack).all()
        if 1 / 3 < s.alpha < 1:
            assert (recursion <= oracle.excess_bound_repaired(s, n) * slack).all()


def test_printed_third_theorem_falls_below_its_own_recursion():
    s = BoundConstants(0.5, 0.9, 1.0, 5, 2.0, 0.0, convexity=2e-3)
    n = np.array([2, 5, 20, 100, 1000, 20_000])
    ratio = bounds.distance_bound(s, n) / oracle.distance_bound_printed(s, n, 4.0)
    assert ratio.max() > 1.3


def test_unit_exponent():
    for eta in (0.5, 2.0, 5.0):
        s = BoundConstants(eta, 1.0, 1.0, 5, 2.0, 5.0, convexity=0.2)
        n = np.array([1, 10, 100, 3000])
        bound = oracle.distance_bound_unit_exponent(s, n)
        assert (bounds.distance_bound(s, n) <= bound * (1 + 1e-12)).all()


def test_printed_fifth_theorem_is_violated_by_a_process():
    """1-D Huber, theta_0 = 1000: far out the gradient is 1, and D_n falls no faster than E_n."""
    s = BoundConstants(0.99, 0.75, 1.0, 1, 3.0, 1000.0**2, smoothness=1.0)
    n = 10_000
    # F(theta) = |theta| - 1/2 beyond the data; noise has mean 0 and does not bring it near 0.
    excess = 1000.0 - 0.5 - s.steps(n).sum() - 0.125
    assert excess == pytest.approx(963, abs=2)
    assert oracle.excess_bound_printed(s, n) == pytest.approx(686, rel=0.01)
    assert oracle.excess_bound_printed(s, n) < excess < bounds.excess_bound(s, n, 999.5)
    assert bounds.excess_bound(s, n, 999.5) == pytest.approx(1172, rel=0.03)


def test_exact_moments_of_the_quadratic():
    moments = gaussian_sgd.quadratic_moments([0.3, 1.0], [1 / 3, 1 / 3], 4.0, [1.0, -1.0], 0.5, 0.6, 1000)
    golden = {
        1: (3.13916666667, 3.13916666667),
        10: (1.96124494115, 1.97774895559),
        100: (0.477399921681, 0.638636542767),
        1000: (0.0847992698309, 0.0712266879971),
    }
    for n, (distance, average) in golden.items():
        assert moments["distance"][n] == pytest.approx(distance, rel=1e-10)
        assert moments["average_post"][n] == pytest.approx(average, rel=1e-10)


H, S, D0 = [0.3, 0.5, 1.0, 1.0], [1 / 6] * 4, [1.0, -1.0, 2.0, 0.0]


def test_fourth_theorem_on_the_quadratic():
    """Exact distances; observed maximal ratio .285 (A12)."""
    n = np.unique(np.geomspace(1, 20_000, 40).astype(int))
    moments = gaussian_sgd.quadratic_moments(H, S, 4.0, D0, 0.5, 0.6, 20_000)
    s = BoundConstants(0.5, 0.6, math.sqrt(2), 4, math.sqrt(2), 6.0, convexity=0.3, smoothness=1.0)
    leading = bounds.leading_term(np.diag(H), np.diag(S), 4.0)
    bound = bounds.average_bound(s, n, leading, moments["distance"], np.zeros(20_001), 0.0, smoothness=0.0)
    ratio = moments["average_pre"][n] / bound
    assert ratio.max() == pytest.approx(0.285, abs=0.01)
    post = bounds.average_bound(
        s, n, leading, moments["distance"], np.zeros(20_001), 0.0, smoothness=0.0, post=True
    )
    assert (moments["average_post"][n] <= post).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("alpha", "last", "average"),
    [(0.2, -0.203, -1.0), (0.4, -0.401, -1.002), (0.6, -0.607, -1.017), (0.75, -0.787, -1.131)],
)
def test_slopes_on_the_quadratic(alpha, last, average):
    """Exact recursions, fitted over [2e4, 2e5] (A13)."""
    moments = gaussian_sgd.quadratic_moments(H, S, 4.0, D0, 0.5, alpha, 200_000)
    n = np.geomspace(20_000, 200_000, 20).astype(int)
    for name, slope in (("distance", last), ("average_post", average)):
        fitted = np.polyfit(np.log(n), np.log(moments[name][n]), 1)[0]
        assert fitted == pytest.approx(slope, abs=0.01)


def test_printed_fourth_theorem_says_nothing():
    """Huber d = 5, mu = 2, n = 2e4, where the truth is 0.0146: 36, and 5.8e6 with its misprint."""
    s = BoundConstants(0.4, 0.6, math.sqrt(2) * 1.345, 5, 2.0, 5.0, convexity=0.312, smoothness=2.0)
    h, v = 0.311973, 0.136921
    leading = bounds.leading_term(h * np.eye(5), v * np.eye(5), 0.0)
    meant = oracle.average_bound_printed(s, 20_000, leading, 0.1205, as_meant=True)
    assert meant == pytest.approx(36, rel=0.01)
    printed = oracle.average_bound_printed(s, 20_000, leading, 0.1205)
    assert printed == pytest.approx(5.76e6, rel=0.01)


def test_bad_settings_are_named():
    with pytest.raises(InputError, match="convexity"):
        bounds.distance_bound(BoundConstants(0.4, 0.6, 1.0, 5, 2.0, 5.0), 10)
    with pytest.raises(InputError, match="mu"):
        BoundConstants(0.4, 0.6, 1.0, 5, 0.0, 5.0)
    with pytest.raises(InputError, match="eta"):
        oracle.excess_bound_recursion(BoundConstants(0.9, 0.6, 1.0, 5, 1.0, 5.0, smoothness=2.0), 10)
