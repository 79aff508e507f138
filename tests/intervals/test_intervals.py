"""Interval methods against literal oracles, on whole paths that were recorded at every step."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldpflow.components.algorithms.ldp_sgd import LdpSgd
from ldpflow.components.intervals.bootstrap import BlockBootstrap, quantile
from ldpflow.components.intervals.interval import average, in_order
from ldpflow.components.intervals.variance import Oracle, SelfNormalization
from ldpflow.components.mechanisms.laplace import Laplace
from ldpflow.components.mechanisms.randomized_response import RandomizedResponse
from ldpflow.components.problems.laws import Variate
from ldpflow.components.problems.quantile import Quantile
from ldpflow.components.problems.quantile_regression import QuantileRegression
from ldpflow.numerics import constants
from ldpflow.simulators.one_pass import OnePass
from tests import draws
from tests.intervals.whole_paths import SCALAR, SEED, noisy, record_of
from tests.oracles import asymptotics, block_bootstrap, safe_floor, self_normalization

LEVELS = [0.8, 0.9, 0.95]
VECTOR = OnePass(QuantileRegression(), Laplace(), LdpSgd(gamma=0.6))


def synthetic(path, n, replicates=3):
    """A record of noise around the truth at every step, and its iterates."""
    iterates = noisy(path, n, replicates)
    return record_of(path, iterates), iterates


def multipliers(path, n, method, replicate, m):
    key = f"{path.key}/n={n}/beta={method.beta!r}/{method.multiplier}"
    name = "symmetric_uniform" if method.multiplier == "uniform" else "rademacher"
    factor = np.sqrt(3.0) if method.multiplier == "uniform" else 1.0
    flat = draws.planes(SEED, "multipliers", key, replicate, [Variate(name)], method.B * m)
    return factor * flat[:, 0].reshape(method.B, m)


def literal(method, path, iterates, n, level, replicate):
    """(lower, upper, se) of one replicate from its whole path, by the spec's formulas."""
    whole = iterates[:, :, replicate]
    if isinstance(method, BlockBootstrap):
        length = block_bootstrap.block_length(n, method.beta)
        m = block_bootstrap.block_count(n, length)
        if m < 2:
            nothing = np.full(whole.shape[1], np.nan)
            return nothing, nothing, nothing
        eps = multipliers(path, n, method, replicate, m)
        limits = block_bootstrap.interval(whole, length, m, eps, level)
        return *limits, block_bootstrap.conditional_sd(whole, length, m)
    return *self_normalization.interval(whole, level), None


METHODS = [
    BlockBootstrap(B=50),
    BlockBootstrap(beta=0.5, B=33, multiplier="rademacher"),
    BlockBootstrap(beta=0.6, B=400),
    SelfNormalization(),
]


def check(method, path, n):
    record, iterates = synthetic(path, n)
    result = method.intervals(record, n, LEVELS)
    assert set(method.times(n, path.algorithm).tolist()) <= set(range(1, n + 1))
    assert method.times(n, path.algorithm)[-1] == n
    for replicate in range(iterates.shape[2]):
        for at, level in enumerate(LEVELS):
            lower, upper, se = literal(method, path, iterates, n, level, replicate)
            close = {"rtol": 1e-10, "atol": 1e-12}
            np.testing.assert_allclose(result.lower[at, :, replicate], lower, **close)
            np.testing.assert_allclose(result.upper[at, :, replicate], upper, **close)
            if se is not None:
                np.testing.assert_allclose(result.se[:, replicate], se, **close)
        average = iterates[:, :, replicate].mean(axis=0)
        np.testing.assert_allclose(result.estimate[:, replicate], average, rtol=1e-12)


@pytest.mark.parametrize("path", [SCALAR, VECTOR], ids=["scalar", "vector"])
@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_method_is_the_literal_formula(method, path):
    check(method, path, 1000)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    n=st.integers(2, 300),
    beta=st.floats(0.05, 0.99).map(lambda x: round(x, 3)),
    multiplier=st.sampled_from(["uniform", "rademacher"]),
)
def test_block_bootstrap_at_the_edges(n, beta, multiplier):
    # n < l cannot happen (l = floor(n^beta) <= n); m = 1, beta near 1, n not a multiple of l can.
    check(BlockBootstrap(beta=beta, B=10, multiplier=multiplier), SCALAR, n)


