"""Multiplier block bootstrap, BB (Dette and Graw, Algorithm 2, eq. 11 and 12).

    l = floor(n^beta), m = floor(n/l),  D_j = sum of (theta_b - thetabar) over block j
    thetabar*(k) = (1/(m l)) sum_j eps_j^(k) D_j,   k = 1..B,   eps iid, mean 0, variance 1, bounded
    interval of level 1 - 2a:  [thetabar + q_a, thetabar + q_{1-a}],  q_a the type-7 quantile

Given the path the replicates have mean 0 and variance sum_j D_j^2/(m l)^2, the method's own squared
standard error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ldpflow import constants
from ldpflow.algorithms import Algorithm
from ldpflow.intervals.interval import Array, Intervals, PathIntervalMethod, average, in_order
from ldpflow.intervals.record import PathRecord, PathSource
from ldpflow.intervals.shared_settings import BETA, MULTIPLIER, REPLICATIONS
from ldpflow.kernels.module import compiled
from ldpflow.kernels.specialise import Case, Part
from ldpflow.random import register_array
from ldpflow.random.lockstep import LANES

__all__ = ["BlockBootstrap", "multiplier_sums"]

SIGNATURE = "void(uint64[::1], float64[::1], float64, float64[::1], float64[:, ::1], uint64[::1])"
GROUP = 4  # blocks added per visit to a lane's state: keeps state and sum in registers
GROUP_SIZE = GROUP * LANES
NONE, ONE = np.uint64(0), np.uint64(1)
FIRST_BIT = np.uint64(63)
SQRT_3 = float(np.sqrt(3.0))


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

    around_average: ClassVar[bool | None] = True

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
        tails = [(1.0 - level) / 2.0 for level in levels]
        deviations = self.deviations(record, steps)
        sd = np.sqrt(in_order(deviations * deviations))
        outer = self.outer_values(record, n, deviations, sd, tails) / (m * length)
        lower, upper = np.empty((2, len(tails), *estimate.shape))
        for at, a in enumerate(tails):
            lower[at] = estimate + quantile(outer, self.B, a)
            upper[at] = estimate + quantile(outer, self.B, 1.0 - a)
        return Intervals(estimate, sd / (m * length), lower, upper)

    def deviations(self, record: PathRecord, steps: int) -> Array:
        """D_j, shape (m, d, R)."""
        length, m = self.blocks(steps)
        result: Array = record.sums_at(np.arange(length, m * length + 1, length))
        result[1:] -= result[:-1].copy()
        result -= length * (record.sum_at(steps) / steps)
        return result

    def outer_values(
        self, record: PathRecord, n: int, deviations: Array, sd: Array, tails: Sequence[float]
    ) -> Array:
        """Values of :meth:`replicates` in order, without some between the quantiles for these tails.

        Those near 0 need not be put in order, two thirds of them all: while enough are left at either end.
        """
        count = self.B
        needed, z = left_out(count, tuple(tails))
        if z > 0.0:
            limit = z * sd
            values = self.replicates(record, n, deviations, count, limit)
            values.sort(axis=-1)
            found = values.shape[-1] >= needed
            if found and ((values[..., needed - 1] <= -limit) & (values[..., -needed] >= limit)).all():
                return values
        values = self.replicates(record, n, deviations, count)
        values.sort(axis=-1)
        return values

    def replicates(
        self, record: PathRecord, n: int, deviations: Array, count: int, limit: Array | None = None
    ) -> Array:
        """sum_j eps_j^(k) D_j for k = 1, ..., count, shape (d, R, count).

        Sums nearer to 0 than ``limit``, shape (d, R), are left out; some of them, or zeros, stand at the
        end of rows that are shorter than others.
        """
        from ldpflow.random.streams import lane_states

        _, d, lanes = deviations.shape
        key = f"{record.source.key}/n={n}/beta={self.beta!r}/{self.multiplier}"
        states = lane_states(record.seed, "multipliers", key, record.replicates.tolist())
        out = np.zeros((d * LANES, count))
        kept = np.zeros(d * LANES, dtype=np.uint64)
        blocks = in_lanes(deviations.transpose(1, 0, 2))
        limits = np.zeros(d * LANES) if limit is None else in_lanes(limit)
        factor = SQRT_3 if self.multiplier == "uniform" else 1.0
        bootstrap_kernel(self.multiplier)(states, blocks, factor, limits, out, kept)
        longest = int(kept.reshape(d, LANES)[:, :lanes].max())
        return out.reshape(d, LANES, count)[:, :lanes, :longest]


def in_lanes(values: Array) -> Array:
    """Values of the last axis's replicates in LANES lanes, zeros in those that are left, as one axis."""
    lanes = values.shape[-1]
    if lanes < LANES:
        padded = np.zeros((*values.shape[:-1], LANES))
        padded[..., :lanes] = values
        values = padded
    return np.ascontiguousarray(values).reshape(-1)


