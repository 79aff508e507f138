"""Reports of one replicate: the iterate that a user is asked about, and the user's private gradient.

Random streams, gradient, randomiser and recursion are those of a sweep, so theta has the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpflow.components.algorithms.ldp_sgd import put_in_order
from ldpflow.numerics.kernels import compile_kernel, flat, layout_of, part_of
from ldpflow.numerics.registers import register_array
from ldpflow.numerics.samplers import step_sizes
from ldpflow.numerics.streams import CHUNK, LANES, STRIDE
from ldpflow.settings import Parameters
from ldpflow.simulators.one_pass import (
    OnePass,
    data_parameters,
    data_states,
    kernel_case,
    noise_states,
    noise_variates,
)

Floats = NDArray[np.float64]

WINDOW = 2**16  # users in a table of reports, a multiple of CHUNK

SIGNATURE = (
    "void(uint64[::1], uint64[::1], float64[::1], float64[::1], float64[::1], float64[::1], "
    "float64[::1], float64[::1], float64[::1], int64[::1], float64[:, ::1], float64[:, ::1])"
)


def keep_rows(  # type: ignore[no-untyped-def]
    kernel,
    data_state,
    noise_state,
    data_parameters,
    noise_parameters,
    problem,
    mechanism,
    steps,
    theta,
    mean,
    counters,
    thetas,
    reports,
):
    """Simulate the next users in lane 0. Fills ``thetas`` with questions, ``reports`` with private gradients.

    ``counters`` has the number of finished steps and the number of reports of the current step.
    """
    c, gamma, size = steps.c, steps.gamma, int(steps.batch_size)
    i = counters[0]
    taken = counters[1]
    data = np.empty(kernel.DATA_PLANES * STRIDE)
    noise = np.empty(kernel.NOISE_PLANES * STRIDE)
    eta = np.empty(CHUNK)
    counts = register_array(kernel.COUNTS)
    g = register_array(kernel.STATE)
    step_sizes(i - i % CHUNK + 1, c, gamma, eta)
    row = 0
    while row < thetas.shape[0]:
        kernel.draw_data(data_state, data_parameters, data)
        kernel.draw_noise(noise_state, noise_parameters, noise)
        for k in range(min(CHUNK, thetas.shape[0] - row)):
            kernel.gradient(g, theta, data, k * LANES, 0, problem)
            kernel.randomise(g, noise, k * LANES, 0, mechanism, counts)
            for j in range(kernel.D):
                thetas[row, j] = theta[j * LANES]
                reports[row, j] = g[j * LANES]
                mean[j * LANES] += g[j * LANES]
            row += 1
            taken += 1
            if taken == size:
                eta_i = eta[i % CHUNK]
                i += 1
                for j in range(kernel.D):
                    if size > 1:
                        mean[j * LANES] /= size
                    theta[j * LANES] -= eta_i * steps.factors[j] * mean[j * LANES]
                    mean[j * LANES] = 0.0
                if kernel.ORDERED:
                    put_in_order(kernel, theta, 0)
                taken = 0
                if i % CHUNK == 0:
                    step_sizes(i + 1, c, gamma, eta)
    counters[0] = i
    counters[1] = taken


def rows_kernel(path: OnePass) -> Any:
    case = kernel_case(path, ())
    changed: dict[str, Any] = {}
    if path.mechanism.replaces_data():
        # A sweep may replace the CDF by an expansion, with equal reports.
        changed = {
            "gradient": part_of(path.problem, "bit_probability"),
            "randomise": part_of(path.randomiser, "randomise_probability"),
        }
    case = case.with_values(changed).with_layout("steps", layout_of(step_settings(path)))
    return compile_kernel(keep_rows, case, SIGNATURE)


def step_settings(path: OnePass) -> Parameters:
    algorithm = path.algorithm
    return {
        "c": algorithm.step_constant(),
        "gamma": algorithm.step_exponent(),
        "batch_size": float(algorithm.records_per_step()),
        "factors": algorithm.step_factors() or (1.0,) * path.problem.dimension,
    }


def reports_of(path: OnePass, seed: int, replicate: int, n: int) -> Iterator[tuple[int, Floats, Floats]]:
    """Iterate over the reports of n users of one replicate, WINDOW users at a time.

    Yields the number of the first user, from 1, and questions and private gradients of shape (users, d). The
    algorithm must be LDP-SGD or mini-batch SGD without projection and with noise on each record.
    """
    d = path.problem.dimension
    algorithm = path.algorithm
    kernel = rows_kernel(path)
    data_state = data_states(path, seed, [replicate])
    noise_state = noise_states(path, path.key, seed, [replicate])
    theta = np.repeat(np.array(algorithm.start(d), dtype=np.float64), LANES)
    mean = np.zeros(d * LANES)
    counters = np.zeros(2, np.int64)
    fixed = (
        data_parameters(path),
        np.array([v.parameter for v in noise_variates(path, False)]),
        flat(path.problem.kernel_parameters()),
        flat(path.randomiser.kernel_parameters(path.problem)),
        flat(step_settings(path)),
    )
    for start in range(0, n, WINDOW):
        count = min(WINDOW, n - start)
        thetas, gradients = np.empty((2, count, d))
        kernel(data_state, noise_state, *fixed, theta, mean, counters, thetas, gradients)
        yield start + 1, thetas, gradients
