"""The oracles themselves, against closed forms and figures known beforehand."""

import itertools
import math
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import integrate, stats

from tests.oracles import (
    asymptotics,
    batch_means,
    block_bootstrap,
    mechanisms,
    recursion,
    self_normalization,
)
from tests.oracles.safe_floor import decimal_of, floor_power


def wandering_path(n, d, seed=7):
    """Any path will do for the identities: correlated, far from zero, coordinates unlike."""
    steps = np.random.default_rng(seed).normal(size=(n, d))
    return 50.0 + np.cumsum(steps, axis=0) * np.arange(1, d + 1)


# --- safe floors -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "beta", "expected"),
    [
        (10**8, 0.75, 10**6),
        (10**6, 0.75, 31622),
        (10**7, 0.75, 177827),
        (10**6, 0.5, 1000),
        (10**5, 0.6, 1000),
        (10**6, "1/3", 100),
        (1, 0.75, 1),
        (2, 0.75, 1),
    ],
)
def test_block_length(n, beta, expected):
    exponent = Fraction(beta) if isinstance(beta, str) else beta
    assert block_bootstrap.block_length(n, exponent) == expected


@pytest.mark.parametrize("beta", [0.75, 0.6, 0.3, 0.51])
@pytest.mark.parametrize("n", [16, 99, 1000, 4096, 99_999, 10**6])
def test_block_length_is_the_largest_integer_not_above_the_power(n, beta):
    share = Fraction(str(beta))
    length = block_bootstrap.block_length(n, beta)
    assert length**share.denominator <= n**share.numerator
    assert (length + 1) ** share.denominator > n**share.numerator


def test_floor_snaps_within_a_billionth_only():
    assert floor_power(10**12 - 1, 0.5) == 10**6  # 999999.9999995, short of it by 5e-13 relative
    assert floor_power(10**8 - 1, 0.5) == 9999  # short of 10^4 by 5e-9 relative
    assert floor_power(10**8 + 1, 0.5) == 10**4


def test_exponents_are_what_a_person_typed():
    assert decimal_of(0.51) == decimal_of("0.51") == decimal_of(Fraction(51, 100))
    assert decimal_of(0.51) == Decimal(51) / Decimal(100)


# --- mechanisms --------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 3.0])
def test_randomized_response_by_enumeration(epsilon):
    p = mechanisms.keep_probability(epsilon)
    assert p / (1.0 - p) == pytest.approx(math.exp(epsilon))
    for bit in (0, 1):
        chance = {bit: p, 1 - bit: 1.0 - p}
        mean = sum(w * mechanisms.debias(report, p) for report, w in chance.items())
        square = sum(w * mechanisms.debias(report, p) ** 2 for report, w in chance.items())
        assert mean == pytest.approx(bit, abs=1e-12)
        variance = math.exp(epsilon) / (math.exp(epsilon) - 1.0) ** 2
        assert square - mean**2 == pytest.approx(variance)
        assert mechanisms.randomized_response_variance(epsilon) == pytest.approx(variance)


def test_randomized_response_keeps_the_bit_below_p():
    p = mechanisms.keep_probability(1.0)
    for bit in (0, 1):
        assert mechanisms.randomized_response(bit, p, 0.0) == bit
        assert mechanisms.randomized_response(bit, p, math.nextafter(p, 0.0)) == bit
        assert mechanisms.randomized_response(bit, p, p) == 1 - bit
        assert mechanisms.randomized_response(bit, p, math.nextafter(1.0, 0.0)) == 1 - bit


def test_no_privacy_is_the_bit_itself():
    p = mechanisms.keep_probability(math.inf)
    assert p == 1.0
    for bit in (0, 1):
        report = mechanisms.randomized_response(bit, p, math.nextafter(1.0, 0.0))
        assert mechanisms.debias(report, p) == bit


def test_laplace_noise_and_variance():
    noisy = mechanisms.add_laplace([1.0, -2.0], 3.0, 0.5, [0.25, -1.0])
    np.testing.assert_allclose(noisy, [1.0 + 6.0 * 0.25, -2.0 - 6.0])
    second, _ = integrate.quad(lambda x: x**2 * math.exp(-abs(x) / 6.0) / 12.0, -300, 300)
    assert mechanisms.laplace_variance(3.0, 0.5) == pytest.approx(second, rel=1e-6)


