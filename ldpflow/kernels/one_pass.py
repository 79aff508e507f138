"""The kernel of a one-pass algorithm: everything but its recursion, which its own file has.

:func:`kernel` is what Python calls. It copies parameters to where they stay in registers, makes the
record of the path, and calls ``recursion(users, noises, problem, mechanism, settings, record)``, which
becomes part of it:

    users, noises       states and parameters: ``draw_data(*users, data)``, ``draw_noise(*noises, noise)``
    problem, mechanism  for ``gradient`` and ``randomise``
    settings            the algorithm's kernel_parameters
    record              a :class:`Record`

After step i a recursion calls ``add_iterate`` in every lane, and where i is ``record.times[t]``
``keep_path``; one whose private gradients may be summed up calls ``keep_step``, ``end_step`` and
``restart`` of :mod:`ldpflow.kernels.running_sums` too. Arrays are flat over (coordinate, lane).

A recursion takes what its loops use out of the record first, and counts the times reached itself: with a
record for an argument in the loop over the lanes, kernels of many coordinates take up to twice the time,
and a step of the paper's quantile half as long again where a called function counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ldpflow.random.lockstep import LANES

if TYPE_CHECKING:  # supplied by the kernel that this becomes part of
    from ldpflow.kernel_parts import (
        MECHANISM_SIZE,
        PROBLEM_SIZE,
        STATE,
        SUMS,
        TILE_SIZE,
        D,
        after_step,
        recursion,
        register_array,
    )

__all__ = ["SIGNATURE", "Record", "add_iterate", "keep_path", "kernel"]

SIGNATURE = (
    "void(uint64[::1], uint64[::1], float64[::1], float64[::1], float64[::1], float64[::1], "
    "float64[::1], float64[::1], int64[::1], int64[::1], float64[:, ::1], float64[:, ::1], "
    "float64[:, ::1], float64[:, ::1])"
)


class Record(NamedTuple):
    """A path while it runs, and what is kept of it at ``times``.

    prefix_sums[t] = S(times[t]) = sum_{i <= times[t]} (theta_i - centre), iterates[t] = theta_{times[t]};
    where marks[t] >= 0 the running sums go to running_sums[marks[t]]. What the algorithm or its
    mechanism measures goes to extras[t].
    """

    times: Any
    marks: Any
    centre: Any
    total: Any
    sums: Any
    tile: Any
    prefix_sums: Any
    iterates: Any
    running_sums: Any
    extras: Any


def kernel(  # type: ignore[no-untyped-def]
    data_state,
    noise_state,
    data_parameters,
    noise_parameters,
    problem_parameters,
    mechanism_parameters,
    settings,
    origin,
    times,
    marks,
    prefix_sums,
    iterates,
    running_sums,
    extras,
):
    """Run LANES replicates in lockstep and record them at ``times``."""
    # Copies that the compiler knows to be its own: they stay in registers. Not copied as slices: a
    # copy that tests for overlap would make it believe that other arrays may point into these.
    problem = register_array(PROBLEM_SIZE)
    mechanism = register_array(MECHANISM_SIZE)
    centre = register_array(D)
    for s in range(PROBLEM_SIZE):
        problem[s] = problem_parameters[s]
    for s in range(MECHANISM_SIZE):
        mechanism[s] = mechanism_parameters[s]
    for s in range(D):
        centre[s] = origin[s]
    total = register_array(STATE)
    sums = register_array(SUMS)
    tile = register_array(TILE_SIZE)
    total[:] = 0.0
    sums[:] = 0.0
    users = (data_state, data_parameters)
    noises = (noise_state, noise_parameters)
    record = Record(times, marks, centre, total, sums, tile, prefix_sums, iterates, running_sums, extras)
    recursion(users, noises, problem, mechanism, settings, record)


def add_iterate(total, centre, sums, theta, step, lane):  # type: ignore[no-untyped-def]
    """S(i) = S(i-1) + theta_i, around the centre, and the sums that follow S; i = ``step``, a float."""
    for j in range(D):
        total[j * LANES + lane] += theta[j * LANES + lane] - centre[j]
    after_step(sums, total, step, lane)


def keep_path(record, theta, t):  # type: ignore[no-untyped-def]
    """Record the path at the t-th time."""
    for s in range(STATE):
        record.prefix_sums[t, s] = record.total[s]
        record.iterates[t, s] = theta[s]
    if record.marks[t] >= 0:
        for s in range(SUMS):
            record.running_sums[record.marks[t], s] = record.sums[s]
