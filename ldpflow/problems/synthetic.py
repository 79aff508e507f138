"""Synthetic records of empirical risk minimisation, for kernels: all scaled to one Euclidean norm.

binary: two Gaussians, x = z + y separation u, u = (1, ..., 1) / sqrt(d) or (1, 0, ..., 0), a label
flipped with probability ``label_noise``. real: y = <x, beta> + scale e, e Student with 2 degrees of
freedom (no variance), beta = (1, -1, 1, ...) signal / bound.
"""

from __future__ import annotations

import numpy as np

from ldpflow.random.lockstep import CHUNK, LANES, STRIDE


def binary_record(kernel, x, data, at, law):  # type: ignore[no-untyped-def]
    """Fill x and return y in {-1, 1}."""
    v = data[kernel.D * STRIDE + at]
    y = 1.0 if v < 0.5 else -1.0
    square = 0.0
    for j in range(kernel.D):
        x[j] = data[j * STRIDE + at] + y * (law.first if j == 0 else law.others)
        square += x[j] * x[j]
    scale = law.bound / np.sqrt(square)
    for j in range(kernel.D):
        x[j] *= scale
    rest = 2.0 * v if v < 0.5 else 2.0 * v - 1.0
    return -y if rest < law.label_noise else y


def real_record(kernel, x, data, at, law):  # type: ignore[no-untyped-def]
    """Fill x and return y."""
    square = 0.0
    for j in range(kernel.D):
        x[j] = data[j * STRIDE + at]
        square += x[j] * x[j]
    scale = law.bound / np.sqrt(square)
    y = 0.0
    sign = 1.0
    for j in range(kernel.D):
        x[j] *= scale
        y += sign * x[j]
        sign = -sign
    return law.signal * y + law.error_scale * data[kernel.D * STRIDE + at]


def all_records(kernel, state, variates, law, n, rows, targets):  # type: ignore[no-untyped-def]
    """n records of every lane; a lane's lie together, rows[(lane * n + i) * d + j]."""
    data = np.empty(kernel.DATA_PLANES * STRIDE)
    for i in range(n):
        if i % CHUNK == 0:
            kernel.draw_data(state, variates, data)
        for lane in range(LANES):
            place = lane * n + i
            x = rows[place * kernel.D : (place + 1) * kernel.D]
            targets[place] = kernel.record(x, data, (i % CHUNK) * LANES + lane, law)
