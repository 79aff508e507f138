"""Joint regions of a vector: ellipsoids around the average.

    {theta : n (thetabar - theta)' V^-1 (thetabar - theta) <= q},   V a full d x d matrix
    volume = pi^(d/2)/Gamma(d/2 + 1) q^(d/2) det(V/n)^(1/2)

V is TRC's B^-1 S B^-T (without its small-run factor), the true Sigma, or batch means'
sum_k n_k (X_k - Xbar)(X_k - Xbar)' over M, with q the quantile of chi-squared with d degrees; or batch
means' over M - 1 with Hotelling's q = d (M - 1)/(M - d) F_(d, M - d).

The limits of a coordinate are the ellipsoid's projection, thetabar_j -+ sqrt(q V_jj/n): d intervals that
hold together at least as often as the region. Whether the region holds theta*, its volume, and its size
(the d-th root of its volume over that of the region with the true Sigma) are columns of the first
coordinate's row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from mpmath import mp, mpf
from numpy.typing import NDArray
from pydantic import model_validator

from ldpflow import constants
from ldpflow.columns import Column, Summary
from ldpflow.intervals.asymptotics import asymptotic_covariance
from ldpflow.intervals.batch_means import BatchMeans
from ldpflow.intervals.interval import Array, Intervals, average, symmetric, undefined
from ldpflow.intervals.record import PathRecord
from ldpflow.intervals.shared_settings import BASE, QUANTILE
from ldpflow.intervals.transcript_covariance import TranscriptCovariance
from ldpflow.intervals.transcript_regression_linear import diagonal
from ldpflow.intervals.wrapped import Wrapped
from ldpflow.problems import Problem

__all__ = ["JointRegion", "cholesky", "critical_value"]


JOINT = (
    Column(
        "joint_covered",
        "double",
        "-",
        "1 if the joint region holds theta*, else 0; first coordinate only",
        summaries=(
            Summary("joint_coverage", "share of joint regions that hold theta*", beyond=0.5),
            Summary("joint_coverage_mcse", "sqrt(p (1 - p)/R) of it", beyond=0.5, error=True, shown=False),
        ),
    ),
    Column("joint_volume", "double", "unit of theta^d", "volume of the joint region; first coordinate only"),
    Column(
        "joint_size",
        "double",
        "1",
        "(volume over that of the region with the true Sigma)^(1/d): a ratio of lengths",
        summaries=(
            Summary("joint_size_mean", "mean of the joint region's size", mean=True),
            Summary("joint_size_mcse", "sd(joint_size)/sqrt(R)", mean=True, error=True, shown=False),
        ),
    ),
)


class JointRegion(Wrapped):
    """Ellipsoid around the average.

    Parameters
    ----------
    base : str
        Where V is from: ``TRC``, ``BM`` or ``oracle``; settings of TRC and BM may be given as well.
    quantile : str
        ``chi2``, or ``F`` for batch means.
    """

    diagnostics: ClassVar = JOINT

    title: ClassVar[str] = "ellipsoid for all coordinates, with its projections as limits"

    undefined_where: ClassVar[str] = "the estimated covariance is not positive definite"

    around_average: ClassVar[bool | None] = True

    kind: Literal["joint"] = "joint"
    base: Annotated[Literal["TRC", "BM", "oracle"], BASE] = "TRC"
    quantile: Annotated[Literal["chi2", "F"], QUANTILE] = "chi2"

    @model_validator(mode="after")
    def region_of_the_base(self) -> JointRegion:
        if self.quantile == "F" and self.base != "BM":
            raise ValueError(f"quantile F is for the base BM, not for {self.base}")
        if self.small_run is not None:
            raise ValueError("a joint region has no small-run factor")
        return self

    def impossible(self, problem: Problem) -> str | None:
        if problem.dimension < 2:
            return "a joint region is of two coordinates or more"
        return super().impossible(problem)

    def intervals(self, record: PathRecord, n: int, levels: Sequence[float]) -> Intervals:
        steps = record.steps(n)
        estimate = average(record, steps)
        d = len(record.origin)
        covariance = self.covariance(record, steps)
        if covariance is None:
            return undefined(estimate, levels)
        lower, pivots = cholesky(covariance)
        y = forward(lower, record.sum_at(steps) / steps)
        statistic = np.zeros_like(y[0])
        determinant = np.ones_like(y[0])
        for j in range(d):
            statistic = statistic + y[j] * y[j] / pivots[j]
            determinant = determinant * pivots[j]
        statistic = statistic * steps
        sound = np.isfinite(statistic) & np.isfinite(determinant)
        se = np.where(sound, np.sqrt(diagonal(covariance) / steps), np.nan)
        batches = self.batches(steps, record.algorithm.step_exponent())
        critical = [critical_value(level, d, batches) for level in levels]
        limits = symmetric(estimate, [float(np.sqrt(q)) * se for q in critical])
        shape = (len(levels), *estimate.shape)
        covered, volume, size = (np.full(shape, np.nan) for _ in range(3))
        oracle = true_determinant(record.source)
        known = all(map(math.isfinite, record.source.problem.truth()))  # the origin is theta* then
        for at, q in enumerate(critical):
            covered[at, 0] = np.where(sound & known, statistic <= q, np.nan)
            volume[at, 0] = np.where(sound, unit_volume(d, steps, q) * np.sqrt(determinant), np.nan)
            ratio = float(np.sqrt(q / critical_value(levels[at], d, None)))
            size[at, 0] = np.where(sound, ratio * root(np.sqrt(determinant / oracle), d), np.nan)
        diagnosis = {"joint_covered": covered, "joint_volume": volume, "joint_size": size}
        return Intervals(estimate, se, *limits, diagnosis)

    def batches(self, steps: int, gamma: float) -> int | None:
        """M where the quantile is Hotelling's, None where it is that of chi-squared."""
        base = self.base_method()
        if self.quantile == "chi2" or not isinstance(base, BatchMeans):
            return None
        return len(base.ends(steps, gamma)) - 1

    def covariance(self, record: PathRecord, steps: int) -> Array | None:
        """V, shape (d, d, R), or None where it is not defined."""
        base = self.base_method()
        d, replicates = len(record.origin), len(record.replicates)
        if isinstance(base, TranscriptCovariance):
            return None if base.too_short(steps, d) else base.matrix(record, steps)[0]
        if isinstance(base, BatchMeans):
            ends = base.ends(steps, record.algorithm.step_exponent())
            lengths = np.diff(ends)
            if len(lengths) <= d or (lengths < 1).any():
                return None
            return batch_matrix(record, ends, len(lengths) - (self.quantile == "F"))
        sigma = np.array(asymptotic_covariance(record.source))
        return np.broadcast_to(sigma[:, :, None], (d, d, replicates))