@cache
def bootstrap_kernel(multiplier: str) -> Callable[..., None]:
    """The compiled kernel that draws multipliers of this law and sums the blocks."""
    from ldpflow.random.samplers import following, unit, with_sign

    law = {"uniform": symmetric_uniform, "rademacher": rademacher}[multiplier]
    case = Case((("following", following), ("unit", unit), ("with_sign", with_sign), ("multiplier", law)))

    def adding(blocks: int) -> Part:
        return Part(add_blocks, case.with_values({"BLOCKS": blocks}), "inlined")

    case = case.with_values({"add_group": adding(GROUP), "add_block": adding(1)})
    return compiled(multiplier_sums, case, SIGNATURE)


def symmetric_uniform(kernel, word):  # type: ignore[no-untyped-def]
    """Uniform(-1, 1)."""
    return 2.0 * kernel.unit(word) - 1.0


def rademacher(kernel, word):  # type: ignore[no-untyped-def]
    """-1 or 1."""
    return kernel.with_sign(1.0, word >> FIRST_BIT)


def position(count: int, p: float) -> tuple[int, float]:
    """Where the empirical p-quantile of ``count`` values lies: after which one, and how far on."""
    place = (count - 1) * p
    low = min(int(place), count - 2)
    return low, place - low


@lru_cache(maxsize=256)
def left_out(count: int, tails: tuple[float, ...]) -> tuple[int, float]:
    """Values needed from either end, and how many standard errors from 0 on that many are likely to lie.

    0 standard errors where too few would be left out.
    """
    needed = max(max(position(count, a)[0] + 2, count - position(count, 1.0 - a)[0]) for a in tails)
    share = (needed + 4.0 * float(np.sqrt(needed)) + 4.0) / count
    return needed, constants.normal_quantile(1.0 - share) if share < 0.3 else 0.0


def quantile(outer: Array, count: int, p: float) -> Array:
    """Empirical p-quantile of ``count`` values, Hyndman and Fan's type 7 (R's and NumPy's).

    ``outer`` has them in order along its last axis, without some between the quantiles that are asked for.
    """
    low, fraction = position(count, p)
    if p > 0.5:
        low -= count - outer.shape[-1]
    below = outer[..., low]
    result: Array = below + fraction * (outer[..., low + 1] - below)
    return result


def multiplier_sums(kernel, state, deviations, factor, limit, out, kept):  # type: ignore[no-untyped-def]
    """out[x] = sum_j eps_j^(k) D_j for k = 1..B but those nearer to 0 than limit[x], kept[x] of them.

    x is coordinate and lane. Multipliers are drawn for k = 1, j = 1..m, then k = 2, and so on: B = 500 is
    a prefix of B = 1000. One multiplier serves all coordinates.
    """
    size = out.shape[0]
    m = deviations.shape[0] // size
    s0 = state[:LANES]
    s1 = state[LANES : 2 * LANES]
    s2 = state[2 * LANES : 3 * LANES]
    s3 = state[3 * LANES :]
    eps = register_array(GROUP_SIZE)
    total = np.empty(size)
    for _ in range(out.shape[1]):
        total[:] = 0.0
        for j in range(0, m // GROUP * GROUP, GROUP):
            kernel.add_group(s0, s1, s2, s3, deviations, m, j, eps, total)
        for j in range(m // GROUP * GROUP, m):
            kernel.add_block(s0, s1, s2, s3, deviations, m, j, eps, total)
        for x in range(size):
            value = total[x] * factor
            at = kept[x]
            out[x, at] = value
            # No branch: nothing could predict it.
            kept[x] = at + (NONE if abs(value) < limit[x] else ONE)


def add_blocks(kernel, s0, s1, s2, s3, deviations, m, j, eps, total):  # type: ignore[no-untyped-def]
    """Add eps_i D_i of as many blocks as ``kernel.BLOCKS`` from j on, one after the other.

    Slices: an index from 0 on needs no test for a negative one, which would become a gather.
    """
    first = total[:LANES]
    D = deviations[j * LANES : (j + kernel.BLOCKS) * LANES]
    for lane in range(LANES):
        a = s0[lane]
        b = s1[lane]
        c = s2[lane]
        d = s3[lane]
        s = first[lane]
        for i in range(kernel.BLOCKS):
            word, a, b, c, d = kernel.following(a, b, c, d)
            e = kernel.multiplier(word)
            eps[i * LANES + lane] = e
            s += e * D[i * LANES + lane]
        first[lane] = s
        s0[lane] = a
        s1[lane] = b
        s2[lane] = c
        s3[lane] = d
    # The other coordinates.
    for x in range(LANES, total.shape[0], LANES):
        into = total[x : x + LANES]
        D = deviations[x * m + j * LANES : x * m + (j + kernel.BLOCKS) * LANES]
        for lane in range(LANES):
            s = into[lane]
            for i in range(kernel.BLOCKS):
                s += eps[i * LANES + lane] * D[i * LANES + lane]
            into[lane] = s
