"""Regression on the private transcript: TR, TR-BM and TRC.

The transcript of n steps of sizes eta_i shows x_i = theta_{i-1} and the private gradient

    A_i = (theta_{i-1} - theta_i)/eta_i

R(x) = E[A_i | x_i = x] is the mean gradient, and S is the covariance of A_i given the past. A polynomial P is
fitted to A_i on x_i over N = n - i0 steps, where i0 is the burn-in. M and v are as in transcript_fit, and z
is a normal quantile.

**TR** estimates theta* by the root of P, the polynomial that is fitted to the transcript. The root has no
bias from a curvature of R that P describes. If P does not describe R, the root is biased. A scalar interval
ends at the points nearest the root where

    P^2 = z^2 S v' M^-1 v

The distances of both ends from the root are multiplied by f = K/(K - 4), at most 2. K = P'(root) sum eta_i is
the length of the run in relaxation times. The factor is needed since least squares in an autoregression
overstates the slope by a share of about 4/K.

**TR-BM** has the root of TR, the standard error of batch means times sqrt(kappa), and a t quantile.
kappa is the asymptotic variance of the root over that of the average:

    kappa = (n/N) / (1 - (sum eta)^2/(3 N sum eta^2))

**Vectors** have a linear fit, or a quadratic one for small d. The interval is root -+ z f se. The fit of a
scalar is tested by a further term, x^(degree + 1). The fit of a vector is tested by the slopes in the two
halves of the run: the iterates spread less in the late half, so the slopes differ if the degree does not
suffice.

TR and TR-BM have no proof. The argument is the limit theory of least squares with adaptive regressors (Lai
and Wei, 1982). Prior work is in docs/transcript_regression.md.

**TRC** estimates the covariance of the average from the slope of P, after Ni and Huo (2026), "trajectory
regression". Their weights are not reproduced: the fit is the unweighted one of TR.

    B = slope of P at thetabar,   V = B^-1 S B^-T
    interval thetabar_j -+ z f_j sqrt(V_jj/n),   f_j from K_j = sum eta_i / (B^-1)_jj

TRC has the bias of the average. Vectors have a fit of degree 1, scalars one of degree 2 or 1.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache, partial
from math import ceil, isqrt
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from ldpflow.columns import Column, Summary
from ldpflow.components.algorithms import Algorithm
from ldpflow.components.intervals.interval import (
    DEGREE,
    Array,
    Batches,
    BurnIn,
    Intervals,
    PathIntervalMethod,
    SmallRun,
    StepVariance,
    Variance,
    VarianceMethod,
    average,
    normal_intervals,
    normal_quantiles,
    undefined_intervals,
)
from ldpflow.components.intervals.record import PathRecord, PathSource
from ldpflow.components.intervals.transcript_fit import (
    PolynomialFit,
    VectorFit,
    diagonal,
    polynomial_fit,
    sandwich,
    vector_fit,
)
from ldpflow.components.intervals.variance import BatchMeans
from ldpflow.components.problems import Problem
from ldpflow.numerics import constants
from ldpflow.numerics.running_sums import pieces, regressors
from ldpflow.settings import Setting

Diagnosis = dict[str, Array]

summary = partial(Summary, shown=False, reference="regression on the transcript alone")


def check(name: str, meaning: str, *summaries: Summary, unit: str = "1") -> Column:
    return Column(name, "double", unit, meaning, summaries=summaries)


CHECKS = (
    check(
        "relaxation_times",
        "K, the length of the run in relaxation times (TR)",
        summary("relaxation_times_median", "median of K, the length of the run in relaxation times"),
        summary(
            "too_short",
            "share of finished rows with K < 25",
            below=25.0,
            caution="the run is too short (K < 25 relaxation times; take a larger n)",
        ),
    ),
    check(
        "lack_of_fit",
        "t statistic of a further term of degree + 1 in TR's fit; for a vector, of the change of the "
        "coordinate's own slope from the early to the late half of the run",
        summary(
            "poor_fit",
            "share of finished rows with abs(lack_of_fit) > 2.576; about .01 if the degree suffices",
            beyond=2.576,
            caution="the degree does not suffice (significant at 1%; take degree = 3, which needs 45 "
            "relaxation times, or smaller steps)",
        ),
    ),
    check(
        "condition",
        "largest pivot divided by smallest pivot of the moment matrix of TR",
        summary("condition_median", "median of the condition of the fit"),
    ),
)

ROOT_CHECKS = (
    *CHECKS,
    check(
        "early_shift",
        "root of a fit without the first 3 to 6% of the steps, less the root of TR's fit; null for vectors",
        summary(
            "early_steps",
            "share of finished rows with abs(early_shift) > 1; below .04 in most cells in which TR covers",
            beyond=1.0,
            caution="the first steps move the estimate by more than a standard error "
            '(burn_in = "0.1n" leaves them out)',
        ),
        unit="standard errors",
    ),
)

SMALL = 5  # largest dimension d with a quadratic fit, which has 1 + d (d + 3)/2 regressors
LATE = 32  # the fit that gives early_shift leaves out at least 1/32 of the steps


class TranscriptMethod(PathIntervalMethod):
    """Base class of methods that fit a polynomial to the transcript."""

    degree: Annotated[int, Field(ge=1, le=3), DEGREE] | None = None
    burn_in: BurnIn = "n^0.4"

    def fit_degree(self, dimension: int) -> int:
        """Degree of P for d = ``dimension`` coordinates."""
        return self.degree or (2 if dimension == 1 else 1)

    def fits_vector(self, dimension: int) -> bool:
        """Whether all coordinates of a vector have one common fit."""
        return dimension > 1

    @abstractmethod
    def order(self) -> int:
        """Highest power in a scalar fit. It is at least degree + 1, whose term tests the fit."""

    def first(self, steps: int) -> int:
        """i0, the burn-in."""
        if self.burn_in.startswith("n^"):
            return constants.ceil_power(steps, float(self.burn_in[2:]))
        return max(1, ceil(Fraction(self.burn_in[:-1]) * steps))

    def middle(self, steps: int) -> int:
        """Step between the early and the late half, which have equal sums of eta_i if gamma = 1/2."""
        first = self.first(steps)
        return (first + steps + 2 * isqrt(first * steps)) // 4

    def too_short(self, steps: int, dimension: int) -> bool:
        """Whether there are too few steps for the fit.

        A scalar needs order + 2 steps. A vector needs two more than parameters, in the early half.
        """
        first = self.first(steps)
        if not self.fits_vector(dimension):
            return steps - first < self.order() + 2
        parameters = 1 + (dimension if self.fit_degree(dimension) == 1 else regressors(dimension))
        return self.middle(steps) - first < parameters + 2

    def marked_times(self, steps: int, algorithm: Algorithm, dimension: int) -> tuple[int, ...]:
        first = self.first(steps)
        middle = (self.middle(steps),) if self.fits_vector(dimension) else ()
        return (first, *middle, *pieces(first, steps))

    def steps_read(self) -> tuple[str, ...]:
        return ("step_exponent", "step_constant")

    def running_sums(self, dimension: int) -> tuple[str, ...]:
        if self.fits_vector(dimension):
            return ("transcript_linear",) if self.fit_degree(dimension) == 1 else ("transcript_quadratic",)
        return ("transcript_cubic", "transcript_quartic") if self.order() > 3 else ("transcript_cubic",)

    def diagnose_vector_fit(
        self, record: PathRecord, steps: int, known: bool
    ) -> tuple[VectorFit, Array, Diagnosis]:
        """Fit of a vector, S with shape (d, d, R), and the diagnosis with K_j = sum eta_i/(B^-1)_jj.

        ``known``: whether S is computed from problem and mechanism at theta*, or else from the residuals.
        """
        first, middle = self.first(steps), self.middle(steps)
        degree = self.fit_degree(len(record.origin))
        fit = vector_fit(record, degree, first, steps)
        variance = known_variance(record.source) if known else fit.residual
        early, early_variance = vector_fit(record, degree, first, middle).own_slopes(fit.root)
        late, late_variance = vector_fit(record, degree, middle, steps).own_slopes(fit.root)
        relaxation_times = step_sums(record, first, steps) / diagonal(fit.inverse)
        diagnosis = {
            "relaxation_times": relaxation_times,
            "condition": np.broadcast_to(fit.condition, relaxation_times.shape),
            "lack_of_fit": (late - early) / np.sqrt(diagonal(variance) * (early_variance + late_variance)),
        }
        return fit, variance, diagnosis

    def scalar_fit(self, record: PathRecord, steps: int, known: bool) -> tuple[PolynomialFit, Array]:
        """A polynomial for each coordinate, and S_jj with shape (d, R)."""
        fit = polynomial_fit(record, self.first(steps), steps, self.order())
        if known:
            return fit, diagonal(known_variance(record.source)) * np.ones_like(fit.mean)
        return fit, fit.residual_variance(self.fit_degree(1))

    def scalar_checks(
        self, record: PathRecord, steps: int, fit: PolynomialFit, slope: Array, variance: Array
    ) -> Diagnosis:
        """Diagnosis of scalar fits. ``slope`` is P' per unit of theta, shape (d, R)."""
        degree = self.fit_degree(1)
        return {
            "relaxation_times": slope * step_sums(record, self.first(steps), steps),
            "condition": fit.condition(degree),
            "lack_of_fit": fit.lack_of_fit(degree, variance),
        }


