"""Batch means with increasing batches, BM (Chen, Lee, Tong and Zhang, 2020).

    e_k = floor(((k + 1)/(M + 1))^(1/(1 - gamma)) n), k = 0..M;  batch 0 is discarded
    V = (1/M) sum_k n_k (X_k - Xbar)^2,   interval thetabar -+ z_{1-a} sqrt(V/n)

with X_k the mean over batch k of length n_k = e_k - e_{k-1}, Xbar the mean over e_0 + 1..n. Dette and
Graw do not state M; floor(n^(1/4)) reproduces their Table 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, ClassVar, Literal

import numpy as np
from mpmath import mpf
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
    in_order,
    normal_intervals,
    symmetric,
    undefined,
)
from ldpflow.intervals.record import PathRecord
from ldpflow.intervals.shared_settings import Quantile
from ldpflow.settings import Setting

__all__ = ["BatchMeans", "Batches", "batch_variance"]

Batches = Annotated[
    int,
    Field(ge=2, le=10**6),
    Setting(
        "count",
        "batches of BM where given; null is the default, floor(n^(1/4))",
        logarithmic=True,
    ),
]


class BatchMeans(PathIntervalMethod):
    """Batch-means interval.

    Parameters
    ----------
    M : int >= 2, optional
        Number of batches; floor(n^(1/4)) unless given.
    quantile : str, optional
        ``normal``, as where it is not given, or ``t``: Student's with M - 1 degrees of freedom, on
        V M/(M - 1).
    """

    title: ClassVar[str] = "batch means with increasing batches (Chen, Lee, Tong and Zhang, 2020)"

    undefined_where: ClassVar[str] = "there are fewer than two batches, or the batches' means are equal"

    around_average: ClassVar[bool | None] = True

    kind: Literal["BM"] = "BM"
    M: Batches | None = None
    quantile: Quantile | None = None

    def ends(self, steps: int, gamma: float) -> NDArray[np.int64]:
        """e_0, ..., e_M, with floors that round first within 1e-9 of an integer."""
        m = self.M if self.M is not None else constants.floor_power(steps, 0.25)
        return np.array(batch_ends(steps, gamma, m), dtype=np.int64)

    def times(self, steps: int, algorithm: Algorithm) -> NDArray[np.int64]:
        ends = np.unique(self.ends(steps, algorithm.step_exponent()))
        return ends[ends > 0]

    def steps_read(self) -> tuple[str, ...]:
        return ("step_exponent",)

    def times_settings(self) -> tuple[object, ...]:
        return (self.M,)

    def count_times(self, steps: int, algorithm: Algorithm) -> int:
        return 1 + (self.M if self.M is not None else constants.floor_power(steps, 0.25))

    def intervals(self, record: PathRecord, n: int, levels: Sequence[float]) -> Intervals:
        algorithm = record.algorithm
        steps = record.steps(n)
        estimate = average(record, steps)
        ends = self.ends(steps, algorithm.step_exponent())
        lengths = np.diff(ends)
        if len(lengths) < 2 or (lengths < 1).any():
            return undefined(estimate, levels)
        variance = batch_variance(record, ends)
        if self.quantile != "t":
            return normal_intervals(estimate, np.sqrt(variance / steps), levels)
        degrees = float(len(lengths) - 1)
        se = np.sqrt(defined(variance * (len(lengths) / degrees)) / steps)
        widths = [constants.student_quantile(0.5 + level / 2.0, degrees) * se for level in levels]
        return Intervals(estimate, se, *symmetric(estimate, widths))


def batch_variance(record: PathRecord, ends: NDArray[np.int64]) -> Array:
    """V = (1/M) sum_k n_k (X_k - Xbar)^2 over batches that end at e_0, ..., e_M; shape (d, R)."""

    def variance() -> Array:
        sums = record.sums_at(ends)
        mean = (sums[-1] - sums[0]) / (int(ends[-1]) - int(ends[0]))
        lengths = np.diff(ends)[:, None, None]
        deviations = (sums[1:] - sums[:-1]) / lengths - mean
        return in_order(lengths * (deviations * deviations)) / len(lengths)

    return record.once(("batch means", ends.tobytes()), variance)


@lru_cache(maxsize=256)
def batch_ends(steps: int, gamma: float, m: int) -> tuple[int, ...]:
    """e_0, ..., e_m in exact arithmetic; gamma is the decimal that was typed."""
    ends = []
    with constants.workdps(40):
        power = 1 / (1 - mpf(repr(gamma)))
        for k in range(m + 1):
            ends.append(constants.safe_floor((mpf(k + 1) / (m + 1)) ** power * steps))
    return tuple(ends)
