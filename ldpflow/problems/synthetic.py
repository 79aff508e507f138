"""Synthetic records of empirical risk minimisation, for kernels: all scaled to one Euclidean norm.

binary: two Gaussians, x = z + y separation u, u = (1, ..., 1) / sqrt(d) or (1, 0, ..., 0), a label
flipped with probability ``label_noise``. real: y = <x, beta> + scale e, e Student with 2 degrees of
freedom (no variance), beta = (1, -1, 1, ...) signal / bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ldpflow.random.lockstep import CHUNK, LANES, PLANE

if TYPE_CHECKING:  # supplied by the kernel that this becomes part of
    from ldpflow.kernel_parts import DATA_PLANES, D, draw_data, record

__all__ = ["all_records", "binary_record", "real_record"]


def binary_record(x, data, at, parameters):  # type: ignore[no-untyped-def]
    """Fill x and return y in {-1, 1}; parameters are bound, separation u_1, separation u_2, label_noise."""
    v = data[D * PLANE + at]
    y = 1.0 if v < 0.5 else -1.0
    square = 0.0
    for j in range(D):
        x[j] = data[j * PLANE + at] + y * (parameters[1] if j == 0 else parameters[2])
        square += x[j] * x[j]
    scale = parameters[0] / np.sqrt(square)
    for j in range(D):
        x[j] *= scale
    rest = 2.0 * v if v < 0.5 else 2.0 * v - 1.0
    return -y if rest < parameters[3] else y


def real_record(x, data, at, parameters):  # type: ignore[no-untyped-def]
    """Fill x and return y; parameters are bound, signal / bound, scale of the errors."""
    square = 0.0
    for j in range(D):
        x[j] = data[j * PLANE + at]
        square += x[j] * x[j]
    scale = parameters[0] / np.sqrt(square)
    y = 0.0
    sign = 1.0
    for j in range(D):
        x[j] *= scale
        y += sign * x[j]
        sign = -sign
    return parameters[1] * y + parameters[2] * data[D * PLANE + at]


def all_records(state, variates, parameters, n, rows, targets):  # type: ignore[no-untyped-def]
    """n records of every lane; a lane's lie together, rows[(lane * n + i) * d + j]."""
    data = np.empty(DATA_PLANES * PLANE)
    for i in range(n):
        if i % CHUNK == 0:
            draw_data(state, variates, data)
        for lane in range(LANES):
            place = lane * n + i
            x = rows[place * D : (place + 1) * D]
            targets[place] = record(x, data, (i % CHUNK) * LANES + lane, parameters)