def largest_gradient_change(tau, d, bound):
    """sup ||g - g'||_1 over corners of the covariates and both signs of the residual."""
    values = []
    for slopes in itertools.product([-bound, bound], repeat=d - 1):
        covariates = np.array([1.0, *slopes])
        for response in (-1.0, 1.0):
            values.append(recursion.quantile_regression_gradient(covariates, response, np.zeros(d), tau))
    return max(float(np.abs(g - h).sum()) for g in values for h in values)


@pytest.mark.parametrize("d", [1, 2, 4])
@pytest.mark.parametrize("bound", [0.3, 1.0, 2.0])
def test_sensitivity_of_quantile_regression(d, bound):
    change = largest_gradient_change(0.5, d, bound)
    assert mechanisms.quantile_regression_sensitivity(0.5, d, bound) == pytest.approx(change)
    for tau in (0.1, 0.75):
        claimed = mechanisms.quantile_regression_sensitivity(tau, d, bound)
        assert claimed >= largest_gradient_change(tau, d, bound)
        assert claimed == pytest.approx(2.0 * max(tau, 1.0 - tau) * (1.0 + (d - 1) * bound))


def test_printed_sensitivity_would_break_privacy():
    printed = 2.0 * 0.5 * 0.3 * 4
    assert printed < largest_gradient_change(0.5, 4, 0.3)


def test_sensitivity_of_the_quantile():
    g = [recursion.quantile_gradient(x, 0.0, 0.9)[0] for x in (-1.0, 1.0)]
    assert mechanisms.quantile_sensitivity() == pytest.approx(abs(g[0] - g[1]))


# --- recursion ---------------------------------------------------------------------------------


def test_path_with_a_constant_gradient_is_a_harmonic_sum():
    path = recursion.ldp_sgd_path(np.zeros(50), lambda i, x_i, theta: [1.0, -2.0], [3.0, 0.0], 0.7, 0.51)
    assert path.shape == (50, 2)
    harmonic = [float(sum(mpmath.mpf(j) ** -0.51 for j in range(1, i + 1))) for i in range(1, 51)]
    np.testing.assert_allclose(path[:, 0], 3.0 - 0.7 * np.array(harmonic))
    np.testing.assert_allclose(path[:, 1], 1.4 * np.array(harmonic))


def test_path_towards_a_point_is_a_product():
    path = recursion.ldp_sgd_path([5.0] * 20, lambda i, x_i, theta: theta - x_i, 1.0, 0.5, 0.75)
    factor = np.cumprod([1.0 - 0.5 * i**-0.75 for i in range(1, 21)])
    np.testing.assert_allclose(path[:, 0], 5.0 + (1.0 - 5.0) * factor)


def test_path_hands_over_step_number_record_and_previous_iterate():
    seen = []

    def gradient(i, x_i, theta):
        seen.append((i, x_i, float(theta[0])))
        return 1.0

    path = recursion.ldp_sgd_path([10.0, 20.0, 30.0], gradient, 4.0, 1.0, 0.6)
    assert [s[:2] for s in seen] == [(1, 10.0), (2, 20.0), (3, 30.0)]
    assert [s[2] for s in seen] == [4.0, path[0, 0], path[1, 0]]


def test_average_leaves_theta0_out():
    path = recursion.ldp_sgd_path([0.0] * 3, lambda i, x_i, theta: 0.0, 8.0, 1.0, 0.6)
    assert recursion.average(path) == pytest.approx([8.0])
    path = np.array([[1.0, 0.0], [2.0, 0.0], [6.0, 9.0]])
    np.testing.assert_allclose(recursion.average(path), [3.0, 3.0])


@pytest.mark.parametrize(("x", "expected"), [(0.9, 0.75), (1.0, 0.75), (1.1, -0.25)])
def test_quantile_gradient_counts_equality(x, expected):
    assert recursion.quantile_gradient(x, 1.0, 0.25) == pytest.approx([expected])


@pytest.mark.parametrize(("response", "factor"), [(5.9, 0.75), (6.0, 0.75), (6.1, -0.25)])
def test_quantile_regression_gradient(response, factor):
    covariates, theta = [1.0, 2.0, -3.0], [1.0, 4.0, 1.0]  # x'theta = 6
    g = recursion.quantile_regression_gradient(covariates, response, theta, 0.25)
    np.testing.assert_allclose(g, factor * np.array(covariates))