@pytest.mark.parametrize("method", [BlockBootstrap(), SelfNormalization()], ids=repr)
def test_one_step_is_undefined(method):
    record, _ = synthetic(SCALAR, 1)
    result = method.intervals(record, 1, [0.9])
    assert np.isnan(result.lower).all() and np.isnan(result.upper).all()
    assert np.isfinite(result.estimate).all()


@settings(max_examples=100, deadline=None, derandomize=True)
@given(n=st.integers(1, 10**12), exponent=st.floats(0.01, 0.99).map(lambda x: round(x, 4)))
def test_safe_floor_everywhere(n, exponent):
    assert constants.floor_power(n, exponent) == safe_floor.floor_power(n, exponent)


TAILS = [0.01, 0.05, 0.1]
MULTIPLIERS = pytest.mark.parametrize("multiplier", ["uniform", "rademacher"])


def quantiles_and_calls(method, deviations, tails, monkeypatch):
    """Quantiles of the bootstrap, and how many values per replicate each call made for them kept."""
    record, _ = synthetic(VECTOR, 500, replicates=deviations.shape[2])
    made = []
    original = BlockBootstrap.replicates

    def noted(*arguments):
        values = original(*arguments)
        made.append(values.shape[-1])
        return values

    monkeypatch.setattr(BlockBootstrap, "replicates", noted)
    sd = np.sqrt((deviations**2).sum(axis=0))
    outer = method.outer_values(record, 500, deviations, sd, tails)
    whole = original(method, record, 500, deviations, method.B)
    for p in (*tails, *(1.0 - a for a in tails)):
        expected = np.apply_along_axis(block_bootstrap.quantile_type7, -1, whole, p)
        np.testing.assert_array_equal(quantile(outer, method.B, p), expected)
    return made


@MULTIPLIERS
@pytest.mark.parametrize(("m", "d", "replicates"), [(10, 1, 32), (3, 4, 5), (41, 2, 1)])
def test_quantiles_without_the_middle_of_the_replications(multiplier, m, d, replicates, monkeypatch):
    deviations = np.random.default_rng(m).normal(size=(m, d, replicates))
    method = BlockBootstrap(multiplier=multiplier)
    made = quantiles_and_calls(method, deviations, TAILS, monkeypatch)
    # Some 167 of 500 are kept, with a standard deviation of 11.
    if multiplier == "uniform":
        assert len(made) == 1 and made[0] < 250
    assert quantiles_and_calls(method, deviations, [0.3], monkeypatch) == [500]
    few = BlockBootstrap(B=7, multiplier=multiplier)
    assert quantiles_and_calls(few, deviations, [0.001, 0.3], monkeypatch) == [7]


def test_quantiles_where_too_few_replications_are_far_out(monkeypatch):
    # Signs of one block that is larger than all others together: two heaps, one standard error from 0.
    deviations = np.full((6, 1, 4), 1e-3)
    deviations[0] = 1.0
    made = quantiles_and_calls(BlockBootstrap(multiplier="rademacher"), deviations, [0.05], monkeypatch)
    assert made == [0, 500]
    # Beside replicates that have enough.
    deviations[:, :, 1:] = np.random.default_rng(4).normal(size=(6, 1, 3))
    kept, again = quantiles_and_calls(
        BlockBootstrap(multiplier="rademacher"), deviations, [0.05], monkeypatch
    )
    assert kept > 52 and again == 500


def test_a_diverged_replicate_leaves_the_others_as_they_are(monkeypatch):
    deviations = np.random.default_rng(3).normal(size=(10, 2, 4))
    record, _ = synthetic(VECTOR, 500, replicates=4)
    method = BlockBootstrap()

    def values(deviations):
        sd = np.sqrt((deviations**2).sum(axis=0))
        return quantile(method.outer_values(record, 500, deviations, sd, TAILS), method.B, 0.05)

    expected = values(deviations)
    for bad in (np.nan, np.inf):
        diverged = deviations.copy()
        diverged[4:, :, 1] = bad
        found = values(diverged)
        np.testing.assert_array_equal(found[:, [0, 2, 3]], expected[:, [0, 2, 3]])
        assert not np.isfinite(found[:, 1]).any()


