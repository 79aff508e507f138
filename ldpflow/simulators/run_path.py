"""Running a one-pass path: its compiled kernel, the states it draws from, the record it leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ldpflow.intervals.record import PathRecord
from ldpflow.kernels import assembly
from ldpflow.kernels.assembly import noise_variates
from ldpflow.kernels.drawing import drawing_parameters, roles_of
from ldpflow.kernels.parameters import flat
from ldpflow.kernels.running_sums import PERTURBED, RUNNING_SUMS
from ldpflow.random.lockstep import LANES
from ldpflow.simulators.turns import run_kernel

if TYPE_CHECKING:
    from ldpflow.simulators.one_pass import OnePass


def kernel_of(path: OnePass, sums: tuple[str, ...], perturbed: bool = False) -> Callable[..., None]:
    """The compiled kernel; the first call of a process compiles it or loads it from the cache."""
    if PERTURBED in sums:
        kernel_of(path, (), perturbed=True)
    return assembly.one_pass_kernel(path, sums, perturbed)


def noise_states(path: OnePass, key: str, seed: int, replicates: Sequence[int]) -> NDArray[np.uint64]:
    """States of the streams that the mechanism draws from, one role after the other."""
    from ldpflow.random.streams import lane_states

    states = []
    for role in roles_of(path.randomiser.variates(path.problem)):
        if role is None:
            states.append(lane_states(seed, "mechanism", key, replicates))
        elif role == "position":
            states.append(np.zeros(4 * LANES, dtype=np.uint64))
        else:
            states.append(lane_states(seed, role, path.public_key(), replicates))
    return np.concatenate(states)


def data_states(path: OnePass, seed: int, replicates: Sequence[int]) -> NDArray[np.uint64]:
    """States of the data streams; for stored records every lane's random order of them (a shuffle)."""
    from ldpflow.random.orders import draw_order
    from ldpflow.random.streams import lane_states

    state = lane_states(seed, "data", path.data_key(), replicates)
    if not path.problem.stored_records() or path.problem.with_replacement():
        return state
    count = path.problem.stored_records()
    order = np.empty(count * LANES, dtype=np.int64)
    draw_order(order, state, 0, count)
    # The number of records taken so far, then the order.
    return np.concatenate([np.zeros(1, np.uint64), order.astype(np.uint64)])


def data_parameters(path: OnePass) -> NDArray[np.float64]:
    """Parameters of the samplers; for stored records their table, row by row."""
    if path.problem.stored_records():
        return path.problem.table().reshape(-1)
    return drawing_parameters(path.data_variates())


def count_of(path: OnePass, name: str) -> int:
    """Number of values per coordinate that a path keeps under the name of a running sum."""
    if name == PERTURBED:
        return path.algorithm.perturbed_paths()
    return RUNNING_SUMS[name].count(path.problem.dimension)


def run_path(
    path: OnePass,
    seed: int,
    replicates: Sequence[int],
    times: Sequence[int],
    marked: Sequence[int] = (),
    sums: Sequence[str] = (),
    perturbation: int = 0,
    users: NDArray[np.uint64] | None = None,
    origin: NDArray[np.float64] | None = None,
) -> PathRecord:
    """Run the path of up to LANES replicates and keep its record.

    Parameters
    ----------
    path : OnePass
    seed : int
        The study's seed.
    replicates : sequence of int
        At most LANES indices.
    times : sequence of int
        Sorted, distinct step indices to record, the last one being the length of the run.
    marked : sequence of int
        Those of ``times`` at which the running sums are kept too.
    sums : sequence of str
        Names in :data:`ldpflow.kernels.running_sums.RUNNING_SUMS`, or PERTURBED.
    perturbation : int
        k for the k-th perturbed path: the same users, a stream of its own; 0 for the path itself.
    users : ndarray, optional
        State that the users are drawn from; that of seed and replicates unless given.
    origin : ndarray, shape (d,), optional
        Point that sums are taken around; theta* unless given.
    """
    if PERTURBED in sums:
        return with_perturbed_paths(path, seed, replicates, times, marked, sums)
    perturbed = perturbation > 0
    kernel = kernel_of(path, tuple(sums), perturbed)
    mechanism = path.randomiser
    mechanism_key = f"{path.key}/perturbed={perturbation}" if perturbed else path.key
    d = path.problem.dimension
    count = sum(RUNNING_SUMS[name].count(d) for name in sums)
    grid = np.asarray(times, dtype=np.int64)
    rows = np.full(len(grid), -1, dtype=np.int64)
    marks = np.asarray(marked if sums else (), dtype=np.int64)
    rows[np.searchsorted(grid, marks)] = np.arange(len(marks))
    prefix_sums = np.empty((len(grid), d * LANES))
    iterates = np.empty((len(grid), d * LANES))
    extras = np.full((len(grid), len(path.measured()) * LANES), np.nan)
    kept = np.empty((len(marks), count * d * LANES))
    origin = np.array(path.problem.truth()) if origin is None else origin
    run_kernel(
        kernel,
        data_states(path, seed, replicates) if users is None else users.copy(),
        noise_states(path, mechanism_key, seed, replicates),
        data_parameters(path),
        drawing_parameters(noise_variates(path, perturbed)),
        flat(path.problem.kernel_parameters()),
        flat(mechanism.kernel_parameters(path.problem)),
        flat(path.algorithm.kernel_parameters(path.horizon)),
        origin,
        grid,
        rows,
        prefix_sums,
        iterates,
        kept,
        extras,
    )
    lanes = len(replicates)
    return PathRecord(
        seed=seed,
        replicates=np.asarray(replicates, dtype=np.int64),
        source=path,
        times=grid,
        origin=origin,
        prefix_sums=prefix_sums.reshape(len(grid), d, LANES)[..., :lanes],
        iterates=iterates.reshape(len(grid), d, LANES)[..., :lanes],
        running_sums=by_name(kept, sums, d, lanes),
        marked_times=marks,
        extras={name: extras[:, k * LANES : k * LANES + lanes] for k, name in enumerate(path.measured())},
    )


def with_perturbed_paths(
    path: OnePass,
    seed: int,
    replicates: Sequence[int],
    times: Sequence[int],
    marked: Sequence[int],
    sums: Sequence[str],
) -> PathRecord:
    """The record of a path, and the prefix sums of its perturbed paths under their name."""
    own = [name for name in sums if name != PERTURBED]
    record = run_path(path, seed, replicates, times, marked, own)
    beside = [
        run_path(path, seed, replicates, marked, perturbation=k).prefix_sums
        for k in range(1, path.algorithm.perturbed_paths() + 1)
    ]
    return replace(
        record,
        running_sums=record.running_sums | {PERTURBED: np.stack(beside)},
        marked_times=np.asarray(marked, dtype=np.int64),
    )


def by_name(
    kept: NDArray[np.float64], sums: Sequence[str], dimension: int, lanes: int
) -> dict[str, NDArray[np.float64]]:
    """Running sums by name, shaped (numbers per coordinate, marked times, coordinates, replicates)."""
    counts = [RUNNING_SUMS[name].count(dimension) for name in sums]
    shaped = kept.reshape(len(kept), sum(counts), dimension, LANES)[..., :lanes].transpose(1, 0, 2, 3)
    ends = np.cumsum(counts)
    return {name: shaped[end - count : end] for name, count, end in zip(sums, counts, ends, strict=True)}
