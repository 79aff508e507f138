"""Records of protocols that make no path, and intervals from them.

**inversion** of the test of F(x) = tau on a private histogram: the points x with |F^(x) - tau| <= z se(x).
F^ is the unbiased estimate at the edges, se its standard error under F(x) = tau. The test needs no density.

**fieller**, from the local logistic fit of protocol ``rounds``: {x : (a + b u - logit tau)^2 <= z^2 Var(a +
b u)}, u the place of x in the window of the fit. Thresholds of a round are conditionally independent given
the past and the last round is fresh data, as in adaptive regression. No proof is claimed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from ldpflow.columns import Column, Summary
from ldpflow.components.intervals.interval import IntervalMethod, Intervals, normal_quantiles
from ldpflow.components.intervals.record import Array, Record

if TYPE_CHECKING:
    from ldpflow.components.protocols.collections import Histograms, Searches


@dataclass(frozen=True)
class CountsRecord(Record):
    """Record of R replicates of a protocol at one n: F^, or thresholds and their local fits.

    ``quantiles``, length d, are theta* at ``taus``.
    """

    seed: int
    replicates: NDArray[np.int64]
    quantiles: Array
    taus: tuple[float, ...]
    found: Any  # Histograms of a one-shot protocol, Searches of ``rounds``

    @property
    def truth(self) -> Array:
        return self.quantiles

    def finite(self, n: int) -> NDArray[np.bool_]:
        # Nothing can overflow. A replicate without an estimate has an undefined interval.
        return np.ones(len(self.replicates), dtype=bool)


class HistogramRecord(CountsRecord):
    """F^ at the edges, of a one-shot protocol."""

    words = "the histogram of a one-shot protocol"
    found: Histograms


class SearchRecord(CountsRecord):
    """Thresholds near the quantile and their local fit, of ``rounds``."""

    words = "the thresholds of a protocol of several rounds"
    found: Searches


RANGE_END = Column(
    "range_end",
    "double",
    "1",
    "1 if the interval ends at the public range, else 0",
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
        ``outer``: rounded outwards to edges, valid whatever the law does inside a bin. ``line``: by lines
        between edges: shorter, but valid only if the bias inside a bin is small.
    """

    kind: Literal["inversion"] = "inversion"
    record = HistogramRecord
    diagnostics = (
        RANGE_END,
        Column(
            "unasked",
            "double",
            "count",
            "number of questions that the public coin gave to no user",
            summaries=(
                Summary(
                    "unasked_share",
                    "share of replicates with a question that no user got",
                    beyond=0.5,
                    caution="a question fell to no user: n is small for this number of bins",
                ),
            ),
        ),
    )

    limits: Literal["outer", "line"] = "outer"

    def intervals(self, record: HistogramRecord, n: int, levels: Sequence[float]) -> Intervals:
        return record.found.intervals(record.taus, normal_quantiles(levels).tolist(), self.limits)

    def widened(self, record: HistogramRecord, j: int, z: float, share: float) -> tuple[float, float, bool]:
        """Limits of quantile j for a share of adversarial users; whether one is an end of the range."""
        return record.found.widened(record.taus[j], z, self.limits, share)


class Fieller(IntervalMethod):
    """Interval for a quantile from a few rounds of thresholds; undefined if no bounded set is left."""

    kind: Literal["fieller"] = "fieller"
    cites = ("fieller1954",)
    record = SearchRecord
    diagnostics = (RANGE_END,)
    undefined_where = "the thresholds leave no bounded set"

    def intervals(self, record: SearchRecord, n: int, levels: Sequence[float]) -> Intervals:
        return record.found.intervals(normal_quantiles(levels).tolist())
