"""A path's kernel as plain Python: the same functions, with the same bits, without a compiler.

tests/kernels/test_specialise.py compares the bits. A few hundred steps take less time than compiling does.
"""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import numpy as np

from ldpflow.kernels import finite_sum, one_pass
from ldpflow.kernels.assembly import kernel_case
from ldpflow.kernels.running_sums import RUNNING_SUMS
from ldpflow.kernels.specialise import Part
from ldpflow.random.lockstep import LANES
from ldpflow.simulators.run_path import data_parameters, data_states, noise_states


def uncompiled(case):
    """The case as a namespace of plain Python functions."""
    namespace = SimpleNamespace()

    def plain(value):
        if isinstance(value, tuple):
            return tuple(plain(item) for item in value)
        if isinstance(value, Part):
            own = namespace if value.case is None else uncompiled(value.case)
            return bound(value.function, own)
        return bound(value, namespace)

    def bound(function, own):
        code = getattr(function, "__code__", None)
        takes = code is not None and code.co_varnames[:1] == ("kernel",)
        return partial(function, own) if takes else function

    for name, value in case.values:
        setattr(namespace, name, plain(value))
    return namespace


def run_path(path, seed, replicates, times, marked=(), sums=()):
    """As :func:`ldpflow.simulators.run_path.run_path`, for up to LANES replicates."""
    replicates, marked, sums = list(replicates), list(marked), tuple(sums)
    lanes = [*replicates, *[replicates[-1]] * (LANES - len(replicates))]
    kernel = uncompiled(kernel_case(path, sums))
    d, count = path.problem.dimension, len(times)
    kept = one_pass.Record(
        times=np.array(times),
        marks=np.array([marked.index(t) if t in marked else -1 for t in times]),
        centre=np.array(path.problem.truth()),
        total=np.zeros(kernel.STATE),
        sums=np.zeros(kernel.SUMS),
        tile=np.zeros(kernel.TILE_SIZE),
        counts=np.zeros(kernel.COUNTS),
        prefix_sums=np.empty((count, kernel.STATE)),
        iterates=np.empty((count, kernel.STATE)),
        running_sums=np.empty((len(marked), kernel.SUMS)),
        extras=np.empty((count, kernel.EXTRAS)),
    )
    kernel.recursion(
        (data_states(path, seed, lanes), data_parameters(path)),
        (noise_states(path, path.key, seed, lanes), np.zeros(kernel.NOISE_PLANES)),
        SimpleNamespace(**path.problem.kernel_parameters()),
        SimpleNamespace(**path.randomiser.kernel_parameters(path.problem)),
        SimpleNamespace(**path.algorithm.kernel_parameters(path.horizon)),
        kept,
    )

    def lanes_of(array):
        size = array.shape[1] // (d * LANES)
        return array.reshape(len(array), size, d, LANES)[..., : len(replicates)]

    every, running, at = lanes_of(kept.running_sums), {}, 0
    for name in sums:
        size = RUNNING_SUMS[name].count(d)
        running[name] = every[:, at : at + size].swapaxes(0, 1)
        at += size
    return SimpleNamespace(
        iterates=lanes_of(kept.iterates)[:, 0],
        prefix_sums=lanes_of(kept.prefix_sums)[:, 0],
        running_sums=running,
    )


def finite_sum_kernel(problem, algorithm, settings, **others):
    """In the place of :func:`ldpflow.kernels.finite_sum.finite_sum_kernel`."""
    case = finite_sum.steps_case(problem, algorithm, settings, tuple(sorted(others.items())))
    kernel, layouts = uncompiled(case), dict(case.layouts)
    recursion = kernel.recursion

    def named(name, values):
        parts = {
            part: values[start] if size is None else values[start : start + size]
            for part, start, size in layouts[name]
        }
        return SimpleNamespace(**parts)

    def with_names(keys, order, records, problem, settings, w, record):
        parameters = named("problem", problem), named("settings", settings)
        recursion(keys, order, records, *parameters, w, record)

    kernel.recursion = with_names
    return partial(finite_sum.run, kernel)
