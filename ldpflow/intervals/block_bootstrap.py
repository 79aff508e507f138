"""Multiplier block bootstrap, BB (Dette and Graw, Algorithm 2, eq. 11 and 12).

    l = floor(n^beta), m = floor(n/l),  D_j = sum of (theta_b - thetabar) over block j
    thetabar*(k) = (1/(m l)) sum_j eps_j^(k) D_j,   k = 1..B,   eps iid, mean 0, variance 1, bounded
    interval of level 1 - 2a:  [thetabar + q_a, thetabar + q_{1-a}],  q_a the type-7 quantile

Given the path the replicates have mean 0 and variance sum_j D_j^2/(m l)^2, the method's own squared
standard error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ldpflow import constants
from ldpflow.algorithms import Algorithm
from ldpflow.intervals.interval import Array, Intervals, PathIntervalMethod, average
from ldpflow.intervals.record import PathRecord, PathSource
from ldpflow.intervals.shared_settings import BETA, MULTIPLIER, REPLICATIONS
from ldpflow.kernels.cache import compiled
from ldpflow.kernels.specialise import Case
from ldpflow.random import register_array
from ldpflow.random.lockstep import CHUNK, LANES, PLANE

__all__ = ["BlockBootstrap", "multiplier_sums"]

SIGNATURE = "void(uint64[::1], float64[::1], float64, float64[:, ::1], float64[::1])"


class BlockBootstrap(PathIntervalMethod):
    """Multiplier block bootstrap of the average.

    Parameters
    ----------
    beta : float in (0, 1)
        Block exponent; the theory needs gamma < beta.
    B : int in [2, 10^5]
        Bootstrap replications.
    multiplier : str
        Law of eps: ``uniform`` on (-sqrt 3, sqrt 3), or ``rademacher``.
    """

    title: ClassVar[str] = (
        "multiplier block bootstrap (Dette and Graw): blocks of floor(n^β) steps, B replications"
    )

    undefined_where: ClassVar[str] = "there are fewer than two blocks"

    kind: Literal["BB"] = "BB"
    beta: Annotated[
        float,
        Field(gt=0, lt=1),
        BETA,
    ] = 0.75
    B: Annotated[
        int,
        Field(ge=2, le=10**5),
        REPLICATIONS,
    ] = 500
    multiplier: Annotated[Literal["uniform", "rademacher"], MULTIPLIER] = "uniform"

    def unsuitable(self, source: PathSource) -> str | None:
        gamma = source.algorithm.step_exponent()
        if gamma >= self.beta:
            return (
                f"BB with beta = {self.beta} and gamma = {gamma}: the bootstrap is proved "
                "for gamma < beta only; expect intervals that are too short"
            )
        return None

    def blocks(self, steps: int) -> tuple[int, int]:
        """Block length l and number of blocks m."""
        length = constants.floor_power(steps, self.beta)
        return length, steps // length

    def times(self, steps: int, algorithm: Algorithm) -> NDArray[np.int64]:
        length, m = self.blocks(steps)
        ends = np.arange(1, m + 1, dtype=np.int64) * length
        return ends if ends[-1] == steps else np.append(ends, steps)

    def times_settings(self) -> tuple[object, ...]:
        return (self.beta,)

    def count_times(self, steps: int, algorithm: Algorithm) -> int:
        length, m = self.blocks(steps)
        return m + (steps % length > 0)

    def intervals(self, record: PathRecord, n: int, levels: Sequence[float]) -> Intervals:
        steps = record.steps(n)
        length, m = self.blocks(steps)
        estimate = average(record, steps)
        if m < 2:
            nothing = np.full((len(levels), *estimate.shape), np.nan)
            return Intervals(estimate, np.full_like(estimate, np.nan), nothing, nothing)
        replicates, squares = self.replicates(record, n, self.deviations(record, steps), self.B)
        se = np.sqrt(squares) / (m * length)
        replicates /= m * length
        tails = [(1.0 - level) / 2.0 for level in levels]
        places = {position(self.B, p)[0] for a in tails for p in (a, 1.0 - a)}
        # The order statistics that are asked for: a third of the time of sorting.
        replicates.partition(sorted(places | {low + 1 for low in places}), axis=-1)
        lower = np.stack([estimate + quantile(replicates, a) for a in tails])
        upper = np.stack([estimate + quantile(replicates, 1.0 - a) for a in tails])
        return Intervals(estimate, se, lower, upper)

    def deviations(self, record: PathRecord, steps: int) -> Array:
        """D_j, shape (m, d, R)."""
        length, m = self.blocks(steps)
        ends = record.sums_at(np.arange(m + 1, dtype=np.int64) * length)
        mean = record.sums_at(np.array([steps]))[0] / steps
        result: Array = np.diff(ends, axis=0) - length * mean
        return result

    def replicates(self, record: PathRecord, n: int, deviations: Array, count: int) -> tuple[Array, Array]:
        """sum_j eps_j^(k) D_j for k = 1, ..., count, shape (d, R, count); sum_j D_j^2, shape (d, R)."""
        from ldpflow.random.streams import lane_states

        uniform = self.multiplier == "uniform"
        sampler = "symmetric_uniform" if uniform else "rademacher"
        m, d, lanes = deviations.shape
        padded = np.zeros((d, m, LANES))
        padded[:, :, :lanes] = deviations.transpose(1, 0, 2)
        key = f"{record.source.key}/n={n}/beta={self.beta!r}/{self.multiplier}"
        states = lane_states(record.seed, "multipliers", key, record.replicates.tolist())
        out = np.empty((count, d * LANES))
        squares = np.empty(d * LANES)
        factor = float(np.sqrt(3.0)) if uniform else 1.0
        kernel = bootstrap_kernel(sampler)
        kernel(states, padded.reshape(-1), factor, out, squares)
        replicates = out.reshape(count, d, LANES)[:, :, :lanes].transpose(1, 2, 0)
        return np.ascontiguousarray(replicates), squares.reshape(d, LANES)[:, :lanes]


@cache
def bootstrap_kernel(sampler: str) -> Callable[..., None]:
    """The compiled kernel that draws multipliers with this sampler and sums the blocks."""
    from ldpflow.random.samplers import SAMPLERS

    return compiled(multiplier_sums, Case((("fill_multipliers", SAMPLERS[sampler]),)), SIGNATURE)


def position(count: int, p: float) -> tuple[int, float]:
    """Where the empirical p-quantile of ``count`` values lies: after which one, and how far on."""
    place = (count - 1) * p
    low = min(int(place), count - 2)
    return low, place - low


def quantile(ordered: Array, p: float) -> Array:
    """Empirical p-quantile along the last axis, Hyndman and Fan's type 7 (R's and NumPy's).

    ``ordered`` has the order statistics at :func:`position` and after it in their places.
    """
    low, fraction = position(ordered.shape[-1], p)
    below = ordered[..., low]
    result: Array = below + fraction * (ordered[..., low + 1] - below)
    return result


def multiplier_sums(kernel, state, deviations, factor, out, squares):  # type: ignore[no-untyped-def]
    """out[k] = sum_j eps_j^(k) D_j for k = 1..B, squares = sum_j D_j^2, in every lane.

    Multipliers are drawn for k = 1, j = 1..m, then k = 2, and so on: B = 500 is a prefix of
    B = 1000. One multiplier serves all coordinates.
    """
    d = out.shape[1] // LANES
    m = deviations.shape[0] // (d * LANES)
    multipliers = np.empty(PLANE)
    total = register_array(LANES)
    squares[:] = 0.0
    for coordinate in range(d):
        into = squares[coordinate * LANES : (coordinate + 1) * LANES]
        D = deviations[coordinate * m * LANES : (coordinate + 1) * m * LANES]
        for j in range(m):
            for lane in range(LANES):
                into[lane] += D[j * LANES + lane] * D[j * LANES + lane]
    row = CHUNK
    for k in range(out.shape[0]):
        out[k] = 0.0
        j = 0
        while j < m:
            if row == CHUNK:
                kernel.fill_multipliers(state, 0.0, multipliers)
                row = 0
            # As many blocks as the plane has multipliers for. Four at a time, in order: a shorter
            # loop over lanes is unrolled before it can be vectorised. Slices: an index from 0 on
            # needs no test for a negative one, which would become a gather.
            count = min(m - j, CHUNK - row)
            eps = multipliers[row * LANES : (row + count) * LANES]
            for coordinate in range(d):
                D = deviations[(coordinate * m + j) * LANES : (coordinate * m + j + count) * LANES]
                into = out[k, coordinate * LANES : (coordinate + 1) * LANES]
                for lane in range(LANES):
                    total[lane] = into[lane]
                for r in range(count // 4):
                    a = r * 4 * LANES
                    for lane in range(LANES):
                        x = total[lane] + eps[a + lane] * D[a + lane]
                        x += eps[a + LANES + lane] * D[a + LANES + lane]
                        x += eps[a + 2 * LANES + lane] * D[a + 2 * LANES + lane]
                        total[lane] = x + eps[a + 3 * LANES + lane] * D[a + 3 * LANES + lane]
                done = count // 4 * 4 * LANES
                rest = eps[done:]
                D = D[done:]
                for r in range(count % 4):
                    for lane in range(LANES):
                        total[lane] += rest[r * LANES + lane] * D[r * LANES + lane]
                for lane in range(LANES):
                    into[lane] = total[lane]
            j += count
            row += count
        for x in range(d * LANES):
            out[k, x] *= factor
