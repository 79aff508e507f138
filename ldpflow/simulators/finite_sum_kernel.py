"""Kernels of empirical risk minimisation, without their recursions.

Python calls :func:`run`. It starts w and calls ``kernel.recursion(keys, order_state, records,
problem, settings, w, record)``, which stands in the algorithm's file:

    keys, order_state  for ``kernel.node_noise`` and ``kernel.draw_order``
    records            rows and targets, and the begin of every lane's records
    problem            its parameters
    settings           the algorithm's kernel_settings
    record             times, and the arrays that ``kernel.keep`` and ``kernel.choose`` fill

Vectors are flat over (coordinate, lane); loops run over the lanes innermost. There may be hundreds of
coordinates: loops over them are not unrolled.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ldpflow.components.algorithms.finite_sum import FiniteSumAlgorithm
from ldpflow.components.problems import finite_sum as synthetic
from ldpflow.components.problems.finite_sum import FiniteSumProblem
from ldpflow.numerics import register_array
from ldpflow.numerics.kernel_functions import layout_of, part_of, size_of
from ldpflow.numerics.kernels import compile_kernel
from ldpflow.numerics.specialise import Case, KernelPart
from ldpflow.numerics.streams import LANES
from ldpflow.simulators.one_pass_kernel import draw_part

STEPS = (
    "void(uint64[::1], uint64[::1], float64[::1], float64[::1], int64[::1], float64[::1], "
    "float64[::1], float64[::1], int64[::1], int64[::1], int64[::1], float64[:, ::1], "
    "float64[:, ::1], float64[:, ::1], float64[::1])"
)
RISK = (
    "void(float64[::1], float64[::1], int64[::1], int64, float64[::1], float64[:, ::1], "
    "float64[:, ::1], float64[:, ::1])"
)
DATA = "void(uint64[::1], float64[::1], float64[::1], int64, float64[::1], float64[::1])"

LOSS = ("loss", "derivative", "separable_loss", "separable")


@lru_cache(maxsize=256)
def problem_case(problem: FiniteSumProblem) -> Case:
    layout = layout_of(problem.kernel_parameters())
    values: dict[str, Any] = {
        "D": problem.dimension,
        "STATE": problem.dimension * LANES,
        "BLOCKS": -(-problem.dimension // 4) * 4 * LANES,
        "PROBLEM_SIZE": size_of(layout),
        "fetch": fetch,
        **{name: part_of(problem, name) for name in LOSS},
    }
    # Inlined: a loop over lanes must hold no call.
    return Case(tuple(values.items()), (("problem", layout),), frozenset(), "inlined")


def steps_case(
    problem: FiniteSumProblem,
    algorithm: FiniteSumAlgorithm,
    settings: tuple[str, ...],
    others: tuple[tuple[str, Any], ...],
) -> Case:
    from ldpflow.numerics.noise_nodes import draw_order, draw_subset, node_normals

    values: dict[str, Any] = {
        "NOISE": algorithm.noise_kind(),
        "add_gradient": add_gradient,
        "move": move,
        "halvings": halvings,
        "prefix_noise": prefix_noise,
        "keep": keep,
        "choose": choose,
        "node_noise": node_normals,
        "draw_order": draw_order,
        "draw_subset": draw_subset,
        "recursion": part_of(algorithm, "recursion"),
        **dict(others),
    }
    # Written into `run`, where LLVM sees that no two of their arrays overlap.
    for name in ("recursion", "add_gradient"):
        values[name] = KernelPart(values[name], inlining="written")
    case = problem_case(problem).with_values(values)
    return case.with_layout("settings", layout_of(dict.fromkeys(settings, 0.0)))


@lru_cache(maxsize=256)
def finite_sum_kernel(
    problem: FiniteSumProblem, algorithm: FiniteSumAlgorithm, settings: tuple[str, ...], **others: Any
) -> Callable[..., None]:
    """The compiled kernel of an algorithm with these names of settings; ``others`` replace parts of it."""
    return compile_kernel(run, steps_case(problem, algorithm, settings, tuple(sorted(others.items()))), STEPS)


@lru_cache(maxsize=256)
def risk_kernel(problem: FiniteSumProblem) -> Callable[..., None]:
    """The compiled kernel that evaluates F and its gradient."""
    return compile_kernel(risk, problem_case(problem), RISK)


@lru_cache(maxsize=256)
def records_kernel(problem: FiniteSumProblem) -> Callable[..., None]:
    """The compiled kernel that draws synthetic records."""
    variates = problem.variates()
    values: dict[str, Any] = {
        "D": problem.dimension,
        "DATA_PLANES": len(variates),
        "draw_data": draw_part(variates),
        "record": getattr(synthetic, f"{problem.labels}_record"),
    }
    case = Case(tuple(values.items()), (("law", layout_of(problem.data_parameters())),))
    return compile_kernel(synthetic.all_records, case, DATA)


def run(  # type: ignore[no-untyped-def]
    kernel,
    keys,
    order_state,
    rows,
    targets,
    base,
    problem_parameters,
    settings,
    start,
    times,
    chosen_times,
    chosen_lanes,
    iterates,
    estimates,
    momenta,
    chosen,
):
    """Run LANES replicates in lockstep; record w_t, mhat_t and m_t at ``times``.

    ``iterates`` has one row more, for the iterate after the last step. ``chosen`` gets one iterate of every
    lane: of lane chosen_lanes[i] that at chosen_times[i], in the order of the times.
    """
    problem = register_array(kernel.PROBLEM_SIZE)
    for at in range(kernel.PROBLEM_SIZE):
        problem[at] = problem_parameters[at]
    w = register_array(kernel.STATE)
    for j in range(kernel.D):
        for lane in range(LANES):
            w[j * LANES + lane] = start[j]
    records = (rows, targets, base)
    record = (times, chosen_times, chosen_lanes, iterates, estimates, momenta, chosen)
    kernel.recursion(keys, order_state, records, problem, settings, w, record)
    for at in range(kernel.STATE):
        iterates[times.shape[0], at] = w[at]


def fetch(kernel, x, y, rows, targets, places):  # type: ignore[no-untyped-def]
    """Copy the record at ``places`` of every lane. Coordinates of a record are contiguous."""
    for lane in range(LANES):
        place = places[lane]
        y[lane] = targets[place]
        row = rows[place * kernel.D : (place + 1) * kernel.D]
        for j in range(kernel.D):
            x[j * LANES + lane] = row[j]


def add_gradient(kernel, g, w, x, y, problem):  # type: ignore[no-untyped-def]
    """g += grad f(w, (x, y)) = l'(<w, x>, y) x + h'(w)."""
    u = register_array(LANES)
    u[:] = 0.0
    for j in range(kernel.D):
        for lane in range(LANES):
            u[lane] += w[j * LANES + lane] * x[j * LANES + lane]
    for lane in range(LANES):
        u[lane] = kernel.derivative(u[lane], y[lane], problem)
    for j in range(kernel.D):
        for lane in range(LANES):
            slope = kernel.separable(w[j * LANES + lane], y[lane], problem)
            g[j * LANES + lane] += u[lane] * x[j * LANES + lane] + slope


def move(kernel, w, direction, eta):  # type: ignore[no-untyped-def]
    """w -= eta direction / ||direction||. A zero direction leaves w unchanged."""
    size = register_array(LANES)
    size[:] = 0.0
    for j in range(kernel.D):
        for lane in range(LANES):
            size[lane] += direction[j * LANES + lane] * direction[j * LANES + lane]
    for lane in range(LANES):
        size[lane] = eta / np.sqrt(size[lane]) if size[lane] > 0.0 else 0.0
    for j in range(kernel.D):
        for lane in range(LANES):
            w[j * LANES + lane] -= size[lane] * direction[j * LANES + lane]


def halvings(doubled, alpha):  # type: ignore[no-untyped-def]
    """doubled[level] = (1 - alpha)^(2^level)."""
    doubled[0] = 1.0 - alpha
    for level in range(doubled.shape[0] - 1):
        doubled[level + 1] = doubled[level] * doubled[level]


def prefix_noise(kernel, zeta, prefixes, doubled, keys, tree, t, deviation):  # type: ignore[no-untyped-def]
    """The noise n_t of the prefix [1, t] of a tree, from the one new node that ends at t.

    Row k of ``prefixes`` is the noise of the binary prefix of t with lowest set bit k. Row 63, of none, is 0.
    """
    level = 0
    while (t >> level) & 1 == 0:
        level += 1
    rest = (t >> level) - 1  # t - low(t), in units of low(t)
    before = 63
    if rest > 0:
        before = level
        while (rest >> (before - level)) & 1 == 0:
            before += 1
    kernel.node_noise(zeta, keys, tree, level, rest, deviation)
    factor = doubled[level]
    previous = prefixes[before]
    for i in range(kernel.STATE):
        zeta[i] += factor * previous[i]
    if level > 0:
        # Later steps never read a prefix of odd length.
        for at in range(kernel.STATE):
            prefixes[level, at] = zeta[at]


def keep(kernel, k, t, times, w, mhat, m, iterates, estimates, momenta):  # type: ignore[no-untyped-def]
    """Record w_t, mhat_t and m_t if t is the k-th time. Returns the number of times reached."""
    if t == times[k]:
        for at in range(kernel.STATE):
            iterates[k, at] = w[at]
            estimates[k, at] = mhat[at]
            momenta[k, at] = m[at]
        return k + 1
    return k


def choose(kernel, c, t, chosen_times, chosen_lanes, w, chosen):  # type: ignore[no-untyped-def]
    """Copy w_t of the lanes whose random output is at t. Returns the number of lanes with an output."""
    while c < LANES and chosen_times[c] == t:
        lane = chosen_lanes[c]
        for j in range(kernel.D):
            chosen[j * LANES + lane] = w[j * LANES + lane]
        c += 1
    return c


def risk(kernel, rows, targets, base, count, problem, points, losses, gradients):  # type: ignore[no-untyped-def]
    """F and its gradient at ``points`` of shape (K, d * LANES), all records of all lanes."""
    x = register_array(kernel.STATE)
    y = register_array(LANES)
    w = register_array(kernel.STATE)
    g = register_array(kernel.STATE)
    u = register_array(LANES)
    total = register_array(LANES)
    places = np.empty(LANES, np.int64)
    for k in range(points.shape[0]):
        for at in range(kernel.STATE):
            w[at] = points[k, at]
            g[at] = 0.0
        total[:] = 0.0
        for i in range(count):
            for lane in range(LANES):
                places[lane] = base[lane] + i
            kernel.fetch(x, y, rows, targets, places)
            u[:] = 0.0
            for j in range(kernel.D):
                for lane in range(LANES):
                    u[lane] += w[j * LANES + lane] * x[j * LANES + lane]
            for lane in range(LANES):
                total[lane] += kernel.loss(u[lane], y[lane], problem)
                u[lane] = kernel.derivative(u[lane], y[lane], problem)
            for j in range(kernel.D):
                for lane in range(LANES):
                    g[j * LANES + lane] += u[lane] * x[j * LANES + lane]
        for lane in range(LANES):
            total[lane] /= count
        for j in range(kernel.D):
            for lane in range(LANES):
                v = w[j * LANES + lane]
                total[lane] += kernel.separable_loss(v, 0.0, problem)
                g[j * LANES + lane] = g[j * LANES + lane] / count + kernel.separable(v, 0.0, problem)
        for lane in range(LANES):
            losses[k, lane] = total[lane]
        for at in range(kernel.STATE):
            gradients[k, at] = g[at]
