"""Fully online overlapping blocks, OBM (Zhu, Chen and Wu, 2023).

At step i of the block that starts at a, W_i = S(i) - S(a - 1) and l_i = i - a + 1. With m = S(n)/n

    V = sum_i (W_i - l_i m)^2 / sum_i l_i = (Q - 2 P m + q m^2)/v
    Q = sum W^2,  P = sum l W,  q = sum l^2,  v = sum l,   interval thetabar -+ z sqrt(V/n)

The paper restarts W and l in the recursion. No restart is needed with T0 = sum S(i), T1 = sum i S(i) and
T2 = sum S(i)^2 at the ends of the blocks: over a block of length L after step b, with base = S(b) and d
for differences over it,

    Q += dT2 - 2 base dT0 + L base^2,   P += dT1 - b dT0 - base L(L + 1)/2

so that any rule for the starts is free on one path. q and v are closed forms, exact in integers. There
is no t option: squares of overlapping blocks are dependent, and their degrees of freedom are not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ldpflow.algorithms import Algorithm
from ldpflow.intervals.increasing_blocks import IncreasingBlocks
from ldpflow.intervals.interval import (
    Array,
    Intervals,
    average,
    defined,
    in_order,
    normal_intervals,
    undefined,
)
from ldpflow.intervals.record import PathRecord

__all__ = ["OverlappingBlocks", "lengths_and_squares"]


class OverlappingBlocks(IncreasingBlocks):
    """Interval with the variance of overlapping blocks."""

    title: ClassVar[str] = "overlapping increasing blocks, online (Zhu, Chen and Wu, 2023)"

    undefined_where: ClassVar[str] = (
        "there are fewer than two blocks, or the estimated variance is not positive"
    )

    around_average: ClassVar[bool | None] = True

    kind: Literal["OBM"] = "OBM"

    def running_sums(self, dimension: int) -> tuple[str, ...]:
        return ("prefix_total", "self_normalization")

    def marked_times(self, steps: int, algorithm: Algorithm, dimension: int) -> tuple[int, ...]:
        return tuple(self.times(steps, algorithm).tolist())

    def intervals(self, record: PathRecord, n: int, levels: Sequence[float]) -> Intervals:
        algorithm = record.algorithm
        steps = record.steps(n)
        estimate = average(record, steps)
        ends = self.ends(steps, algorithm.step_exponent())
        if len(ends) < 3:
            return undefined(estimate, levels)
        variance = overlapping_variance(record, ends)
        return normal_intervals(estimate, np.sqrt(defined(variance) / steps), levels)


def overlapping_variance(record: PathRecord, ends: NDArray[np.int64]) -> Array:
    """V of blocks that end at ``ends`` (the first of them 0, the last n), shape (d, R)."""

    def between_ends(name: str) -> Array:
        """Differences over the blocks, shape (blocks, count, d, R); the sums are 0 at time 0."""
        at = record.running_at(name, ends[1:])
        at[1:] -= at[:-1].copy()
        return at

    sums = record.sums_at(ends)
    base = sums[:-1]
    lengths = np.diff(ends).astype(np.float64)[:, None, None]
    before = ends[:-1].astype(np.float64)[:, None, None]
    total = between_ends("prefix_total")[:, 0]
    moments = between_ends("self_normalization")
    triangle = lengths * (lengths + 1.0) / 2.0
    squares = in_order(moments[:, 1] - 2.0 * base * total + lengths * (base * base))
    products = in_order(moments[:, 0] - before * total - base * triangle)
    q, v = lengths_and_squares(np.diff(ends))
    mean = sums[-1] / float(ends[-1])
    variance = squares - 2.0 * products * mean + float(q) * (mean * mean)
    result: Array = np.maximum(variance, 0.0) / float(v)
    return result


def lengths_and_squares(lengths: NDArray[np.int64]) -> tuple[int, int]:
    """q = sum l^2 and v = sum l over all steps, from the blocks' lengths; exact integers."""
    whole = [int(length) for length in lengths]
    q = sum(length * (length + 1) * (2 * length + 1) // 6 for length in whole)
    return q, sum(length * (length + 1) // 2 for length in whole)