@pytest.mark.parametrize("x", [-1.0, 0.0, 1.0])
def test_private_quantile_gradient_has_the_gradient_as_its_mean(x):
    tau, epsilon = 0.9, 1.0
    p = mechanisms.keep_probability(epsilon)
    gradient = recursion.private_quantile_gradient(tau, epsilon, [0.0, p])
    theta = np.array([0.0])
    kept, flipped = gradient(1, x, theta)[0], gradient(2, x, theta)[0]
    assert abs(kept - flipped) == pytest.approx((1.0 + math.e) / (math.e - 1.0))
    mean = p * kept + (1.0 - p) * flipped
    assert mean == pytest.approx(recursion.quantile_gradient(x, theta, tau)[0])


def test_private_quantile_regression_gradient_uses_its_own_row():
    noise = np.array([[9.0, 9.0, 9.0], [0.5, -1.0, 2.0]])
    gradient = recursion.private_quantile_regression_gradient(0.75, 2.0, 0.5, noise)
    out = gradient(2, ([1.0, 0.5, -0.5], 3.0), np.zeros(3))
    scale = 1.5 * (1.0 + 2 * 0.5) / 2.0
    np.testing.assert_allclose(out, -0.75 * np.array([1.0, 0.5, -0.5]) + scale * noise[1])


def test_private_median_lands_within_its_asymptotic_error():
    rng = np.random.default_rng(11)
    n, tau = 20_000, 0.5
    gradient = recursion.private_quantile_gradient(tau, 1.0, rng.random(n))
    path = recursion.ldp_sgd_path(rng.normal(size=n), gradient, 0.0, 1.0, 0.51)
    sigma = asymptotics.quantile_sigma(asymptotics.law("normal"), tau, 1.0)
    assert abs(recursion.average(path)[0]) < 3.5 * math.sqrt(sigma / n)


def point_gradient(x_i, theta):
    return theta - x_i


def test_minibatch_of_one_is_plain_sgd():
    x = np.random.default_rng(1).normal(size=30)
    plain = recursion.ldp_sgd_path(x, lambda i, x_i, theta: theta - x_i, 0.5, 1.0, 0.6)
    small = recursion.minibatch_sgd_path(x, point_gradient, 0.5, 1.0, 0.6, 1)
    np.testing.assert_allclose(small, plain)


def test_minibatch_by_hand_with_records_left_over():
    x = [1.0, 2.0, 3.0, 5.0, 8.0, 100.0, 100.0]
    path = recursion.minibatch_sgd_path(x, point_gradient, 0.5, 0.5, 0.6, 3)
    first = 0.5 - 0.5 * (0.5 - 2.0)
    second = first - 0.5 * 2**-0.6 * (first - (5.0 + 8.0 + 100.0) / 3.0)
    np.testing.assert_allclose(path, [[first], [second]])


def test_minibatch_noise_is_divided_centrally_and_averaged_locally():
    x, s, sensitivity, epsilon = np.arange(9.0), 4, 3.0, 0.5
    clean = recursion.minibatch_sgd_path(x, lambda x_i, theta: 0.0, 0.0, 1.0, 0.6, s)
    np.testing.assert_array_equal(clean, np.zeros((2, 1)))
    central = recursion.minibatch_central_dp_path(
        x, lambda x_i, theta: 0.0, 0.0, 1.0, 0.6, s, sensitivity, epsilon, [[1.0], [-2.0]]
    )
    np.testing.assert_allclose(central[:, 0], [-1.5, -1.5 + 2**-0.6 * 3.0])
    noise = np.array([[1.0], [2.0], [3.0], [-1.0], [4.0], [0.0], [0.0], [8.0], [99.0]])
    local = recursion.minibatch_ldp_path(
        x,
        lambda i, x_i, theta: mechanisms.add_laplace(0.0, sensitivity, epsilon, noise[i - 1]),
        0.0,
        1.0,
        0.6,
        s,
    )
    np.testing.assert_allclose(local[:, 0], [-7.5, -7.5 - 2**-0.6 * 18.0])


@pytest.mark.parametrize("form", ["central", "local"])
def test_noiseless_minibatches_agree(form):
    x = np.random.default_rng(2).normal(size=(22, 2))
    args = ([0.5, -0.5], 0.8, 0.7, 5)
    plain = recursion.minibatch_sgd_path(x, point_gradient, *args)
    if form == "central":
        other = recursion.minibatch_central_dp_path(x, point_gradient, *args, 1.0, 1.0, np.zeros((4, 2)))
    else:
        other = recursion.minibatch_ldp_path(x, lambda i, x_i, theta: theta - x_i, *args)
    assert plain.shape == (4, 2)
    np.testing.assert_allclose(other, plain)


