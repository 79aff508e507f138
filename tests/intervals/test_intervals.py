"""Interval methods around the average or a suffix of it, against their literal formulas on whole paths."""

from math import inf, nan

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

import ldpflow as lf
from ldpflow.components.intervals.interval import average, in_order
from ldpflow.components.intervals.variance import batch_size
from ldpflow.components.problems.laws import Variate
from ldpflow.simulators.one_pass import OnePass
from tests import draws
from tests.intervals.whole_paths import SCALAR, SEED, VECTOR, noisy, record_of, walk
from tests.oracles import (
    asymptotics,
    batch_means,
    block_bootstrap,
    equal_batches,
    increasing_blocks,
    self_normalization,
    sequences,
)
from tests.oracles.safe_floor import floor_power

LEVELS = [0.9, 0.95]
CLOSE = {"rtol": 1e-10, "atol": 1e-12}


def multipliers(method, path, n, replicate, m):
    key = f"{path.key}/n={n}/beta={method.beta!r}/{method.multiplier}"
    uniform = method.multiplier == "uniform"
    variate = Variate("symmetric_uniform" if uniform else "rademacher")
    flat = draws.planes(SEED, "multipliers", key, replicate, [variate], method.B * m)
    return (np.sqrt(3.0) if uniform else 1.0) * flat[:, 0].reshape(method.B, m)


def around(centre, se, degrees=inf):
    """Estimate, se, and limits by level."""

    def limits(level):
        half = stats.t.ppf(0.5 + level / 2, degrees) * se
        return centre - half, centre + half

    return centre, se, limits


def variance_of(method, whole, gamma):
    """V of a whole path and the degrees of freedom."""
    n = len(whole)
    student = getattr(method, "quantile", None) == "t"
    if isinstance(method, lf.BatchMeans):
        M = batch_means.batch_count(n) if method.M is None else method.M
        V = batch_means.variance(whole, M, gamma)
        return (V * M / (M - 1), M - 1) if student else (V, inf)
    if isinstance(method, lf.Lugsail):
        r, kappa = method.pieces, method.weight
        if method.base == "BM":
            return equal_batches.lugsail_increasing(whole, method.M, gamma, r, kappa), inf
        return equal_batches.lugsail_equal(whole, int(method.block_rule), r, kappa), inf
    if isinstance(method, lf.EqualBatches):
        rule, c = method.block_rule, method.block_c or 0.1
        of_gamma = rule in ("half", "third")
        b = equal_batches.batch_size(n, gamma, rule, c) if of_gamma else batch_size(n, gamma, rule, None)
        return equal_batches.variance(whole, b), n // b - 1 if student else inf
    starts = increasing_blocks.block_starts(n, gamma, method.block_c)
    if isinstance(method, lf.OverlappingBlocks):
        return increasing_blocks.overlapping_variance(whole, starts), inf
    V = increasing_blocks.nonoverlapping_variance(whole, starts)
    if not student:
        return V, inf
    nu = increasing_blocks.effective_blocks(n, starts)
    return (V * nu / (nu - 1), nu - 1) if nu >= 2 else (np.full_like(V, nan), inf)


def literal(method, path, whole, replicate):
    """Estimate, se (None: not given) and limits by level, by the printed formulas."""
    n, mean, gamma = len(whole), whole.mean(axis=0), path.algorithm.gamma
    if isinstance(method, lf.SelfNormalization):
        return mean, None, lambda level: self_normalization.interval(whole, level)
    if isinstance(method, (lf.BlockBootstrap, lf.CheapBootstrap)):
        length = floor_power(n, method.beta)
        m = n // length
        if m < 2:
            return around(mean, np.full(len(mean), nan))
        eps = multipliers(method, path, n, replicate, m)
        if isinstance(method, lf.CheapBootstrap):
            star = block_bootstrap.bootstrap_replicates(whole, length, m, eps)
            return around(mean, np.sqrt((star**2).mean(axis=0)), method.B)
        sd = block_bootstrap.conditional_sd(whole, length, m)
        return mean, sd, lambda level: block_bootstrap.interval(whole, length, m, eps, level)
    if isinstance(method, lf.SuffixAverage):
        s = int(n - method.share * n + 1e-9)
        V, _ = variance_of(method.base_method(), whole, gamma)
        return around(whole[s:].mean(axis=0), np.sqrt(V / (n - s)))
    if isinstance(method, lf.ConfidenceSequence):
        V, _ = variance_of(method.base_method(), whole, gamma)

        def limits(level):
            half = np.sqrt(V) * sequences.margin(n, 1 - level, method.t_opt)
            return mean - half, mean + half

        return mean, np.sqrt(V / n), limits
    V, degrees = variance_of(method, whole, gamma)
    return around(mean, np.sqrt(np.where(V > 0, V, nan) / n), degrees)