def batch_matrix(record: PathRecord, ends: NDArray[np.int64], divisor: int) -> Array:
    """sum_k n_k (X_k - Xbar)(X_k - Xbar)'/divisor, shape (d, d, R)."""
    sums = record.sums_at(ends)
    mean = (sums[-1] - sums[0]) / (int(ends[-1]) - int(ends[0]))
    d, replicates = mean.shape
    total = np.zeros((d, d, replicates))
    for k, length in enumerate(np.diff(ends).tolist()):
        deviation = (sums[k + 1] - sums[k]) / length - mean
        total += length * (deviation[:, None] * deviation[None, :])
    return total / divisor


def cholesky(matrix: Array) -> tuple[Array, Array]:
    """L and D with matrix = L D L', L unit lower triangular; shapes (d, d, R) and (d, R).

    D is NaN from the first pivot on that is not positive: the matrix is not positive definite.
    """
    d = len(matrix)
    lower, pivots = np.zeros(matrix.shape), np.empty(matrix.shape[1:])
    for j in range(d):
        pivot = matrix[j, j]
        for i in range(j):
            pivot = pivot - lower[j, i] * lower[j, i] * pivots[i]
        pivots[j] = np.where(pivot > 0.0, pivot, np.nan)
        lower[j, j] = 1.0
        for k in range(j + 1, d):
            entry = matrix[k, j]
            for i in range(j):
                entry = entry - lower[k, i] * lower[j, i] * pivots[i]
            lower[k, j] = entry / pivots[j]
    return lower, pivots


def forward(lower: Array, vector: Array) -> Array:
    """L^-1 vector, shape (d, R)."""
    y = vector.copy()
    for j in range(len(y)):
        for i in range(j):
            y[j] = y[j] - lower[j, i] * y[i]
    return y


def root(x: Array, order: int) -> Array:
    """x^(1/order) of positive x, by Newton's method from above: the same bits on every processor."""
    _, exponent = np.frexp(x)
    y: Array = np.ldexp(np.ones_like(x), -(-exponent // order))
    # Far from the root a step takes off one part in ``order``; from above it is never left.
    for _ in range(8 + 2 * order):
        power = np.ones_like(y)
        for _ in range(order - 1):
            power = power * y
        y = ((order - 1) * y + x / power) / order
    return y


@lru_cache(maxsize=256)
def true_determinant(path: Any) -> float:
    """det Sigma, NaN where the limit law is not known."""
    sigma = asymptotic_covariance(path)
    if any(math.isnan(value) for row in sigma for value in row):
        return math.nan
    with constants.workdps(40):
        return float(mp.det(mp.matrix(sigma)))


@lru_cache(maxsize=1024)
def critical_value(level: float, dimension: int, batches: int | None) -> float:
    """q: the chi-squared quantile, or Hotelling's with M = ``batches`` > d."""
    if batches is None:
        return constants.chi_squared_quantile(level, dimension)
    d = dimension
    return d * (batches - 1) / (batches - d) * constants.f_quantile(level, d, batches - d)


@lru_cache(maxsize=1024)
def unit_volume(dimension: int, steps: int, q: float) -> float:
    """Volume where det V = 1: pi^(d/2)/Gamma(d/2 + 1) (q/n)^(d/2)."""
    with constants.workdps(40):
        half = mpf(dimension) / 2
        return float(mp.pi**half / mp.gamma(half + 1) * (mpf(q) / steps) ** half)
