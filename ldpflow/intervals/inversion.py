"""Inversion of the test of F(x) = tau on a private histogram: an interval without a density.

x is kept while |F^(x) - tau| <= z se(x), where F^ is the unbiased estimate at the edges and se its
standard error were F(x) = tau. That is a test of F(x) = tau whatever the density is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np

from ldpflow import constants
from ldpflow.columns import Column, Summary
from ldpflow.intervals.counts_record import HistogramRecord
from ldpflow.intervals.interval import IntervalMethod, Intervals
from ldpflow.intervals.record import Record

__all__ = ["RANGE_END", "Inversion"]

RANGE_END = Column(
    "range_end",
    "double",
    "1",
    "1 where the interval ends at the public range, so that its length measures nothing, else 0",
    summaries=(
        Summary(
            "range_end_share",
            "share of intervals that end at the public range",
            beyond=0.5,
            caution="the interval ends at the public range and its length measures nothing",
        ),
    ),
)
"""Diagnostic of intervals on a public range."""


class Inversion(IntervalMethod):
    """Interval for a quantile from a one-shot protocol, by test inversion.

    Parameters
    ----------
    limits : str
        ``outer``: rounded outwards to edges, valid whatever the law does inside a bin. ``line``: by
        lines between edges, shorter and honest only where the bias inside a bin is small.
    """

    record: ClassVar[type[Record]] = HistogramRecord
    diagnostics: ClassVar[tuple[Column, ...]] = (
        RANGE_END,
        Column(
            "unasked",
            "double",
            "count",
            "questions of the public coin that fell to no user",
            summaries=(
                Summary(
                    "unasked_share",
                    "share of replicates with a question that fell to no user",
                    beyond=0.5,
                    caution="a question fell to no user: n is small for this number of bins",
                ),
            ),
        ),
    )

    kind: Literal["inversion"] = "inversion"
    limits: Literal["outer", "line"] = "outer"

    def intervals(self, record: HistogramRecord, n: int, levels: Sequence[float]) -> Intervals:
        z = [constants.normal_quantile(0.5 + level / 2.0) for level in levels]
        found = record.histograms.intervals(record.taus, z, self.limits)
        return Intervals(
            found.estimate,
            None,
            found.lower,
            found.upper,
            {
                "range_end": found.range_end.astype(np.float64),
                "unasked": np.broadcast_to(record.histograms.empty, found.estimate.shape),
            },
            found.range_end,
        )