def compare(method, path, n):
    """Limits, se and estimate of every replicate."""
    iterates = walk(path, n)
    result = method.intervals(record_of(path, iterates), n, LEVELS)
    times = method.times(n, path.algorithm)
    assert times[-1] == n and (np.diff(times) > 0).all() and times[0] >= 1
    assert len(times) <= method.count_times(n, path.algorithm)
    close = CLOSE if not isinstance(method, lf.ConfidenceSequence) else {"rtol": 1e-9}
    for r in range(iterates.shape[2]):
        estimate, se, limits = literal(method, path, iterates[:, :, r], r)
        np.testing.assert_allclose(result.estimate[:, r], estimate, rtol=1e-12)
        if se is not None:
            np.testing.assert_allclose(result.se[:, r], se, **CLOSE)
        for at, level in enumerate(LEVELS):
            lower, upper = limits(level)
            np.testing.assert_allclose(result.lower[at, :, r], lower, **close)
            np.testing.assert_allclose(result.upper[at, :, r], upper, **close)


RULES = ("100", "101", "333", "999", "n^0.75", "3n^0.5", "half")  # rests of 0, 81, 2, 2, ...
CASES = [
    (lf.NonoverlappingBlocks(block_c=0.5, quantile="t"), 1499),  # a block starts at 1500
    (lf.NonoverlappingBlocks(block_c=3.0), 1500),
    (lf.OverlappingBlocks(block_c=0.5), 1500),
    *((lf.EqualBatches(block_rule=rule, quantile="t"), 2000) for rule in RULES),
    (lf.EqualBatches(block_rule="100"), 1001),
    (lf.Lugsail(block_rule="150"), 2000),
    (lf.Lugsail(base="BM", M=6, pieces=7, weight=0.25), 2000),
    (lf.BatchMeans(M=5, quantile="t"), 1000),
    (lf.BlockBootstrap(beta=0.5, B=33, multiplier="rademacher"), 1000),
    (lf.BlockBootstrap(beta=0.6, B=400), 1000),
    (lf.CheapBootstrap(B=1), 900),
    (lf.CheapBootstrap(multiplier="rademacher"), 900),
    (lf.SelfNormalization(), 1000),
    *((lf.SuffixAverage(share=k, base="NOL", block_c=0.5), 1111) for k in (0.3, 1.0, 0.001)),
    (lf.ConfidenceSequence(t_opt=100, base="NOL"), 1000),
    (lf.ConfidenceSequence(t_opt=5000, base="BM"), 1000),
    # Undefined: no miss, and the estimate stays.
    (lf.NonoverlappingBlocks(quantile="t", block_c=0.5), 9),  # nu < 2
    (lf.EqualBatches(block_rule="51"), 100),  # b > n/2
    (lf.Lugsail(block_rule="2"), 100),  # b < r
    (lf.Lugsail(base="BM", M=9), 20),  # a batch of fewer than r steps
    (lf.CheapBootstrap(beta=0.9), 10),
    (lf.SelfNormalization(), 1),
]


@pytest.mark.parametrize("path", [SCALAR, VECTOR], ids=["scalar", "vector"])
@pytest.mark.parametrize(("method", "n"), CASES, ids=str)
def test_method_is_the_literal_formula(method, n, path):
    compare(method, path, n)


@settings(max_examples=15, deadline=None, derandomize=True)
@example(n=1, gamma=0.51, beta=0.5, c=1.0, M=None, multiplier="uniform")
@given(
    n=st.integers(1, 400),
    gamma=st.floats(0.501, 0.95).map(lambda x: round(x, 3)),
    beta=st.floats(0.05, 0.99).map(lambda x: round(x, 3)),
    c=st.floats(0.05, 5.0).map(lambda x: round(x, 2)),
    M=st.none() | st.integers(2, 12),
    multiplier=st.sampled_from(["uniform", "rademacher"]),
)
def test_methods_at_the_edges(n, gamma, beta, c, M, multiplier):
    path = OnePass(lf.Quantile(), lf.RandomizedResponse(), lf.LdpSgd(gamma=gamma))
    for method in (
        lf.NonoverlappingBlocks(block_c=c),
        lf.OverlappingBlocks(block_c=c),
        lf.EqualBatches(block_rule="third", block_c=c),
        lf.BatchMeans(M=M),
        lf.BlockBootstrap(beta=beta, B=10, multiplier=multiplier),
    ):
        compare(method, path, n)


