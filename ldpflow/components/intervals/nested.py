"""Interval methods that use the standard error or covariance of another method, the base.

Most settings of the base are settings of these methods too. z is a normal quantile.

**SUF**, suffix average (Wei, Zhu and Wu, 2023): the mean of the last part of the path

    s = floor((1 - k) n), m = n - s;   (S(n) - S(s))/m -+ z sqrt(V/m)

k is the share of the iterates that are kept, and S(i) the sum of the first i iterates. V estimates the
asymptotic variance of the average from the whole run. Early iterates, and most of their bias, are left out.
The limit variance is 1/k times that of the average.

**ACS**, asymptotic confidence sequence: intervals that, in the limit, hold at every n at once

    alpha = 1 - level,   rho^2 = (y - 1)/t_opt with y > 1 the root of y - ln y = 1 + 2 ln(1/alpha)
    m_t = sqrt(2 (t rho^2 + 1)/(t^2 rho^2) ln(sqrt(t rho^2 + 1)/alpha));   centre -+ sqrt(V) m_n

Sources are Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas (2024), and for averaged SGD Xie, Jin, Liang and
Zhang (2024). The base gives the centre and V. Half widths are the standard error of the base times
sqrt(n) m_n. The sequence is tightest at n = t_opt, which must be chosen before any data are seen. At t_opt it
is sqrt(y)/z times as long as an interval for this n alone. The sequence has the bias of the base.

**joint**, ellipsoids around the average of a vector

    {theta : n (thetabar - theta)' V^-1 (thetabar - theta) <= q},   V of shape (d, d)
    volume = pi^(d/2)/Gamma(d/2 + 1) q^(d/2) det(V/n)^(1/2)

V is that of the base: for TRC its V without the small-run factor, for the oracle the true covariance Sigma,
and for the means of M batches

    V = sum_k n_k (X_k - Xbar)(X_k - Xbar)'/M,        q the chi-squared quantile, d degrees of freedom
    V = sum_k n_k (X_k - Xbar)(X_k - Xbar)'/(M - 1),  q = d (M - 1)/(M - d) F_(d, M - d)   (Hotelling)

Batch k has n_k iterates with mean X_k, and Xbar is the mean of the iterates of all batches. For TRC and Sigma
q is the chi-squared quantile. The limits of a coordinate are thetabar_j -+ sqrt(q V_jj/n), the projection of
the ellipsoid. All d intervals hold together at least as often as the region.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from mpmath import mp, mpf
from numpy.typing import NDArray
from pydantic import Field, model_validator

from ldpflow.columns import Column, Summary
from ldpflow.components.algorithms import Algorithm
from ldpflow.components.intervals.interval import (
    BASE,
    BLOCK_C,
    DEGREE,
    QUANTILE,
    Array,
    Batches,
    BatchRule,
    BurnIn,
    Intervals,
    MethodAround,
    SmallRun,
    StepVariance,
    average,
    normal_intervals,
    symmetric_limits,
    undefined_intervals,
)
from ldpflow.components.intervals.record import PathRecord
from ldpflow.components.intervals.transcript import CHECKS, TranscriptCovariance
from ldpflow.components.intervals.transcript_fit import diagonal
from ldpflow.components.intervals.variance import BatchMeans, asymptotic_covariance
from ldpflow.components.problems import Problem
from ldpflow.errors import LdpflowError
from ldpflow.numerics import constants
from ldpflow.settings import Setting


class Nested(MethodAround):
    """Base class of methods that use the standard error or covariance of their base."""

    PASSED_ON = ("M", "block_rule", "block_c", "degree", "burn_in", "variance", "small_run")

    M: Batches | None = None
    block_rule: BatchRule | None = None
    block_c: Annotated[float, Field(ge=1e-6, le=1e9), BLOCK_C] | None = None
    degree: Annotated[int, Field(ge=1, le=3), DEGREE] | None = None
    burn_in: BurnIn | None = None
    variance: StepVariance | None = None
    small_run: SmallRun | None = None

    def of_base(
        self, record: PathRecord, n: int, levels: Sequence[float]
    ) -> tuple[Array, Array, dict[str, Array]]:
        """Estimate and standard error of the base, and the diagnostics that both methods have."""
        found = self.base_method().intervals(record, n, levels)
        if found.se is None:
            raise LdpflowError(f"the base of {self.kind} has no standard error, which it needs")
        own = {column.name for column in self.diagnostics}
        diagnosis = {name: found.diagnosis[name] for name in found.diagnosis if name in own}
        return found.estimate, found.se, diagnosis


class SuffixAverage(Nested):
    """Interval around the mean of the last iterates."""

    kind: Literal["SUF"] = "SUF"
    cites = ("wei2023",)
    title = "suffix average (Wei, Zhu and Wu, 2023)"
    diagnostics = CHECKS

    share: Annotated[
        float, Field(gt=0, le=1), Setting("1", "share k of the iterates in a suffix average")
    ] = 0.5
    base: Annotated[Literal["TRC", "oracle", "BM", "EBS", "NOL", "OBM"], BASE] = "TRC"

    def suffix_start(self, steps: int) -> int:
        """s, the number of iterates left out. k is read as a decimal number."""
        return int((1 - Fraction(repr(self.share))) * steps)

    def times(self, steps: int, algorithm: Algorithm) -> NDArray[np.int64]:
        own = [time for time in (self.suffix_start(steps), steps) if time > 0]
        return np.union1d(super().times(steps, algorithm), np.array(own, dtype=np.int64))

    def intervals(self, record: PathRecord, n: int, levels: Sequence[float]) -> Intervals:
        steps = record.steps(n)
        s = self.suffix_start(steps)
        before, total = record.sums_at(np.array([s, steps]))
        estimate = record.origin[:, None] + (total - before) / (steps - s)
        _, se, diagnosis = self.of_base(record, n, levels)
        return normal_intervals(estimate, se * np.sqrt(steps / (steps - s)), levels, diagnosis=diagnosis)


class ConfidenceSequence(Nested):
    """Interval of a confidence sequence, which is valid at every n."""

    kind: Literal["ACS"] = "ACS"
    cites = ("waudbysmith2024", "xie2024")
    title = "asymptotic confidence sequence, valid at every n (Waudby-Smith et al., 2024)"
    example: ClassVar = {"t_opt": 10_000}
    diagnostics = CHECKS

    t_opt: Annotated[
        int,
        Field(ge=1, le=10**12),
        Setting("users", "n at which ACS is tightest, chosen before any data are seen", logarithmic=True),
    ]
    base: Annotated[Literal["TRC", "oracle", "BM", "EBS", "NOL", "OBM", "TR"], BASE] = "TRC"

    def intervals(self, record: PathRecord, n: int, levels: Sequence[float]) -> Intervals:
        estimate, se, diagnosis = self.of_base(record, n, levels)
        factors = [width_factor(n, self.t_opt, level) for level in levels]
        return Intervals(estimate, se, *symmetric_limits(estimate, factors, se), diagnosis)


@lru_cache(maxsize=4096)
def width_factor(n: int, t_opt: int, level: float) -> float:
    """sqrt(n) m_n, which depends on n/t_opt and the level alone."""
    with constants.workdps(40):
        alpha = 1 - mpf(repr(level))
        y = -mp.lambertw(-(alpha**2) / mp.e, -1).real
        x = mpf(n) / t_opt * (y - 1)
        return float(mp.sqrt(2 * (x + 1) / x * mp.log(mp.sqrt(x + 1) / alpha)))


JOINT = (
    Column(
        "joint_covered",
        "double",
        "-",
        "1 if the joint region holds theta*, else 0 (rows of coordinate 0)",
        summaries=(
            Summary("joint_coverage", "share of joint regions that hold theta*", beyond=0.5),
            Summary("joint_coverage_mcse", "sqrt(p (1 - p)/R)", beyond=0.5, error=True, shown=False),
        ),
    ),
    Column("joint_volume", "double", "unit of theta^d", "volume of the joint region (rows of coordinate 0)"),
    Column(
        "joint_size",
        "double",
        "1",
        "(volume / volume of the region with the true Sigma)^(1/d)",
        summaries=(
            Summary("joint_size_mean", "mean of joint_size", mean=True),
            Summary("joint_size_mcse", "sd(joint_size)/sqrt(R)", mean=True, error=True, shown=False),
        ),
    ),
)


class JointRegion(Nested):
    """Ellipsoid around the average."""

    kind: Literal["joint"] = "joint"
    title = "ellipsoid for all coordinates, with its projections as limits"
    undefined_where = "the estimated covariance is not positive definite"
    around_average = True
    diagnostics = JOINT

    base: Annotated[Literal["TRC", "BM", "oracle"], BASE] = "TRC"
    quantile: Annotated[Literal["chi2", "F"], QUANTILE] = "chi2"

    @model_validator(mode="after")
    def region_of_the_base(self) -> JointRegion:
        if self.quantile == "F" and self.base != "BM":
            raise ValueError(f"quantile F is for the base BM, not for {self.base}")
        if self.small_run is not None:
            raise ValueError("a joint region has no setting small_run")
        return self

    def impossible(self, problem: Problem) -> str | None:
        if problem.dimension < 2:
            return "a joint region is of two coordinates or more"
        return super().impossible(problem)

    def intervals(self, record: PathRecord, n: int, levels: Sequence[float]) -> Intervals:
        steps = record.steps(n)
        estimate = average(record, steps)
        d = len(record.origin)
        found = self.covariance(record, steps)
        if found is None:
            return undefined_intervals(estimate, levels)
        covariance, batches = found
        form, determinant = quadratic_form(covariance, record.sum_at(steps) / steps)
        statistic = form * steps
        sound = np.isfinite(statistic) & np.isfinite(determinant)
        se = np.where(sound, np.sqrt(diagonal(covariance) / steps), np.nan)
        q = np.array([critical_value(level, d, batches) for level in levels])[:, None]
        least = np.array([critical_value(level, d, None) for level in levels])[:, None]
        unit = np.array([unit_volume(d, steps, float(value)) for value in q[:, 0]])[:, None]
        known = all(map(math.isfinite, record.source.problem.truth()))  # the truth, if known, is the origin
        ratio = root(np.sqrt(determinant / true_determinant(record.source)), d)
        shape = (len(levels), *estimate.shape)
        diagnosis = {column.name: np.full(shape, np.nan) for column in self.diagnostics}
        diagnosis["joint_covered"][:, 0] = np.where(sound & known, statistic <= q, np.nan)
        diagnosis["joint_volume"][:, 0] = np.where(sound, unit * np.sqrt(determinant), np.nan)
        diagnosis["joint_size"][:, 0] = np.where(sound, np.sqrt(q / least) * ratio, np.nan)
        return Intervals(estimate, se, *symmetric_limits(estimate, np.sqrt(q[:, 0]), se), diagnosis)

    def covariance(self, record: PathRecord, steps: int) -> tuple[Array, int | None] | None:
        """V, shape (d, d, R), and M if q is Hotelling's (else None). None if there are too few steps."""
        base = self.base_method()
        d = len(record.origin)
        if isinstance(base, TranscriptCovariance):
            return None if base.too_short(steps, d) else (base.matrix(record, steps)[0], None)
        if not isinstance(base, BatchMeans):
            sigma = np.array(asymptotic_covariance(record.source))
            return np.broadcast_to(sigma[:, :, None], (d, d, len(record.replicates))), None
        ends = base.ends(steps, record.algorithm.step_exponent())
        batches = len(ends) - 1
        if batches <= d or (np.diff(ends) < 1).any():
            return None
        if self.quantile == "chi2":
            return batch_matrix(record, ends, batches), None
        return batch_matrix(record, ends, batches - 1), batches


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


