"""Records of protocols that make no path, and intervals from these records.

F is the distribution function of the values of the users.

**inversion** inverts the test of F(x) = tau on a private histogram. Its interval spans the points x with
|F^(x) - tau| <= z se(x). F^ is the unbiased estimate of F at the edges of the bins, and se is its standard
error under F(x) = tau.

**fieller** reads the fit logit F(x) = a + b u of protocol ``rounds``, in a window around the quantile. Its
interval is

    {x : (a + b u - logit tau)^2 <= z^2 Var(a + b u)},   u = (x - centre)/(half width of the window)

For this interval no proof is claimed.
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
    """Record of R replicates of a protocol at one n.

    ``quantiles``, length d, are the true quantiles at the levels ``taus``.
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
        # Counts cannot overflow.
        return np.ones(len(self.replicates), dtype=bool)


class HistogramRecord(CountsRecord):
    """Record of a one-shot protocol: F^ at the edges of the bins."""

    words = "the histogram of a one-shot protocol"
    found: Histograms


class SearchRecord(CountsRecord):
    """Record of protocol ``rounds``: thresholds, and the local fit to them."""

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


class Inversion(IntervalMethod):
    """Interval for a quantile from a one-shot protocol, by test inversion.

    Parameters
    ----------
    limits : str
        ``outer`` rounds limits outwards to edges of bins. These limits are valid for every law inside a bin.
        ``line`` interpolates linearly between edges. Its limits are shorter. They are valid if the
        interpolation has little bias.
    """

    kind: Literal["inversion"] = "inversion"
    record = HistogramRecord
    diagnostics = (
        RANGE_END,
        Column(
            "unasked",
            "double",
            "count",
            "number of questions that were put to no user",
            summaries=(
                Summary(
                    "unasked_share",
                    "share of replicates with a question that no user got",
                    beyond=0.5,
                    caution="some question was put to no user: n is small for this number of bins",
                ),
            ),
        ),
    )

    limits: Literal["outer", "line"] = "outer"

    def intervals(self, record: HistogramRecord, n: int, levels: Sequence[float]) -> Intervals:
        return record.found.intervals(record.taus, normal_quantiles(levels).tolist(), self.limits)


class Fieller(IntervalMethod):
    """Interval for a quantile from a few rounds of thresholds, by Fieller's method."""

    kind: Literal["fieller"] = "fieller"
    cites = ("fieller1954",)
    record = SearchRecord
    diagnostics = (RANGE_END,)
    undefined_where = "the set of Fieller's method is not bounded"

    def intervals(self, record: SearchRecord, n: int, levels: Sequence[float]) -> Intervals:
        return record.found.intervals(normal_quantiles(levels).tolist())
