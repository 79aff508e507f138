"""Regression on the private transcript: TR, TR-BM and TRC.

TR and TR-BM have no proof; docs/transcript_regression.md names the prior work: regressing on a transcript
is old, its use for an unbiased root of private reports is ours.

The transcript shows x_i = theta_{i-1} and A_i = (theta_{i-1} - theta_i)/eta_i, the private gradient, with
E[A_i | past] = R(theta_{i-1}). So R is fitted by a polynomial P and theta* is estimated by its root, which
has no bias from a curvature of R that P describes, where the average has one. Where P does not describe R,
as beyond the end of a law's support, the root is biased too, and one run seldom shows it
(docs/transcript_regression.md says how often). All of it is post-processing of what was released: no
privacy cost.

**TR**: the points nearest the root where P^2 = z^2 S v' M^-1 v (a score set, as Fieller's), both arms times
K/(K - 4), at most 2, with K = P'(root) sum eta_i the run's length in relaxation times: least squares in an
autoregression overstates the slope by about 4/K.

**TR-BM**: TR's root, and batch means' standard error times sqrt(kappa) and a t quantile, with
kappa = (n/N) / (1 - (sum eta)^2/(3 N sum eta^2)) the price of the root against the average.

Vectors: linear regression, and a quadratic one where d is small, with intervals that are linear in the
error. What the next power is to the test of a scalar fit, the two halves of the run are here: the iterates
spread less and less, so where the degree does not suffice the slopes that an early and a late half see
differ. The argument is the limit theory of least squares with adaptive regressors (Lai and Wei, 1982).

**TRC**, the average's covariance from the slope of the transcript

    B = slope at thetabar of the least-squares fit of A_i on powers of theta_(i-1), i0 < i <= n
    V = B^-1 S B^-T,   interval thetabar_j -+ z f_j sqrt(V_jj/n)

with S the covariance of A_i given the past. The idea of regressing SGD's increments on its iterates for the
sandwich is that of Ni and Huo (2026), "trajectory regression", whose weights are not reproduced here: the
fit is the unweighted one of TR, with TR's sums, burn-in and small-run factor f = K/(K - 4), at most 2, K =
sum eta_i / (B^-1)_jj. TR estimates the root of the fit; TRC stays around the average, and keeps the
average's bias. Vectors have a fit of degree 1; a scalar one of degree 2 or 1.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, isqrt
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from ldpflow.columns import CAUTIOUS, Column, Summary
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
    undefined,
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

Halves = tuple[VectorFit, VectorFit]

SOURCE = "regression on the transcript alone"
ILL = 1e6  # condition from which on rounding may be seen

CHECKS = (
    Column(
        "relaxation_times",
        "double",
        "1",
        "K, the run's length in relaxation times (TR)",
        summaries=(
            Summary(
                "relaxation_times_median",
                "median of K, the run's length in relaxation times",
                shown=False,
                reference=SOURCE,
            ),
            Summary(
                "too_short",
                "share of finished rows with K < 25",
                below=25.0,
                caution="the run is too short (K < 25 relaxation times)",
                shown=False,
                reference=SOURCE,
            ),
        ),
    ),
    Column(
        "lack_of_fit",
        "double",
        "1",
        "t statistic of the next power in TR's fit; for vectors of the own slope, late half of the run "
        "against early",
        summaries=(
            Summary(
                "poor_fit",
                "share of finished rows with abs(lack_of_fit) > 2.576; .01 where the degree suffices",
                beyond=2.576,
                caution="the degree does not suffice (significant at 1%)",
                shown=False,
                reference=SOURCE,
            ),
        ),
    ),
    Column(
        "condition",
        "double",
        "1",
        "largest over smallest pivot of TR's fit",
        summaries=(
            Summary("condition_median", "median of the condition of the fit", shown=False, reference=SOURCE),
        ),
    ),
)
"""The diagnostics of every regression on the transcript."""

ROOT_CHECKS = (
    *CHECKS,
    Column(
        "early_shift",
        "double",
        "standard errors",
        "root of TR's fit without the first 3 to 6% of the steps, less TR's; not for fits of a vector",
        summaries=(
            Summary(
                "early_steps",
                "share of finished rows with abs(early_shift) > 1; below .04 in most cells where TR covers",
                beyond=1.0,
                caution="the first steps move the estimate by more than a standard error",
                shown=False,
                reference=SOURCE,
            ),
        ),
    ),
)
"""The diagnostics of TR and TR-BM, whose estimate is the root of the fit."""


def scalar_checks(
    fit: PolynomialFit,
    late: PolynomialFit | None,
    degree: int,
    variance: Array,
    root: tuple[Array, Array],
    length: float,
) -> dict[str, Array]:
    """K = P'(root) sum eta_i, the condition of the fit, the t statistic of the next power, and the root's
    move, in its standard errors, to that of the fit to the later steps alone.
    """
    u, slope = root
    shift = np.full_like(u, np.nan)
    if late is not None:
        error = fit.sd * np.sqrt(variance * fit.leverage(u, degree)) / slope
        at, _ = late.sound_root(degree)
        shift = ((late.mean + late.sd * at) - (fit.mean + fit.sd * u)) / error
    return {
        "relaxation_times": (slope / fit.sd * length)[None],
        "condition": fit.condition(degree)[None],
        "lack_of_fit": fit.lack_of_fit(degree, variance)[None],
        "early_shift": shift[None],
    }


def vector_checks(fit: VectorFit, halves: Halves, variance: Array, length: float | Array) -> dict[str, Array]:
    """K by coordinate, length/(J^-1)_jj; the condition of the fit; and its test, dP_j/dx_j at the root
    in the late half of the run against the early: a t statistic, N(0, 1) where the degree suffices.
    """
    relaxation_times = length / diagonal(fit.inverse)
    (early, early_variance), (late, late_variance) = (half.own_slopes(fit.root) for half in halves)
    error = np.sqrt(diagonal(variance) * (early_variance + late_variance))
    return {
        "relaxation_times": relaxation_times,
        "condition": np.broadcast_to(fit.condition, relaxation_times.shape),
        "lack_of_fit": (late - early) / error,
    }


def advice_on(row: Mapping[str, Any], vector: bool) -> list[str]:
    """Sentences about a row of the summary: what is wrong with the fit and what would help."""
    degree = row["degree"]
    lost, short, poor, early = (
        row.get(k) or 0.0 for k in ("failure_share", "too_short", "poor_fit", "early_steps")
    )
    found = []
    if lost > CAUTIOUS:
        found.append(
            f"{lost:.0%} of its intervals are undefined (the fit has no root on an increasing branch, or "
            "the interval no end), and the coverage is that of the others: take a larger n"
            + (f", or a degree below {degree}." if degree > 1 else ".")
        )
    if short > CAUTIOUS:
        found.append(
            f"The run is too short in {short:.0%} of the replicates (median of "
            f"{row['relaxation_times_median']:.0f} relaxation times; 25 are needed): take a larger n. "
            "Larger steps (c) help here too, and can bias the averages that other methods are around."
        )
    if poor > CAUTIOUS:
        if vector and not row.get("separate"):
            # A longer burn-in alone would silence the test and leave a bias from curvature in place; a
            # larger n leaves it too, in standard errors, where steps fall like i^-.51.
            remedy = "take smaller steps (c)"
            if degree < 2:
                remedy += ', or degree = 2 with burn_in = "0.1n" (up to five coordinates)'
            fault = "the slopes seen by the early and the late half of the run differ"
        else:
            remedy = (
                'take degree = 3 with burn_in = "0.01n"'
                if degree < 3
                else "take smaller steps (c); TR-BM has a length free of the fit"
            )
            fault = f"power {degree + 1} is significant at 1%"
        found.append(f"Degree {degree} does not fit in {poor:.0%} of the replicates ({fault}): {remedy}.")
    if early > CAUTIOUS:
        found.append(
            f"Without the first 3 to 6% of the steps the estimate moves by more than a standard error in "
            f"{early:.0%} of the replicates: a polynomial of degree {degree} does not describe where they "
            'went. Take burn_in = "0.1n".'
        )
    if (row["condition_median"] or 0.0) > ILL:
        found.append(
            f"The powers of theta are nearly collinear (condition {row['condition_median']:.1e}): start "
            "nearer to the root, or leave out more of the start (burn_in)."
        )
    return found


SMALL = 5
"""Coordinates up to which the quadratic fit is offered: 1 + d (d + 3)/2 = 21 regressors."""

LATE = 32
"""The fit to the later steps leaves out at least 1/32 of them."""


@dataclass(frozen=True)
class Asked:
    """Inputs of intervals beside the fit; ``length`` is the sum of eta_i over the fit."""

    record: PathRecord
    n: int
    levels: Sequence[float]
    length: float


@dataclass(frozen=True)
class Fits:
    """Polynomial of one coordinate, and that of the later steps alone, None in short runs."""

    coordinate: int
    whole: PolynomialFit
    late: PolynomialFit | None


class Regression(PathIntervalMethod):
    """Base of TR and TR-BM: the sums they need and the fit they make.

    Parameters
    ----------
    degree : int in [1, 3]
        Degree of P; for a vector 1, or 2 up to d = 5.
    burn_in : str
        Steps i0 left out at the start: ``n^0.4`` or ``0.01n`` or alike, rounded up; n counts steps.
    separate : bool, optional
        For several quantiles: a fit of its own for each of them, as for a scalar. The gradient of a
        quantile depends on its own coordinate alone.
    """

    diagnostics = ROOT_CHECKS
    around_average = False
    undefined_where = "the fit has no root on an increasing branch, or the interval no end"

    degree: Annotated[int, Field(ge=1, le=3), DEGREE] = 2
    burn_in: BurnIn = "n^0.4"
    separate: Annotated[bool, Setting("-", "whether every quantile has a fit of TR of its own")] | None = None

    @classmethod
    def cautions(cls, row: Mapping[str, Any], vector: bool = False) -> list[str]:
        return advice_on(row, vector)

    def fits_vector(self, dimension: int) -> bool:
        """Whether one fit is made for all coordinates of a vector."""
        return dimension > 1 and not self.separate

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
        vector = self.fits_vector(problem.dimension)
        highest = 3 if not vector else 2 if problem.dimension <= SMALL else 1
        if self.degree > highest:
            allowed = "degree = 1 alone" if highest == 1 else "degrees 1 and 2"
            return f"{self.kind} has {allowed} where theta has {problem.dimension} coordinates"
        return None

    def first(self, steps: int) -> int:
        """i0: the regression uses steps i0 + 1, ..., steps."""
        if self.burn_in.startswith("n^"):
            return constants.ceil_power(steps, float(self.burn_in[2:]))
        return max(1, ceil(Fraction(self.burn_in[:-1]) * steps))

    def order(self) -> int:
        """Highest power in the sums: one above the degree, for the test of the fit."""
        return 4 if self.degree == 3 else 3

    def middle(self, steps: int) -> int:
        """Where the run has half its relaxation times at gamma = 1/2: a mean of square roots."""
        first = self.first(steps)
        return (first + steps + 2 * isqrt(first * steps)) // 4

    def marked_times(self, steps: int, algorithm: Algorithm, dimension: int) -> tuple[int, ...]:
        first = self.first(steps)
        middle = (self.middle(steps),) if self.fits_vector(dimension) else ()
        return (first, *middle, *pieces(first, steps))

    def steps_read(self) -> tuple[str, ...]:
        return ("step_exponent", "step_constant")

    def times_settings(self) -> tuple[object, ...]:
        return (self.burn_in, *super().times_settings())

    def count_times(self, steps: int, algorithm: Algorithm) -> int:
        held = sum(method.count_times(steps, algorithm) for method in self.nested())
        return 2 + steps.bit_length() + held

    def running_sums(self, dimension: int) -> tuple[str, ...]:
        if self.fits_vector(dimension):
            return ("transcript_linear",) if self.degree == 1 else ("transcript_quadratic",)
        cubic = ("transcript_cubic",)
        return cubic if self.order() == 3 else (*cubic, "transcript_quartic")

    def intervals(self, record: PathRecord, n: int, levels: Sequence[float]) -> Intervals:
        steps = record.steps(n)
        first = self.first(steps)
        d = len(record.origin)
        vector = self.fits_vector(d)
        needed = self.parameters(d) + 2 if vector else self.order() + 2
        if (self.middle(steps) if vector else steps) - first < needed:
            return undefined(np.full((d, len(record.replicates)), np.nan), levels)
        asked = Asked(record, n, levels, length_of(record, first, steps))
        if vector:
            middle = self.middle(steps)
            whole, early, late = (
                vector_fit(record, self.degree, low, high)
                for low, high in ((first, steps), (first, middle), (middle, steps))
            )
            return self.vector(asked, whole, (early, late))
        second = late_start(steps)
        compared = 2 * first <= second <= steps - needed

        def fits(j: int) -> Fits:
            whole = polynomial_fit(record, first, steps, self.order(), j)
            return Fits(
                j, whole, polynomial_fit(record, second, steps, self.order(), j) if compared else None
            )

        return stacked([self.scalar(asked, fits(j)) for j in range(d)])

    @abstractmethod
    def scalar(self, asked: Asked, fits: Fits) -> Intervals:
        """Intervals of one coordinate from its polynomial."""

    @abstractmethod
    def vector(self, asked: Asked, fit: VectorFit, halves: Halves) -> Intervals:
        """Intervals from the fit of a vector, with that of the run's early and late half."""

    def parameters(self, dimension: int) -> int:
        """Regressors of the fit of a vector, with the constant."""
        return 1 + (dimension if self.degree == 1 else regressors(dimension))


