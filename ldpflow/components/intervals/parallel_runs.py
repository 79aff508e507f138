"""Intervals from independent runs on parts of the users: Student's t, and the convex hull.

**PAR** (Zhu, Lou, Wei and Wu, 2024). The users are split over K runs of floor(n/K) users each. x_j is the
average of run j, and xbar the mean of all x_j:

    xbar -+ t_(K-1) s/sqrt(K),   s^2 = (K - 1)^-1 sum (x_j - xbar)^2

The runs of row r are the replicates rK, ..., rK + K - 1 of the path. The bias is K^gamma times that of one
run on n users.

**HULC** (Kuchibhotla, Balakrishnan and Wasserman, 2024)

    alpha = 1 - level;  B* = ceil(log2(2/alpha));  B = B* - 1 with probability p, else B*
    p = (alpha - 2^(1 - B*))/(2^(2 - B*) - 2^(1 - B*))
    interval [min, max] of the averages of B runs of floor(n/B) users each,   estimate: their median

If estimates have no median bias, each of B independent ones is as likely above theta* as below. All of them
lie on one side with probability 2^(1 - B). With the random B the probability of a miss is alpha. The runs of
row r are the first B of the replicates rB*, ..., rB* + B* - 1 of the path. The coin that chooses B depends
on path, level and r, and is the same for all n.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Annotated, Literal

import numpy as np
from mpmath import mp, mpf
from numpy.typing import NDArray
from pydantic import Field

from ldpflow.components.algorithms import Algorithm
from ldpflow.components.intervals.interval import (
    Array,
    Intervals,
    PathIntervalMethod,
    in_order,
    normal_intervals,
    positive_or_nan,
    undefined_intervals,
)
from ldpflow.components.intervals.record import PathRecord
from ldpflow.numerics import constants
from ldpflow.numerics.streams import LANES, PLANE
from ldpflow.settings import Setting

MOST_RUNS = 32
"""No level that a study may have needs more runs."""


class ParallelRuns(PathIntervalMethod):
    """Student's t interval over K runs."""

    kind: Literal["PAR"] = "PAR"
    cites = ("zhu2024",)
    title = "Student's t over parallel runs (Zhu, Lou, Wei and Wu, 2024)"
    undefined_where = "a run has no step, or the runs' averages are equal"
    around_average = False
    K: Annotated[
        int, Field(ge=2, le=1000), Setting("count", "number of parallel runs that share the users")
    ] = 5

    def runs(self, level: float) -> int:
        return self.K

    def times(self, steps: int, algorithm: Algorithm) -> NDArray[np.int64]:
        return np.array([max(steps // self.K, 1)], dtype=np.int64)

    def intervals(self, record: PathRecord, n: int, levels: Sequence[float]) -> Intervals:
        steps = record.steps(n) // self.K
        if steps < 1:
            shape = (len(record.origin), len(record.replicates) // self.K)
            return undefined_intervals(np.full(shape, np.nan), levels)
        x = averages_of_runs(record, steps, self.K)
        mean = in_order(x) / self.K
        deviations = x - mean
        variance = in_order(deviations * deviations) / (self.K - 1)
        se = np.sqrt(positive_or_nan(variance) / self.K)
        return normal_intervals(record.origin[:, None] + mean, se, levels, self.K - 1.0)


def averages_of_runs(record: PathRecord, steps: int, runs: int) -> Array:
    """Average of every run less ``record.origin``, after ``steps`` steps, shape (runs, d, rows)."""
    sums = record.sum_at(steps)
    d, replicates = sums.shape
    by_row = (sums / steps).reshape(d, replicates // runs, runs)
    return np.ascontiguousarray(by_row.transpose(2, 0, 1))


class ConvexHull(PathIntervalMethod):
    """Interval from the smallest to the largest of B* or B* - 1 averages of independent runs."""

    kind: Literal["HULC"] = "HULC"
    cites = ("kuchibhotla2024",)
    title = "smallest and largest of independent averages (Kuchibhotla et al., 2024)"
    undefined_where = "a run has no step"
    around_average = False

    def runs(self, level: float) -> int:
        return hull_size(level)[0]

    def times(self, steps: int, algorithm: Algorithm) -> NDArray[np.int64]:
        # For every level that a study may have.
        return hull_times(steps, range(1, MOST_RUNS + 1))

    def level_times(self, steps: int, algorithm: Algorithm, levels: Sequence[float]) -> NDArray[np.int64]:
        return hull_times(steps, [self.runs(level) - few for level in levels for few in (0, 1)])

    def count_times(self, steps: int, algorithm: Algorithm) -> int:
        return MOST_RUNS

    def intervals(self, record: PathRecord, n: int, levels: Sequence[float]) -> Intervals:
        """Intervals at levels that have the same B*. The estimate depends on the coin of the level."""
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
        return np.asarray(record.origin[:, None] + np.stack([x[0], x[-1], median]))


def hull_times(steps: int, runs: Iterable[int]) -> NDArray[np.int64]:
    return np.unique(np.array([max(steps // count, 1) for count in runs], dtype=np.int64))


@lru_cache(maxsize=256)
def hull_size(level: float) -> tuple[int, float]:
    """B* and the probability p of B* - 1. The level is read as a decimal number."""
    with constants.workdps(40):
        alpha = 1 - mpf(repr(level))
        exponent = mp.log(2 / alpha, 2)
        nearest = mp.nint(exponent)
        runs = int(nearest if abs(exponent - nearest) <= mpf("1e-9") else mp.ceil(exponent))
        miss = mpf(2) ** (1 - runs)
        return runs, float((alpha - miss) / miss)


def coins(seed: int, key: str, level: float, rows: NDArray[np.int64]) -> Array:
    """One uniform number in (0, 1) for every row."""
    from ldpflow.numerics.samplers import SAMPLERS
    from ldpflow.numerics.streams import lane_states

    result = np.empty(len(rows))
    plane = np.empty(PLANE)
    for first in range(0, len(rows), LANES):
        part = rows[first : first + LANES].tolist()
        state = lane_states(seed, "hull", f"{key}/level={level!r}", part)
        SAMPLERS["uniform"](state, 0.0, plane)
        result[first : first + len(part)] = plane[: len(part)]
    return result
