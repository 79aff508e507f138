"""A plug-in of the tests: the average of the iterates, from the means of eight batches of them."""

from typing import ClassVar, Literal

import numpy as np

import ldpflow as lf
from ldpflow.components.intervals.interval import in_order


@lf.register
class EightBatches(lf.PathIntervalMethod):
    """The average, give or take 1.9 standard errors of the mean of eight batch means."""

    kind: Literal["eight_batches"] = "eight_batches"
    batches: ClassVar[int] = 8

    def times(self, steps, algorithm):
        return steps // 8 * np.arange(1, 9)

    def count_times(self, steps, algorithm):
        return 8

    def intervals(self, record, n, levels):
        ends = self.times(record.steps(n), record.algorithm)
        sums = record.sums_at(ends) / ends[0]
        means = np.concatenate([sums[:1], np.diff(sums, axis=0)])
        estimate = in_order(means) / 8
        se = np.sqrt(in_order((means - estimate) ** 2) / 56)
        half = np.array([1.9 * se for _ in levels])
        estimate = record.origin[:, None] + estimate
        return lf.Intervals(estimate, se, estimate - half, estimate + half)
