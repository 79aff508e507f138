"""Bootstrap intervals around the average, from blocks of one path or from perturbed paths.

**BB**, multiplier block bootstrap (Dette and Graw, Algorithm 2, eq. 11 and 12)

    l = floor(n^beta), m = floor(n/l),  D_j = sum of (theta_b - thetabar) over block j
    thetabar*(k) = (1/(m l)) sum_j eps_j^(k) D_j,   k = 1..B,   eps iid, mean 0, variance 1, bounded
    interval of level 1 - 2a:  [thetabar + q_a, thetabar + q_{1-a}]

theta_b is the iterate of step b, thetabar the average of the iterates, and q_a the type-7 quantile of the
replications thetabar*(k). Given the path, the replications have mean 0 and variance sum_j D_j^2/(m l)^2. The
standard error of the method is the square root of this variance.

**CHB**, cheap bootstrap (Lam and Wang, 2026): a few replications and a t quantile

    S2 = B^-1 sum_k thetabar*(k)^2,   interval thetabar -+ t_B sqrt(S2)

t_B is the quantile of Student's t with B degrees of freedom. thetabar*(1), ..., thetabar*(B) are the first B
replications of BB. Given the path, the mean of S2 is the variance of a replication of BB. If this variance is
too small, the intervals of CHB are too short as well.

**PB**, perturbed paths (Fang, Xu and Yang, 2018; see algorithm budget_split)

    se = sd of thetabar_n^(k) over k = 1..B,   interval thetabar_n -+ z se

thetabar_n is the average of the path, thetabar_n^(k) that of the k-th perturbed path, and z a normal
quantile. With a split budget the interval is conservative. The privacy noise of the path itself has
covariance S_LDP. In a perturbed path random weights w with E w = 1 and E w^2 = 2 multiply the noise, so the
noise has covariance 2 S_LDP.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ldpflow.components.algorithms import Algorithm
from ldpflow.components.intervals.interval import (
    Array,
    Intervals,
    PathIntervalMethod,
    average,
    in_order,
    normal_intervals,
    positive_or_nan,
    undefined_intervals,
)
from ldpflow.components.intervals.record import PathRecord, PathSource
from ldpflow.numerics import constants, register_array
from ldpflow.numerics.kernels import compile_kernel
from ldpflow.numerics.running_sums import PERTURBED
from ldpflow.numerics.specialise import Case, KernelPart
from ldpflow.numerics.streams import LANES, lane_states
from ldpflow.settings import Setting

REPLICATIONS = Setting("count", "number of bootstrap replications of BB and CHB", logarithmic=True)
SIGNATURE = "void(uint64[::1], float64[::1], float64, float64[:, ::1])"
GROUP = 4  # blocks that are added at once, so that the random state of a lane stays in registers
GROUP_SIZE = GROUP * LANES
FIRST_BIT = np.uint64(63)
SQRT_3 = float(np.sqrt(3.0))


class BlockBootstrap(PathIntervalMethod):
    """Multiplier block bootstrap of the average."""

    kind: Literal["BB"] = "BB"
    cites = ("dette2024",)
    title = "multiplier block bootstrap (Dette and Graw): blocks of floor(n^β) steps, B replications"
    undefined_where = "there are fewer than two blocks"
    around_average = True

    beta: Annotated[
        float,
        Field(gt=0, lt=1),
        Setting(
            "1", "block exponent of BB and CHB, proved for gamma < beta", symbol="β", title="block exponent"
        ),
    ] = 0.75
    B: Annotated[int, Field(ge=2, le=10**5), REPLICATIONS] = 500
    multiplier: Annotated[
        Literal["uniform", "rademacher"],
        Setting(
            "-",
            "law of the blocks' factors in BB and CHB: `uniform` on (-sqrt 3, sqrt 3), or `rademacher`",
        ),
    ] = "uniform"

    def unsuitable(self, source: PathSource) -> str | None:
        gamma = source.algorithm.step_exponent()
        if not gamma >= self.beta:
            return None
        return (
            f"{self.kind} with beta = {self.beta} and gamma = {gamma}: the bootstrap is proved "
            "for gamma < beta only; expect intervals that are too short"
        )

    def blocks(self, steps: int) -> tuple[int, int]:
        """Block length l and number of blocks m."""
        length = constants.floor_power(steps, self.beta)
        return length, steps // length

    def times(self, steps: int, algorithm: Algorithm) -> NDArray[np.int64]:
        length, m = self.blocks(steps)
        ends = np.arange(1, m + 1, dtype=np.int64) * length
        return ends if ends[-1] == steps else np.append(ends, steps)

    def count_times(self, steps: int, algorithm: Algorithm) -> int:
        length, m = self.blocks(steps)
        return m + (steps % length > 0)

    def intervals(self, record: PathRecord, n: int, levels: Sequence[float]) -> Intervals:
        steps = record.steps(n)
        length, m = self.blocks(steps)
        estimate = average(record, steps)
        if m < 2:
            return undefined_intervals(estimate, levels)
        sums = record.sums_at(np.arange(length, m * length + 1, length))
        deviations = np.diff(sums, axis=0, prepend=0.0) - length * (record.sum_at(steps) / steps)
        return self.around(estimate, deviations, self.replicates(record, n, deviations), m * length, levels)

    def around(
        self, estimate: Array, deviations: Array, values: Array, count: int, levels: Sequence[float]
    ) -> Intervals:
        """Intervals from D_j, shape (m, d, R), and ``values`` of :meth:`replicates`. ``count`` is m l."""
        sd = np.sqrt(in_order(deviations * deviations))
        values.sort(axis=-1)
        values /= count
        lower, upper = np.empty((2, len(levels), *estimate.shape))
        for at, level in enumerate(levels):
            a = (1.0 - level) / 2.0
            lower[at] = estimate + quantile(values, a)
            upper[at] = estimate + quantile(values, 1.0 - a)
        return Intervals(estimate, sd / count, lower, upper)

    def replicates(self, record: PathRecord, n: int, deviations: Array) -> Array:
        """sum_j eps_j^(k) D_j for k = 1, ..., B, shape (d, R, B)."""
        m, d, lanes = deviations.shape
        key = f"{record.source.key}/n={n}/beta={self.beta!r}/{self.multiplier}"
        states = lane_states(record.seed, "multipliers", key, record.replicates.tolist())
        blocks = np.zeros((d, m, LANES))
        blocks[:, :, :lanes] = deviations.transpose(1, 0, 2)
        out = np.empty((d * LANES, self.B))
        factor = SQRT_3 if self.multiplier == "uniform" else 1.0
        bootstrap_kernel(self.multiplier)(states, blocks.reshape(-1), factor, out)
        return out.reshape(d, LANES, self.B)[:, :lanes]


@cache
def bootstrap_kernel(multiplier: str) -> Callable[..., None]:
    """Compile :func:`multiplier_sums` for a law of multipliers."""
    from ldpflow.numerics.samplers import flip_sign, next_draw, unit

    law = {"uniform": symmetric_uniform, "rademacher": rademacher}[multiplier]
    case = Case((("following", next_draw), ("unit", unit), ("with_sign", flip_sign), ("multiplier", law)))

    def adder(blocks: int) -> KernelPart:
        return KernelPart(add_blocks, case.with_values({"BLOCKS": blocks}), "inlined")

    case = case.with_values({"add_group": adder(GROUP), "add_block": adder(1)})
    return compile_kernel(multiplier_sums, case, SIGNATURE)


def symmetric_uniform(kernel, word):  # type: ignore[no-untyped-def]
    return 2.0 * kernel.unit(word) - 1.0


def rademacher(kernel, word):  # type: ignore[no-untyped-def]
    return kernel.with_sign(1.0, word >> FIRST_BIT)


def quantile(values: Array, p: float) -> Array:
    """Type-7 quantile (Hyndman and Fan, R, NumPy) of values that are sorted along the last axis."""
    place = (values.shape[-1] - 1) * p
    low = min(int(place), values.shape[-1] - 2)
    return np.asarray(values[..., low] + (place - low) * (values[..., low + 1] - values[..., low]))


def multiplier_sums(kernel, state, deviations, factor, out):  # type: ignore[no-untyped-def]
    """Fill out[x], of length B, with sum_j eps_j^(k) D_j for k = 1..B. x runs over coordinates and lanes.

    Multipliers are drawn for k = 1, j = 1..m, then for k = 2, and so on. The sums for B = 500 are therefore
    the first 500 sums for B = 1000. All coordinates have the same multipliers.
    """
    size = out.shape[0]
    m = deviations.shape[0] // size
    s0 = state[:LANES]
    s1 = state[LANES : 2 * LANES]
    s2 = state[2 * LANES : 3 * LANES]
    s3 = state[3 * LANES :]
    eps = register_array(GROUP_SIZE)
    total = np.empty(size)
    for k in range(out.shape[1]):
        total[:] = 0.0
        for j in range(0, m // GROUP * GROUP, GROUP):
            kernel.add_group(s0, s1, s2, s3, deviations, m, j, eps, total)
        for j in range(m // GROUP * GROUP, m):
            kernel.add_block(s0, s1, s2, s3, deviations, m, j, eps, total)
        for x in range(size):
            out[x, k] = total[x] * factor


def add_blocks(kernel, s0, s1, s2, s3, deviations, m, j, eps, total):  # type: ignore[no-untyped-def]
    """Add eps_i D_i of ``kernel.BLOCKS`` blocks from block j on, in order.

    The loops index slices from 0. With other indices each load would first test the index.
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