def test_self_normalization_far_from_zero():
    # A truth of 1e6 would cancel seven digits of the squares without the origin.
    path = OnePass(Quantile(location=1e6), RandomizedResponse(), LdpSgd())
    check(SelfNormalization(), path, 300)


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_critical_values(level):
    ours = constants.self_normalization_critical_value(level)
    assert ours == pytest.approx(self_normalization.critical_value(level), rel=1e-12)


@pytest.mark.parametrize("law", ["normal", "laplace", "exponential", "uniform", "student_t"])
def test_oracle_of_the_quantile(law):
    df = 3 if law == "student_t" else None
    problem = Quantile(law=law, df=df, tau=0.9, location=2.0, scale=3.0)
    path = OnePass(problem, RandomizedResponse(epsilon=0.5), LdpSgd())
    distribution = asymptotics.law(law, 2.0, 3.0, df)
    assert path.problem.truth()[0] == pytest.approx(distribution.ppf(0.9), rel=1e-13)
    compare_oracle(path, asymptotics.quantile_sigma(distribution, 0.9, 0.5))


@pytest.mark.parametrize(
    ("errors", "covariates"),
    [("normal", "uniform"), ("laplace", "truncated_normal"), ("student_t", "truncated_normal")],
)
def test_oracle_of_the_regression(errors, covariates):
    df = 5.0 if errors == "student_t" else None
    problem = QuantileRegression(
        tau=0.8, errors=errors, df=df, covariates=covariates, bound=0.7, error_scale=2.0
    )
    path = OnePass(problem, Laplace(epsilon=2.0), LdpSgd())
    law = asymptotics.law(errors, 0.0, 2.0, df)
    compare_oracle(path, asymptotics.regression_sigma(law, 0.8, 2.0, 4, 0.7, covariates))


def compare_oracle(path, sigma):
    record, iterates = synthetic(path, 50)
    result = Oracle().intervals(record, 50, LEVELS)
    for at, level in enumerate(LEVELS):
        average = iterates[:, :, 0].mean(axis=0)
        lower, upper = asymptotics.oracle_interval(average, sigma, 50, level)
        np.testing.assert_allclose(result.lower[at, :, 0], lower, rtol=1e-10)
        np.testing.assert_allclose(result.upper[at, :, 0], upper, rtol=1e-10)


def test_a_time_that_was_not_recorded_is_an_error():
    record, _ = synthetic(SCALAR, 10)
    with pytest.raises(KeyError, match="not in the record"):
        record.sums_at(np.array([11]))
    with pytest.raises(KeyError, match="not in the record"):
        record.sum_at(11)


def test_sums_at_times():
    record, iterates = synthetic(VECTOR, 10)
    shifted = iterates - record.origin[None, :, None]
    sums = record.sums_at(np.array([0, 3, 10]))
    np.testing.assert_allclose(sums, np.stack([0.0 * shifted[0], shifted[:3].sum(0), shifted.sum(0)]))
    np.testing.assert_array_equal(record.sum_at(3), sums[1])
    # What a method does to its copy is its own affair.
    record.sum_at(3)[:] = 7.0
    average(record, 3)[:] = 7.0
    np.testing.assert_array_equal(record.sum_at(3), sums[1])
    np.testing.assert_array_equal(average(record, 3), record.origin[:, None] + sums[1] / 3)


@pytest.mark.parametrize("shape", [(1, 1), (1, 32), (4, 33)])
@pytest.mark.parametrize("count", [1, 9, 20_000])
def test_terms_are_added_in_order(count, shape):
    terms = np.random.default_rng(count).normal(size=(*shape[::-1], count)).T
    expected = np.zeros(shape)
    for row in terms:
        expected = expected + row
    for given_as in (terms, np.ascontiguousarray(terms)):
        np.testing.assert_array_equal(in_order(given_as), expected)


def test_running_sums_at_times():
    record, _ = synthetic(VECTOR, 10)
    found = record.running_at("self_normalization", np.array([2, 7]))
    for at, time in enumerate((2, 7)):
        np.testing.assert_array_equal(found[at], record.running("self_normalization", time))
    with pytest.raises(KeyError, match=r"times not marked: \[11\]"):
        record.running_at("self_normalization", np.array([3, 11]))
