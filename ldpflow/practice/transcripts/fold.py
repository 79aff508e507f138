"""Fold of a transcript into the record of its path, chunk by chunk, in the kernel's own order of additions.

The fold calls the kernel functions that keep the record of a simulated path, with each row in place of a
simulated step. A transcript that ldpflow wrote gives the record of the simulated path, bit for bit, for any
size of the chunks. Arrays hold the state between chunks, so memory does not grow with the transcript.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ldpflow.components.algorithms.ldp_sgd import put_in_order
from ldpflow.components.intervals.record import PathRecord
from ldpflow.components.mechanisms.cells import Cells
from ldpflow.components.mechanisms.randomized_response import RandomizedResponse
from ldpflow.components.problems.laws import Variate
from ldpflow.components.problems.problem import Matrix, Problem, nan_matrix
from ldpflow.numerics import running_sums
from ldpflow.numerics.kernels import compile_kernel
from ldpflow.numerics.running_sums import RUNNING_SUMS
from ldpflow.numerics.samplers import step_sizes
from ldpflow.numerics.specialise import Case, KernelPart
from ldpflow.numerics.streams import CHUNK, LANES
from ldpflow.practice.transcripts.reading import ROUNDING, TOLERANCE
from ldpflow.simulators.one_pass import OnePass, add_iterate

Floats = NDArray[np.float64]


class UnknownLaw(Problem):
    """A problem with unknown law and truth, whose gradient's range may be known."""

    kind: Literal["unknown_law"] = "unknown_law"
    d: int = 1  # dimension of theta
    taus: tuple[float, ...] = ()  # levels, if the coordinates are quantiles of one value
    several: bool = False  # whether the problem is ``quantiles``, with one level or more
    slopes: tuple[float, ...] = ()  # estimated slopes of the mean report in each coordinate, if known

    @property
    def dimension(self) -> int:
        return self.d

    @property
    def ordered(self) -> bool:
        """Whether theta is put in order after every step, as that of several quantiles is."""
        return len(self.taus) > 1

    def truth(self) -> tuple[float, ...]:
        return (math.nan,) * self.d

    def levels(self) -> tuple[float, ...] | None:
        return self.taus or None

    def variates(self) -> tuple[Variate, ...]:
        return ()

    def kernel_parameters(self) -> dict[str, float]:
        return {}

    def l1_sensitivity(self) -> float:
        return float(self.d) if self.taus else math.nan

    def l2_sensitivity(self) -> float:
        return math.sqrt(self.d) if self.taus else math.nan

    def gradient_values(self) -> tuple[float, float] | None:
        return (-self.taus[0], 1.0 - self.taus[0]) if len(self.taus) == 1 else None

    def curvature(self) -> Matrix:
        if not self.slopes:
            return nan_matrix(self.d)
        return [[s if j == k else 0.0 for k in range(self.d)] for j, s in enumerate(self.slopes)]

    def gradient_covariance(self) -> Matrix:
        if not self.taus:
            return nan_matrix(self.d)
        if not self.several:  # equal to the last line, but rounded as in a study of one quantile
            return [[self.taus[0] * (1.0 - self.taus[0])]]
        return [[min(a, b) - a * b for b in self.taus] for a in self.taus]


@dataclass(frozen=True)
class CollectedPath(OnePass):
    """The path of a transcript. ``name``: key of the simulated path that wrote it, None for real reports."""

    problem: UnknownLaw
    name: str | None = None

    @cached_property
    def key(self) -> str:
        """Key of the random multipliers of BB."""
        return super().key if self.name is None else self.name


SIGNATURE = (
    "void(float64[:, ::1], float64[:, ::1], float64[::1], boolean, float64, float64, int64, "
    "float64[::1], float64[::1], float64[::1], float64[::1], float64[::1], float64[::1], float64[::1], "
    "int64[::1], int64[::1], int64[::1], float64[:, ::1], float64[:, ::1], float64[:, ::1])"
)


