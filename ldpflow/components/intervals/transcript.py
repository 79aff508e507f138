"""Regression on the private transcript: TR, TR-BM and TRC.

TR and TR-BM have no proof. Regression on a transcript is old, its use for an unbiased root of private reports
is ours (prior work: docs/transcript_regression.md).

The transcript shows x_i = theta_{i-1} and A_i = (theta_{i-1} - theta_i)/eta_i, the private gradient, with
E[A_i | past] = R(theta_{i-1}). So a polynomial P is fitted to R and theta* is estimated by its root. Unlike
the average, the root has no bias from a curvature of R that P describes. If P does not describe R, for
example beyond the end of a law's support, the root is biased too, and one run seldom shows it
(docs/transcript_regression.md says how often). Post-processing of released values costs no privacy.

**TR**: the points nearest the root where P^2 = z^2 S v' M^-1 v (a score set, as Fieller's), both arms times
K/(K - 4), at most 2, with K = P'(root) sum eta_i the run's length in relaxation times: least squares in an
autoregression overstates the slope by about 4/K.

**TR-BM**: TR's root, and batch means' standard error times sqrt(kappa) and a t quantile, with
kappa = (n/N) / (1 - (sum eta)^2/(3 N sum eta^2)) the price of the root against the average.

Vectors have a linear fit, or a quadratic one for small d, with intervals that are linear in the error. A
scalar fit is tested by its next power, a vector's by the two halves of the run: the iterates spread less and
less, so the slopes of the early and the late half differ if the degree does not suffice. The argument is the
limit theory of least squares with adaptive regressors (Lai and Wei, 1982).

**TRC**, the average's covariance from the slope of the transcript

    B = slope at thetabar of the least-squares fit of A_i on powers of theta_(i-1), i0 < i <= n
    V = B^-1 S B^-T,   interval thetabar_j -+ z f_j sqrt(V_jj/n)

with S the covariance of A_i given the past, and the small-run factor f = K/(K - 4), at most 2, K =
sum eta_i / (B^-1)_jj. The idea of regressing SGD's increments on its iterates for the sandwich is that of
Ni and Huo (2026), "trajectory regression", whose weights are not reproduced here: the fit is the unweighted
one of TR. TRC stays around the average, and keeps its bias. Vectors have a fit of degree 1, scalars one of
degree 2 or 1.
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
    product,
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
        "K, the run's length in relaxation times (TR)",
        summary("relaxation_times_median", "median of K, the run's length in relaxation times"),
        summary(
            "too_short",
            "share of finished rows with K < 25",
            below=25.0,
            caution="the run is too short (K < 25 relaxation times; take a larger n)",
        ),
    ),
    check(
        "lack_of_fit",
        "t statistic of the next power in TR's fit; for a vector, of the difference of the coordinate's own "
        "slope between the late and the early half of the run",
        summary(
            "poor_fit",
            "share of finished rows with abs(lack_of_fit) > 2.576; it is .01 if the degree suffices",
            beyond=2.576,
            caution="the degree does not suffice (significant at 1%; take degree = 3, which needs 45 "
            "relaxation times, or smaller steps)",
        ),
    ),
    check(
        "condition",
        "largest over smallest pivot of TR's fit",
        summary("condition_median", "median of the condition of the fit"),
    ),
)
"""Diagnostics of every regression on the transcript."""

ROOT_CHECKS = (
    *CHECKS,
    check(
        "early_shift",
        "root of a fit without the first 3 to 6% of the steps, less the root of TR's fit; null for vectors",
        summary(
            "early_steps",
            "share of finished rows with abs(early_shift) > 1; below .04 in most cells where TR covers",
            beyond=1.0,
            caution="the first steps move the estimate by more than a standard error "
            '(burn_in = "0.1n" leaves them out)',
        ),
        unit="standard errors",
    ),
)
"""Diagnostics of TR and TR-BM, whose estimate is the root of the fit."""


SMALL = 5  # coordinates up to which the quadratic fit is offered: 1 + d (d + 3)/2 = 21 regressors
LATE = 32  # the fit to the later steps leaves out at least 1/32 of them


class TranscriptMethod(PathIntervalMethod):
    """Base class of methods that fit the transcript, with the steps and sums of a fit.

    Parameters
    ----------
    degree : int
        Degree of P.
    burn_in : str
        Steps i0 left out at the start: ``n^0.4``, ``0.01n``, rounded up; n counts steps.
    """

    degree: Annotated[int, Field(ge=1, le=3), DEGREE] | None = None
    burn_in: BurnIn = "n^0.4"

    def fit_degree(self, dimension: int) -> int:
        """Degree of P for d = ``dimension`` coordinates."""
        return self.degree or (2 if dimension == 1 else 1)

    def fits_vector(self, dimension: int) -> bool:
        """Whether one fit is made for all coordinates of a vector."""
        return dimension > 1

    @abstractmethod
    def order(self) -> int:
        """Highest power in the sums of a scalar: at least the degree plus 1, for the test of the fit."""

    def first(self, steps: int) -> int:
        """i0: the regression uses steps i0 + 1, ..., steps."""
        if self.burn_in.startswith("n^"):
            return constants.ceil_power(steps, float(self.burn_in[2:]))
        return max(1, ceil(Fraction(self.burn_in[:-1]) * steps))

    def middle(self, steps: int) -> int:
        """Step at half the relaxation times of the run for gamma = 1/2: a mean of square roots."""
        first = self.first(steps)
        return (first + steps + 2 * isqrt(first * steps)) // 4

    def too_short(self, steps: int, dimension: int) -> bool:
        """Whether a fit has fewer steps than parameters plus two, for a vector in the early half."""
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
        """Fit of a vector, S with shape (d, d, R), and the diagnosis: K is sum eta_i/(J^-1)_jj."""
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
        """Polynomials of all coordinates, and S with shape (d, R)."""
        fit = polynomial_fit(record, self.first(steps), steps, self.order())
        if known:
            return fit, diagonal(known_variance(record.source)) * np.ones_like(fit.mean)
        return fit, fit.residual_variance(self.fit_degree(1))

    def scalar_checks(
        self, record: PathRecord, steps: int, fit: PolynomialFit, slope: Array, variance: Array
    ) -> Diagnosis:
        """Diagnosis: K = slope sum eta_i (slope in the unit of theta), condition, and t of the next power."""
        degree = self.fit_degree(1)
        return {
            "relaxation_times": slope * step_sums(record, self.first(steps), steps),
            "condition": fit.condition(degree),
            "lack_of_fit": fit.lack_of_fit(degree, variance),
        }


class Regression(TranscriptMethod):
    """Base of TR and TR-BM, whose estimate is the root of the fit.

    Parameters
    ----------
    degree : int in [1, 3]
        Degree of P; for a vector 1, or 2 up to d = 5.
    separate : bool, optional
        For several quantiles: a fit of its own for each of them, as for a scalar. The gradient of a
        quantile depends on its own coordinate alone.
    """

    diagnostics = ROOT_CHECKS
    around_average = False
    undefined_where = "the fit has no root on an increasing branch, or the interval no end"

    degree: Annotated[int, Field(ge=1, le=3), DEGREE] = 2
    separate: Annotated[bool, Setting("-", "whether every quantile has a fit of TR of its own")] | None = None

    def fits_vector(self, dimension: int) -> bool:
        return dimension > 1 and not self.separate

    def order(self) -> int:
        return 4 if self.degree == 3 else 3

    def unsuitable(self, source: PathSource) -> str | None:
        problem = source.problem
        if self.degree > 1 or not self.fits_vector(problem.dimension) or problem.levels() is None:
            return None
        return (
            f"{self.kind} of degree 1 keeps the bias that curvature gives the average, and its flags miss it:"
            " 90% intervals of several quantiles covered .32 to .92 without one. Take separate = true, which "
            "has degree 2"
        )

    def impossible(self, problem: Problem) -> str | None:
        if self.separate and problem.levels() is None:
            return "separate = true is for quantiles, whose gradients depend on their own coordinate alone"
        highest = 3
        if self.fits_vector(problem.dimension):
            highest = 2 if problem.dimension <= SMALL else 1
        if self.degree > highest:
            allowed = "degree = 1 alone" if highest == 1 else "degrees 1 and 2"
            return f"{self.kind} has {allowed} where theta has {problem.dimension} coordinates"
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
        """Fits of all coordinates, root u and slope P'(u) there, S, and the diagnosis, shapes (d, R).

        The diagnosis includes the shift of the root, in standard errors, in a fit to the later steps.
        """
        fit, variance = self.scalar_fit(record, steps, known)
        u, slope = fit.root(self.degree)
        diagnosis = self.scalar_checks(record, steps, fit, slope / fit.sd, variance)
        shift = np.full_like(u, np.nan)
        # Smallest power of two of at least 1/32 of the steps. Sums restart there: the fit needs no others.
        second = 1 << (-(-steps // LATE) - 1).bit_length()
        if 2 * self.first(steps) <= second <= steps - self.order() - 2:
            late = polynomial_fit(record, second, steps, self.order())
            at, _ = late.root(self.degree)
            error = fit.sd * np.sqrt(variance * fit.leverage(u, self.degree)) / slope
            shift = ((late.mean + late.sd * at) - (fit.mean + fit.sd * u)) / error
        return fit, u, slope, variance, diagnosis | {"early_shift": shift}


@lru_cache(maxsize=256)
def known_variance(source: PathSource) -> Array:
    """S from problem and mechanism at theta*, for one replicate: shape (d, d, 1)."""
    return np.array(source.algorithm.step_covariance(source.problem, source.randomiser))[:, :, None]


def step_sum(record: PathRecord, first: int, steps: int) -> float:
    """sum eta_i over the steps first + 1, ..., steps."""
    c, gamma = record.algorithm.step_constant(), record.algorithm.step_exponent()
    return float(c * constants.sum_of_powers(first + 1, steps, gamma))


def step_sums(record: PathRecord, first: int, steps: int) -> Array:
    """:func:`step_sum` of each coordinate, times its step factor, shape (d, 1)."""
    factors = record.algorithm.step_factors() or (1.0,) * len(record.origin)
    return step_sum(record, first, steps) * np.array(factors)[:, None]


def small_run_factor(relaxation_times: Array) -> Array:
    """K/(K - 4), at most 2."""
    k = np.maximum(relaxation_times, 8.0)
    return np.where(np.isnan(relaxation_times), np.nan, k / (k - 4.0))


class TranscriptRegression(Regression):
    """Regression on the transcript, with the score set of the fit.

    Parameters
    ----------
    variance : str
        S, the variance of A given the past: ``known``, the value that problem and mechanism give at
        theta* (for a quantile an analyst has it: tau (1 - tau) plus the mechanism's), or ``residual``,
        the fit's own.
    """

    kind: Literal["TR"] = "TR"
    cites = ("frees1990", "ni2026", "fieller1954")
    title = "regression on the private transcript: the root of a polynomial fitted to it (ours, no proof)"

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
        """Limits, shapes (levels, R), if something in [low, high] was added to the mean of every A_i.

        P at the root is a weighted sum of A_i. The weights have the sum 1 and the sum of squares h = v'M^-1v,
        so that their absolute sum is at most r = sqrt(N h): the mean of P there is within r (high - low)/2 of
        (low + high)/2. A limit is that of the score set of P less one of these two ends. It has the
        slope of the fit, with its error.
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
    """The root of the fit with batch means' length: free of the model for S.

    Parameters
    ----------
    M : int >= 2, optional
        Number of batches, as in BM.
    """

    kind: Literal["TR-BM"] = "TR-BM"
    cites = ("frees1990", "ni2026", "chen2020")
    title = "the root of that fit with the length of batch means (ours, no proof)"

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
    """Interval around the average with the covariance from the transcript's slope.

    Parameters
    ----------
    degree : int in [1, 2], optional
        Degree of the fit; by default 2 for a scalar and 1 for a vector.
    burn_in : str
        Steps i0 left out at the start, as in TR.
    variance : str
        S: ``known``, from problem and mechanism at theta*, or ``residual``, the fit's own.
    small_run : bool
        Whether half widths are multiplied by f.
    """

    kind: Literal["TRC"] = "TRC"
    cites = ("ni2026",)
    title = "the average with the sandwich of the transcript's slope (after Ni and Huo, 2026)"
    undefined_where = "the estimated slope or variance is not positive"
    diagnostics = CHECKS

    degree: Annotated[int, Field(ge=1, le=2), DEGREE] | None = None
    variance: StepVariance = "known"
    small_run: SmallRun = True

    def order(self) -> int:
        return self.fit_degree(1) + 1

    def impossible(self, problem: Problem) -> str | None:
        if self.degree == 2 and problem.dimension > 1:
            return f"TRC has degree = 1 alone where theta has {problem.dimension} coordinates"
        return None

    def estimate_variance(self, record: PathRecord, steps: int) -> Variance | None:
        if self.too_short(steps, len(record.origin)):
            return None
        matrix, diagnosis = self.matrix(record, steps)
        times = diagnosis["relaxation_times"]
        factor = small_run_factor(times) if self.small_run else 1.0
        return Variance(diagonal(matrix), factor=np.where(times > 0.0, factor, np.nan), diagnosis=diagnosis)

    def matrix(self, record: PathRecord, steps: int) -> tuple[Array, Diagnosis]:
        """V = B^-1 S B^-T, shape (d, d, R), without the small-run factor, and the fit's diagnosis."""
        known = self.variance == "known"
        if len(record.origin) > 1:
            vector, covariance, diagnosis = self.diagnose_vector_fit(record, steps, known)
            half = product(vector.inverse, covariance)
            return product(half, vector.inverse.transpose(1, 0, 2)), diagnosis
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
