"""Convex hull of independent estimates, HULC (Kuchibhotla, Balakrishnan and Wasserman, 2024).

    B* = ceil(log2(2/alpha));  B = B* - 1 with probability p, else B*
    p = (alpha - 2^(1 - B*))/(2^(2 - B*) - 2^(1 - B*))
    interval [min, max] of B averages, each of floor(n/B) users of its own; estimate: their median

Each of B independent estimates without median bias is as likely above as below, so all of them are on one
side with probability 2^(1 - B); the two values of B are mixed to make it alpha. Row r takes replicates
rB*, ..., rB* + B* - 1 of the path as its runs (the first B of them), and a coin of its own that is addressed
by path, level and r but not by n, so that looking at several n tosses it once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np
from mpmath import mp, mpf
from numpy.typing import NDArray

from ldpflow import constants
from ldpflow.algorithms import Algorithm
from ldpflow.intervals.interval import Array, Intervals, PathIntervalMethod
from ldpflow.intervals.parallel_runs import averages_of_runs
from ldpflow.intervals.record import PathRecord
from ldpflow.random.lockstep import LANES, PLANE

__all__ = ["ConvexHull", "coins", "hull_size"]

MOST_RUNS = 32
"""B* of the highest level that a study may have."""


class ConvexHull(PathIntervalMethod):
    """Smallest and largest of B* or B* - 1 averages of independent runs."""

    title: ClassVar[str] = "smallest and largest of independent averages (Kuchibhotla et al., 2024)"

    undefined_where: ClassVar[str] = "a run has no step"

    around_average: ClassVar[bool | None] = False

    kind: Literal["HULC"] = "HULC"

    def runs(self, level: float) -> int:
        return hull_size(level)[0]

    def times(self, steps: int, algorithm: Algorithm) -> NDArray[np.int64]:
        # The level is not known here: the times of every B* that there is.
        return np.unique(
            np.array([max(steps // runs, 1) for runs in range(1, MOST_RUNS + 1)], dtype=np.int64)
        )

    def level_times(self, steps: int, algorithm: Algorithm, levels: Sequence[float]) -> NDArray[np.int64]:
        used = {runs for level in levels for runs in (self.runs(level) - 1, self.runs(level))}
        return np.unique(np.array([max(steps // runs, 1) for runs in used], dtype=np.int64))

    def count_times(self, steps: int, algorithm: Algorithm) -> int:
        return MOST_RUNS

    def intervals(self, record: PathRecord, n: int, levels: Sequence[float]) -> Intervals:
        """Intervals at levels that have the same B*; coins, and so estimates, differ between levels."""
        steps = record.steps(n)
        most = self.runs(levels[0])
        if any(self.runs(level) != most for level in levels):
            raise ValueError(f"levels with different numbers of runs: {list(levels)}")
        few, many = (self.limits(record, steps, most, used) for used in (most - 1, most))
        rows = record.replicates[::most] // most
        parts = [
            np.where(coins(record.seed, record.source.key, level, rows) <= hull_size(level)[1], few, many)
            for level in levels
        ]
        lower, upper, median = np.stack(parts, axis=1)
        return Intervals(median, None, lower, upper)

    def limits(self, record: PathRecord, steps: int, most: int, used: int) -> Array:
        """Smallest, largest and median of the first ``used`` averages, shape (3, d, rows)."""
        d, rows = len(record.origin), len(record.replicates) // most
        if steps // used < 1:
            return np.full((3, d, rows), np.nan)
        x = np.sort(averages_of_runs(record, steps // used, most)[:used], axis=0)
        median = 0.5 * (x[(used - 1) // 2] + x[used // 2])
        limits: Array = record.origin[:, None] + np.stack([x[0], x[-1], median])
        return limits


@lru_cache(maxsize=256)
def hull_size(level: float) -> tuple[int, float]:
    """B* and the probability p of B* - 1; the level is the decimal that was typed."""
    with constants.workdps(40):
        alpha = 1 - mpf(repr(level))
        exponent = mp.log(2 / alpha, 2)
        nearest = mp.nint(exponent)
        runs = int(nearest if abs(exponent - nearest) <= mpf("1e-9") else mp.ceil(exponent))
        miss = mpf(2) ** (1 - runs)
        return runs, float((alpha - miss) / miss)


def coins(seed: int, key: str, level: float, rows: NDArray[np.int64]) -> Array:
    """U_r, uniform on (0, 1), of every row."""
    from ldpflow.random.samplers import SAMPLERS
    from ldpflow.random.streams import lane_states

    result = np.empty(len(rows))
    plane = np.empty(PLANE)
    for first in range(0, len(rows), LANES):
        part = rows[first : first + LANES].tolist()
        state = lane_states(seed, "hull", f"{key}/level={level!r}", part)
        SAMPLERS["uniform"](state, 0.0, plane)
        result[first : first + len(part)] = plane[: len(part)]
    return result
