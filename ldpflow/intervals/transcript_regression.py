"""Regression on the private transcript, TR and TR-BM (without a proof; docs/transcript_regression.md names
the prior work: regressing on a transcript is old, its use for an unbiased root of private reports is ours).

The transcript shows x_i = theta_{i-1} and A_i = (theta_{i-1} - theta_i)/eta_i, the private gradient,
with E[A_i | past] = R(theta_{i-1}). So R is fitted by a polynomial P and theta* is estimated by its
root, which has no bias from the curvature of R, where the average has one. All of it is
post-processing of what was released: no privacy cost.

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
from ldpflow.intervals.shared_settings import BURN_IN, DEGREE, VARIANCE
from ldpflow.intervals.transcript_regression_checks import (
    CHECKS,
    Halves,
    VectorFit,
    cautions,
    scalar_checks,
    vector_checks,
)
from ldpflow.intervals.transcript_regression_fit import PolynomialFit, fit_polynomial
from ldpflow.intervals.transcript_regression_linear import diagonal, fit_linear
from ldpflow.intervals.transcript_regression_quadratic import fit_quadratic
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

# Where a fit of degree 1 and the power above it find their sums in those of the cubic.
QUADRATIC = [0, 1, 2, 3, 6, 7, 8, 10]

# The cubic's sums and the three of the quartic, sorted: x^1..x^8, A..A x^4, A^2.
QUARTIC = [0, 1, 2, 3, 4, 5, 11, 12, 6, 7, 8, 9, 13, 10]


@dataclass(frozen=True)
class Asked:
    """Inputs of intervals beside the fit; ``length`` is the sum of eta_i over the fit."""

    record: PathRecord
    n: int
    levels: Sequence[float]
    length: float


class Regression(PathIntervalMethod):
    """Base of TR and TR-BM: the sums they need and the fit they make.

    Parameters
    ----------
    degree : int in [1, 3]
        Degree of P; for a vector 1, or 2 up to d = 5.
    burn_in : str
        Steps i0 left out at the start: ``n^0.4`` or ``0.01n`` or alike, rounded up; n counts steps.
    """

    diagnostics: ClassVar = CHECKS

    around_average: ClassVar[bool | None] = False

    undefined_where: ClassVar[str] = "the fit has no root on an increasing branch, or the interval no end"

    degree: Annotated[int, Field(ge=1, le=3), DEGREE] = 2
    burn_in: BurnIn = "n^0.4"

    @classmethod
    def cautions(cls, row: Mapping[str, Any], vector: bool = False) -> list[str]:
        return cautions(row, vector)

    def impossible(self, problem: Problem) -> str | None:
        highest = 3 if problem.dimension == 1 else 2 if problem.dimension <= SMALL else 1
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
        middle = () if dimension == 1 else (self.middle(steps),)
        return (first, *middle, *pieces(first, steps))

    def times(self, steps: int, algorithm: Algorithm) -> NDArray[np.int64]:
        return np.array([steps], dtype=np.int64)

    def times_settings(self) -> tuple[object, ...]:
        return (self.burn_in,)

    def count_times(self, steps: int, algorithm: Algorithm) -> int:
        return 2 + steps.bit_length()

    def running_sums(self, dimension: int) -> tuple[str, ...]:
        if dimension > 1:
            return ("transcript_linear",) if self.degree == 1 else ("transcript_quadratic",)
        cubic = ("transcript_cubic",)
        return cubic if self.order() == 3 else (*cubic, "transcript_quartic")

    def intervals(self, record: PathRecord, n: int, levels: Sequence[float]) -> Intervals:
        algorithm = record.algorithm
        steps = record.steps(n)
        first = self.first(steps)
        d = len(record.origin)
        needed = self.order() + 2 if d == 1 else self.parameters(d) + 2
        if (steps if d == 1 else self.middle(steps)) - first < needed:
            estimate = np.full((d, len(record.replicates)), np.nan)
            nothing = np.full((len(levels), *estimate.shape), np.nan)
            return Intervals(estimate, estimate, nothing, nothing)
        length = algorithm.step_constant() * constants.sum_of_powers(
            first + 1, steps, algorithm.step_exponent()
        )
        asked = Asked(record, n, levels, length)
        if d > 1:
            middle = self.middle(steps)
            whole, early, late = (
                vector_fit(record, self.degree, low, high)
                for low, high in ((first, steps), (first, middle), (middle, steps))
            )
            return self.vector(asked, whole, (early, late))
        return self.scalar(asked, polynomial_fit(record, first, steps, self.order()))

    @abstractmethod
    def scalar(self, asked: Asked, fit: PolynomialFit) -> Intervals:
        """Intervals from the polynomial."""

    @abstractmethod
    def vector(self, asked: Asked, fit: VectorFit, halves: Halves) -> Intervals:
        """Intervals from the fit of a vector, with that of the run's early and late half."""

    def parameters(self, dimension: int) -> int:
        """Regressors of the fit of a vector, with the constant."""
        return 1 + (dimension if self.degree == 1 else regressors(dimension))


def sums_between(record: PathRecord, names: Sequence[str], first: int, last: int) -> tuple[Array, Array]:
    """Sums over the steps first + 1, ..., last, and what they were before a subtraction.

    The shapes are (count, d, R), of all names together.
    """

    def at(time: int) -> Array:
        return np.concatenate([record.running(name, time) for name in names])

    total, *others = [at(time) for time in pieces(first, last)]
    gross = total
    if first & (first - 1):
        total = total - at(first)
    for piece in others:
        total, gross = total + piece, gross + piece
    return total, gross


