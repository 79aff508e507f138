"""Student's t interval over parallel runs, PAR (Zhu, Lou, Wei and Wu, 2024).

The users are split over K runs, each on floor(n/K) of them; x_j is the average of run j:

    xbar -+ t_(K-1) s/sqrt(K),   s^2 = (K - 1)^-1 sum (x_j - xbar)^2

Row r takes replicates rK, ..., rK + K - 1 of the path as its runs: no randomness of its own. At most
K - 1 users are left over. A run on n/K users has K^gamma times the bias of one on n users.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ldpflow import constants
from ldpflow.algorithms import Algorithm
from ldpflow.intervals.interval import (
    Array,
    Intervals,
    PathIntervalMethod,
    defined,
    in_order,
    symmetric,
    undefined,
)
from ldpflow.intervals.record import PathRecord
from ldpflow.settings import Setting

__all__ = ["ParallelRuns", "averages_of_runs"]


class ParallelRuns(PathIntervalMethod):
    """Student's t interval over K runs.

    Parameters
    ----------
    K : int in [2, 1000]
        Runs that the users are split over.
    """

    title: ClassVar[str] = "Student's t over parallel runs (Zhu, Lou, Wei and Wu, 2024)"

    undefined_where: ClassVar[str] = "a run has no step, or the runs' averages are equal"

    around_average: ClassVar[bool | None] = False

    kind: Literal["PAR"] = "PAR"
    K: Annotated[
        int, Field(ge=2, le=1000), Setting("count", "parallel runs that the users are split over")
    ] = 5

    def runs(self, level: float) -> int:
        return self.K

    def times(self, steps: int, algorithm: Algorithm) -> NDArray[np.int64]:
        return np.array([max(steps // self.K, 1)], dtype=np.int64)

    def times_settings(self) -> tuple[object, ...]:
        return (self.K,)

    def intervals(self, record: PathRecord, n: int, levels: Sequence[float]) -> Intervals:
        steps = record.steps(n) // self.K
        if steps < 1:
            shape = (len(record.origin), len(record.replicates) // self.K)
            return undefined(np.full(shape, np.nan), levels)
        x = averages_of_runs(record, steps, self.K)
        mean = in_order(x) / self.K
        deviations = x - mean
        variance = in_order(deviations * deviations) / (self.K - 1)
        se = np.sqrt(defined(variance) / self.K)
        estimate = record.origin[:, None] + mean
        widths = [constants.student_quantile(0.5 + x / 2.0, self.K - 1.0) * se for x in levels]
        return Intervals(estimate, se, *symmetric(estimate, widths))


def averages_of_runs(record: PathRecord, steps: int, runs: int) -> Array:
    """thetabar - origin after ``steps`` of every run of every row, shape (runs, d, rows)."""
    sums = record.sum_at(steps)
    d, replicates = sums.shape
    by_row = (sums / steps).reshape(d, replicates // runs, runs)
    return np.ascontiguousarray(by_row.transpose(2, 0, 1))
