"""Regression on the transcript against the literal formulas, on paths recorded at every step."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from ldpflow.components.algorithms.ldp_sgd import LdpSgd
from ldpflow.components.algorithms.minibatch_sgd import MinibatchSgd
from ldpflow.components.intervals.transcript import TranscriptRegression, TranscriptRegressionBatchMeans
from ldpflow.components.intervals.variance import BatchMeans
from ldpflow.components.mechanisms.cells import Cells
from ldpflow.components.mechanisms.gaussian import Gaussian
from ldpflow.components.mechanisms.laplace import Laplace
from ldpflow.components.mechanisms.randomized_response import RandomizedResponse
from ldpflow.components.problems.linear_regression import LinearRegression
from ldpflow.components.problems.logistic_regression import LogisticRegression
from ldpflow.components.problems.quadratic import Quadratic
from ldpflow.components.problems.quantile import Quantile
from ldpflow.components.problems.quantile_regression import QuantileRegression
from ldpflow.components.problems.quantiles import Quantiles
from ldpflow.errors import InputError
from ldpflow.numerics import constants
from ldpflow.numerics.running_sums import RUNNING_SUMS
from ldpflow.simulators.one_pass import OnePass, run_path
from ldpflow.simulators.rows import Batch, simulate
from ldpflow.simulators.simulator import Cell
from tests.kernels import uncompiled
from tests.oracles import batch_means
from tests.oracles import transcript_regression as oracle

SEED = 3
N = 4000
SCALARS = {
    "rr": OnePass(Quantile(tau=0.9), RandomizedResponse(), LdpSgd()),
    "median": OnePass(Quantile(), RandomizedResponse(epsilon=4.0), LdpSgd(gamma=0.6, c=3.0)),
    "minibatch": OnePass(Quantile(law="bimodal", tau=0.7), Laplace(), MinibatchSgd(batch_size=3)),
    "gaussian": OnePass(
        LogisticRegression(coefficients=(0.5,), covariates="one"), Gaussian(mu=2.0), LdpSgd(c=4.0)
    ),
    "far": OnePass(Quantile(location=1e5), RandomizedResponse(), LdpSgd(theta0=1e5)),
}
FAR_START = OnePass(Quantile(), RandomizedResponse(), LdpSgd(theta0=40.0))
PLANE = OnePass(QuantileRegression(coefficients=(0.5, -1.0)), Laplace(epsilon=4.0), LdpSgd())
REGRESSION = OnePass(QuantileRegression(), Laplace(epsilon=4.0), LdpSgd())


def record_of(path, n=N, replicates=6, run=run_path):
    """The record at every step, with all sums of the transcript."""
    steps = path.algorithm.steps(n)
    names = ["transcript_linear", "transcript_quadratic"]
    if path.problem.dimension == 1:
        names = ["transcript_cubic", "transcript_quartic"]
    every = range(1, steps + 1)
    return run(path, SEED, range(replicates), every, every, names)


def since_power_of_two(terms):
    """Sums of the terms of the steps, starting again after each step that is a power of two."""
    total, result = 0.0, []
    for i, term in enumerate(terms, 1):
        total = total + term
        result.append(total)
        if i in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512):
            total = 0.0
    return np.array(result)


def transcript_of(record, replicate):
    algorithm = record.algorithm
    theta0 = np.full(len(record.origin), algorithm.theta0)
    return oracle.transcript(theta0, record.iterates[:, :, replicate], algorithm.c, algorithm.gamma)


@pytest.mark.parametrize(
    "path", [SCALARS["rr"], SCALARS["minibatch"], PLANE], ids=["rr", "minibatch", "plane"]
)
def test_running_sums_are_what_they_say(path):
    record = record_of(path, 300, run=uncompiled.run_path)
    d = path.problem.dimension
    for r in (0, 5):
        before, A, _ = transcript_of(record, r)
        x = before - record.origin
        close = {"rtol": 1e-8, "atol": 1e-7}
        for sums, values in record.running_sums.items():
            assert len(values) == RUNNING_SUMS[sums].count(d)
            if sums == "transcript_quadratic":
                flat = values[..., r].transpose(0, 2, 1).reshape(-1, len(x))
                f = oracle.powers(x)[:, 1:].T
                literal = [*f, *A.T, *(a * row for a in A.T for row in f)]
                literal += [f[m] * f[k] for m in range(len(f)) for k in range(m + 1)]
                literal += [A[:, j] * A[:, k] for j in range(d) for k in range(j + 1)]
                for row, term in zip(flat, literal, strict=False):
                    np.testing.assert_allclose(row, since_power_of_two(term), **close)
                assert 0 <= len(flat) - len(literal) < d and not flat[len(literal) :].any()
                continue
            if sums == "transcript_linear":
                literal = [x, A, *(A * x[:, [k]] for k in range(d))]
                for both in (x, A):
                    # k <= j only
                    literal += [both * both[:, [k]] * (np.arange(d) >= k) for k in range(d)]
            elif sums == "transcript_cubic":
                literal = [*(x**k for k in range(1, 7)), *(A * x**k for k in range(4)), A**2]
            else:
                literal = [x**7, x**8, A * x**4]
            for row, term in zip(values, literal, strict=True):
                np.testing.assert_allclose(row[:, :, r], since_power_of_two(term), **close)


CASES = [
    *itertools.product(SCALARS, (1, 2, 3), ("known", "residual"), [N], [None]),
    # x^6 of the first steps is 1e13 times what it is after i0; least squares knows nothing of them.
    *itertools.product(["start"], (2, 3), ["known"], [40_000], ["0.1n"]),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "degree", "variance", "n", "burn_in"), CASES)
def test_interval_is_the_literal_formula(name, degree, variance, n, burn_in):
    # The library's sums are around theta*, the oracle's regression around theta_{i0}: that they
    # agree shows that the shift cancels.
    path = FAR_START if name == "start" else SCALARS[name]
    record = record_of(path, n)
    burn_in = burn_in or ("0.01n" if degree == 3 else "n^0.4")
    method = TranscriptRegression(degree=degree, burn_in=burn_in, variance=variance)
    steps = path.algorithm.steps(n)
    first = oracle.burn_in(steps, burn_in)
    assert {first, steps} <= set(method.marked_times(steps, path.algorithm, 1))
    S = path.algorithm.step_covariance(path.problem, path.mechanism)[0][0] if variance == "known" else None
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
        # Ends that lie beyond any use: the library does not look that far.
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


@pytest.mark.parametrize("degree", [2, 3])
def test_the_early_shift_is_the_literal_one(degree):
    path = SCALARS["rr"]
    record = record_of(path)
    method = TranscriptRegression(degree=degree)
    S = path.algorithm.step_covariance(path.problem, path.mechanism)[0][0]
    found = method.intervals(record, N, [0.9]).diagnosis["early_shift"][0]
    for r in range(6):
        before, A, _ = transcript_of(record, r)
        # 128 is the smallest power of two above 4000/32.
        expected = shift_of(before[:, 0], A[:, 0], method.first(N), 128, degree, S)
        assert found[r] == pytest.approx(expected, rel=1e-5, abs=1e-7, nan_ok=True)
    none = TranscriptRegression(degree=degree, burn_in="0.03n").intervals(record, N, [0.9])
    assert np.isnan(none.diagnosis["early_shift"]).all()


SEVERAL = OnePass(Quantiles(taus=(0.2, 0.5, 0.9)), Cells(epsilon=2.0), LdpSgd(c=(2.0, 1.0, 3.0)))


@pytest.mark.thorough
@pytest.mark.parametrize("degree", [2, 3])
def test_separate_fits_are_those_of_the_coordinates(degree):
    method = TranscriptRegression(degree=degree, separate=True)
    every = range(1, N + 1)
    sums = ("transcript_cubic", "transcript_quartic", "transcript_linear")
    record = run_path(SEVERAL, SEED, range(4), every, every, sums)
    found = method.intervals(record, N, [0.9])
    S = SEVERAL.algorithm.step_covariance(SEVERAL.problem, SEVERAL.mechanism)
    first = method.first(N)
    steps = np.arange(1.0, N + 1) ** -0.51
    gradients = sums_to_terms(record.running_sums["transcript_linear"][1])
    compared = 0
    for j, factor in enumerate((2.0, 1.0, 3.0)):
        for r in range(4):
            before = np.concatenate([[0.0], record.iterates[:-1, j, r]])[first:]
            terms = before, gradients[first:, j, r], factor * steps[first:], degree, 0.9, S[j][j]
            compared += compare(found, 0, j, r, oracle.interval(*terms), 0.9)
    assert compared >= 8
    means = TranscriptRegressionBatchMeans(degree=degree, separate=True)
    around = means.intervals(record, N, [0.9])
    np.testing.assert_allclose(around.estimate, found.estimate, rtol=0, atol=1e-12)
    assert np.isfinite(around.lower).sum() >= 8


def sums_to_terms(sums):
    """The terms of sums that start again after every power of two."""
    terms = sums.copy()
    starts = [i for i in range(1, len(sums)) if i & (i - 1)]
    terms[starts] -= sums[[i - 1 for i in starts]]
    return terms


def test_separate_is_for_quantiles_and_advised_there():
    separate = TranscriptRegression(separate=True)
    assert separate.impossible(SEVERAL.problem) is None
    assert "separate = true is for quantiles" in separate.impossible(PLANE.problem)
    assert TranscriptRegression(degree=3, separate=True).impossible(SEVERAL.problem) is None
    of_one = TranscriptRegression(degree=1)
    assert "Take separate = true" in of_one.unsuitable(SEVERAL)
    assert of_one.unsuitable(SCALARS["rr"]) is None and of_one.unsuitable(PLANE) is None
    assert separate.unsuitable(SEVERAL) is None
    assert TranscriptRegression().key_settings() == {"kind": "TR"}


@pytest.mark.thorough
def test_separate_fits_cover_where_a_line_does_not():
    """Two quantiles of the exponential law with c = 4: measured .33 and .48 against .90 and .85.

    256 replicates: a share above .6 from .48, or below .75 from .85, has probability 1e-4.
    """
    path = OnePass(Quantiles(taus=(0.5, 0.9), law="exponential"), Cells(epsilon=1.0), LdpSgd(c=4.0))
    shared = {"burn_in": "0.01n", "variance": "residual"}
    cells = (
        Cell(10**5, TranscriptRegression(degree=1, **shared), 0.9),
        Cell(10**5, TranscriptRegression(separate=True, **shared), 0.9),
    )
    rows = simulate(Batch(path, SEED, 0, 256, cells)).rows.to_pylist()
    for separate, holds in ((None, lambda share: share < 0.6), (True, lambda share: share > 0.75)):
        for j in (0, 1):
            one = [row["covered"] for row in rows if row["separate"] is separate and row["coordinate"] == j]
            assert len(one) == 256 and holds(np.mean(one))


def test_batch_means_around_the_root():
    path = SCALARS["rr"]
    record = record_of(path)
    result = TranscriptRegressionBatchMeans().intervals(record, N, [0.9])
    centre = TranscriptRegression().intervals(record, N, [0.9]).estimate
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
    method = TranscriptRegression(degree=degree, burn_in="0.1n", variance=variance)
    result = method.intervals(record, 20_000, [0.9])
    z = constants.normal_quantile(0.95)
    S = None
    if variance == "known":
        S = np.array(LdpSgd().step_covariance(PLANE.problem, PLANE.mechanism))
    literal = oracle.linear if degree == 1 else oracle.quadratic
    for r in range(6):
        before, A, eta = (part[2000:] for part in transcript_of(record, r))
        root, se, K = literal(before, A, eta, S)
        np.testing.assert_allclose(result.estimate[:, r], root, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(result.diagnosis["relaxation_times"][:, r], K, rtol=1e-6)
        ok = K > 0
        np.testing.assert_allclose(result.upper[0, ok, r], (root + z * se)[ok], rtol=1e-6)
        if variance == "known":
            t = oracle.halves_test(before, A, method.middle(20_000) - 2000, degree, root, S)
            np.testing.assert_allclose(result.diagnosis["lack_of_fit"][:, r], t, rtol=1e-6)


@pytest.mark.thorough
def test_the_halves_of_a_run_are_alike_where_the_fit_is_right():
    """A linear gradient: the t statistics of the halves are N(0, 1), but for |t| + 1/sqrt(K).

    128 replicates of 3 coordinates: the share with |t| > 2.576 is above .06 with probability 1e-6 if it is
    .015, and their standard deviation is above 1.2 with probability 1e-6 if it is 1.
    """
    path = OnePass(Quadratic(), Laplace(epsilon=4.0), LdpSgd())
    cell = Cell(10**5, TranscriptRegression(degree=1, burn_in="0.01n", variance="residual"), 0.9)
    rows = simulate(Batch(path, SEED, 0, 128, (cell,))).rows
    t = rows["lack_of_fit"].to_numpy()
    assert np.mean(np.abs(t) > 2.576) < 0.06
    assert 0.8 < np.std(t) < 1.2


@pytest.mark.parametrize(("n", "rule"), [(10**5, "n^0.4"), (32, "n^0.4"), (999, "0.01n"), (7, ".5n")])
def test_burn_in(n, rule):
    assert TranscriptRegression(burn_in=rule).first(n) == oracle.burn_in(n, rule)


@pytest.mark.thorough
@pytest.mark.parametrize("n", [1, 5])
@pytest.mark.parametrize("method", [TranscriptRegression(), TranscriptRegressionBatchMeans()], ids=repr)
def test_too_few_steps_are_undefined(method, n):
    rows = simulate(Batch(SCALARS["rr"], SEED, 0, 3, (Cell(n, method, 0.9),))).rows
    assert rows["status"].to_pylist() == ["undefined"] * 3


def test_a_decreasing_fit_is_undefined_and_no_miss():
    # The sign of A turned: no increasing branch.
    record = record_of(SCALARS["rr"])
    sums = record.running_sums["transcript_cubic"].copy()
    sums[6:10] *= -1.0
    turned = replace(record, running_sums={"transcript_cubic": sums})
    result = TranscriptRegression().intervals(turned, N, [0.9])
    assert np.isnan(result.lower).all() and np.isnan(result.upper).all()


def test_lost_digits_are_undefined():
    # A start 1e7 away: the sums at i0 leave nothing of those after it.
    path = OnePass(Quantile(location=1e7, scale=1e-3), RandomizedResponse(), LdpSgd(c=1e7))
    result = TranscriptRegression().intervals(record_of(path, 300), 300, [0.9])
    length = result.upper - result.lower
    assert (np.isnan(length) | (length > 0)).all()


def test_a_vector_takes_low_degrees():
    many = LinearRegression(coefficients=(0.0,) * 6)
    assert "degrees 1 and 2" in TranscriptRegression(degree=3).impossible(REGRESSION.problem)
    assert "degree = 1 alone" in TranscriptRegression().impossible(many)
    assert TranscriptRegressionBatchMeans().impossible(REGRESSION.problem) is None
    with pytest.raises(InputError, match="burn_in"):
        TranscriptRegression(burn_in="some")


def test_coverage_where_the_average_is_biased():
    """tau = .9, n = 1e5: TR covers, batch means do not. Each bound fails once in 10^4 when true.

    512 replicates: the share of 512 covered is below .9 - 3.72 sqrt(.09/512) = .850 with probability
    1e-4 if TR covers .9; above .835 with that probability if BM covers .775.
    """
    path = OnePass(Quantile(tau=0.9), RandomizedResponse(), LdpSgd())
    cells = (Cell(10**5, TranscriptRegression(), 0.9), Cell(10**5, BatchMeans(), 0.9))
    rows = simulate(Batch(path, 20261121, 0, 512, cells)).rows.to_pydict()
    covered = {
        kind: np.mean([c for c, m in zip(rows["covered"], rows["method"], strict=True) if m == kind])
        for kind in ("TR", "BM")
    }
    assert covered["TR"] > 0.850
    assert covered["BM"] < 0.845
