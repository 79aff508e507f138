"""Fieller's interval from the local logistic fit of protocol ``rounds``.

{x : (a + b u - logit tau)^2 <= z^2 Var(a + b u)}, u the place of x in the window of the fit. Thresholds of
a round are conditionally independent given the past and the last round is fresh data, as in adaptive
regression; no proof is claimed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np

from ldpflow import constants
from ldpflow.columns import Column
from ldpflow.intervals.counts_record import SearchRecord
from ldpflow.intervals.interval import IntervalMethod, Intervals
from ldpflow.intervals.inversion import RANGE_END
from ldpflow.intervals.record import Record

__all__ = ["Fieller"]


class Fieller(IntervalMethod):
    """Interval for a quantile from a few rounds of thresholds; undefined where no bounded set is left."""

    record: ClassVar[type[Record]] = SearchRecord
    diagnostics: ClassVar[tuple[Column, ...]] = (RANGE_END,)

    undefined_where: ClassVar[str] = "the thresholds leave no bounded set"

    kind: Literal["fieller"] = "fieller"

    def intervals(self, record: SearchRecord, n: int, levels: Sequence[float]) -> Intervals:
        z = [constants.normal_quantile(0.5 + level / 2.0) for level in levels]
        found = record.searches.intervals(z)
        ends = np.where(np.isfinite(found.lower), found.range_end, np.nan)
        return Intervals(found.estimate, None, found.lower, found.upper, {"range_end": ends}, found.range_end)
