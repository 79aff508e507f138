"""The kernel of a one-pass algorithm: everything but its recursion, which its own file has.

:func:`run` is what Python calls. It copies parameters to where they stay in registers, makes the
record of the path, and calls ``kernel.recursion(users, noises, problem, mechanism, settings, record)``:

    users, noises       states and parameters, for ``kernel.draw_data(*users, data)`` and ``draw_noise``
    problem, mechanism  for ``kernel.gradient`` and ``kernel.randomise``
    settings            the algorithm's kernel_parameters
    record              a :class:`Record`

After step i a recursion calls ``kernel.add_iterate`` in every lane, and where i is ``record.times[t]``
``kernel.keep_path``; one whose private gradients may be summed up calls ``keep_step``, ``end_step`` and
``restart`` of :mod:`ldpflow.kernels.running_sums` too. Arrays are flat over (coordinate, lane).

A recursion takes what its loops use out of the record first, and counts the times reached itself: with a
record for an argument in the loop over the lanes, kernels of many coordinates take up to twice the time,
and a step of the paper's quantile half as long again where a called function counts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ldpflow.random import register_array
from ldpflow.random.lockstep import LANES

SIGNATURE = (
    "void(uint64[::1], uint64[::1], float64[::1], float64[::1], float64[::1], float64[::1], "
    "float64[::1], float64[::1], int64[::1], int64[::1], float64[:, ::1], float64[:, ::1], "
    "float64[:, ::1], float64[:, ::1])"
)


class Record(NamedTuple):
    """A path while it runs, and what is kept of it at ``times``.

    prefix_sums[t] = S(times[t]) = sum_{i <= times[t]} (theta_i - centre), iterates[t] = theta_{times[t]};
    where marks[t] >= 0 the running sums go to running_sums[marks[t]]. What the algorithm or its
    mechanism measures goes to extras[t]; ``counts`` is what the mechanism counts, per lane.
    """

    times: Any
    marks: Any
    centre: Any
    total: Any
    sums: Any
    tile: Any
    counts: Any
    prefix_sums: Any
    iterates: Any
    running_sums: Any
    extras: Any


def run(  # type: ignore[no-untyped-def]
    kernel,
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
    problem = register_array(kernel.PROBLEM_SIZE)
    mechanism = register_array(kernel.MECHANISM_SIZE)
    centre = register_array(kernel.D)
    for s in range(kernel.PROBLEM_SIZE):
        problem[s] = problem_parameters[s]
    for s in range(kernel.MECHANISM_SIZE):
        mechanism[s] = mechanism_parameters[s]
    for j in range(kernel.D):
        centre[j] = origin[j]
    total = register_array(kernel.STATE)
    sums = register_array(kernel.SUMS)
    tile = register_array(kernel.TILE_SIZE)
    counts = register_array(kernel.COUNTS)
    total[:] = 0.0
    sums[:] = 0.0
    counts[:] = 0.0
    users = (data_state, data_parameters)
    noises = (noise_state, noise_parameters)
    record = Record(
        times, marks, centre, total, sums, tile, counts, prefix_sums, iterates, running_sums, extras
    )
    kernel.recursion(users, noises, problem, mechanism, settings, record)


def add_iterate(kernel, total, centre, sums, theta, step, lane):  # type: ignore[no-untyped-def]
    """S(i) = S(i-1) + theta_i, around the centre, and the sums that follow S; i = ``step``, a float."""
    for j in range(kernel.D):
        total[j * LANES + lane] += theta[j * LANES + lane] - centre[j]
    kernel.after_step(sums, total, step, lane)


def keep_path(kernel, record, theta, t):  # type: ignore[no-untyped-def]
    """Record the path at the t-th time."""
    for s in range(kernel.STATE):
        record.prefix_sums[t, s] = record.total[s]
        record.iterates[t, s] = theta[s]
    if record.marks[t] >= 0:
        for s in range(kernel.SUMS):
            record.running_sums[record.marks[t], s] = record.sums[s]