def fold_rows(  # type: ignore[no-untyped-def]
    kernel, gradients, asked, factors, last, c, gamma, size, theta, slack, mean, total, sums, tile,
    centre, counts, times, marks, prefix_sums, iterates, running,
):  # fmt: skip
    """Add rows to the record. ``size`` rows make a step. The next row has theta after this step.

    The loop ends at the first row whose theta does not follow from the rows before. The next theta is
    computed from the theta of the row, so errors do not add up.

    ``gradients`` and ``asked``, shape (rows, d), are A and theta of every row. Arrays of the state have a
    place for each coordinate or sum and each lane, and lane 0 alone is used. ``slack`` is the largest
    rounding error of theta. ``tile`` keeps the last steps for the sums. ``counts`` has the steps made, steps
    recorded, times reached, steps in the tile, rows of the unfinished step, and the place of the wrong
    theta.
    """
    i, done, t, kept, taken = counts[0], counts[1], counts[2], counts[3], counts[4]
    rows = gradients.shape[0]
    eta = np.empty(CHUNK)
    step_sizes(i - i % CHUNK + 1, c, gamma, eta)
    for row in range(rows + last):
        if row < rows:
            for j in range(kernel.D):
                found, wanted = asked[row, j], theta[j * LANES]
                if abs(found - wanted) > slack[j] + ROUNDING * max(abs(found), abs(wanted)):
                    counts[5] = row * kernel.D + j
                    return
            for j in range(kernel.D):
                theta[j * LANES] = asked[row, j]
        if done < i:
            kernel.add_iterate(total, centre, sums, theta, float(i), 0)
            reached = t < times.shape[0] and i == times[t]
            kept = kernel.end_step(sums, tile, kept, reached and marks[t] >= 0)
            if reached:
                for j in range(kernel.D):
                    prefix_sums[t, j] = total[j * LANES]
                    iterates[t, j] = theta[j * LANES]
                if marks[t] >= 0:
                    for s in range(running.shape[1]):
                        running[marks[t], s] = sums[s * LANES]
                t += 1
            kept = kernel.restart(sums, i, kept)
            done = i
        if row == rows:
            continue
        for j in range(kernel.D):
            mean[j * LANES] += gradients[row, j]
        taken += 1
        if taken < size:
            continue
        eta_i = eta[i % CHUNK]
        if size > 1:
            for j in range(kernel.D):
                mean[j * LANES] /= size
        kernel.keep_step(tile, centre, theta, mean, kept, 0)
        for j in range(kernel.D):
            move = eta_i * factors[j] * mean[j * LANES]
            theta[j * LANES] -= move
            slack[j] = TOLERANCE * abs(move)
            mean[j * LANES] = 0.0
        if kernel.ORDERED:
            put_in_order(kernel, theta, 0)
            slack[:] = slack.max()
        taken = 0
        i += 1
        if i % CHUNK == 0:
            step_sizes(i + 1, c, gamma, eta)
    counts[0], counts[1], counts[2], counts[3], counts[4] = i, done, t, kept, taken


