"""Non-overlapping increasing blocks, NOL (Zhu, Chen and Wu, 2023).

    V = n^-1 sum_k (S(e_k) - S(e_(k-1)) - L_k m)^2,   m = S(n)/n,   interval thetabar -+ z sqrt(V/n)

with e_k the last step of block k and L_k its length. Ours is the t option: block sums are nearly
independent with variance L_k Sigma, so E V = Sigma (1 - 1/nu) with nu = n^2 / sum L_k^2, the effective
number of blocks, and Satterthwaite's degrees of freedom are nu, less one for the mean:

    V nu/(nu - 1) and t with nu - 1 degrees of freedom, a real number

With equal blocks it is the divisor a - 1 and t with a - 1 degrees.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ldpflow import constants
from ldpflow.intervals.increasing_blocks import IncreasingBlocks
from ldpflow.intervals.interval import (
    Array,
    Intervals,
    average,
    defined,
    in_order,
    normal_intervals,
    symmetric,
    undefined,
)
from ldpflow.intervals.record import PathRecord
from ldpflow.intervals.shared_settings import Quantile

__all__ = ["NonoverlappingBlocks", "block_variance", "effective_blocks"]


class NonoverlappingBlocks(IncreasingBlocks):
    """Interval with the variance of non-overlapping increasing blocks.

    Parameters
    ----------
    quantile : str
        ``normal``, or ``t``: Student's with nu - 1 degrees, on V nu/(nu - 1).
    """

    title: ClassVar[str] = "non-overlapping increasing blocks (Zhu, Chen and Wu, 2023)"

    undefined_where: ClassVar[str] = (
        "there are fewer than two blocks, or the estimated variance is not positive"
    )

    around_average: ClassVar[bool | None] = True

    kind: Literal["NOL"] = "NOL"
    quantile: Quantile = "normal"

    def intervals(self, record: PathRecord, n: int, levels: Sequence[float]) -> Intervals:
        algorithm = record.algorithm
        steps = record.steps(n)
        estimate = average(record, steps)
        ends = self.ends(steps, algorithm.step_exponent())
        if len(ends) < 3:
            return undefined(estimate, levels)
        variance = block_variance(record, ends)
        if self.quantile == "normal":
            return normal_intervals(estimate, np.sqrt(defined(variance) / steps), levels)
        nu = effective_blocks(np.diff(ends))
        if nu < 2.0:
            return undefined(estimate, levels)
        se = np.sqrt(defined(variance * (nu / (nu - 1.0))) / steps)
        widths = [constants.student_quantile(0.5 + level / 2.0, nu - 1.0) * se for level in levels]
        return Intervals(estimate, se, *symmetric(estimate, widths))


def block_variance(record: PathRecord, ends: NDArray[np.int64]) -> Array:
    """V of blocks that end at ``ends`` (the first of them 0, the last n), shape (d, R)."""

    def variance() -> Array:
        sums = record.sums_at(ends)
        lengths = np.diff(ends).astype(np.float64)[:, None, None]
        deviations = (sums[1:] - sums[:-1]) - lengths * (sums[-1] / float(ends[-1]))
        return in_order(deviations * deviations) / float(ends[-1])

    return record.once(("block variance", ends.tobytes()), variance)


def effective_blocks(lengths: NDArray[np.int64]) -> float:
    """nu = n^2 / sum L_k^2, integers divided once."""
    whole = [int(length) for length in lengths]
    return sum(whole) ** 2 / sum(length * length for length in whole)
