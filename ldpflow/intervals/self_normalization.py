"""Self-normalisation (random scaling), SN (Liu, Hu, Ding, Jiang and Kong, 2023).

    V = n^-2 sum_i i^2 (thetabar_i - thetabar_n)^2,   interval thetabar_n -+ cv sqrt(V/n)

With S(i) = i thetabar_i: sum_i i^2 (thetabar_i - thetabar_n)^2
= sum S(i)^2 - 2 thetabar_n sum i S(i) + thetabar_n^2 sum i^2, three running sums. They are of
theta_i - theta*, which keeps the cancellation harmless. The critical value is exact at any level; the
often copied 6.811 for .95 is a simulation error (6.7473).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ldpflow import constants
from ldpflow.algorithms import Algorithm
from ldpflow.intervals.interval import Intervals, PathIntervalMethod, average, symmetric
from ldpflow.intervals.record import PathRecord

__all__ = ["SelfNormalization"]


class SelfNormalization(PathIntervalMethod):
    """Self-normalised interval; it has no standard error of its own."""

    title: ClassVar[str] = "self-normalisation (Liu, Hu, Ding, Jiang and Kong, 2023)"

    undefined_where: ClassVar[str] = "there are fewer than two steps"

    around_average: ClassVar[bool | None] = True

    kind: Literal["SN"] = "SN"

    def times(self, steps: int, algorithm: Algorithm) -> NDArray[np.int64]:
        return np.array([steps], dtype=np.int64)

    def running_sums(self, dimension: int) -> tuple[str, ...]:
        return ("self_normalization",)

    def intervals(self, record: PathRecord, n: int, levels: Sequence[float]) -> Intervals:
        steps = record.steps(n)
        estimate = average(record, steps)
        if steps < 2:
            nothing = np.full((len(levels), *estimate.shape), np.nan)
            return Intervals(estimate, None, nothing, nothing)
        weighted, squared = record.running("self_normalization", steps)
        mean = record.sum_at(steps) / steps
        # sum of i^2, exact in integers and rounded once.
        squares = float(steps * (steps + 1) * (2 * steps + 1) // 6)
        v = squared - 2.0 * mean * weighted + mean * mean * squares
        scale = np.sqrt(np.maximum(v, 0.0)) / steps / np.sqrt(float(steps))
        widths = [constants.self_normalization_critical_value(level) * scale for level in levels]
        return Intervals(estimate, None, *symmetric(estimate, widths))
