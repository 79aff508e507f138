"""Oracle interval: thetabar -+ z_{1-a} sqrt(Sigma/n) with the true asymptotic covariance.

It cannot be computed from data; it is the yardstick for lengths.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ldpflow import constants
from ldpflow.algorithms import Algorithm
from ldpflow.intervals.asymptotics import asymptotic_variances
from ldpflow.intervals.interval import Intervals, PathIntervalMethod, average, symmetric
from ldpflow.intervals.record import PathRecord

__all__ = ["Oracle"]


class Oracle(PathIntervalMethod):
    """Interval around the average with the true asymptotic variance."""

    title: ClassVar[str] = "the true asymptotic variance: a yardstick, not a method for data"

    undefined_where: ClassVar[str] = "the variance of the limit law is not known"

    around_average: ClassVar[bool | None] = True

    kind: Literal["oracle"] = "oracle"

    def reads_truth(self) -> bool:
        return True

    def times(self, steps: int, algorithm: Algorithm) -> NDArray[np.int64]:
        return np.array([steps], dtype=np.int64)

    def intervals(self, record: PathRecord, n: int, levels: Sequence[float]) -> Intervals:
        steps = record.steps(n)
        estimate = average(record, steps)
        variances = np.array(asymptotic_variances(record.source))
        se = np.broadcast_to(np.sqrt(variances / steps)[:, None], estimate.shape)
        widths = [constants.normal_quantile(0.5 + level / 2.0) * se for level in levels]
        return Intervals(estimate, se, *symmetric(estimate, widths))
