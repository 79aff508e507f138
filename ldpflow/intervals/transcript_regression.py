"""Regression on the private transcript, TR and TR-BM (without a proof; docs/transcript_regression.md names
the prior work: regressing on a transcript is old, its use for an unbiased root of private reports is ours).

The transcript shows x_i = theta_{i-1} and A_i = (theta_{i-1} - theta_i)/eta_i, the private gradient,
with E[A_i | past] = R(theta_{i-1}). So R is fitted by a polynomial P and theta* is estimated by its
root, which has no bias from a curvature of R that P describes, where the average has one. Where P does
not describe R, as beyond the end of a law's support, the root is biased too, and one run seldom shows
it (docs/transcript_regression.md says how often). All of it is post-processing of what was released: no
privacy cost.

TR: the points nearest the root where P^2 = z^2 S v' M^-1 v (a score set, as Fieller's), both arms
times K/(K - 4), at most 2, with K = P'(root) sum eta_i the run's length in relaxation times: least
squares in an autoregression overstates the slope by about 4/K.
TR-BM: TR's root, and batch means' standard error times sqrt(kappa) and a t quantile, with
kappa = (n/N) / (1 - (sum eta)^2/(3 N sum eta^2)) the price of the root against the average.

Vectors: linear regression, and a quadratic one where d is small, with intervals that are linear in the
error (see .transcript_regression_linear and .transcript_regression_quadratic). What the next power is to
the test of a scalar fit, the two halves of the run are here: the iterates spread less and less, so where
the degree does not suffice the slopes that an early and a late half see differ.
The argument is the limit theory of least squares with adaptive regressors (Lai and Wei, 1982).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, isqrt
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ldpflow import constants
from ldpflow.algorithms import Algorithm
from ldpflow.intervals.batch_means import Batches, BatchMeans
from ldpflow.intervals.interval import Array, Intervals, PathIntervalMethod, symmetric
from ldpflow.intervals.record import PathRecord, PathSource
from ldpflow.intervals.shared_settings import BURN_IN, DEGREE, SEPARATE, VARIANCE
from ldpflow.intervals.transcript_regression_checks import (
    ROOT_CHECKS,
    Halves,
    VectorFit,
    cautions,
    scalar_checks,
    vector_checks,
)
from ldpflow.intervals.transcript_regression_fit import PolynomialFit
from ldpflow.intervals.transcript_regression_linear import diagonal
from ldpflow.intervals.transcript_regression_sums import polynomial_fit, vector_fit
from ldpflow.kernels.running_sums import pieces, regressors
from ldpflow.problems import Problem

__all__ = ["TranscriptRegression", "TranscriptRegressionBatchMeans"]

BurnIn = Annotated[
    str,
    Field(
        pattern=r"^(n\^0?\.[0-9]{1,6}|0?\.[0-9]{1,6}n)$",
        description="steps left out at the start, such as n^0.4 or 0.01n",
    ),
    BURN_IN,
]

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

    diagnostics: ClassVar = ROOT_CHECKS

    around_average: ClassVar[bool | None] = False

    undefined_where: ClassVar[str] = "the fit has no root on an increasing branch, or the interval no end"

    degree: Annotated[int, Field(ge=1, le=3), DEGREE] = 2
    burn_in: BurnIn = "n^0.4"
    separate: Annotated[bool, SEPARATE] | None = None

    @classmethod
    def cautions(cls, row: Mapping[str, Any], vector: bool = False) -> list[str]:
        return cautions(row, vector)

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

    def times(self, steps: int, algorithm: Algorithm) -> NDArray[np.int64]:
        return np.array([steps], dtype=np.int64)

    def steps_read(self) -> tuple[str, ...]:
        return ("step_exponent", "step_constant")

    def times_settings(self) -> tuple[object, ...]:
        return (self.burn_in,)

    def count_times(self, steps: int, algorithm: Algorithm) -> int:
        return 2 + steps.bit_length()

    def running_sums(self, dimension: int) -> tuple[str, ...]:
        if self.fits_vector(dimension):
            return ("transcript_linear",) if self.degree == 1 else ("transcript_quadratic",)
        cubic = ("transcript_cubic",)
        return cubic if self.order() == 3 else (*cubic, "transcript_quartic")

    def intervals(self, record: PathRecord, n: int, levels: Sequence[float]) -> Intervals:
        algorithm = record.algorithm
        steps = record.steps(n)
        first = self.first(steps)
        d = len(record.origin)
        vector = self.fits_vector(d)
        needed = self.parameters(d) + 2 if vector else self.order() + 2
        if (self.middle(steps) if vector else steps) - first < needed:
            estimate = np.full((d, len(record.replicates)), np.nan)
            nothing = np.full((len(levels), *estimate.shape), np.nan)
            return Intervals(estimate, estimate, nothing, nothing)
        length = algorithm.step_constant() * constants.sum_of_powers(
            first + 1, steps, algorithm.step_exponent()
        )
        asked = Asked(record, n, levels, length)
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

    title: ClassVar[str] = (
        "regression on the private transcript: the root of a polynomial fitted to it (ours, no proof)"
    )

    kind: Literal["TR"] = "TR"
    variance: Annotated[Literal["known", "residual"], VARIANCE] = "known"

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
        widths = [constants.normal_quantile(0.5 + level / 2.0) * se for level in asked.levels]
        diagnosis = vector_checks(fit, halves, variance, lengths)
        return Intervals(estimate, se, *symmetric(estimate, widths), diagnosis)


class TranscriptRegressionBatchMeans(Regression):
    """The root of the fit with batch means' length: free of the model for S.

    Parameters
    ----------
    M : int >= 2, optional
        Number of batches, as in BM.
    """

    title: ClassVar[str] = "the root of that fit with the length of batch means (ours, no proof)"

    kind: Literal["TR-BM"] = "TR-BM"
    M: Batches | None = None

    def batch_means(self) -> BatchMeans:
        """The method whose length is used."""
        return BatchMeans(M=self.M)

    def times(self, steps: int, algorithm: Algorithm) -> NDArray[np.int64]:
        return np.union1d(super().times(steps, algorithm), self.batch_means().times(steps, algorithm))

    def times_settings(self) -> tuple[object, ...]:
        return (self.burn_in, self.M)

    def count_times(self, steps: int, algorithm: Algorithm) -> int:
        return super().count_times(steps, algorithm) + self.batch_means().count_times(steps, algorithm)

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
        se = self.batch_means().intervals(asked.record, asked.n, asked.levels).se
        assert se is not None
        batches = len(self.batch_means().ends(steps, gamma)) - 1
        se = np.where(np.isfinite(centre), float(np.sqrt(kappa)) * se[coordinates], np.nan)
        widths = [
            constants.student_quantile(0.5 + level / 2.0, float(max(batches - 1, 1))) * se
            for level in asked.levels
        ]
        return Intervals(centre, se, *symmetric(centre, widths), diagnosis)