class Regression(TranscriptMethod):
    """Base class of TR and TR-BM, whose estimate is the root of the fit."""

    diagnostics = ROOT_CHECKS
    around_average = False
    undefined_where = "the fit has no root on an increasing branch, or the interval no end"

    degree: Annotated[int, Field(ge=1, le=3), DEGREE] = 2
    separate: Annotated[bool, Setting("-", "whether TR fits each of several quantiles alone")] | None = None

    def fits_vector(self, dimension: int) -> bool:
        return dimension > 1 and not self.separate

    def order(self) -> int:
        return 4 if self.degree == 3 else 3

    def unsuitable(self, source: PathSource) -> str | None:
        problem = source.problem
        if self.degree > 1 or not self.fits_vector(problem.dimension) or problem.levels() is None:
            return None
        return (
            f"{self.kind} of degree 1 keeps the bias that curvature gives the average: 90% intervals of "
            "several quantiles covered .32 to .92 without a flag. Take separate = true, which has degree 2"
        )

    def impossible(self, problem: Problem) -> str | None:
        if self.separate and problem.levels() is None:
            return "separate = true is for quantiles"
        highest = 3
        if self.fits_vector(problem.dimension):
            highest = 2 if problem.dimension <= SMALL else 1
        if self.degree > highest:
            allowed = "degree = 1 alone" if highest == 1 else "degrees 1 and 2"
            return f"{self.kind} has {allowed} if theta has {problem.dimension} coordinates"
        return None

    def intervals(self, record: PathRecord, n: int, levels: Sequence[float]) -> Intervals:
        steps, d = record.steps(n), len(record.origin)
        if self.too_short(steps, d):
            return undefined_intervals(np.full((d, len(record.replicates)), np.nan), levels)
        return self.root_intervals(record, n, levels)

    @abstractmethod
    def root_intervals(self, record: PathRecord, n: int, levels: Sequence[float]) -> Intervals:
        """Intervals of a run that is long enough for the fit."""

    def scalar_root(
        self, record: PathRecord, steps: int, known: bool
    ) -> tuple[PolynomialFit, Array, Array, Array, Diagnosis]:
        """Fits of all coordinates, root u, slope P'(u), S_jj, and the diagnosis, shapes (d, R)."""
        fit, variance = self.scalar_fit(record, steps, known)
        u, slope = fit.root(self.degree)
        diagnosis = self.scalar_checks(record, steps, fit, slope / fit.sd, variance)
        shift = np.full_like(u, np.nan)
        # The smallest power of two that is at least 1/32 of the steps. Running sums restart at powers of two.
        second = 1 << (-(-steps // LATE) - 1).bit_length()
        if 2 * self.first(steps) <= second <= steps - self.order() - 2:
            late = polynomial_fit(record, second, steps, self.order())
            at, _ = late.root(self.degree)
            error = fit.sd * np.sqrt(variance * fit.leverage(u, self.degree)) / slope
            shift = ((late.mean + late.sd * at) - (fit.mean + fit.sd * u)) / error
        return fit, u, slope, variance, diagnosis | {"early_shift": shift}


@lru_cache(maxsize=256)
def known_variance(source: PathSource) -> Array:
    """S at theta* from problem and mechanism, shape (d, d, 1)."""
    return np.array(source.algorithm.step_covariance(source.problem, source.randomiser))[:, :, None]


def step_sum(record: PathRecord, first: int, steps: int) -> float:
    """sum eta_i over the steps first + 1, ..., steps."""
    c, gamma = record.algorithm.step_constant(), record.algorithm.step_exponent()
    return float(c * constants.sum_of_powers(first + 1, steps, gamma))


def step_sums(record: PathRecord, first: int, steps: int) -> Array:
    """:func:`step_sum` times the step factor of each coordinate, shape (d, 1)."""
    factors = record.algorithm.step_factors() or (1.0,) * len(record.origin)
    return step_sum(record, first, steps) * np.array(factors)[:, None]


def small_run_factor(relaxation_times: Array) -> Array:
    """K/(K - 4), at most 2."""
    k = np.maximum(relaxation_times, 8.0)
    return np.where(np.isnan(relaxation_times), np.nan, k / (k - 4.0))


class TranscriptRegression(Regression):
    """Regression on the transcript."""

    kind: Literal["TR"] = "TR"
    cites = ("frees1990", "ni2026", "fieller1954")
    title = "regression on the private transcript: the root of a fitted polynomial (ours, no proof)"

    variance: StepVariance = "known"

    def root_intervals(self, record: PathRecord, n: int, levels: Sequence[float]) -> Intervals:
        steps, known = record.steps(n), self.variance == "known"
        if self.fits_vector(len(record.origin)):
            vector, covariance, diagnosis = self.diagnose_vector_fit(record, steps, known)
            times = diagnosis["relaxation_times"]
            se = np.sqrt(vector.variances(covariance)) * small_run_factor(times)
            se = np.where(times > 0.0, se, np.nan)
            return normal_intervals(record.origin[:, None] + vector.root, se, levels, diagnosis=diagnosis)
        fit, u, slope, variance, diagnosis = self.scalar_root(record, steps, known)
        factor = small_run_factor(diagnosis["relaxation_times"]) * fit.sd
        below, above = fit.arms(u, slope, self.degree, variance, normal_quantiles(levels))
        estimate = record.origin[:, None] + (fit.mean + fit.sd * u)
        se = factor * np.sqrt(variance * fit.leverage(u, self.degree)) / slope
        return Intervals(estimate, se, estimate - factor * below, estimate + factor * above, diagnosis)

    def limits_under_shift(
        self, record: PathRecord, n: int, levels: Sequence[float], coordinate: int, low: float, high: float
    ) -> tuple[Array, Array]:
        """Limits of a scalar fit, shapes (levels, R), if a shift in [low, high] was added to every E[A_i].

        P at the root is a weighted sum of A_i. The sum of the weights is 1, and the sum of their squares is
        h = v' M^-1 v. So the sum of their absolute values is at most r = sqrt(N h), and the mean of P at the
        root is within r (high - low)/2 of (low + high)/2. Each limit is that of TR for P less one of the two
        ends of this range.
        """
        fit, u, _, variance, diagnosis = self.scalar_root(record, record.steps(n), self.variance == "known")
        factor = small_run_factor(diagnosis["relaxation_times"]) * fit.sd
        reach = 0.5 * (high - low) * np.sqrt(fit.count * fit.leverage(u, self.degree))
        critical = normal_quantiles(levels)
        found = []
        for side, sign in enumerate((-1.0, 1.0)):
            coefficients = fit.coefficients.copy()
            coefficients[0] -= 0.5 * (low + high) + sign * reach
            moved = replace(fit, coefficients=coefficients)
            at, slope = moved.root(self.degree)
            arm = moved.arms(at, slope, self.degree, variance, critical)[side]
            limits = record.origin[:, None] + fit.mean + fit.sd * at + sign * factor * arm
            found.append(limits[:, coordinate])
        return found[0], found[1]


class TranscriptRegressionBatchMeans(Regression):
    """Interval around the root of the fit, with a standard error from batch means."""

    kind: Literal["TR-BM"] = "TR-BM"
    cites = ("frees1990", "ni2026", "chen2020")
    title = "the root of the fit of TR with a standard error from batch means (ours, no proof)"

    M: Batches | None = None

    def nested(self) -> tuple[BatchMeans]:
        return (BatchMeans(M=self.M),)

    def root_intervals(self, record: PathRecord, n: int, levels: Sequence[float]) -> Intervals:
        steps = record.steps(n)
        if self.fits_vector(len(record.origin)):
            vector, _, diagnosis = self.diagnose_vector_fit(record, steps, known=False)
            root = vector.root
        else:
            fit, u, _, _, diagnosis = self.scalar_root(record, steps, known=False)
            root = fit.mean + fit.sd * u
        centre = record.origin[:, None] + root
        first = self.first(steps)
        count = steps - first
        length = step_sum(record, first, steps)
        c, gamma = record.algorithm.step_constant(), record.algorithm.step_exponent()
        squares = c * c * constants.sum_of_powers(first + 1, steps, 2.0 * gamma)
        kappa = steps / count / (1.0 - length * length / (3.0 * count * squares))
        (batch_means,) = self.nested()
        se = batch_means.intervals(record, n, levels).se
        assert se is not None
        se = np.where(np.isfinite(centre), float(np.sqrt(kappa)) * se, np.nan)
        batches = len(batch_means.ends(steps, gamma)) - 1
        return normal_intervals(centre, se, levels, float(max(batches - 1, 1)), diagnosis)


class TranscriptCovariance(TranscriptMethod, VarianceMethod):
    """Interval around the average with a covariance from the slope of the transcript."""

    kind: Literal["TRC"] = "TRC"
    cites = ("ni2026",)
    title = "the average with the sandwich variance from the slope of TR's fit (after Ni and Huo, 2026)"
    undefined_where = "the estimated slope or variance is not positive"
    diagnostics = CHECKS

    degree: Annotated[int, Field(ge=1, le=2), DEGREE] | None = None
    variance: StepVariance = "known"
    small_run: SmallRun = True

    def order(self) -> int:
        return self.fit_degree(1) + 1

    def impossible(self, problem: Problem) -> str | None:
        if self.degree == 2 and problem.dimension > 1:
            return f"TRC has degree = 1 alone if theta has {problem.dimension} coordinates"
        return None

    def estimate_variance(self, record: PathRecord, steps: int) -> Variance | None:
        if self.too_short(steps, len(record.origin)):
            return None
        matrix, diagnosis = self.matrix(record, steps)
        times = diagnosis["relaxation_times"]
        factor = small_run_factor(times) if self.small_run else 1.0
        return Variance(diagonal(matrix), factor=np.where(times > 0.0, factor, np.nan), diagnosis=diagnosis)

    def matrix(self, record: PathRecord, steps: int) -> tuple[Array, Diagnosis]:
        """V = B^-1 S B^-T, shape (d, d, R), and the diagnosis of the fit."""
        known = self.variance == "known"
        if len(record.origin) > 1:
            vector, covariance, diagnosis = self.diagnose_vector_fit(record, steps, known)
            return sandwich(vector.inverse, covariance), diagnosis
        fit, variance = self.scalar_fit(record, steps, known)
        degree = self.fit_degree(1)
        b = fit.monomials(degree)
        slope = b[1]
        if degree == 2:
            mean = average(record, steps) - record.origin[:, None]
            slope = slope + 2.0 * b[2] * ((mean - fit.mean) / fit.sd)
        slope = np.where(fit.sound[degree] & (slope > 0.0), slope / fit.sd, np.nan)
        diagnosis = self.scalar_checks(record, steps, fit, slope, variance)
        return (variance / (slope * slope))[None], diagnosis