# --- block bootstrap ---------------------------------------------------------------------------


def test_block_deviations_from_block_sums():
    path, length = wandering_path(107, 3), 10
    m = block_bootstrap.block_count(107, length)
    assert m == 10
    prefix = np.vstack([np.zeros(3), np.cumsum(path, axis=0)])
    theta_bar = prefix[-1] / 107
    sums = np.diff(prefix[::length][: m + 1], axis=0)
    deviations = block_bootstrap.block_deviations(path, length, m)
    np.testing.assert_allclose(deviations, sums - length * theta_bar, rtol=1e-9, atol=1e-8)
    total = prefix[m * length] - m * length * theta_bar
    np.testing.assert_allclose(deviations.sum(axis=0), total, rtol=1e-9, atol=1e-8)
    assert np.abs(total).min() > 1e-3  # the seven last iterates count in the average


def test_replicates_by_hand():
    path = np.array([[1.0], [3.0], [5.0], [7.0], [14.0]])  # average 6
    np.testing.assert_allclose(block_bootstrap.block_deviations(path, 2, 2), [[-8.0], [0.0]])
    np.testing.assert_allclose(block_bootstrap.block_deviations(path, 1, 5).sum(), 0.0)
    path = np.array([[1.0], [3.0], [6.0], [7.0], [13.0]])  # average 6
    eps = [[1.0, 1.0], [-1.0, 1.0], [0.5, 2.0]]
    replicates = block_bootstrap.bootstrap_replicates(path, 2, 2, eps)
    np.testing.assert_allclose(replicates[:, 0], [-7 / 4, 9 / 4, -2 / 4])
    assert block_bootstrap.conditional_sd(path, 2, 2) == pytest.approx([math.sqrt(65) / 4])


def test_conditional_sd_over_all_rademacher_vectors():
    path, length, m = wandering_path(50, 2), 6, 8
    eps = np.array(list(itertools.product([-1.0, 1.0], repeat=m)))
    replicates = block_bootstrap.bootstrap_replicates(path, length, m, eps)
    np.testing.assert_allclose(block_bootstrap.conditional_sd(path, length, m), replicates.std(axis=0))


def test_conditional_variance_of_independent_iterates():
    # The columns of the identity are the unit vectors: summing a quadratic form over them gives
    # its trace, which is its mean over iterates that are iid with variance 1.
    n, length, m = 43, 5, 8
    sd = block_bootstrap.conditional_sd(np.eye(n), length, m)
    assert (sd**2).sum() == pytest.approx((1.0 - length / n) / (m * length))


@pytest.mark.parametrize("probability", [0.0, 0.005, 0.05, 0.31, 0.5, 0.95, 0.999, 1.0])
@pytest.mark.parametrize("size", [1, 2, 7, 500])
def test_type_7_quantiles(probability, size):
    values = np.random.default_rng(size).normal(size=size)
    ours = block_bootstrap.quantile_type7(values, probability)
    assert ours == pytest.approx(np.quantile(values, probability), rel=1e-12, abs=1e-12)


def test_type_7_by_hand():
    assert block_bootstrap.quantile_type7([4.0, 1.0, 2.0], 0.25) == pytest.approx(1.5)
    assert block_bootstrap.quantile_type7([4.0, 1.0, 2.0], 0.75) == pytest.approx(3.0)


def test_bootstrap_interval():
    rng = np.random.default_rng(3)
    path, length, m = wandering_path(107, 2), 10, 10
    eps = rng.uniform(-math.sqrt(3), math.sqrt(3), size=(60, m))
    lower, upper = block_bootstrap.interval(path, length, m, eps, 0.9)
    replicates = block_bootstrap.bootstrap_replicates(path, length, m, eps)
    np.testing.assert_allclose(lower, path.mean(axis=0) + np.quantile(replicates, 0.05, axis=0))
    np.testing.assert_allclose(upper, path.mean(axis=0) + np.quantile(replicates, 0.95, axis=0))


