"""The kernels of empirical risk minimisation: all that their recursions share.

:func:`kernel` is what Python calls; it starts w and calls ``recursion(keys, order_state, records,
parameters, settings, w, record)``, which stands in the algorithm's file and becomes part of it:

    keys, order_state  for ``node_noise`` and ``draw_order``
    records            rows and targets, and where every lane's begin
    parameters         the problem's
    settings           the algorithm's kernel_settings
    record             times, and where ``keep`` and ``choose`` put what they are to keep

Vectors are flat over (coordinate, lane); loops run over the lanes innermost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ldpflow.random.lockstep import LANES

if TYPE_CHECKING:  # supplied by the kernel that this becomes part of
    from ldpflow.kernel_parts import (
        PROBLEM_SIZE,
        STATE,
        D,
        derivative,
        loss,
        node_noise,
        recursion,
        register_array,
        separable,
        separable_loss,
    )

__all__ = [
    "PARTS",
    "add_gradient",
    "choose",
    "fetch",
    "halvings",
    "keep",
    "kernel",
    "move",
    "prefix_noise",
    "risk",
]

PARTS = ("fetch", "add_gradient", "move", "halvings", "prefix_noise", "keep", "choose")
"""The functions here that recursions may call, in an order in which they can be compiled."""


def kernel(  # type: ignore[no-untyped-def]
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

    ``iterates`` has one row more, for the iterate after the last step. ``chosen`` gets every lane's
    iterate at its own time: lane chosen_lanes[i] at chosen_times[i], sorted.
    """
    parameters = register_array(PROBLEM_SIZE)
    parameters[:] = problem_parameters
    w = register_array(STATE)
    for j in range(D):
        w[j * LANES : (j + 1) * LANES] = start[j]
    records = (rows, targets, base)
    record = (times, chosen_times, chosen_lanes, iterates, estimates, momenta, chosen)
    recursion(keys, order_state, records, parameters, settings, w, record)
    iterates[times.shape[0], :] = w


def fetch(x, y, rows, targets, places):  # type: ignore[no-untyped-def]
    """The record at ``places`` of every lane; a record's coordinates lie together."""
    for lane in range(LANES):
        place = places[lane]
        y[lane] = targets[place]
        row = rows[place * D : (place + 1) * D]
        for j in range(D):
            x[j * LANES + lane] = row[j]


def add_gradient(g, w, x, y, parameters):  # type: ignore[no-untyped-def]
    """g += grad f(w, (x, y)) = l'(<w, x>, y) x + h'(w)."""
    u = register_array(LANES)
    u[:] = 0.0
    for j in range(D):
        for lane in range(LANES):
            u[lane] += w[j * LANES + lane] * x[j * LANES + lane]
    for lane in range(LANES):
        u[lane] = derivative(u[lane], y[lane], parameters)
    for j in range(D):
        for lane in range(LANES):
            slope = separable(w[j * LANES + lane], y[lane], parameters)
            g[j * LANES + lane] += u[lane] * x[j * LANES + lane] + slope


def move(w, direction, eta):  # type: ignore[no-untyped-def]
    """w -= eta direction / ||direction||; w stays where the direction is 0."""
    size = register_array(LANES)
    size[:] = 0.0
    for j in range(D):
        for lane in range(LANES):
            size[lane] += direction[j * LANES + lane] * direction[j * LANES + lane]
    for lane in range(LANES):
        size[lane] = eta / np.sqrt(size[lane]) if size[lane] > 0.0 else 0.0
    for j in range(D):
        for lane in range(LANES):
            w[j * LANES + lane] -= size[lane] * direction[j * LANES + lane]


def halvings(doubled, alpha):  # type: ignore[no-untyped-def]
    """doubled[level] = (1 - alpha)^(2^level)."""
    doubled[0] = 1.0 - alpha
    for level in range(doubled.shape[0] - 1):
        doubled[level + 1] = doubled[level] * doubled[level]


def prefix_noise(zeta, prefixes, doubled, keys, tree, t, deviation):  # type: ignore[no-untyped-def]
    """The noise n_t of the prefix [1, t] of a tree, from the one new node that ends at t.

    ``prefixes`` has n of the binary prefixes of t by their lowest set bit; row 63 stays 0: the empty one.
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
    node_noise(zeta, keys, tree, level, rest, deviation)
    factor = doubled[level]
    previous = prefixes[before]
    for i in range(STATE):
        zeta[i] += factor * previous[i]
    if level > 0:
        # Prefixes of odd length are nobody's prefix.
        prefixes[level, :] = zeta[:STATE]


def keep(k, t, times, w, mhat, m, iterates, estimates, momenta):  # type: ignore[no-untyped-def]
    """Record w_t, mhat_t and m_t where t is the k-th time; the number of times reached."""
    if t == times[k]:
        iterates[k, :] = w
        estimates[k, :] = mhat
        momenta[k, :] = m
        return k + 1
    return k


def choose(c, t, chosen_times, chosen_lanes, w, chosen):  # type: ignore[no-untyped-def]
    """Copy w_t of the lanes whose random output it is; the number of lanes that have theirs."""
    while c < LANES and chosen_times[c] == t:
        lane = chosen_lanes[c]
        for j in range(D):
            chosen[j * LANES + lane] = w[j * LANES + lane]
        c += 1
    return c


def risk(rows, targets, base, count, parameters, points, losses, gradients):  # type: ignore[no-untyped-def]
    """F and its gradient at ``points`` of shape (K, d * LANES), all records of all lanes."""
    x = register_array(STATE)
    y = register_array(LANES)
    w = register_array(STATE)
    g = register_array(STATE)
    u = register_array(LANES)
    total = register_array(LANES)
    places = np.empty(LANES, np.int64)
    for k in range(points.shape[0]):
        w[:] = points[k]
        g[:] = 0.0
        total[:] = 0.0
        for i in range(count):
            for lane in range(LANES):
                places[lane] = base[lane] + i
            fetch(x, y, rows, targets, places)
            u[:] = 0.0
            for j in range(D):
                for lane in range(LANES):
                    u[lane] += w[j * LANES + lane] * x[j * LANES + lane]
            for lane in range(LANES):
                total[lane] += loss(u[lane], y[lane], parameters)
                u[lane] = derivative(u[lane], y[lane], parameters)
            for j in range(D):
                for lane in range(LANES):
                    g[j * LANES + lane] += u[lane] * x[j * LANES + lane]
        for lane in range(LANES):
            total[lane] /= count
        for j in range(D):
            for lane in range(LANES):
                v = w[j * LANES + lane]
                total[lane] += separable_loss(v, 0.0, parameters)
                g[j * LANES + lane] = g[j * LANES + lane] / count + separable(v, 0.0, parameters)
        losses[k, :] = total
        gradients[k, :] = g
