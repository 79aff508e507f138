"""The oracles themselves, against closed forms and figures known beforehand."""

import math
from fractions import Fraction

import numpy as np
import pytest

from tests.oracles import asymptotics, batch_means, block_bootstrap, mechanisms, recursion, self_normalization
from tests.oracles.safe_floor import floor_power


def test_floor_snaps_within_a_billionth_only():
    assert floor_power(10**12 - 1, 0.5) == 10**6  # 999999.9999995, short of it by 5e-13 relative
    assert floor_power(10**8 - 1, 0.5) == 9999  # short of 10^4 by 5e-9 relative
    assert floor_power(10**8 + 1, 0.5) == 10**4
    assert [floor_power(n, 0.75) for n in (10**8, 10**6, 1, 2)] == [10**6, 31622, 1, 1]
    assert floor_power(10**6, Fraction(1, 3)) == 100


def test_minibatch_noise_is_divided_centrally_and_averaged_locally():
    """Nine records in batches of four: the last one is left over."""
    x, s, sensitivity, epsilon = np.arange(9.0), 4, 3.0, 0.5
    of_batches = sensitivity / epsilon * np.array([[1.0], [-2.0]])
    central = recursion.minibatch_path(x, lambda i, x_i, theta: x_i, 0.0, 1.0, 0.6, s, of_batches)
    np.testing.assert_allclose(central[:, 0], [-3.0, -3.0 - 2**-0.6 * 2.5])
    noise = np.array([[1.0], [2.0], [3.0], [-1.0], [4.0], [0.0], [0.0], [8.0], [99.0]])

    def private_gradient(i, x_i, theta):
        return mechanisms.add_laplace(0.0, sensitivity, epsilon, noise[i - 1])

    local = recursion.minibatch_path(x, private_gradient, 0.0, 1.0, 0.6, s)
    np.testing.assert_allclose(local[:, 0], [-7.5, -7.5 - 2**-0.6 * 18.0])


def test_block_replicates_by_hand():
    path = np.array([[1.0], [3.0], [6.0], [7.0], [13.0]])  # average 6
    eps = [[1.0, 1.0], [-1.0, 1.0], [0.5, 2.0]]
    replicates = block_bootstrap.bootstrap_replicates(path, 2, 2, eps)
    np.testing.assert_allclose(replicates[:, 0], [-7 / 4, 9 / 4, -2 / 4])
    assert block_bootstrap.conditional_sd(path, 2, 2) == pytest.approx([math.sqrt(65) / 4])


def test_batch_means_by_hand():
    assert [batch_means.batch_count(n) for n in (10**8, 10**6, 625, 624)] == [100, 31, 5, 4]
    assert batch_means.batch_ends(1000, 9, 0.5) == [10 * k * k for k in range(1, 11)]
    assert batch_means.batch_ends(10**8, 4, 0.75) == [160_000 * k**4 for k in range(1, 6)]
    path = np.array([[100.0], [1.0], [2.0], [3.0], [4.0], [5.0], [6.0], [7.0], [8.0]])
    assert batch_means.batch_ends(9, 2, 0.5) == [1, 4, 9]  # means 2 and 6, around 4.5
    assert batch_means.variance(path, 2, 0.5) == pytest.approx([(3 * 2.5**2 + 5 * 1.5**2) / 2])


def test_self_normalization_by_hand():
    path = np.array([[1.0], [3.0], [8.0]])  # running means 1, 2, 4
    lower, upper = self_normalization.interval(path, 0.9)
    half = 5.322680 * math.sqrt((1 * 9.0 + 4 * 4.0) / 9 / 3)
    np.testing.assert_allclose([lower[0], upper[0]], [4.0 - half, 4.0 + half], rtol=1e-6)
    for level, expected in ((0.80, 3.874881), (0.95, 6.747302), (0.99, 10.017267)):
        assert self_normalization.critical_value(level) == pytest.approx(expected, abs=5e-7)


def test_figures_of_the_private_median():
    sigma = asymptotics.quantile_sigma(asymptotics.law("normal"), 0.5, 1.0)
    # 1/4 + e/(e-1)^2 = coth(1/2)^2 / 4 and p(0) = 1/sqrt(2 pi)
    assert math.sqrt(sigma) == pytest.approx(math.sqrt(math.pi / 2) / math.tanh(0.5))
    lower, upper = asymptotics.oracle_interval(0.0, sigma, 10**6, 0.9)
    assert upper[0] - lower[0] == pytest.approx(0.008922, abs=5e-7) and upper[0] + lower[0] == 0.0


def test_regression_sigma_in_closed_form():
    # Sigma_X is diagonal, so Sigma is too, entry by entry.
    error, tau, epsilon, bound = asymptotics.law("normal", 7.0, 2.0), 0.9, 2.0, 0.5
    second = np.array([1.0, bound**2 / 3, bound**2 / 3])
    s = tau * (1 - tau) * second + 2.0 * (2.0 * tau * 2.0 / epsilon) ** 2
    sigma = asymptotics.regression_sigma(error, tau, epsilon, 3, bound, "uniform")
    expected = np.diag(s / (second * 0.17549833193248688 / 2.0) ** 2)
    np.testing.assert_allclose(sigma, expected, rtol=1e-7, atol=1e-9)