def test_bootstrap_interval_of_one_block_is_undefined():
    lower, upper = block_bootstrap.interval(wandering_path(15, 2), 10, 1, np.ones((4, 1)), 0.9)
    assert np.isnan(lower).all() and np.isnan(upper).all()
    lower, _ = block_bootstrap.interval(wandering_path(15, 2), 7, 2, np.ones((4, 2)), 0.9)
    assert np.isfinite(lower).all()


# --- batch means -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "expected"), [(10**8, 100), (10**6, 31), (10**7, 56), (625, 5), (624, 4), (16, 2)]
)
def test_batch_count(n, expected):
    assert batch_means.batch_count(n) == expected


def test_batch_ends():
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


@pytest.mark.parametrize(("n", "M", "gamma"), [(200, 5, 0.51), (123, 3, 0.7)])
def test_batch_variance_of_independent_iterates(n, M, gamma):
    assert batch_means.variance(np.eye(n), M, gamma).sum() == pytest.approx((M - 1) / M)


def test_batch_means_from_prefix_sums():
    path, M, gamma = wandering_path(300, 2), 4, 0.51
    ends = batch_means.batch_ends(300, M, gamma)
    prefix = np.vstack([np.zeros(2), np.cumsum(path, axis=0)])[ends]
    sizes = np.diff(ends)[:, None]
    X = np.diff(prefix, axis=0) / sizes
    X_bar = (prefix[-1] - prefix[0]) / (300 - ends[0])
    streamed = (sizes * (X - X_bar) ** 2).sum(axis=0) / M
    np.testing.assert_allclose(batch_means.variance(path, M, gamma), streamed)


def test_batch_means_undefined():
    path = wandering_path(40, 2)
    assert np.isnan(batch_means.variance(path, 1, 0.51)).all()
    assert np.isfinite(batch_means.variance(path, 2, 0.51)).all()
    assert batch_means.batch_ends(40, 2, 0.99)[:2] == [0, 0]
    assert not batch_means.is_defined([0, 0, 40]) and not batch_means.is_defined([0, 40])
    assert not batch_means.is_defined([0, 7, 7, 40]) and batch_means.is_defined([0, 7, 40])
    lower, upper = batch_means.interval(path, 2, 0.99, 0.9)
    assert np.isnan(lower).all() and np.isnan(upper).all()
    assert batch_means.batch_ends(5, 2, 0.55) == [0, 2, 5]  # an empty batch 0 does no harm
    assert np.isfinite(batch_means.variance(path[:5], 2, 0.55)).all()


# --- self-normalisation ------------------------------------------------------------------------


def test_self_normalizer_by_hand():
    path = np.array([[1.0], [3.0], [8.0]])  # running means 1, 2, 4
    expected = (1 * 9.0 + 4 * 4.0) / 9
    assert self_normalization.variance(path) == pytest.approx([expected])
    lower, upper = self_normalization.interval(path, 0.9)
    half = 5.322680 * math.sqrt(expected / 3)
    np.testing.assert_allclose([lower[0], upper[0]], [4.0 - half, 4.0 + half], rtol=1e-6)


@pytest.mark.parametrize("n", [1, 2, 40])
def test_self_normalizer_of_independent_iterates(n):
    V = self_normalization.variance(np.eye(n))
    assert V.sum() == pytest.approx((n * n - 1) / (6 * n * n))


@pytest.mark.parametrize("shift", [0.0, 50.0])
def test_self_normalizer_from_three_running_sums(shift):
    path = wandering_path(120, 2)
    n = len(path)
    i = np.arange(1, n + 1)[:, None]
    S = np.cumsum(path - shift, axis=0)
    average = S[-1] / n
    streamed = ((S**2).sum(axis=0) - 2 * average * (i * S).sum(axis=0) + average**2 * (i**2).sum()) / n**2
    np.testing.assert_allclose(self_normalization.variance(path), streamed, rtol=1e-9)


@pytest.mark.parametrize(
    ("level", "expected"),
    [(0.80, 3.874881), (0.90, 5.322680), (0.95, 6.747302), (0.99, 10.017267)],
)
def test_self_normalized_critical_values(level, expected):
    assert self_normalization.critical_value(level) == pytest.approx(expected, abs=5e-7)


@pytest.mark.parametrize("level", [0.01, 0.5, 0.999])
def test_critical_value_inverts_the_tail_at_any_level(level):
    cv = self_normalization.critical_value(level)
    assert float(self_normalization.tail_probability(cv)) == pytest.approx(1 - level, rel=1e-9)


