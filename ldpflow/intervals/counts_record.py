"""Records of protocols that make no path: what the server keeps of the counts of reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldpflow.intervals.record import Array, Record

if TYPE_CHECKING:
    from ldpflow.protocols.runs import Histograms, Searches

__all__ = ["HistogramRecord", "SearchRecord"]


@dataclass(frozen=True)
class CountsRecord(Record):
    """R replicates of a protocol at one n.

    Parameters
    ----------
    seed : int
        The study's seed.
    replicates : ndarray of int64, shape (R,)
    quantiles : ndarray, shape (d,)
        theta*, the quantiles at ``taus``.
    taus : tuple of float, length d
    """

    seed: int
    replicates: NDArray[np.int64]
    quantiles: Array
    taus: tuple[float, ...]

    @property
    def truth(self) -> Array:
        return self.quantiles

    def finite(self, n: int) -> NDArray[np.bool_]:
        # Nothing can overflow; what has no estimate is undefined.
        return np.ones(len(self.replicates), dtype=bool)


@dataclass(frozen=True)
class HistogramRecord(CountsRecord):
    """F^ at the edges, of a one-shot protocol.

    Parameters
    ----------
    histograms : Histograms
    """

    words: ClassVar[str] = "the histogram of a one-shot protocol"

    histograms: Histograms


@dataclass(frozen=True)
class SearchRecord(CountsRecord):
    """Thresholds near the quantile and their local fit, of ``rounds``.

    Parameters
    ----------
    searches : Searches
    """

    words: ClassVar[str] = "the thresholds of a protocol of several rounds"

    searches: Searches