class CheapBootstrap(BlockBootstrap):
    """Interval from a few bootstrap replications."""

    kind: Literal["CHB"] = "CHB"  # type: ignore[assignment]
    cites = ("lam2026",)
    title = "cheap bootstrap: few replications and a t quantile (Lam and Wang, 2026)"
    undefined_where = "there are fewer than two blocks, or their sums are equal"

    B: Annotated[int, Field(ge=1, le=100), REPLICATIONS] = 5

    def around(
        self, estimate: Array, deviations: Array, values: Array, count: int, levels: Sequence[float]
    ) -> Intervals:
        squares = in_order(np.moveaxis(values * values, 2, 0))
        se = np.sqrt(positive_or_nan(squares / self.B)) / count
        return normal_intervals(estimate, se, levels, float(self.B))


class PerturbedBootstrap(PathIntervalMethod):
    """Normal interval whose standard error is the standard deviation of the averages of perturbed paths."""

    kind: Literal["PB"] = "PB"
    cites = ("fang2018",)
    around_average = True

    def unmet_need(self, source: PathSource) -> str:
        needed = "it needs the perturbed paths of budget_split"
        return super().unmet_need(source) or ("" if source.algorithm.perturbed_paths() else needed)

    def running_sums(self, dimension: int) -> tuple[str, ...]:
        return (PERTURBED,)

    def intervals(self, record: PathRecord, n: int, levels: Sequence[float]) -> Intervals:
        steps = record.steps(n)
        estimate = average(record, steps)
        averages = record.running(PERTURBED, steps) / steps
        deviations = averages - in_order(averages) / len(averages)
        squares = in_order(deviations * deviations)
        return normal_intervals(estimate, np.sqrt(squares / (len(averages) - 1)), levels)
