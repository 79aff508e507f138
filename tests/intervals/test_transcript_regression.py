"""Regression on the transcript against the literal formulas, on paths recorded at every step."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import ldpflow as lf
from ldpflow.numerics import constants
from ldpflow.simulators.one_pass import OnePass, run_path
from tests.oracles import batch_means
from tests.oracles import transcript_regression as oracle

SEED = 3
N = 4000
SCALARS = {
    "rr": OnePass(lf.Quantile(tau=0.9), lf.RandomizedResponse(), lf.LdpSgd()),
    "median": OnePass(lf.Quantile(), lf.RandomizedResponse(epsilon=4.0), lf.LdpSgd(gamma=0.6, c=3.0)),
    "minibatch": OnePass(lf.Quantile(law="bimodal", tau=0.7), lf.Laplace(), lf.MinibatchSgd(batch_size=3)),
    "gaussian": OnePass(
        lf.LogisticRegression(coefficients=(0.5,), covariates="one"), lf.Gaussian(mu=2.0), lf.LdpSgd(c=4.0)
    ),
    "far": OnePass(lf.Quantile(location=1e5), lf.RandomizedResponse(), lf.LdpSgd(theta0=1e5)),
}
FAR_START = OnePass(lf.Quantile(), lf.RandomizedResponse(), lf.LdpSgd(theta0=40.0))
PLANE = OnePass(lf.QuantileRegression(coefficients=(0.5, -1.0)), lf.Laplace(epsilon=4.0), lf.LdpSgd())
REGRESSION = OnePass(lf.QuantileRegression(), lf.Laplace(epsilon=4.0), lf.LdpSgd())


def record_of(path, n=N, degree=2):
    """The record of six replicates at every step. The kernel of ``rr`` is also that of other tests."""
    names = ["transcript_linear", "transcript_quadratic"]
    if path.problem.dimension == 1:
        names = ["prefix_total", "self_normalization", "transcript_cubic", "transcript_quartic"][: degree + 1]
    every = range(1, path.algorithm.steps(n) + 1)
    return run_path(path, SEED, range(6), every, every, names)


def arguments(record, replicate):
    algorithm = record.algorithm
    theta0 = np.full(len(record.origin), algorithm.theta0)
    return theta0, record.iterates[:, :, replicate], algorithm.c, algorithm.gamma


def transcript_of(record, replicate):
    return oracle.transcript(*arguments(record, replicate))


def known_covariance(path):
    return np.array(path.algorithm.step_covariance(path.problem, path.randomiser))


CASES = [
    *itertools.product(SCALARS, (1, 2, 3), ("known", "residual"), [N], [None]),
    # x^6 of the first steps, which the fit leaves out, is 1e13 times x^6 of the others.
    *itertools.product(["start"], (2, 3), ["known"], [40_000], ["0.1n"]),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "degree", "variance", "n", "burn_in"), CASES)
def test_interval_is_the_literal_formula(name, degree, variance, n, burn_in):
    # The sums are around theta*, and the regression of the oracle is around theta_{i0}.
    path = FAR_START if name == "start" else SCALARS[name]
    record = record_of(path, n, 3)
    burn_in = burn_in or ("0.01n" if degree == 3 else "n^0.4")
    method = lf.TranscriptRegression(degree=degree, burn_in=burn_in, variance=variance)
    steps = path.algorithm.steps(n)
    first = oracle.burn_in(steps, burn_in)
    assert {first, steps} <= set(method.marked_times(steps, path.algorithm, 1))
    S = known_covariance(path)[0, 0] if variance == "known" else None
    result = method.intervals(record, n, [0.8, 0.9])
    compared = 0
    for r in range(6):
        before, A, eta = (part[first:] for part in transcript_of(record, r))
        for at, level in enumerate([0.8, 0.9]):
            expected = oracle.interval(before[:, 0], A[:, 0], eta, degree, level, S)
            compared += compare(result, at, 0, r, expected, level)
    assert compared >= 4


def compare(result, at, j, r, expected, level):
    """Whether an interval is defined, in both or neither; if so, it is the expected one."""
    lower, upper = result.lower[at, j, r], result.upper[at, j, r]
    estimate, low, high, K, t = expected
    if not np.isfinite([estimate, low, high]).all():
        assert not np.isfinite(upper - lower)
        return False
    if np.isnan(lower + upper):
        # The library does not search ends beyond 71 z se.
        z = constants.normal_quantile(0.5 + level / 2)
        assert max(estimate - low, high - estimate) > 70 * z * result.se[j, r]
        return False
    found = result.estimate[j, r], lower, upper
    assert found == pytest.approx((estimate, low, high), rel=0, abs=1e-6 * (high - low))
    assert result.diagnosis["relaxation_times"][j, r] == pytest.approx(K, rel=1e-6)
    assert result.diagnosis["lack_of_fit"][j, r] == pytest.approx(t, rel=1e-4, abs=1e-6)
    assert result.diagnosis["condition"][j, r] >= 1.0
    return True


def shift_of(before, A, first, late, degree, S):
    """The root of the steps after ``late`` less that of those after ``first``, in the latter's se."""
    centre, scale, b, inverse, _ = oracle.polynomial(before[first:], A[first:], degree)
    u = oracle.root(b)
    slope = np.polynomial.Polynomial(b).deriv()(u) / scale
    v = u ** np.arange(degree + 1)
    at, unit, c, _, _ = oracle.polynomial(before[late:], A[late:], degree)
    return (at + unit * oracle.root(c) - centre - scale * u) * slope / np.sqrt(S * v @ inverse @ v)


