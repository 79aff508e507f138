"""The bounds under Gaussian LDP against golden values and literal forms."""

import math

import numpy as np
import pytest

from ldpflow.results import curves as bounds
from ldpflow.results.curves import BoundConstants
from tests.oracles import gaussian_bounds as oracle
from tests.oracles import gaussian_sgd

N = np.array([1, 10, 100, 1000, 10000])
GOLDEN = BoundConstants(0.4, 0.6, 1.0, 5, 2.0, 5.0, convexity=0.2, smoothness=2.0)


def test_golden():
    distances = bounds.distance_bound(GOLDEN, N)
    known = [5.16, 3.970535898, 1.348896884, 0.1540033612, 0.02660271077]
    np.testing.assert_allclose(distances, known, rtol=2e-9)
    known = [6.3086446881, 4.1938190575, 2.2713057626, 1.0725702229, 0.4673948114]
    np.testing.assert_allclose(bounds.excess_bound(GOLDEN, N), known, rtol=2e-9)


def settings(count=20):
    rng = np.random.default_rng(5)
    for _ in range(count):
        m = rng.uniform(0.05, 1.0)
        eta = rng.uniform(0.05, 1.0) * min(1 / (2 * m), math.sqrt(m / 2), 1 / (m + 1))
        alpha, bound, mu, start = rng.uniform([0.2, 0.5, 0.5, 0.0], [0.99, 2.0, 3.0, 10.0])
        yield BoundConstants(eta, alpha, bound, int(rng.integers(1, 20)), mu, start, m, m + 1)


def test_excess_bounds_and_their_literal_forms():
    n = np.array([1, 2, 3, 10, 57, 300])
    for s in settings():
        assert (oracle.excess_recursion(s, 300)[n] <= bounds.excess_bound(s, n) * (1 + 1e-12)).all()
        literal = [oracle.average_excess(s, int(k)) for k in n]
        np.testing.assert_allclose(bounds.average_excess_bound(s, n), literal, rtol=1e-12)


def test_fourth_theorem_on_the_quadratic():
    """Exact distances; observed maximal ratio .285 (A12)."""
    n = np.unique(np.geomspace(1, 20_000, 40).astype(int))
    h, covariance = [0.3, 0.5, 1.0, 1.0], [1 / 6] * 4
    moments = gaussian_sgd.quadratic_moments(h, covariance, 4.0, [1.0, -1.0, 2.0, 0.0], 0.5, 0.6, 20_000)
    s = BoundConstants(0.5, 0.6, math.sqrt(2), 4, math.sqrt(2), 6.0, convexity=0.3, smoothness=1.0)
    leading = bounds.leading_term(np.diag(h), np.diag(covariance) + 4.0 * np.eye(4))
    pre, post = (bounds.average_bound(s, n, leading, moments["distance"], post=p) for p in (False, True))
    assert (moments["average_pre"][n] / pre).max() == pytest.approx(0.285, abs=0.01)
    root = np.sqrt(moments["distance"])
    np.testing.assert_allclose(np.sqrt(post) - np.sqrt(pre), (root[n] + root[0]) / n, rtol=1e-6)
