"""Random orders of the records of an epoch, one per lane."""

from __future__ import annotations

import numpy as np

from ldpflow.random.elementary import jit
from ldpflow.random.lockstep import CHUNK, LANES, PLANE
from ldpflow.random.samplers import fill_uniform


@jit
def draw_order(order, state, epoch, count):  # type: ignore[no-untyped-def]
    """A uniform permutation of 0..count-1 per lane (Fisher and Yates), order[position * LANES + lane].

    It takes whole planes from the lanes' streams. The probabilities are off by at most count / 2^52.
    """
    planes = np.empty(PLANE)
    used = CHUNK
    for i in range(count * LANES):
        order[i] = i // LANES
    for i in range(count - 1, 0, -1):
        if used == CHUNK:
            fill_uniform(state, 0.0, planes)
            used = 0
        for lane in range(LANES):
            j = np.int64(planes[used * LANES + lane] * (i + 1))
            kept = order[i * LANES + lane]
            order[i * LANES + lane] = order[j * LANES + lane]
            order[j * LANES + lane] = kept
        used += 1


@jit
def draw_subset(order, state, planes, used, count, size):  # type: ignore[no-untyped-def]
    """A uniform subset of ``size`` of 0..count-1 per lane becomes the first places of ``order``.

    ``order`` holds a permutation per lane, any one, and keeps holding one. ``planes`` is a plane of
    uniforms of which the first ``used`` rows are used up (CHUNK: draw it); returns the new number.
    """
    for i in range(size):
        if used == CHUNK:
            fill_uniform(state, 0.0, planes)
            used = 0
        for lane in range(LANES):
            j = i + np.int64(planes[used * LANES + lane] * (count - i))
            kept = order[i * LANES + lane]
            order[i * LANES + lane] = order[j * LANES + lane]
            order[j * LANES + lane] = kept
        used += 1
    return used