@pytest.mark.parametrize("degree", [2, pytest.param(3, marks=pytest.mark.thorough)])
def test_the_early_shift_is_the_literal_one(degree):
    path = SCALARS["rr"]
    record = record_of(path, degree=degree)
    method = lf.TranscriptRegression(degree=degree)
    S = known_covariance(path)[0, 0]
    found = method.intervals(record, N, [0.9]).diagnosis["early_shift"][0]
    for r in range(6):
        before, A, _ = transcript_of(record, r)
        # 128 is the smallest power of two above 4000/32.
        expected = shift_of(before[:, 0], A[:, 0], method.first(N), 128, degree, S)
        assert found[r] == pytest.approx(expected, rel=1e-5, abs=1e-7, nan_ok=True)
    none = lf.TranscriptRegression(degree=degree, burn_in="0.03n").intervals(record, N, [0.9])
    assert np.isnan(none.diagnosis["early_shift"]).all()


SEVERAL = OnePass(lf.Quantiles(taus=(0.2, 0.5, 0.9)), lf.Cells(epsilon=2.0), lf.LdpSgd(c=(2.0, 1.0, 3.0)))


@pytest.mark.thorough
@pytest.mark.parametrize(("degree", "variance"), [(2, "known"), (3, "known"), (2, "residual")])
def test_separate_fits_are_those_of_the_coordinates(degree, variance):
    method = lf.TranscriptRegression(degree=degree, variance=variance, separate=True)
    every = range(1, N + 1)
    sums = ("transcript_cubic", "transcript_quartic", "transcript_linear")
    record = run_path(SEVERAL, SEED, range(4), every, every, sums)
    found = method.intervals(record, N, [0.9])
    S = np.diag(known_covariance(SEVERAL)) if variance == "known" else [None] * 3
    first = method.first(N)
    steps = np.arange(1.0, N + 1) ** -0.51
    gradients = sums_to_terms(record.running_sums["transcript_linear"][1])
    compared = 0
    for j, factor in enumerate((2.0, 1.0, 3.0)):
        for r in range(4):
            before = np.concatenate([[0.0], record.iterates[:-1, j, r]])[first:]
            terms = before, gradients[first:, j, r], factor * steps[first:], degree, 0.9, S[j]
            compared += compare(found, 0, j, r, oracle.interval(*terms), 0.9)
    assert compared >= 8
    means = lf.TranscriptRegressionBatchMeans(degree=degree, separate=True)
    around = means.intervals(record, N, [0.9])
    np.testing.assert_allclose(around.estimate, found.estimate, rtol=0, atol=1e-12)
    assert np.isfinite(around.lower).sum() >= 8


