"""Kernel time over its floor: drawing the same variates with the same samplers, nothing else."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.designs import SEED, cells, huber, kernel, quantile, regression
from benchmarks.effort import Effort
from benchmarks.measurement import Measurement
from benchmarks.timing import compare
from ldpflow.kernels.assembly import kernel_case
from ldpflow.kernels.module import compiled
from ldpflow.random.lockstep import CHUNK, LANES, STRIDE
from ldpflow.random.streams import lane_states
from ldpflow.simulators.one_pass import OnePass

__all__ = ["floor_rows", "floor_work"]


SIGNATURE = "void(uint64[::1], uint64[::1], float64[::1], float64[::1], int64, float64[::1])"


def floor(kernel, data_state, noise_state, data_parameters, noise_parameters, chunks, out):
    """Draw the variates of ``chunks`` chunks of steps; the last chunk goes to ``out``."""
    data = np.empty(kernel.DATA_PLANES * STRIDE)
    noise = np.empty(kernel.NOISE_PLANES * STRIDE)
    for _ in range(chunks):
        kernel.draw_data(data_state, data_parameters, data)
        kernel.draw_noise(noise_state, noise_parameters, noise)
    out[: len(data)] = data
    out[len(data) :] = noise


def floor_work(path: OnePass, steps: int) -> tuple[Callable[[], object], int]:
    """The floor of a path as a piece of work, and its steps times replicates."""
    data = path.problem.variates()
    noise = path.mechanism.variates(path.problem)
    function = compiled(floor, kernel_case(path, ()), SIGNATURE)  # the parts of the kernel itself
    chunks = -(-steps // CHUNK)
    arguments = (
        lane_states(SEED, "data", path.data_key(), range(LANES)),
        lane_states(SEED, "mechanism", path.key, range(LANES)),
        np.array([v.parameter for v in data]),
        np.array([v.parameter for v in noise]),
        chunks,
        np.empty((len(data) + len(noise)) * STRIDE),
    )
    return lambda: function(*arguments), chunks * CHUNK * LANES


def floor_rows(effort: Effort) -> list[Measurement]:
    """The three kernels of the paper, and Huber regression under Gaussian noise."""
    designs = {
        "floor-quantile-rr": ("quantile, randomised response", quantile(), effort.steps),
        "floor-quantile-laplace": ("quantile, Laplace", quantile("laplace"), effort.steps),
        "floor-regression": ("quantile regression d = 4", regression(), effort.steps // 4),
        "floor-huber-gaussian": (
            "Huber regression d = 20, Gaussian",
            huber(20),
            effort.steps // 20,
        ),
    }
    rows = []
    for name, (what, path, steps) in designs.items():
        pairs = compare(*kernel(path, cells(steps, "BB", "BM")), *floor_work(path, steps), effort.repetitions)
        kernel_ns, floor_ns = pairs.nanoseconds()
        target = 1.25 if name in ("floor-regression", "floor-huber-gaussian") else 1.3
        details = {"kernel_ns_per_step": kernel_ns, "floor_ns_per_step": floor_ns}
        what = f"kernel / floor, {what}, data mode"
        rows.append(Measurement(name, what, "times the floor", pairs.ratios(), target, "lower", details))
    return rows