def test_self_normalization_far_from_zero():
    # A truth of 1e6 would cancel seven digits of the squares without the origin.
    compare(
        lf.SelfNormalization(), OnePass(lf.Quantile(location=1e6), lf.RandomizedResponse(), lf.LdpSgd()), 300
    )


def test_a_negative_lugsail_variance_is_undefined():
    # Batches of 6 whose sixths alternate: long batches vary less than short ones.
    n = 300
    sixths = np.tile([3.0, -3.0, 0.0, -3.0, 3.0, 0.0], n // 6)
    iterates = (SCALAR.problem.truth()[0] + sixths + 0.01 * np.arange(n) / n)[:, None, None]
    record = record_of(SCALAR, iterates)
    result = lf.Lugsail(block_rule="6", pieces=6).intervals(record, n, LEVELS)
    assert np.isnan(equal_batches.lugsail_equal(iterates[:, :, 0], 6, 6, 0.5)).all()
    assert np.isnan(result.lower).all() and np.isnan(result.upper).all() and np.isnan(result.se).all()
    assert np.isfinite(result.estimate).all()
    assert np.isfinite(lf.EqualBatches(block_rule="6").intervals(record, n, LEVELS).lower).all()


@pytest.mark.parametrize("covariates", [None, "truncated_normal", "uniform"])
def test_oracle_is_the_literal_formula(covariates):
    if covariates is None:
        sigma = asymptotics.quantile_sigma(stats.t(3, 2.0, 3.0), 0.9, 0.5)
        problem = lf.Quantile(law="student_t", df=3.0, tau=0.9, location=2.0, scale=3.0)
        path = OnePass(problem, lf.RandomizedResponse(epsilon=0.5), lf.LdpSgd())
    else:
        sigma = asymptotics.regression_sigma(stats.t(3, 0.0, 2.0), 0.8, 2.0, 4, 0.7, covariates)
        settings = {"errors": "student_t", "df": 3.0, "error_scale": 2.0}
        problem = lf.QuantileRegression(tau=0.8, covariates=covariates, bound=0.7, **settings)
        path = OnePass(problem, lf.Laplace(epsilon=2.0), lf.LdpSgd())
    iterates = noisy(path, 50)
    result = lf.Oracle().intervals(record_of(path, iterates), 50, LEVELS)
    _, _, limits = around(iterates[:, :, 0].mean(axis=0), np.sqrt(np.diag(np.atleast_2d(sigma)) / 50))
    for at, level in enumerate(LEVELS):
        ours = result.lower[at, :, 0], result.upper[at, :, 0]
        np.testing.assert_allclose(ours, limits(level), rtol=1e-10)


def test_sums_at_times():
    iterates = noisy(VECTOR, 10)
    record = record_of(VECTOR, iterates)
    shifted = iterates - record.origin[None, :, None]
    sums = record.sums_at(np.array([0, 3, 10]))
    np.testing.assert_allclose(sums, np.stack([0.0 * shifted[0], shifted[:3].sum(0), shifted.sum(0)]))
    # A method may change its copy.
    record.sum_at(3)[:] = 7.0
    np.testing.assert_array_equal(record.sum_at(3), sums[1])
    np.testing.assert_array_equal(average(record, 3), record.origin[:, None] + sums[1] / 3)
    found = record.running_at("self_normalization", np.array([2, 7]))
    np.testing.assert_array_equal(found[1], record.running("self_normalization", 7))
    for read in (record.sums_at, lambda times: record.running_at("self_normalization", times)):
        with pytest.raises(KeyError, match="11"):
            read(np.array([3, 11]))


@pytest.mark.parametrize("shape", [(1, 1), (1, 32), (4, 33)])
@pytest.mark.parametrize("count", [1, 9, 20_000])
def test_terms_are_added_in_order(count, shape):
    terms = np.random.default_rng(count).normal(size=(*shape[::-1], count)).T
    expected = np.zeros(shape)
    for row in terms:
        expected = expected + row
    for given_as in (terms, np.ascontiguousarray(terms)):
        np.testing.assert_array_equal(in_order(given_as), expected)
