"""The average's covariance from the slope of the transcript, TRC.

    B = slope at thetabar of the least-squares fit of A_i on powers of theta_(i-1), i0 < i <= n
    V = B^-1 S B^-T,   interval thetabar_j -+ z f_j sqrt(V_jj/n)

with A_i = (theta_(i-1) - theta_i)/eta_i the private gradient and S its covariance given the past. The idea
of regressing SGD's increments on its iterates for the sandwich is that of Ni and Huo (2026), "trajectory
regression", whose weights are not reproduced here: the fit is the unweighted one of our transcript
regression (TR), with TR's sums, burn-in and small-run factor f = K/(K - 4), at most 2,
K = sum eta_i / (B^-1)_jj. TR estimates the root of the fit; TRC stays around the average, and keeps the
average's bias. Vectors have a fit of degree 1; a scalar one of degree 2 or 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ldpflow import constants
from ldpflow.algorithms import Algorithm
from ldpflow.intervals.interval import (
    Array,
    Intervals,
    PathIntervalMethod,
    average,
    defined,
    normal_intervals,
    undefined,
)
from ldpflow.intervals.record import PathRecord
from ldpflow.intervals.shared_settings import DEGREE, SMALL_RUN, VARIANCE
from ldpflow.intervals.transcript_regression import (
    BurnIn,
    TranscriptRegression,
    by_coordinate,
    known_variance,
    small_run_factor,
)
from ldpflow.intervals.transcript_regression_checks import CHECKS, vector_checks
from ldpflow.intervals.transcript_regression_linear import diagonal, product
from ldpflow.intervals.transcript_regression_sums import polynomial_fit, vector_fit
from ldpflow.problems import Problem

__all__ = ["TranscriptCovariance"]


class TranscriptCovariance(PathIntervalMethod):
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

    diagnostics: ClassVar = CHECKS

    title: ClassVar[str] = "the average with the sandwich of the transcript's slope (after Ni and Huo, 2026)"

    undefined_where: ClassVar[str] = "the estimated slope or variance is not positive"

    around_average: ClassVar[bool | None] = True

    kind: Literal["TRC"] = "TRC"
    degree: Annotated[int, Field(ge=1, le=2), DEGREE] | None = None
    burn_in: BurnIn = "n^0.4"
    variance: Annotated[Literal["known", "residual"], VARIANCE] = "known"
    small_run: Annotated[bool, SMALL_RUN] = True

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

    def times(self, steps: int, algorithm: Algorithm) -> NDArray[np.int64]:
        return np.array([steps], dtype=np.int64)

    def steps_read(self) -> tuple[str, ...]:
        return ("step_exponent", "step_constant")

    def times_settings(self) -> tuple[object, ...]:
        return (self.burn_in,)

    def count_times(self, steps: int, algorithm: Algorithm) -> int:
        return self.regression(1).count_times(steps, algorithm)

    def running_sums(self, dimension: int) -> tuple[str, ...]:
        return self.regression(dimension).running_sums(dimension)

    def intervals(self, record: PathRecord, n: int, levels: Sequence[float]) -> Intervals:
        steps = record.steps(n)
        estimate = average(record, steps)
        d = len(record.origin)
        if self.too_short(steps, d):
            return undefined(estimate, levels)
        if d == 1:
            variance, diagnosis = self.scalar(record, steps, estimate[0] - record.origin[0])
        else:
            matrix, diagnosis = self.matrix(record, steps)
            variance = diagonal(matrix)
        times = diagnosis["relaxation_times"]
        se = np.sqrt(defined(variance) / steps)
        if self.small_run:
            se = se * small_run_factor(times)
        result = normal_intervals(estimate, np.where(times > 0.0, se, np.nan), levels)
        result.diagnosis.update(diagnosis)
        return result

    def too_short(self, steps: int, dimension: int) -> bool:
        """Whether there are fewer steps than parameters and two; for a vector, in the early half."""
        regression = self.regression(dimension)
        first, middle = regression.first(steps), regression.middle(steps)
        if dimension == 1:
            return steps - first < regression.degree + 3
        return middle - first < dimension + 3

    def scalar(self, record: PathRecord, steps: int, mean: Array) -> tuple[Array, dict[str, Array]]:
        """V, shape (1, R), from the slope at ``mean``; K, the condition and the fit's test."""
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
