"""Regression on the private transcript, TR and TR-BM (ours; in no paper, and without a proof).

The transcript shows x_i = theta_{i-1} and A_i = (theta_{i-1} - theta_i)/eta_i, the private gradient,
with E[A_i | past] = R(theta_{i-1}). So R is fitted by a polynomial P and theta* is estimated by its
root, which has no bias from the curvature of R, where the average has one. All of it is
post-processing of what was released: no privacy cost.

TR: the points nearest the root where P^2 = z^2 S v' M^-1 v (a score set, as Fieller's), both arms
times K/(K - 4), at most 2, with K = P'(root) sum eta_i the run's length in relaxation times: least
squares in an autoregression overstates the slope by about 4/K.
TR-BM: TR's root, and batch means' standard error times sqrt(kappa) and a t quantile, with
kappa = (n/N) / (1 - (sum eta)^2/(3 N sum eta^2)) the price of the root against the average.

Vectors: linear regression, intervals that are linear in the error (see .transcript_regression_linear).
The argument is the limit theory of least squares with adaptive regressors (Lai and Wei, 1982).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from math import ceil
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ldpflow import exact
from ldpflow.algorithms import Algorithm
from ldpflow.intervals.batch_means import BatchMeans
from ldpflow.intervals.interval import Array, IntervalMethod, Intervals, symmetric
from ldpflow.intervals.transcript_regression_fit import PolynomialFit, fit_polynomial
from ldpflow.intervals.transcript_regression_linear import LinearFit, fit_linear
from ldpflow.path import PathRecord
from ldpflow.problems import Problem

__all__ = ["TranscriptRegression", "TranscriptRegressionBatchMeans"]

BurnIn = Annotated[
    str,
    Field(
        pattern=r"^(n\^0?\.[0-9]{1,6}|0?\.[0-9]{1,6}n)$",
        description="steps left out at the start, such as n^0.4 or 0.01n",
    ),
]


# The cubic's sums and the three of the quartic, sorted: x^1..x^8, A..A x^4, A^2.
QUARTIC = [0, 1, 2, 3, 4, 5, 11, 12, 6, 7, 8, 9, 13, 10]


class Regression(IntervalMethod):
    """What TR and TR-BM share: the sums they need and the fit they make.

    Parameters
    ----------
    degree : int in [1, 3]
        Degree of P; 1 for a vector.
    burn_in : str
        Steps i0 left out at the start: ``n^0.4`` or ``0.01n`` or alike, rounded up; n counts steps.
    """

    degree: Annotated[int, Field(ge=1, le=3)] = 2
    burn_in: BurnIn = "n^0.4"

    def impossible(self, problem: Problem) -> str | None:
        if problem.dimension > 1 and self.degree > 1:
            return (
                f"{self.kind} has degree = 1 alone where theta has {problem.dimension} coordinates"
            )
        return None

    def first(self, steps: int) -> int:
        """i0: the regression uses steps i0 + 1, ..., steps."""
        if self.burn_in.startswith("n^"):
            return exact.ceil_power(steps, float(self.burn_in[2:]))
        return max(1, ceil(Fraction(self.burn_in[:-1]) * steps))

    def order(self) -> int:
        """Highest power in the sums: one above the degree, for the test of the fit."""
        return 4 if self.degree == 3 else 3

    def marked_times(self, steps: int) -> tuple[int, ...]:
        return (self.first(steps), steps)

    def times(self, steps: int, algorithm: Algorithm) -> NDArray[np.int64]:
        return np.unique(np.array(self.marked_times(steps), dtype=np.int64))

    def times_settings(self) -> tuple[object, ...]:
        return (self.burn_in,)

    def count_times(self, steps: int, algorithm: Algorithm) -> int:
        return 2

    def running_sums(self, dimension: int) -> tuple[str, ...]:
        if dimension > 1:
            return ("transcript_linear",)
        cubic = ("transcript_cubic",)
        return cubic if self.order() == 3 else (*cubic, "transcript_quartic")

    def intervals(self, record: PathRecord, n: int, levels: Sequence[float]) -> Intervals:
        algorithm = record.path.algorithm
        steps = algorithm.steps(n)
        first = self.first(steps)
        d = len(record.origin)
        if steps - first < max(self.order(), d) + 2:
            estimate = np.full((d, len(record.replicates)), np.nan)
            nothing = np.full((len(levels), *estimate.shape), np.nan)
            return Intervals(estimate, estimate, nothing, nothing)
        names = self.running_sums(d)
        end = np.concatenate([record.running(name, steps) for name in names])
        sums = end - np.concatenate([record.running(name, first) for name in names])
        length = algorithm.step_constant() * exact.sum_of_powers(
            first + 1, steps, algorithm.step_exponent()
        )
        if d > 1:
            return self.vector(record, n, levels, fit_linear(sums, steps - first), length)
        if self.order() == 4:
            sums, end = sums[QUARTIC], end[QUARTIC]
        fit = fit_polynomial(sums[:, 0], end[:, 0], steps - first, self.order())
        return self.scalar(record, n, levels, fit, length)

    @abstractmethod
    def scalar(
        self, record: PathRecord, n: int, levels: Sequence[float], fit: PolynomialFit, length: float
    ) -> Intervals:
        """Intervals from the polynomial; ``length`` is the sum of eta_i over the fit."""

    @abstractmethod
    def vector(
        self, record: PathRecord, n: int, levels: Sequence[float], fit: LinearFit, length: float
    ) -> Intervals:
        """Intervals from the linear fit."""

    def variance_of(self, record: PathRecord, fit: PolynomialFit | LinearFit) -> Array:
        """Known S, for one replicate: shape (1,) or (d, d, 1)."""
        path = record.path
        covariance = np.array(path.algorithm.step_covariance(path.problem, path.mechanism))
        return covariance[:, :, None] if isinstance(fit, LinearFit) else covariance[0]


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
    variance: Literal["known", "residual"] = "known"

    def scalar(
        self, record: PathRecord, n: int, levels: Sequence[float], fit: PolynomialFit, length: float
    ) -> Intervals:
        if self.variance == "known":
            variance = self.variance_of(record, fit) * np.ones_like(fit.mean)
        else:
            variance = fit.residual_variance(self.degree)
        u, slope = fit.root(self.degree)
        u = np.where(fit.sound[self.degree], u, np.nan)
        relaxation_times = slope / fit.sd * length
        factor = small_run_factor(relaxation_times) * fit.sd
        critical = np.array([exact.normal_quantile(0.5 + level / 2.0) for level in levels])
        below, above = fit.arms(u, slope, self.degree, variance, critical)
        estimate = record.origin[0] + (fit.mean + fit.sd * u)
        leverage = np.zeros_like(u)
        for k, q in enumerate(fit.basis(u, self.degree)):
            leverage = leverage + q * q / fit.pivots[k]
        se = factor * np.sqrt(variance * leverage) / slope
        return Intervals(
            estimate[None],
            se[None],
            (estimate - factor * below)[:, None],
            (estimate + factor * above)[:, None],
            {
                "relaxation_times": relaxation_times[None],
                "condition": fit.condition(self.degree)[None],
                "lack_of_fit": fit.lack_of_fit(self.degree, variance)[None],
            },
        )

    def vector(
        self, record: PathRecord, n: int, levels: Sequence[float], fit: LinearFit, length: float
    ) -> Intervals:
        variance = fit.residual if self.variance == "residual" else self.variance_of(record, fit)
        relaxation_times = length / diagonal(fit.inverse)
        estimate = record.origin[:, None] + fit.root
        se = np.sqrt(fit.variances(variance)) * small_run_factor(relaxation_times)
        se = np.where(relaxation_times > 0.0, se, np.nan)
        widths = [exact.normal_quantile(0.5 + level / 2.0) * se for level in levels]
        return Intervals(
            estimate, se, *symmetric(estimate, widths), vector_diagnosis(fit, relaxation_times)
        )


class TranscriptRegressionBatchMeans(Regression):
    """The root of the fit with batch means' length: free of the model for S.

    Parameters
    ----------
    M : int >= 2, optional
        Number of batches, as in BM.
    """

    kind: Literal["TR-BM"] = "TR-BM"
    M: Annotated[int, Field(ge=2, le=10**6)] | None = None

    def batch_means(self) -> BatchMeans:
        """The method whose length is used."""
        return BatchMeans(M=self.M)

    def times(self, steps: int, algorithm: Algorithm) -> NDArray[np.int64]:
        return np.union1d(
            super().times(steps, algorithm), self.batch_means().times(steps, algorithm)
        )

    def times_settings(self) -> tuple[object, ...]:
        return (self.burn_in, self.M)

    def count_times(self, steps: int, algorithm: Algorithm) -> int:
        return 2 + self.batch_means().count_times(steps, algorithm)

    def scalar(
        self, record: PathRecord, n: int, levels: Sequence[float], fit: PolynomialFit, length: float
    ) -> Intervals:
        u, slope = fit.root(self.degree)
        u = np.where(fit.sound[self.degree], u, np.nan)
        # The variance enters the test of the fit alone.
        variance = fit.residual_variance(self.degree)
        diagnosis = {
            "relaxation_times": (slope / fit.sd * length)[None],
            "condition": fit.condition(self.degree)[None],
            "lack_of_fit": fit.lack_of_fit(self.degree, variance)[None],
        }
        centre = record.origin[0] + (fit.mean + fit.sd * u)
        return self.around(record, n, levels, centre[None], diagnosis, length)

    def vector(
        self, record: PathRecord, n: int, levels: Sequence[float], fit: LinearFit, length: float
    ) -> Intervals:
        diagnosis = vector_diagnosis(fit, length / diagonal(fit.inverse))
        return self.around(
            record, n, levels, record.origin[:, None] + fit.root, diagnosis, length
        )

    def around(
        self,
        record: PathRecord,
        n: int,
        levels: Sequence[float],
        centre: Array,
        diagnosis: dict[str, Array],
        length: float,
    ) -> Intervals:
        """Batch means' interval moved to the centre, with sqrt(kappa) and a t quantile."""
        algorithm = record.path.algorithm
        steps = algorithm.steps(n)
        first = self.first(steps)
        count = steps - first
        c, gamma = algorithm.step_constant(), algorithm.step_exponent()
        squares = c * c * exact.sum_of_powers(first + 1, steps, 2.0 * gamma)
        kappa = steps / count / (1.0 - length * length / (3.0 * count * squares))
        se = self.batch_means().intervals(record, n, levels).se
        assert se is not None
        batches = len(self.batch_means().ends(steps, gamma)) - 1
        se = np.where(np.isfinite(centre), float(np.sqrt(kappa)) * se, np.nan)
        widths = [
            exact.student_quantile(0.5 + level / 2.0, float(max(batches - 1, 1))) * se
            for level in levels
        ]
        return Intervals(centre, se, *symmetric(centre, widths), diagnosis)


def diagonal(matrix: Array) -> Array:
    """Diagonal of matrices of shape (d, d, R), shape (d, R)."""
    return np.stack([matrix[j, j] for j in range(len(matrix))])


def vector_diagnosis(fit: LinearFit, relaxation_times: Array) -> dict[str, Array]:
    """K by coordinate, length/(B^-1)_jj, and the condition of the fit; there is no test of it."""
    condition = np.broadcast_to(fit.condition, relaxation_times.shape)
    return {"relaxation_times": relaxation_times, "condition": condition}
