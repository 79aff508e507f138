"""The sandwich with the transcript's slope against least squares on whole paths."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from ldpflow.components.algorithms.ldp_sgd import LdpSgd
from ldpflow.components.intervals.transcript import (
    TranscriptCovariance,
)
from ldpflow.components.intervals.transcript_fit import diagonal
from ldpflow.components.mechanisms.randomized_response import RandomizedResponse
from ldpflow.components.problems.quantile import Quantile
from ldpflow.simulators.one_pass import OnePass, run_path
from tests.intervals.test_transcript_regression import REGRESSION, SCALARS, N, record_of
from tests.oracles import transcript_covariance as oracle
from tests.oracles import transcript_regression

LEVELS = [0.8, 0.9]


def arguments(record, replicate):
    algorithm = record.algorithm
    theta0 = np.full(len(record.origin), algorithm.theta0)
    return theta0, record.iterates[:, :, replicate], algorithm.c, algorithm.gamma


def known(path):
    return np.array(path.algorithm.step_covariance(path.problem, path.randomiser))


@pytest.mark.parametrize("variance", ["known", "residual"])
@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize("name", ["rr", "median", "far"])
def test_scalar_is_the_literal_formula(name, degree, variance):
    path = SCALARS[name]
    record = record_of(path)
    S = known(path)[0, 0] if variance == "known" else None
    for burn_in in ("n^0.4", "0.01n"):
        for factor in (True, False):
            method = TranscriptCovariance(degree=degree, burn_in=burn_in, variance=variance, small_run=factor)
            assert set(method.marked_times(N, path.algorithm, 1)) <= set(range(1, N + 1))
            result = method.intervals(record, N, LEVELS)
            for r in range(6):
                v, K = oracle.scalar(*arguments(record, r), degree, burn_in, S, factor)
                mean = record.iterates[:, 0, r].mean()
                tolerance = {"rtol": 1e-5 if name == "far" else 1e-8}
                np.testing.assert_allclose(result.se[0, r], np.sqrt(v / N), **tolerance)
                if np.isfinite(v):
                    np.testing.assert_allclose(result.diagnosis["relaxation_times"][0, r], K, **tolerance)
                for at, level in enumerate(LEVELS):
                    half = stats.norm.ppf(0.5 + level / 2) * np.sqrt(v / N)
                    np.testing.assert_allclose(result.lower[at, 0, r] - mean, -half, **tolerance)
                    np.testing.assert_allclose(result.upper[at, 0, r] - mean, half, **tolerance)


@pytest.mark.thorough
@pytest.mark.parametrize("variance", ["known", "residual"])
def test_vector_is_the_literal_formula(variance):
    every = range(1, N + 1)
    record = run_path(REGRESSION, 3, range(5), every, every, ["transcript_linear"])
    S = known(REGRESSION) if variance == "known" else None
    method = TranscriptCovariance(variance=variance)
    result = method.intervals(record, N, LEVELS)
    matrix, _ = method.matrix(record, N)
    for r in range(5):
        V, K = oracle.vector(*arguments(record, r), "n^0.4", S)
        np.testing.assert_allclose(matrix[:, :, r], V, rtol=1e-7, atol=1e-7 * np.abs(V).max())
        np.testing.assert_allclose(result.diagnosis["relaxation_times"][:, r], K, rtol=1e-7)
        factor = np.array([oracle.small_run(k) for k in K])
        se = np.where(K > 0, factor * np.sqrt(np.diag(V) / N), np.nan)
        np.testing.assert_allclose(result.se[:, r], se, rtol=1e-7)
        mean = record.iterates[:, :, r].mean(axis=0)
        np.testing.assert_allclose(result.estimate[:, r], mean, rtol=1e-10)
    plain = TranscriptCovariance(variance=variance, small_run=False).intervals(record, N, LEVELS)
    np.testing.assert_allclose(plain.se**2 * N, np.where(plain.se > 0, diagonal(matrix), np.nan))


def test_too_short_a_run_is_undefined():
    record = record_of(SCALARS["rr"], 40)
    for degree, needed in ((1, 4), (2, 5)):
        method = TranscriptCovariance(degree=degree)
        # i0 = ceil(n^0.4); the least n with n - i0 >= parameters + 2.
        n = next(n for n in range(2, 40) if n - transcript_regression.burn_in(n, "n^0.4") >= needed)
        assert not method.too_short(n, 1) and method.too_short(n - 1, 1)
        result = method.intervals(record, n - 1, LEVELS)
        assert np.isnan(result.lower).all() and np.isfinite(result.estimate).all()


def test_a_falling_slope_is_undefined():
    # A run that has forgotten nothing yet: some slopes are negative.
    record = record_of(SCALARS["rr"], 40)
    result = TranscriptCovariance(degree=1).intervals(record, 40, [0.9])
    for r in range(5):
        v, _ = oracle.scalar(*arguments(record, r), 1, "n^0.4", known(SCALARS["rr"])[0, 0], True)
        assert np.isnan(result.lower[0, 0, r]) == np.isnan(v)
    path = OnePass(Quantile(tau=0.9), RandomizedResponse(), LdpSgd(c=0.01))
    slow = record_of(path, 40)
    found = TranscriptCovariance(degree=1).intervals(slow, 40, [0.9]).lower
    assert np.isnan(found).any()