def sums_to_terms(sums):
    """The terms of sums that start again after every power of two."""
    terms = sums.copy()
    starts = [i for i in range(1, len(sums)) if i & (i - 1)]
    terms[starts] -= sums[[i - 1 for i in starts]]
    return terms


def test_degrees_and_separate_fits_that_a_problem_admits():
    separate = lf.TranscriptRegression(separate=True)
    six = lf.LinearRegression(coefficients=(0.0,) * 6)
    for method, problem, words in (
        (separate, PLANE.problem, "separate = true is for quantiles"),
        (lf.TranscriptRegression(degree=3), REGRESSION.problem, "degrees 1 and 2"),
        (lf.TranscriptRegression(), six, "degree = 1 alone"),
        (lf.TranscriptCovariance(degree=2), REGRESSION.problem, "degree = 1 alone"),
    ):
        assert words in method.impossible(problem)
    for method in (separate, lf.TranscriptRegression(degree=3, separate=True)):
        assert method.impossible(SEVERAL.problem) is None and method.unsuitable(SEVERAL) is None
    of_one = lf.TranscriptRegression(degree=1)
    assert "Take separate = true" in of_one.unsuitable(SEVERAL)
    assert of_one.unsuitable(SCALARS["rr"]) is None and of_one.unsuitable(PLANE) is None


def test_batch_means_around_the_root():
    path = SCALARS["rr"]
    record = record_of(path)
    result = lf.TranscriptRegressionBatchMeans().intervals(record, N, [0.9])
    centre = lf.TranscriptRegression().intervals(record, N, [0.9]).estimate
    first = oracle.burn_in(N, "n^0.4")
    for r in range(6):
        M = batch_means.batch_count(N)
        V = batch_means.variance(record.iterates[:, :, r], M, 0.51)[0]
        eta = transcript_of(record, r)[2]
        half = stats.t.ppf(0.95, M - 1) * np.sqrt(oracle.kappa(N, eta[first:]) * V / N)
        assert result.lower[0, 0, r] == pytest.approx(centre[0, r] - half, rel=1e-9)
        assert result.upper[0, 0, r] == pytest.approx(centre[0, r] + half, rel=1e-9)


