"""The oracles themselves, against closed forms and figures known beforehand."""

import math
from fractions import Fraction

import mpmath
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


def test_minibatch_by_hand_with_records_left_over():
    x = [1.0, 2.0, 3.0, 5.0, 8.0, 100.0, 100.0]
    path = recursion.minibatch_path(x, lambda i, x_i, theta: theta - x_i, 0.5, 0.5, 0.6, 3)
    first = 0.5 - 0.5 * (0.5 - 2.0)
    second = first - 0.5 * 2**-0.6 * (first - (5.0 + 8.0 + 100.0) / 3.0)
    np.testing.assert_allclose(path, [[first], [second]])


def test_minibatch_noise_is_divided_centrally_and_averaged_locally():
    x, s, sensitivity, epsilon = np.arange(9.0), 4, 3.0, 0.5
    of_batches = sensitivity / epsilon * np.array([[1.0], [-2.0]])
    central = recursion.minibatch_path(x, lambda i, x_i, theta: 0.0, 0.0, 1.0, 0.6, s, of_batches)
    np.testing.assert_allclose(central[:, 0], [-1.5, -1.5 + 2**-0.6 * 3.0])
    noise = np.array([[1.0], [2.0], [3.0], [-1.0], [4.0], [0.0], [0.0], [8.0], [99.0]])

    def private_gradient(i, x_i, theta):
        return mechanisms.add_laplace(0.0, sensitivity, epsilon, noise[i - 1])

    local = recursion.minibatch_path(x, private_gradient, 0.0, 1.0, 0.6, s)
    np.testing.assert_allclose(local[:, 0], [-7.5, -7.5 - 2**-0.6 * 18.0])


def test_replicates_by_hand():
    path = np.array([[1.0], [3.0], [5.0], [7.0], [14.0]])  # average 6
    np.testing.assert_allclose(block_bootstrap.block_deviations(path, 2, 2), [[-8.0], [0.0]])
    np.testing.assert_allclose(block_bootstrap.block_deviations(path, 1, 5).sum(), 0.0)
    path = np.array([[1.0], [3.0], [6.0], [7.0], [13.0]])  # average 6
    eps = [[1.0, 1.0], [-1.0, 1.0], [0.5, 2.0]]
    replicates = block_bootstrap.bootstrap_replicates(path, 2, 2, eps)
    np.testing.assert_allclose(replicates[:, 0], [-7 / 4, 9 / 4, -2 / 4])
    assert block_bootstrap.conditional_sd(path, 2, 2) == pytest.approx([math.sqrt(65) / 4])


def test_batch_counts_and_ends():
    assert [batch_means.batch_count(n) for n in (10**8, 10**6, 625, 624)] == [100, 31, 5, 4]
    assert batch_means.batch_ends(1000, 9, 0.5) == [10 * k * k for k in range(1, 11)]
    assert batch_means.batch_ends(10**8, 4, 0.75) == [160_000 * k**4 for k in range(1, 6)]
    ends = batch_means.batch_ends(10**6, 31, 0.51)
    assert ends[-1] == 10**6 and len(ends) == 32
    with mpmath.workdps(50):
        exact = [(mpmath.mpf(k + 1) / 32) ** (mpmath.mpf(100) / 49) * 10**6 for k in range(32)]
        assert ends == [int(mpmath.floor(e + mpmath.mpf("1e-9") * e)) for e in exact]


def test_batch_variance_by_hand():
    path = np.array([[100.0], [1.0], [2.0], [3.0], [4.0], [5.0], [6.0], [7.0], [8.0]])
    assert batch_means.batch_ends(9, 2, 0.5) == [1, 4, 9]
    np.testing.assert_allclose(batch_means.batch_averages(path, [1, 4, 9]), [[2.0], [6.0]])
    expected = (3 * 2.5**2 + 5 * 1.5**2) / 2
    assert batch_means.variance(path, 2, 0.5) == pytest.approx([expected])
    lower, upper = batch_means.interval(path, 2, 0.5, 0.9)
    half = 1.6448536269514722 * math.sqrt(expected / 9)
    assert lower == pytest.approx([136 / 9 - half])
    assert upper == pytest.approx([136 / 9 + half])