def polynomial_fit(record: PathRecord, first: int, last: int, order: int) -> PolynomialFit:
    """Fits of a scalar theta up to a degree (2 to 4) over the steps first + 1, ..., last."""

    def fit() -> PolynomialFit:
        names = ("transcript_cubic",) if order < 4 else ("transcript_cubic", "transcript_quartic")
        sums, gross = sums_between(record, names, first, last)
        if order != 3:
            taken = QUADRATIC if order == 2 else QUARTIC
            sums, gross = sums[taken], gross[taken]
        return fit_polynomial(sums[:, 0], gross[:, 0], last - first, order)

    return record.once(("polynomial", first, last, order), fit)


def vector_fit(record: PathRecord, degree: int, first: int, last: int) -> VectorFit:
    """Fit of a vector theta of degree 1 or 2 over the steps first + 1, ..., last."""

    def fit() -> VectorFit:
        names = ("transcript_linear",) if degree == 1 else ("transcript_quadratic",)
        fit_vector = fit_linear if degree == 1 else fit_quadratic
        return fit_vector(sums_between(record, names, first, last)[0], last - first)

    return record.once(("vector", degree, first, last), fit)


def known_variance(record: PathRecord) -> Array:
    """S from problem and mechanism at theta*, for one replicate: shape (d, d, 1)."""
    return np.array(variance_of_steps(record.source))[:, :, None]


@lru_cache(maxsize=256)
def variance_of_steps(source: PathSource) -> tuple[tuple[float, ...], ...]:
    """S by rows."""
    return tuple(map(tuple, source.algorithm.step_covariance(source.problem, source.randomiser)))


def small_run_factor(relaxation_times: Array) -> Array:
    """K/(K - 4), at most 2."""
    k = np.maximum(relaxation_times, 8.0)
    return np.where(np.isnan(relaxation_times), np.nan, k / (k - 4.0))


def sound_root(fit: PolynomialFit, degree: int) -> tuple[Array, Array]:
    """The root of the polynomial, NaN where too few digits are left, and the slope there; in u."""
    u, slope = fit.root(degree)
    return np.where(fit.sound[degree], u, np.nan), slope


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

    def scalar(self, asked: Asked, fit: PolynomialFit) -> Intervals:
        if self.variance == "known":
            variance = known_variance(asked.record)[0, 0] * np.ones_like(fit.mean)
        else:
            variance = fit.residual_variance(self.degree)
        u, slope = sound_root(fit, self.degree)
        diagnosis = scalar_checks(fit, self.degree, variance, slope, asked.length)
        relaxation_times = diagnosis["relaxation_times"][0]
        factor = small_run_factor(relaxation_times) * fit.sd
        critical = np.array([constants.normal_quantile(0.5 + level / 2.0) for level in asked.levels])
        below, above = fit.arms(u, slope, self.degree, variance, critical)
        estimate = asked.record.origin[0] + (fit.mean + fit.sd * u)
        leverage = np.zeros_like(u)
        for k, q in enumerate(fit.basis(u, self.degree)):
            leverage = leverage + q * q / fit.pivots[k]
        se = factor * np.sqrt(variance * leverage) / slope
        return Intervals(
            estimate[None],
            se[None],
            (estimate - factor * below)[:, None],
            (estimate + factor * above)[:, None],
            diagnosis,
        )

    def vector(self, asked: Asked, fit: VectorFit, halves: Halves) -> Intervals:
        variance = fit.residual if self.variance == "residual" else known_variance(asked.record)
        relaxation_times = asked.length / diagonal(fit.inverse)
        estimate = asked.record.origin[:, None] + fit.root
        se = np.sqrt(fit.variances(variance)) * small_run_factor(relaxation_times)
        se = np.where(relaxation_times > 0.0, se, np.nan)
        widths = [constants.normal_quantile(0.5 + level / 2.0) * se for level in asked.levels]
        diagnosis = vector_checks(fit, halves, variance, asked.length)
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

    def scalar(self, asked: Asked, fit: PolynomialFit) -> Intervals:
        u, slope = sound_root(fit, self.degree)
        # The variance enters the test of the fit alone.
        variance = fit.residual_variance(self.degree)
        diagnosis = scalar_checks(fit, self.degree, variance, slope, asked.length)
        centre = asked.record.origin[0] + (fit.mean + fit.sd * u)
        return self.around(asked, centre[None], diagnosis)

    def vector(self, asked: Asked, fit: VectorFit, halves: Halves) -> Intervals:
        # The variance enters the test of the fit alone.
        diagnosis = vector_checks(fit, halves, fit.residual, asked.length)
        return self.around(asked, asked.record.origin[:, None] + fit.root, diagnosis)

    def around(self, asked: Asked, centre: Array, diagnosis: dict[str, Array]) -> Intervals:
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
        se = np.where(np.isfinite(centre), float(np.sqrt(kappa)) * se, np.nan)
        widths = [
            constants.student_quantile(0.5 + level / 2.0, float(max(batches - 1, 1))) * se
            for level in asked.levels
        ]
        return Intervals(centre, se, *symmetric(centre, widths), diagnosis)
