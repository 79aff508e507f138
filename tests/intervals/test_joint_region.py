"""Ellipsoids n (thetabar - theta)' V^-1 (thetabar - theta) <= q around the average, by the textbook."""

import math

import mpmath
import numpy as np
import pytest
from scipy import stats

from ldpflow.components.intervals.nested import JointRegion, quadratic_form, root
from ldpflow.components.intervals.variance import asymptotic_covariance
from tests.intervals.whole_paths import SCALAR, VECTOR, record_of, walk
from tests.oracles import batch_means

LEVELS = [0.8, 0.9]
N = 2000
TRUTH = np.array(VECTOR.problem.truth())
SIGMA = np.array(asymptotic_covariance(VECTOR))


def volume_of(V, n, q):
    """Unit ball's volume times q^(d/2) det(V/n)^(1/2)."""
    d = len(V)
    ball = math.pi ** (d / 2) / math.gamma(d / 2 + 1)
    return ball * q ** (d / 2) * math.sqrt(np.linalg.det(V / n))


def compare(result, iterates, matrices, critical):
    """Every row against its own matrix; the limits of coordinates are the projections."""
    n, d, replicates = iterates.shape
    for r in range(replicates):
        mean = iterates[:, :, r].mean(axis=0)
        V = matrices[r]
        for at, level in enumerate(LEVELS):
            q = critical(level)
            inside = n * (mean - TRUTH) @ np.linalg.inv(V) @ (mean - TRUTH) <= q
            assert result.diagnosis["joint_covered"][at, 0, r] == inside
            volume = volume_of(V, n, q)
            best = volume_of(SIGMA, n, stats.chi2.ppf(level, d))
            size = result.diagnosis["joint_size"][at, 0, r]
            assert size == pytest.approx((volume / best) ** (1 / d), rel=1e-6)
            assert result.diagnosis["joint_volume"][at, 0, r] == pytest.approx(volume, rel=1e-6)
            half = np.sqrt(q * np.diag(V) / n)
            np.testing.assert_allclose(result.upper[at, :, r] - mean, half, rtol=1e-6)
            np.testing.assert_allclose(mean - result.lower[at, :, r], half, rtol=1e-6)
    for values in result.diagnosis.values():
        assert np.isnan(values[:, 1:]).all()


@pytest.mark.parametrize(("base", "quantile"), [("BM", "chi2"), ("BM", "F"), ("oracle", "chi2")])
def test_region(base, quantile):
    iterates = walk(VECTOR, N, replicates=8)
    method = JointRegion(base=base, quantile=quantile, M=8 if base == "BM" else None)
    result = method.intervals(record_of(VECTOR, iterates), N, LEVELS)
    matrices = [SIGMA] * 8
    if base == "BM":
        ends = batch_means.batch_ends(N, 8, 0.51)
        factor = 1 if quantile == "chi2" else 8 / 7
        matrices = [
            factor * batch_means.covariance(iterates[:, :, r], ends, iterates[ends[0] :, :, r].mean(axis=0))
            for r in range(8)
        ]

    def critical(level):
        # Hotelling (1931): d (M - 1)/(M - d) times the quantile of F with d and M - d degrees.
        return stats.chi2.ppf(level, 4) if quantile == "chi2" else 4 * 7 / 4 * stats.f.ppf(level, 4, 4)

    compare(result, iterates, matrices, critical)


@pytest.mark.parametrize(("M", "quantile"), [(2, "chi2"), (4, "chi2"), (4, "F")])
def test_fewer_batches_than_coordinates_are_undefined(M, quantile):
    record = record_of(VECTOR, walk(VECTOR, N))
    result = JointRegion(base="BM", quantile=quantile, M=M).intervals(record, N, LEVELS)
    assert np.isnan(result.lower).all() and not result.diagnosis
    # M = 5 is enough for d = 4.
    enough = JointRegion(base="BM", quantile=quantile, M=5).intervals(record, N, LEVELS)
    assert np.isfinite(enough.lower).all()


def test_a_matrix_that_is_not_positive_definite():
    matrix = np.array([[[1.0, 4.0], [2.0, 2.0]], [[2.0, 2.0], [3.0, 3.0]]])
    form, determinant = quadratic_form(matrix, np.array([[1.0, 1.0], [0.0, 0.0]]))
    assert np.isnan([form[0], determinant[0]]).all()  # 3 - 4
    assert (form[1], determinant[1]) == (3 / 8, 8.0)
    # One coordinate that copies another: no replicate has a region.
    iterates = walk(VECTOR, 1000)
    iterates[:, 1] = iterates[:, 0] - TRUTH[0] + TRUTH[1]
    result = JointRegion(base="BM", M=9).intervals(record_of(VECTOR, iterates), 1000, LEVELS)
    defined = np.isfinite(result.lower[0, 0])
    assert (np.isfinite(result.diagnosis["joint_covered"][0, 0]) == defined).all()


@pytest.mark.parametrize("order", [1, 2, 7, 64])
def test_roots(order):
    x = np.concatenate([10.0 ** np.linspace(-300, 300, 601), 1 + np.linspace(-0.5, 3, 50)])
    expected = [float(mpmath.root(mpmath.mpf(v), order)) for v in x.tolist()]
    np.testing.assert_allclose(root(x, order), expected, rtol=1e-15)


def test_a_scalar_has_no_joint_region():
    assert JointRegion().impossible(SCALAR.problem)
    assert JointRegion().impossible(VECTOR.problem) is None
    assert JointRegion(degree=2).impossible(VECTOR.problem)
