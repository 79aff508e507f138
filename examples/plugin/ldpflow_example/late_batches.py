"""Interval method late_batches: batch means of the steps after a burn-in."""

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field
from scipy.stats import t as student

import ldpflow as lf
from ldpflow.columns import Column, Summary
from ldpflow.components.intervals.interval import in_order
from ldpflow.settings import Setting


@lf.register
class LateBatches(lf.PathIntervalMethod):
    """Interval around the mean of the late iterates, with a standard error from the means of equal batches.

    Parameters
    ----------
    skipped : float in [0, 1)
        Share of the steps to leave out at the start.
    batches : int >= 2
        Number of batches.
    """

    kind: Literal["late_batches"] = "late_batches"
    skipped: Annotated[float, Field(ge=0, lt=1), Setting("share", "share of the steps left out")] = 0.2
    batches: Annotated[int, Field(ge=2, le=1000), Setting("1", "number of batches")] = 16

    diagnostics: ClassVar[tuple[Column, ...]] = (
        Column(
            "drift",
            "double",
            "standard errors",
            "last batch mean less the first one, in standard errors of their difference",
            summaries=(Summary("drift_median", "median drift", unit="standard errors"),),
        ),
    )

    def ends(self, steps):
        """Start of the first batch and ends of all batches, as numbers of steps."""
        length = (steps - int(self.skipped * steps)) // self.batches
        return steps - length * np.arange(self.batches, -1, -1)

    def times(self, steps, algorithm):
        """Steps at which S(t), the sum of the iterates, is needed."""
        ends = np.unique(self.ends(steps)).astype(np.int64)
        return ends[ends > 0]

    def count_times(self, steps, algorithm):
        return self.batches + 1

    def intervals(self, record, n, levels):
        """Limits at every level, in arrays of shape (levels, d, replicates)."""
        ends = self.ends(record.steps(n))
        length = ends[1] - ends[0]
        if length == 0:
            estimate = record.origin[:, None] + record.sums_at(ends[-1:])[0] / ends[-1]
            nothing = np.full((len(levels), *estimate.shape), np.nan)
            return lf.Intervals(estimate, None, nothing, nothing)
        means = np.diff(record.sums_at(ends), axis=0) / length  # (batches, d, replicates)
        centre = in_order(means) / self.batches
        # The loop adds in a fixed order. The order of numpy's sums depends on the number of replicates.
        variance = in_order((means - centre) ** 2) / (self.batches - 1)
        se = np.sqrt(variance / self.batches)
        half = np.array([student.ppf(0.5 + level / 2, self.batches - 1) for level in levels])
        widths = half[:, None, None] * se
        estimate = record.origin[:, None] + centre
        diagnosis = {"drift": drift(means[0], means[-1], variance)}
        return lf.Intervals(estimate, se, estimate - widths, estimate + widths, diagnosis)


def drift(first, last, variance):
    """Difference of the first and the last batch mean, in its standard errors."""
    return (last - first) / np.sqrt(2.0 * variance)