@pytest.mark.thorough
@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize("variance", ["known", "residual"])
def test_vector_form_is_the_literal_formula(variance, degree):
    record = record_of(PLANE, 20_000)
    method = lf.TranscriptRegression(degree=degree, burn_in="0.1n", variance=variance)
    result = method.intervals(record, 20_000, [0.9])
    z = constants.normal_quantile(0.95)
    S = known_covariance(PLANE) if variance == "known" else None
    for r in range(6):
        before, A, eta = (part[2000:] for part in transcript_of(record, r))
        root, se, K, used = oracle.vector(before, A, eta, degree, S)
        np.testing.assert_allclose(result.estimate[:, r], root, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(result.diagnosis["relaxation_times"][:, r], K, rtol=1e-6)
        ok = K > 0
        np.testing.assert_allclose(result.upper[0, ok, r], (root + z * se)[ok], rtol=1e-6)
        t = oracle.halves_test(before, A, method.middle(20_000) - 2000, degree, root, used)
        np.testing.assert_allclose(result.diagnosis["lack_of_fit"][:, r], t, rtol=1e-6)


def test_a_decreasing_fit_is_undefined_and_no_miss():
    # The sign of A turned: no increasing branch.
    record = record_of(SCALARS["rr"])
    sums = record.running_sums["transcript_cubic"].copy()
    sums[6:10] *= -1.0
    turned = replace(record, running_sums={"transcript_cubic": sums})
    result = lf.TranscriptRegression().intervals(turned, N, [0.9])
    assert np.isnan(result.lower).all() and np.isnan(result.upper).all()


TRC_CASES = [*itertools.product(("rr", "median", "far"), (1, 2), ("known", "residual"))]


@pytest.mark.parametrize(("name", "degree", "variance"), TRC_CASES)
def test_covariance_of_a_scalar_is_the_literal_formula(name, degree, variance):
    path = SCALARS[name]
    record = record_of(path)
    S = known_covariance(path)[0, 0] if variance == "known" else None
    tolerance = {"rtol": 1e-5 if name == "far" else 1e-8}
    for burn_in, factor in itertools.product(("n^0.4", "0.01n"), (True, False)):
        method = lf.TranscriptCovariance(degree=degree, burn_in=burn_in, variance=variance, small_run=factor)
        assert set(method.marked_times(N, path.algorithm, 1)) <= set(range(1, N + 1))
        result = method.intervals(record, N, [0.9])
        for r in range(6):
            v, K = oracle.scalar_covariance(*arguments(record, r), degree, burn_in, S, factor)
            half = stats.norm.ppf(0.95) * np.sqrt(v / N)
            mean = record.iterates[:, 0, r].mean()
            np.testing.assert_allclose(result.upper[0, 0, r] - mean, half, **tolerance)
            if np.isfinite(v):
                np.testing.assert_allclose(result.diagnosis["relaxation_times"][0, r], K, **tolerance)


@pytest.mark.thorough
@pytest.mark.parametrize("variance", ["known", "residual"])
def test_covariance_of_a_vector_is_the_literal_formula(variance):
    every = range(1, N + 1)
    record = run_path(REGRESSION, 3, range(5), every, every, ["transcript_linear"])
    S = known_covariance(REGRESSION) if variance == "known" else None
    method = lf.TranscriptCovariance(variance=variance)
    result = method.intervals(record, N, [0.9])
    matrix, _ = method.matrix(record, N)
    np.testing.assert_array_equal(lf.JointRegion(variance=variance).covariance(record, N)[0], matrix)
    plain = lf.TranscriptCovariance(variance=variance, small_run=False).intervals(record, N, [0.9])
    for r in range(5):
        V, K = oracle.vector_covariance(*arguments(record, r), "n^0.4", S)
        np.testing.assert_allclose(matrix[:, :, r], V, rtol=1e-7, atol=1e-7 * np.abs(V).max())
        np.testing.assert_allclose(result.diagnosis["relaxation_times"][:, r], K, rtol=1e-7)
        factor = np.array([oracle.small_run(k) for k in K])
        se = np.where(K > 0, np.sqrt(np.diag(V) / N), np.nan)
        np.testing.assert_allclose(result.se[:, r], factor * se, rtol=1e-7)
        np.testing.assert_allclose(plain.se[:, r], se, rtol=1e-7)


def test_a_short_run_or_a_falling_slope_has_no_covariance():
    record = record_of(SCALARS["rr"], 40)
    for degree, needed in ((1, 4), (2, 5)):
        method = lf.TranscriptCovariance(degree=degree)
        # i0 = ceil(n^0.4); the least n with n - i0 >= parameters + 2.
        n = next(n for n in range(2, 40) if n - oracle.burn_in(n, "n^0.4") >= needed)
        assert not method.too_short(n, 1) and method.too_short(n - 1, 1)
        result = method.intervals(record, n - 1, [0.9])
        assert np.isnan(result.lower).all() and np.isfinite(result.estimate).all()
    # A run that has forgotten nothing yet: some slopes are negative.
    slow = record_of(OnePass(lf.Quantile(tau=0.9), lf.RandomizedResponse(), lf.LdpSgd(c=0.01)), 40)
    undefined = np.isnan(lf.TranscriptCovariance(degree=1).intervals(slow, 40, [0.9]).lower[0, 0])
    S = known_covariance(slow.source)[0, 0]
    literal = [oracle.scalar_covariance(*arguments(slow, r), 1, "n^0.4", S, True)[0] for r in range(6)]
    assert undefined.any() and (undefined == np.isnan(literal)).all()


def test_methods_that_share_a_fit_do_not_change_it():
    record = record_of(SCALARS["rr"])
    kinds = (lf.TranscriptRegression, lf.TranscriptCovariance)
    methods = [kind(degree=degree) for kind in kinds for degree in (1, 2)]
    methods += [lf.TranscriptRegressionBatchMeans(), lf.SuffixAverage()]
    for method in [*methods, *methods[::-1]]:
        shared, alone = (method.intervals(each, N, [0.9]) for each in (record, replace(record)))
        for name in ("estimate", "se", "lower", "upper"):
            np.testing.assert_array_equal(getattr(shared, name), getattr(alone, name))