class Fold:
    """The fold of one transcript from ``start``, theta_0.

    ``times``: sorted steps to record. ``marked``: those of them at which the running sums ``names`` are kept.
    ``origin``: point around which sums are taken.
    """

    def __init__(
        self,
        path: CollectedPath,
        times: Sequence[int],
        marked: Sequence[int],
        names: Sequence[str],
        origin: Floats,
        start: Floats,
    ) -> None:
        d, algorithm = path.dimension, path.algorithm
        self.path, self.d = path, d
        self.steps = (algorithm.step_constant(), algorithm.step_exponent(), algorithm.records_per_step())
        self.factors = np.array(algorithm.step_factors() or (1.0,) * d)
        self.sizes = {name: RUNNING_SUMS[name].count(d) for name in names}
        self.kernel = compile_kernel(fold_rows, fold_case(d, tuple(names), path.problem.ordered), SIGNATURE)
        self.times = np.asarray(times, dtype=np.int64)
        self.marked = np.asarray(marked if names else (), dtype=np.int64)
        self.marks = np.full(len(self.times), -1, dtype=np.int64)
        self.marks[np.searchsorted(self.times, self.marked)] = np.arange(len(self.marked))
        self.theta, self.mean, self.total = np.zeros((3, d * LANES))
        self.theta[::LANES] = np.sort(start) if path.problem.ordered else start
        self.slack = np.zeros(d)
        count = sum(self.sizes.values()) * d
        self.sums = np.zeros(count * LANES)
        self.tile = np.zeros(2 * d * running_sums.TILE * LANES)
        self.origin = np.ascontiguousarray(origin, dtype=np.float64)
        self.counts = np.array([0, 0, 0, 0, 0, -1])
        self.prefix_sums, self.iterates = np.full((2, len(self.times), d), np.nan)
        self.running = np.full((len(self.marked), count), np.nan)

    @property
    def last(self) -> Floats:
        """theta of the next row, as it follows from the rows so far."""
        return self.theta[::LANES].copy()

    def add(self, gradients: Floats, thetas: Floats, last: bool = False) -> tuple[int, int] | None:
        """Add a chunk: A and theta of every row, shape (m, d). ``last``: whether no row follows.

        Returns row (from 0) and coordinate of the first theta that does not follow, or None. If there is one,
        :attr:`last` is the theta that would follow.
        """
        self.kernel(
            *(np.require(values, np.float64, ["C", "W"]) for values in (gradients, thetas)),
            self.factors, last, *self.steps, self.theta, self.slack, self.mean, self.total, self.sums,
            self.tile, self.origin, self.counts, self.times, self.marks, self.prefix_sums, self.iterates,
            self.running,
        )  # fmt: skip
        wrong = int(self.counts[5])
        return None if wrong < 0 else divmod(wrong, self.d)

    def record(self, seed: int = 0, replicate: int = 0) -> PathRecord:
        """The record after the last chunk. ``seed`` and ``replicate`` address the multipliers of BB."""
        nothing = np.empty((0, self.d))
        self.add(nothing, nothing, last=True)
        ends = np.cumsum([0, *self.sizes.values()]).tolist()
        sums = self.running.reshape(len(self.marked), ends[-1], self.d, 1).transpose(1, 0, 2, 3)
        return PathRecord(
            source=self.path,
            seed=seed,
            replicates=np.array([replicate], dtype=np.int64),
            times=self.times,
            origin=self.origin,
            prefix_sums=self.prefix_sums[:, :, None],
            iterates=self.iterates[:, :, None],
            running_sums={n: sums[a:b] for n, a, b in zip(self.sizes, ends, ends[1:], strict=False)},
            marked_times=self.marked,
        )


def fold_case(d: int, names: tuple[str, ...], ordered: bool) -> Case:
    values = {
        "D": d,
        "ORDERED": ordered,
        "STATE": d * LANES,
        **running_sums.parts(names, d),
        "add_iterate": KernelPart(add_iterate, inlining="written"),
    }
    return Case(tuple(values.items()), unrolled=frozenset({"D"}) | running_sums.UNROLLED)


def answers_of(path: OnePass) -> Floats | None:
    """A_i for a report of 0, 1, ..., k - 1, shape (k, d), or None if the report is A_i itself."""
    if not isinstance(path.mechanism, (Cells, RandomizedResponse)):
        return None
    values: Any = path.randomiser.kernel_parameters(path.problem)
    if isinstance(path.mechanism, RandomizedResponse):
        return np.array(values.get("values", (values.get("zero"), values.get("one"))))[:, None]
    # In cell k the value lies below theta_k, theta_(k+1), ...
    d = path.dimension
    result: Floats = np.where(np.arange(d + 1)[:, None] <= np.arange(d), values["below"], values["above"])
    return result