def test_critical_value_against_simulated_walks():
    # Independent of the integral: T of a Gaussian walk, 20,000 times.
    n, walks, level = 400, 20_000, 0.9
    S = np.random.default_rng(5).normal(size=(walks, n)).cumsum(axis=1)
    bridge = S - S[:, -1:] * np.arange(1, n + 1) / n
    T = S[:, -1] / np.sqrt((bridge**2).mean(axis=1))
    share = (np.abs(T) <= self_normalization.critical_value(level)).mean()
    assert abs(share - level) < 4 * math.sqrt(level * (1 - level) / walks)


# --- asymptotic variances ----------------------------------------------------------------------


def test_golden_figures_of_the_private_median():
    sigma = asymptotics.quantile_sigma(asymptotics.law("normal"), 0.5, 1.0)
    # 1/4 + e/(e-1)^2 = coth(1/2)^2 / 4 and p(0) = 1/sqrt(2 pi)
    assert math.sqrt(sigma) == pytest.approx(math.sqrt(math.pi / 2) / math.tanh(0.5))
    assert math.sqrt(sigma) == pytest.approx(2.712113, abs=5e-7)
    lower, upper = asymptotics.oracle_interval(0.0, sigma, 10**6, 0.9)
    assert upper[0] - lower[0] == pytest.approx(0.008922, abs=5e-7)
    assert upper[0] + lower[0] == 0.0


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_added_variance_is_the_mechanism_s(epsilon):
    response = asymptotics.quantile_s_ldp("randomized_response", epsilon)
    assert response == pytest.approx(mechanisms.randomized_response_variance(epsilon))
    laplace = asymptotics.quantile_s_ldp("laplace", epsilon)
    assert laplace == pytest.approx(mechanisms.laplace_variance(1.0, epsilon))
    for mechanism in ("none", "laplace", "randomized_response"):
        assert asymptotics.quantile_s_ldp(mechanism, math.inf) == 0.0
    assert asymptotics.quantile_s_ldp("none", epsilon) == 0.0


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


@pytest.mark.parametrize("covariates", ["truncated_normal", "uniform"])
def test_sigma_x(covariates):
    bound, d = 0.5, 4
    sigma_x = asymptotics.regression_sigma_x(covariates, d, bound)
    density = stats.norm.pdf if covariates == "truncated_normal" else lambda x: 0.5
    mass, _ = integrate.quad(density, -1, 1)
    second, _ = integrate.quad(lambda x: x**2 * density(x) / mass, -1, 1)
    assert second == pytest.approx(0.2911251 if covariates == "truncated_normal" else 1 / 3)
    np.testing.assert_allclose(sigma_x, np.diag([1.0] + 3 * [bound**2 * second]), atol=1e-9, rtol=1e-7)


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


def test_slope_of_the_mean_gradient_is_g():
    # R(theta) = E (-tau + F_e(x'(theta - theta*))) x for one covariate, differentiated.
    tau, bound = 0.75, 0.5
    error = asymptotics.law("laplace", 0.0, 2.0)
    shift = error.ppf(tau)
    column = asymptotics.covariate_law("truncated_normal", bound)

    def mean_gradient(change):
        def entry(x, power):
            f = error.cdf(change[0] + x * change[1] + shift)
            return (f - tau) * x**power * column.pdf(x)

        return np.array([integrate.quad(entry, -bound, bound, args=(k,), epsabs=1e-13)[0] for k in (0, 1)])

    h = 1e-5
    slope = np.column_stack([(mean_gradient(h * e) - mean_gradient(-h * e)) / (2 * h) for e in np.eye(2)])
    sigma_x = asymptotics.regression_sigma_x("truncated_normal", 2, bound)
    np.testing.assert_allclose(asymptotics.regression_g(error, tau, sigma_x), slope, rtol=1e-4, atol=1e-6)


def test_oracle_interval_takes_the_diagonal():
    sigma = np.array([[4.0, 1.0], [1.0, 9.0]])
    lower, upper = asymptotics.oracle_interval([1.0, 2.0], sigma, 100, 0.95)
    z = 1.959963984540054
    np.testing.assert_allclose(upper, [1.0 + z * 0.2, 2.0 + z * 0.3])
    np.testing.assert_allclose(lower, [1.0 - z * 0.2, 2.0 - z * 0.3])
