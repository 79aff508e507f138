"""Bootstrap from perturbed paths, PB (Fang, Xu and Yang, 2018): see algorithms/budget_split.py.

    se = sd of thetabar_n^(k) over k = 1..B,   interval thetabar_n -+ z se

With a split budget it is conservative. A perturbed path weighs the privacy noise of its own answers,
which has variance E w^2 S_LDP = 2 S_LDP where the estimate has S_LDP, and S_LDP itself is that of
eps/(B + 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ldpflow import constants
from ldpflow.algorithms import Algorithm
from ldpflow.intervals.interval import Intervals, PathIntervalMethod, average, symmetric
from ldpflow.intervals.record import PathRecord, PathSource
from ldpflow.kernels.running_sums import PERTURBED

__all__ = ["PerturbedBootstrap"]


class PerturbedBootstrap(PathIntervalMethod):
    """Normal interval with the spread of perturbed paths as standard error."""

    around_average: ClassVar[bool | None] = True

    kind: Literal["PB"] = "PB"

    def applies(self, source: PathSource) -> bool:
        return super().applies(source) and source.algorithm.perturbed_paths() > 0

    def lacking(self, source: PathSource) -> str:
        known = super().applies(source)
        return "it takes the perturbed paths of budget_split" if known else super().lacking(source)

    def times(self, steps: int, algorithm: Algorithm) -> NDArray[np.int64]:
        return np.array([steps], dtype=np.int64)

    def running_sums(self, dimension: int) -> tuple[str, ...]:
        return (PERTURBED,)

    def intervals(self, record: PathRecord, n: int, levels: Sequence[float]) -> Intervals:
        steps = record.steps(n)
        estimate = average(record, steps)
        averages = record.running(PERTURBED, steps) / steps
        count = len(averages)
        mean = np.zeros_like(estimate)
        for row in averages:
            mean += row
        mean /= count
        squares = np.zeros_like(estimate)
        for row in averages:
            squares += (row - mean) * (row - mean)
        se = np.sqrt(squares / (count - 1))
        widths = [constants.normal_quantile(0.5 + level / 2.0) * se for level in levels]
        return Intervals(estimate, se, *symmetric(estimate, widths))
