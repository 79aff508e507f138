"""Randomness of algorithms over many epochs: noise of the nodes of trees, and random orders of records.

The noise of a node is a normal vector. It is not stored but drawn again when it is needed, from a counter
stream (ldpflow.numerics.streams) at the position (tree, level, index).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ldpflow.numerics.elementary import U64, bits_of, cos_quarter, float_of, jit, log, sin_quarter
from ldpflow.numerics.registers import philox, register_array
from ldpflow.numerics.samplers import fill_uniform
from ldpflow.numerics.streams import CHUNK, LANES, PLANE

LOW = U64(0xFFFFFFFF)
ONE_BITS = U64(0x3FF0000000000000)
RADIUS = U64(0x000FFFFFFFFFF000)
ANGLE = U64(0x000FFFFFC0000000)
WORDS = 2 * LANES
BLOCK = 4 * LANES


@njit(error_model="numpy", forceinline=True)
def normal_pair(bits):  # type: ignore[no-untyped-def]
    """Two independent N(0, 1) from 64 bits, by Box and Muller (1958). Their absolute values are below 7.6.

    The upper 40 bits give u and the radius sqrt(-2 log u). The lower 24 bits give the angle: 22 for a place
    in a quarter circle, one that swaps sine and cosine, and one for the sign.
    """
    u = float_of(((bits >> U64(12)) & RADIUS) | ONE_BITS) - (1.0 - 2.0**-41)
    w = float_of(((bits << U64(28)) & ANGLE) | ONE_BITS) - (1.5 - 2.0**-23)
    r = np.sqrt(-2.0 * log(u))
    r = float_of(bits_of(r) ^ (bits << U64(63)))
    s = r * sin_quarter(w)
    c = r * cos_quarter(w)
    swap = (bits & U64(2)) != U64(0)
    return (s if swap else c), (c if swap else s)


@jit
def node_normals(out, keys, tree, level, index, scale):  # type: ignore[no-untyped-def]
    """Draw N(0, scale^2) in all coordinates and lanes for the node (index 2^level, (index + 1) 2^level].

    ``out`` is flat over (coordinate, lane). It has 4 ceil(d/4) coordinates, of which the first d are used.
    """
    place = U64(index)
    c0 = place & LOW
    c1 = place >> U64(32)
    c2 = U64(tree * 64 + level)
    bits = register_array(WORDS)
    for block in range(out.shape[0] // BLOCK):
        for lane in range(LANES):
            x0, x1, x2, x3 = philox(keys[lane] & LOW, keys[LANES + lane] & LOW, c0, c1, c2, U64(block))
            bits[lane] = float_of((x0 << U64(32)) | x1)
            bits[LANES + lane] = float_of((x2 << U64(32)) | x3)
        first = out[block * BLOCK : block * BLOCK + WORDS]
        second = out[block * BLOCK + WORDS : (block + 1) * BLOCK]
        for i in range(WORDS):
            p, q = normal_pair(bits_of(bits[i]))
            first[i] = scale * p
            second[i] = scale * q


@jit
def draw_order(order, state, epoch, count):  # type: ignore[no-untyped-def]
    """Draw a uniform permutation of 0, ..., count - 1 for each lane (Fisher and Yates).

    ``order`` is flat over (position, lane). Uniforms are drawn from ``state``, CHUNK at a time for each lane.
    The probabilities are off by at most count / 2^52.
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
    """Put a uniform subset of ``size`` of the numbers 0, ..., count - 1 first in each lane of ``order``.

    ``order`` holds a permutation for each lane, flat over (position, lane). The first ``used`` uniforms of
    each lane in ``planes`` are spent. If all are spent, new ones are drawn. Returns the new ``used``.
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