def quadratic_form(matrix: Array, vector: Array) -> tuple[Array, Array]:
    """vector' matrix^-1 vector and det matrix, NaN if the matrix is not positive definite.

    Shapes are (d, d, R) and (d, R). The factors L D L' of the matrix are computed.
    """
    lower, pivots, y = np.zeros(matrix.shape), np.empty(vector.shape), vector.copy()
    form, determinant = np.zeros_like(y[0]), np.ones_like(y[0])
    for j in range(len(y)):
        pivot = matrix[j, j]
        for i in range(j):
            pivot = pivot - lower[j, i] * lower[j, i] * pivots[i]
            y[j] = y[j] - lower[j, i] * y[i]
        pivots[j] = np.where(pivot > 0.0, pivot, np.nan)
        for k in range(j + 1, len(y)):
            entry = matrix[k, j]
            for i in range(j):
                entry = entry - lower[k, i] * lower[j, i] * pivots[i]
            lower[k, j] = entry / pivots[j]
        form = form + y[j] * y[j] / pivots[j]
        determinant = determinant * pivots[j]
    return form, determinant


def root(x: Array, order: int) -> Array:
    """x^(1/order) of positive x by Newton's method, with equal bits on every processor."""
    _, exponent = np.frexp(x)
    y: Array = np.ldexp(np.ones_like(x), -(-exponent // order))
    # y starts above the root. Far from the root a step divides y by about order/(order - 1).
    for _ in range(8 + 2 * order):
        power = np.ones_like(y)
        for _ in range(order - 1):
            power = power * y
        y = ((order - 1) * y + x / power) / order
    return y


@lru_cache(maxsize=256)
def true_determinant(path: Any) -> float:
    sigma = asymptotic_covariance(path)
    if any(math.isnan(value) for row in sigma for value in row):
        return math.nan
    with constants.workdps(40):
        return float(mp.det(mp.matrix(sigma)))


@lru_cache(maxsize=1024)
def critical_value(level: float, dimension: int, batches: int | None) -> float:
    """q: the chi-squared quantile if ``batches`` is None, else Hotelling's with M = ``batches`` > d."""
    d = dimension
    if batches is None:
        return constants.chi_squared_quantile(level, d)
    return d * (batches - 1) / (batches - d) * constants.f_quantile(level, d, batches - d)


@lru_cache(maxsize=1024)
def unit_volume(dimension: int, steps: int, q: float) -> float:
    """Volume pi^(d/2)/Gamma(d/2 + 1) (q/n)^(d/2) of a region with det V = 1."""
    with constants.workdps(40):
        half = mpf(dimension) / 2
        return float(mp.pi**half / mp.gamma(half + 1) * (mpf(q) / steps) ** half)
