"""Folding a transcript into the record of its path, chunk by chunk, in the kernel's own order of additions.

The fold is a kernel of its own that calls the parts by which a recursion keeps its record (S, the sums that
follow S, the sums over the transcript), in one lane and in the same order: a transcript that ldpflow wrote
gives the record of the simulated path, bit for bit, whatever the size of the chunks. Its state lies in
arrays between chunks; memory does not grow with the transcript.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldpflow.algorithms.ldp_sgd import put_in_order
from ldpflow.kernels import one_pass, running_sums
from ldpflow.kernels.module import compiled
from ldpflow.kernels.parameters import flat, layout_of
from ldpflow.kernels.running_sums import RUNNING_SUMS
from ldpflow.kernels.specialise import Case, Part
from ldpflow.random.lockstep import CHUNK, LANES
from ldpflow.random.samplers import step_sizes

Floats = NDArray[np.float64]

SIGNATURE = (
    "void(float64[:, ::1], float64[:, ::1], float64[:, ::1], boolean, float64[::1], float64[::1], "
    "float64[::1], float64[::1], float64[::1], float64[::1], float64[::1], float64[::1], int64[::1], "
    "int64[::1], int64[::1], float64[:, ::1], float64[:, ::1], float64[:, ::1])"
)


def fold_rows(  # type: ignore[no-untyped-def]
    kernel,
    gradients,
    before,
    after,
    known,
    steps,
    settings,
    theta,
    mean,
    total,
    sums,
    tile,
    centre,
    counts,
    times,
    marks,
    prefix_sums,
    iterates,
    running,
):
    """Take rows in: every ``size`` of them make a step, counted in ``counts``.

    Parameters
    ----------
    gradients, before, after : arrays of shape (m, d)
        A of every row, and theta before and after its step; both empty unless ``known``.
    steps : array of shape (m,), or empty
        eta of every row's step; c i^-gamma where empty.
    settings : :func:`step_settings`
    theta, mean, total, sums, tile : arrays over (coordinate or sum, lane)
        The state; lane 0 is used.
    counts : steps made, times reached, steps in the tile, rows in the round
    """
    c, gamma, size = settings.c, settings.gamma, int(settings.batch_size)
    i = counts[0]
    t = counts[1]
    kept = counts[2]
    taken = counts[3]
    eta = np.empty(CHUNK)
    step_sizes(i - i % CHUNK + 1, c, gamma, eta)
    for row in range(gradients.shape[0]):
        for j in range(kernel.D):
            mean[j * LANES] += gradients[row, j]
        taken += 1
        if taken < size:
            continue
        eta_i = eta[i % CHUNK]
        if steps.shape[0] > 0:
            eta_i = steps[row]
        i += 1
        if size > 1:
            for j in range(kernel.D):
                mean[j * LANES] /= size
        if known:
            for j in range(kernel.D):
                theta[j * LANES] = before[row, j]
        kernel.keep_step(tile, centre, theta, mean, kept, 0)
        for j in range(kernel.D):
            if known:
                theta[j * LANES] = after[row, j]
            else:
                theta[j * LANES] -= eta_i * mean[j * LANES]
            mean[j * LANES] = 0.0
        if kernel.ORDERED and not known:
            put_in_order(kernel, theta, 0)
        taken = 0
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
        if i % CHUNK == 0:
            step_sizes(i + 1, c, gamma, eta)
    counts[0] = i
    counts[1] = t
    counts[2] = kept
    counts[3] = taken


@dataclass(frozen=True)
class Folded:
    """Recorded sums, in the shapes of a record of one replicate.

    Parameters
    ----------
    times : ndarray of int64, shape (T,)
    prefix_sums, iterates : ndarray, shape (T, d, 1)
    running_sums : dict of str to ndarray, shape (count, M, d, 1)
    marked_times : ndarray of int64, shape (M,)
    """

    times: NDArray[np.int64]
    prefix_sums: Floats
    iterates: Floats
    running_sums: dict[str, Floats]
    marked_times: NDArray[np.int64]


class Fold:
    """The fold of one transcript.

    Parameters
    ----------
    d : int
        Coordinates of theta.
    times, marked : sequence of int
        Sorted steps to record, and those of them at which running sums are kept.
    names : sequence of str
        Running sums.
    origin : ndarray, shape (d,)
    start : ndarray, shape (d,)
        theta_0.
    c, gamma : float
    batch_size : int
        Reports to a step.
    ordered : bool
        Whether the coordinates of theta are put in order after every step: those of several quantiles.
    """

    def __init__(
        self,
        d: int,
        times: Sequence[int],
        marked: Sequence[int],
        names: Sequence[str],
        origin: Floats,
        start: Floats,
        c: float,
        gamma: float,
        batch_size: int = 1,
        ordered: bool = False,
    ) -> None:
        self.d = d
        self.names = tuple(names)
        self.kernel = compiled(fold_rows, fold_case(d, self.names, ordered), SIGNATURE)
        self.times = np.asarray(times, dtype=np.int64)
        self.marked = np.asarray(marked if names else (), dtype=np.int64)
        self.marks = np.full(len(self.times), -1, dtype=np.int64)
        self.marks[np.searchsorted(self.times, self.marked)] = np.arange(len(self.marked))
        self.settings = flat(step_settings(c, gamma, batch_size))
        count = sum(RUNNING_SUMS[name].count(d) for name in names)
        self.theta, self.mean, self.total = np.zeros((3, d * LANES))
        self.theta[::LANES] = start
        self.sums = np.zeros(count * d * LANES)
        self.tile = np.zeros(2 * d * running_sums.TILE * LANES)
        self.origin = np.ascontiguousarray(origin, dtype=np.float64)
        self.counts = np.zeros(4, dtype=np.int64)
        self.prefix_sums = np.full((len(self.times), d), np.nan)
        self.iterates = np.full((len(self.times), d), np.nan)
        self.running = np.full((len(self.marked), count * d), np.nan)
        self.waiting: tuple[Floats, Floats, Floats] | None = None
        self.batch_size = batch_size

    @property
    def steps(self) -> int:
        """Steps that were made."""
        return int(self.counts[0])

    @property
    def last(self) -> Floats:
        """theta after them."""
        return self.theta[::LANES].copy()

    def add(self, gradients: Floats, thetas: Floats | None, steps: Floats | None) -> None:
        """Take in a chunk; what follows a row of the last round is known with the next chunk only.

        Parameters
        ----------
        gradients : ndarray, shape (m, d)
            A of every row.
        thetas : ndarray, shape (m, d), or None
            What was asked; None where it follows from the steps.
        steps : ndarray, shape (m,), or None
            eta of every row's step.
        """
        etas = np.empty(0) if steps is None else steps
        if thetas is None:
            self.run(gradients, None, None, etas)
            return
        if self.waiting is not None:
            gradients, thetas, etas = (
                np.concatenate([old, new])
                for old, new in zip(self.waiting, (gradients, thetas, etas), strict=True)
            )
        # The step that the last row belongs to waits: its theta_i is the next row's.
        taken = self.rows_taken()
        hold = (taken + len(gradients) - 1) % self.batch_size + 1
        ready = max(0, len(gradients) - hold)
        after = np.empty_like(thetas)
        after[:-1] = thetas[1:]
        self.run(gradients[:ready], thetas[:ready], after[:ready], etas[:ready])
        self.waiting = (gradients[ready:], thetas[ready:], etas[ready:])

    def rows_taken(self) -> int:
        """Rows of the round that is not complete, without those that wait."""
        return int(self.counts[3])

    def run(self, gradients: Floats, before: Floats | None, after: Floats | None, etas: Floats) -> None:
        """Call the kernel."""
        nothing = np.empty((0, self.d))
        self.kernel(
            compact(gradients),
            nothing if before is None else compact(before),
            nothing if after is None else compact(after),
            before is not None,
            compact(etas),
            self.settings,
            self.theta,
            self.mean,
            self.total,
            self.sums,
            self.tile,
            self.origin,
            self.counts,
            self.times,
            self.marks,
            self.prefix_sums,
            self.iterates,
            self.running,
        )

    def finish(self, final: Floats | None = None) -> Folded:
        """The record, after the last chunk.

        Parameters
        ----------
        final : ndarray, shape (d,), optional
            theta_n; it follows from the last row unless given.
        """
        if self.waiting is not None:
            gradients, thetas, etas = self.waiting
            self.waiting = None
            if final is None:
                self.theta[::LANES] = thetas[-1]
                self.run(gradients, None, None, etas)
            else:
                after = np.broadcast_to(final, thetas.shape)
                self.run(gradients, thetas, after, etas)
        by_name = {}
        shaped = self.running.reshape(len(self.marked), -1, self.d, 1).transpose(1, 0, 2, 3)
        start = 0
        for name in self.names:
            end = start + RUNNING_SUMS[name].count(self.d)
            by_name[name] = shaped[start:end]
            start = end
        return Folded(
            self.times, self.prefix_sums[:, :, None], self.iterates[:, :, None], by_name, self.marked
        )


def compact(values: Floats) -> Floats:
    """The values as a compiled function takes them: doubles in C order, not marked as read-only."""
    return np.require(values, np.float64, ["C", "W"])


def step_settings(c: float, gamma: float, batch_size: int) -> dict[str, float]:
    """Values of the fold's argument ``settings``, by name."""
    return {"c": c, "gamma": gamma, "batch_size": float(batch_size)}


def fold_case(d: int, names: tuple[str, ...], ordered: bool) -> Case:
    """Case of the fold."""
    values = {
        "D": d,
        "ORDERED": ordered,
        "STATE": d * LANES,
        **running_sums.parts(names, d),
        "add_iterate": Part(one_pass.add_iterate, inlining="written"),
    }
    case = Case(tuple(values.items()), unrolled=frozenset({"D"}) | running_sums.UNROLLED)
    return case.with_layout("settings", layout_of(step_settings(1.0, 0.5, 1)))