def test_self_normalizer_by_hand():
    path = np.array([[1.0], [3.0], [8.0]])  # running means 1, 2, 4
    expected = (1 * 9.0 + 4 * 4.0) / 9
    assert self_normalization.variance(path) == pytest.approx([expected])
    lower, upper = self_normalization.interval(path, 0.9)
    half = 5.322680 * math.sqrt(expected / 3)
    np.testing.assert_allclose([lower[0], upper[0]], [4.0 - half, 4.0 + half], rtol=1e-6)


@pytest.mark.parametrize(
    ("level", "expected"), [(0.80, 3.874881), (0.90, 5.322680), (0.95, 6.747302), (0.99, 10.017267)]
)
def test_self_normalized_critical_values(level, expected):
    assert self_normalization.critical_value(level) == pytest.approx(expected, abs=5e-7)


def test_golden_figures_of_the_private_median():
    sigma = asymptotics.quantile_sigma(asymptotics.law("normal"), 0.5, 1.0)
    # 1/4 + e/(e-1)^2 = coth(1/2)^2 / 4 and p(0) = 1/sqrt(2 pi)
    assert math.sqrt(sigma) == pytest.approx(math.sqrt(math.pi / 2) / math.tanh(0.5))
    assert math.sqrt(sigma) == pytest.approx(2.712113, abs=5e-7)
    lower, upper = asymptotics.oracle_interval(0.0, sigma, 10**6, 0.9)
    assert upper[0] - lower[0] == pytest.approx(0.008922, abs=5e-7)
    assert upper[0] + lower[0] == 0.0


@pytest.mark.parametrize(
    ("kind", "df", "standard_quantile", "standard_density"),
    [
        ("normal", None, 1.2815515655446004, 0.17549833193248688),
        ("laplace", None, -math.log(0.2), 0.1),
        ("exponential", None, -math.log(0.1), 0.1),
        ("uniform", None, 0.9, 1.0),
        ("student_t", 2.0, 0.8 / math.sqrt(0.18), 0.18**1.5),
    ],
)
def test_quantile_truth_and_density_in_closed_form(kind, df, standard_quantile, standard_density):
    distribution = asymptotics.law(kind, -3.0, 2.0, df)
    truth = asymptotics.quantile_truth(distribution, 0.9)
    assert truth == pytest.approx(-3.0 + 2.0 * standard_quantile)
    assert asymptotics.quantile_g(distribution, 0.9) == pytest.approx(standard_density / 2.0)
    sigma = asymptotics.quantile_sigma(distribution, 0.9, math.inf)
    assert sigma == pytest.approx(0.09 * 4.0 / standard_density**2)


@pytest.mark.parametrize(
    ("error", "tau", "density"),
    [
        (asymptotics.law("normal"), 0.5, 1 / math.sqrt(2 * math.pi)),
        (asymptotics.law("normal", 7.0, 2.0), 0.9, 0.17549833193248688 / 2.0),
        (asymptotics.law("laplace"), 0.9, 0.1),
        (asymptotics.law("student_t", 0.0, 1.0, 2.0), 0.9, 0.18**1.5),
    ],
)
def test_regression_sigma_in_closed_form(error, tau, density):
    # Sigma_X is diagonal, so Sigma is too, entry by entry.
    epsilon, d, bound = 2.0, 3, 0.5
    assert asymptotics.error_density_at_zero(error, tau) == pytest.approx(density)
    sensitivity = 2.0 * max(tau, 1 - tau) * 2.0
    second = np.array([1.0, bound**2 / 3, bound**2 / 3])
    s = tau * (1 - tau) * second + 2.0 * (sensitivity / epsilon) ** 2
    sigma = asymptotics.regression_sigma(error, tau, epsilon, d, bound, "uniform")
    np.testing.assert_allclose(sigma, np.diag(s / (second * density) ** 2), rtol=1e-7, atol=1e-9)
    plain = asymptotics.regression_sigma(error, tau, math.inf, d, bound, "uniform")
    np.testing.assert_allclose(plain, np.diag(tau * (1 - tau) / (second * density**2)), rtol=1e-7, atol=1e-9)
