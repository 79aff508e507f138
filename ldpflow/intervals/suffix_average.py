"""Suffix average, SUF (Wei, Zhu and Wu, 2023): the mean of the last part of the path.

    s = floor((1 - k) n), m = n - s;   (S(n) - S(s))/m -+ z sqrt(V/m)

with V any estimate of Sigma from the whole run. With k = 1 it is the average. The limit variance is 1/k
times as large; early iterates, and most of the bias that they carry, are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ldpflow.algorithms import Algorithm
from ldpflow.intervals.interval import Intervals, normal_intervals
from ldpflow.intervals.record import PathRecord
from ldpflow.intervals.shared_settings import BASE
from ldpflow.intervals.wrapped import Wrapped, base_of
from ldpflow.settings import Setting

__all__ = ["SuffixAverage"]


class SuffixAverage(Wrapped):
    """Interval around the mean of the last iterates.

    Parameters
    ----------
    share : float in (0, 1]
        k, the share of the iterates that are averaged.
    base : str
        The method that estimates Sigma, whose settings may be given as well.
    """

    title: ClassVar[str] = "suffix average (Wei, Zhu and Wu, 2023)"

    kind: Literal["SUF"] = "SUF"
    share: Annotated[
        float, Field(gt=0, le=1), Setting("1", "k: share of the iterates in a suffix average")
    ] = 0.5
    base: Annotated[str, base_of("TRC", "oracle", "BM", "EBS", "NOL", "OBM"), BASE] = "TRC"

    def left_out(self, steps: int) -> int:
        """s, exact: the share is the decimal that was typed."""
        return int((1 - Fraction(repr(self.share))) * steps)

    def times(self, steps: int, algorithm: Algorithm) -> NDArray[np.int64]:
        own = [time for time in (self.left_out(steps), steps) if time > 0]
        return np.union1d(super().times(steps, algorithm), np.array(own, dtype=np.int64))

    def times_settings(self) -> tuple[object, ...]:
        return (self.share, *super().times_settings())

    def count_times(self, steps: int, algorithm: Algorithm) -> int:
        return 1 + super().count_times(steps, algorithm)

    def intervals(self, record: PathRecord, n: int, levels: Sequence[float]) -> Intervals:
        steps = record.steps(n)
        s = self.left_out(steps)
        before, total = record.sums_at(np.array([s, steps]))
        estimate = record.origin[:, None] + (total - before) / (steps - s)
        base, se_of_base = self.of_base(record, n, levels)
        se = se_of_base * np.sqrt(steps / (steps - s))
        result = normal_intervals(estimate, se, levels)
        result.diagnosis.update(base.diagnosis)
        return result