def late_start(steps: int) -> int:
    """Smallest power of two from 1/32 of the steps on: sums start again there, so this fit costs none."""
    return 1 << (-(-steps // LATE) - 1).bit_length()


def stacked(parts: Sequence[Intervals]) -> Intervals:
    """Intervals of a vector from those of its coordinates."""
    if len(parts) == 1:
        return parts[0]
    return Intervals(
        np.concatenate([part.estimate for part in parts]),
        np.concatenate([part.se for part in parts if part.se is not None]),
        np.concatenate([part.lower for part in parts], axis=1),
        np.concatenate([part.upper for part in parts], axis=1),
        {name: np.concatenate([part.diagnosis[name] for part in parts]) for name in parts[0].diagnosis},
    )


def known_variance(record: PathRecord) -> Array:
    """S from problem and mechanism at theta*, for one replicate: shape (d, d, 1)."""
    return np.array(variance_of_steps(record.source))[:, :, None]


@lru_cache(maxsize=256)
def variance_of_steps(source: PathSource) -> tuple[tuple[float, ...], ...]:
    """S by rows."""
    return tuple(map(tuple, source.algorithm.step_covariance(source.problem, source.randomiser)))


def by_coordinate(length: float, algorithm: Algorithm) -> float | Array:
    """Sum of the step sizes of every coordinate, shape (d, 1), where they have steps of their own."""
    factors = algorithm.step_factors()
    return length * np.array(factors)[:, None] if factors else length


def length_of_coordinate(asked: Asked, coordinate: int) -> float:
    """Sum of the step sizes of one coordinate."""
    factors = asked.record.algorithm.step_factors()
    return asked.length * factors[coordinate] if factors else asked.length


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

    def scalar(self, asked: Asked, fits: Fits) -> Intervals:
        fit, j = fits.whole, fits.coordinate
        if self.variance == "known":
            variance = known_variance(asked.record)[j, j] * np.ones_like(fit.mean)
        else:
            variance = fit.residual_variance(self.degree)
        root = u, slope = fit.sound_root(self.degree)
        length = length_of_coordinate(asked, j)
        diagnosis = scalar_checks(fit, fits.late, self.degree, variance, root, length)
        factor = small_run_factor(diagnosis["relaxation_times"][0]) * fit.sd
        critical = np.array([constants.normal_quantile(0.5 + level / 2.0) for level in asked.levels])
        below, above = fit.arms(u, slope, self.degree, variance, critical)
        estimate = asked.record.origin[j] + (fit.mean + fit.sd * u)
        se = factor * np.sqrt(variance * fit.leverage(u, self.degree)) / slope
        return Intervals(
            estimate[None],
            se[None],
            (estimate - factor * below)[:, None],
            (estimate + factor * above)[:, None],
            diagnosis,
        )

    def vector(self, asked: Asked, fit: VectorFit, halves: Halves) -> Intervals:
        variance = fit.residual if self.variance == "residual" else known_variance(asked.record)
        lengths = by_coordinate(asked.length, asked.record.algorithm)
        relaxation_times = lengths / diagonal(fit.inverse)
        estimate = asked.record.origin[:, None] + fit.root
        se = np.sqrt(fit.variances(variance)) * small_run_factor(relaxation_times)
        se = np.where(relaxation_times > 0.0, se, np.nan)
        diagnosis = vector_checks(fit, halves, variance, lengths)
        return normal_intervals(estimate, se, asked.levels, diagnosis=diagnosis)


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

    def scalar(self, asked: Asked, fits: Fits) -> Intervals:
        fit, j = fits.whole, fits.coordinate
        root = fit.sound_root(self.degree)
        # The variance enters the diagnosis alone.
        variance = fit.residual_variance(self.degree)
        length = length_of_coordinate(asked, j)
        diagnosis = scalar_checks(fit, fits.late, self.degree, variance, root, length)
        centre = asked.record.origin[j] + (fit.mean + fit.sd * root[0])
        return self.around(asked, centre[None], diagnosis, slice(j, j + 1))

    def vector(self, asked: Asked, fit: VectorFit, halves: Halves) -> Intervals:
        # The variance enters the test of the fit alone.
        lengths = by_coordinate(asked.length, asked.record.algorithm)
        diagnosis = vector_checks(fit, halves, fit.residual, lengths)
        return self.around(asked, asked.record.origin[:, None] + fit.root, diagnosis, slice(None))

    def around(
        self, asked: Asked, centre: Array, diagnosis: dict[str, Array], coordinates: slice
    ) -> Intervals:
        """Batch means' interval moved to the centre, with sqrt(kappa) and a t quantile."""
        algorithm = asked.record.algorithm
        steps = asked.record.steps(asked.n)
        first = self.first(steps)
        count = steps - first
        c, gamma = algorithm.step_constant(), algorithm.step_exponent()
        squares = c * c * constants.sum_of_powers(first + 1, steps, 2.0 * gamma)
        kappa = steps / count / (1.0 - asked.length * asked.length / (3.0 * count * squares))
        (batch_means,) = self.nested()
        se = batch_means.intervals(asked.record, asked.n, asked.levels).se
        assert se is not None
        se = np.where(np.isfinite(centre), float(np.sqrt(kappa)) * se[coordinates], np.nan)
        degrees = float(max(len(batch_means.ends(steps, gamma)) - 2, 1))
        return normal_intervals(centre, se, asked.levels, degrees, diagnosis)


class TranscriptCovariance(VarianceMethod):
    """Interval around the average with the covariance from the transcript's slope.

    Parameters
    ----------
    degree : int in [1, 2], optional
        Degree of the fit; 2 for a scalar and 1 for a vector unless given.
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
    burn_in: BurnIn = "n^0.4"
    variance: StepVariance = "known"
    small_run: SmallRun = True

    @classmethod
    def cautions(cls, row: Mapping[str, Any], vector: bool = False) -> list[str]:
        found = super().cautions(row, vector)
        effect, coverage = row.get("bias_effect"), row.get("coverage")
        if effect is not None and coverage is not None:
            gap = row["level"] - coverage
            if gap > 2.0 * (row["coverage_mcse"] or 0.0) and -effect > 0.5 * gap:
                found.append(
                    "TRC settles the length of the interval and leaves the average's bias, which is most of "
                    "what is missing here: TR's root has less of it."
                )
        return found

    def regression(self, dimension: int) -> TranscriptRegression:
        """TR with the same fit: it says what is needed."""
        degree = self.degree or (2 if dimension == 1 else 1)
        return TranscriptRegression(degree=degree, burn_in=self.burn_in, variance=self.variance)

    def impossible(self, problem: Problem) -> str | None:
        if self.degree == 2 and problem.dimension > 1:
            return f"TRC has degree = 1 alone where theta has {problem.dimension} coordinates"
        return None

    def marked_times(self, steps: int, algorithm: Algorithm, dimension: int) -> tuple[int, ...]:
        return self.regression(dimension).marked_times(steps, algorithm, dimension)

    def steps_read(self) -> tuple[str, ...]:
        return ("step_exponent", "step_constant")

    def times_settings(self) -> tuple[object, ...]:
        return (self.burn_in,)

    def count_times(self, steps: int, algorithm: Algorithm) -> int:
        return self.regression(1).count_times(steps, algorithm)

    def running_sums(self, dimension: int) -> tuple[str, ...]:
        return self.regression(dimension).running_sums(dimension)

    def estimate_variance(self, record: PathRecord, steps: int) -> Variance | None:
        d = len(record.origin)
        if self.too_short(steps, d):
            return None
        if d == 1:
            value, diagnosis = self.scalar(record, steps)
        else:
            matrix, diagnosis = self.matrix(record, steps)
            value = diagonal(matrix)
        times = diagnosis["relaxation_times"]
        factor = small_run_factor(times) if self.small_run else 1.0
        return Variance(value, factor=np.where(times > 0.0, factor, np.nan), diagnosis=diagnosis)

    def too_short(self, steps: int, dimension: int) -> bool:
        """Whether there are fewer steps than parameters and two; for a vector, in the early half."""
        regression = self.regression(dimension)
        first, middle = regression.first(steps), regression.middle(steps)
        if dimension == 1:
            return steps - first < regression.degree + 3
        return middle - first < dimension + 3

    def scalar(self, record: PathRecord, steps: int) -> tuple[Array, dict[str, Array]]:
        """V, shape (1, R), from the slope at the average; K, the condition and the fit's test."""
        mean = average(record, steps)[0] - record.origin[0]
        regression = self.regression(1)
        first, degree = regression.first(steps), regression.degree
        fit = polynomial_fit(record, first, steps, degree + 1)
        b = fit.monomials(degree)
        slope = b[1]
        if degree == 2:
            slope = slope + 2.0 * b[2] * ((mean - fit.mean) / fit.sd)
        slope = np.where(fit.sound[degree] & (slope > 0.0), slope / fit.sd, np.nan)
        if self.variance == "known":
            covariance = known_variance(record)[0, 0] * np.ones_like(slope)
        else:
            covariance = fit.residual_variance(degree)
        diagnosis = {
            "relaxation_times": (slope * length_of(record, first, steps))[None],
            "condition": fit.condition(degree)[None],
            "lack_of_fit": fit.lack_of_fit(degree, covariance)[None],
        }
        return (covariance / (slope * slope))[None], diagnosis

    def matrix(self, record: PathRecord, steps: int) -> tuple[Array, dict[str, Array]]:
        """V = B^-1 S B^-T, shape (d, d, R), without the small-run factor, and the fit's diagnosis."""
        d = len(record.origin)
        regression = self.regression(d)
        first, middle = regression.first(steps), regression.middle(steps)
        fit = vector_fit(record, 1, first, steps)
        covariance = fit.residual if self.variance == "residual" else known_variance(record)
        halves = (vector_fit(record, 1, first, middle), vector_fit(record, 1, middle, steps))
        lengths = by_coordinate(length_of(record, first, steps), record.algorithm)
        diagnosis = vector_checks(fit, halves, covariance, lengths)
        half = product(fit.inverse, covariance)
        return product(half, fit.inverse.transpose(1, 0, 2)), diagnosis


def length_of(record: PathRecord, first: int, steps: int) -> float:
    """sum eta_i over the steps first + 1, ..., steps."""
    algorithm = record.algorithm
    length: float = algorithm.step_constant() * constants.sum_of_powers(
        first + 1, steps, algorithm.step_exponent()
    )
    return length
