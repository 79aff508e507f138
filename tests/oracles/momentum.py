"""Tran and Cutkosky's two algorithms with every node of every tree kept, and their accountant.

Slow and literal: steps t = 1..T, record order[t], node sums by their definition, noise looked up by
(tree, start, end). Nothing here knows of streaming, rings or recursions.
"""

import math

import numpy as np


def cover(a, b):
    """Dyadic nodes that cover [a, b], the largest that fits first from the left."""
    if b < a:
        return []
    size = 1
    while (a - 1) % (2 * size) == 0 and a + 2 * size - 1 <= b:
        size *= 2
    return [(a, a + size - 1), *cover(a + size, b)]


def step(w, direction, eta):
    length = math.sqrt(float(direction @ direction))
    return w - eta * direction / length if length > 0 else w.copy()


def dp_nsgd(gradient, w1, records, alpha, eta, zeta):
    """Algorithm 1, ``records[t - 1]`` at step t: w (T + 1 of them, w[0] = w_1), m, mhat."""
    w, ms, mhats = [np.array(w1, float)], [], []
    g = [None]
    for t in range(1, len(records) + 1):
        g.append(gradient(w[-1], records[t - 1]))
        m = alpha * sum((1 - alpha) ** (t - i) * g[i] for i in range(1, t + 1))
        mhat = m + sum((1 - alpha) ** (t - z) * zeta("A", y, z) for y, z in cover(1, t))
        ms.append(m)
        mhats.append(mhat)
        w.append(step(w[-1], mhat, eta))
    return w, ms, mhats


def reduced(gradient, w1, records, n, alpha, gamma, eta, zeta):
    """Algorithm 2 with the corrected sum over all earlier windows: w, m, mhat."""
    w, ms, mhats = [np.array(w1, float)], [], []
    zero = np.zeros(len(w1))
    per_step = {"G": [zero], "D": [zero], "r": [zero]}
    m = zero
    decay_epoch = (1 - alpha) ** n

    def value(tree, y, z):
        return sum(((1 - alpha) ** (z - i) * per_step[tree][i] for i in range(y, z + 1)), zero)

    def window(tree, a, b):
        return sum(
            ((1 - alpha) ** (b - z) * (value(tree, y, z) + zeta(tree, y, z)) for y, z in cover(a, b)), zero
        )

    for t in range(1, len(records) + 1):
        x = records[t - 1]
        epoch = (t - 1) // n
        anchor = gradient(w[epoch * n], x)
        here = gradient(w[t - 1], x)
        per_step["G"].append(anchor)
        per_step["r"].append(here - anchor)
        per_step["D"].append(anchor - gradient(w[(epoch - 1) * n], x) if epoch else zero)
        m = (1 - alpha) * m + alpha * here
        q, r = divmod(t, n)
        s = [sum((1 - gamma) ** j * decay_epoch ** (i - 1 - j) for j in range(i)) for i in range(q + 1)]
        total = decay_epoch**q * window("G", 1, r)
        if q >= 1:
            total = total + s[q] * window("G", r + 1, r + n)
        for i in range(1, q):
            a, b = t - i * n + 1, t - (i - 1) * n
            total = total + s[i] * ((1 - gamma) * window("D", a, b) + gamma * window("G", a, b))
        mhat = alpha * (total + window("r", 1, t))
        ms.append(m)
        mhats.append(mhat)
        w.append(step(w[-1], mhat, eta))
    return w, ms, mhats


def noise_variance(t, n, alpha, gamma, variance):
    """Per coordinate variance of Algorithm 2's noise, in its five parts, from var(tree, y, z)."""

    def part(tree, a, b):
        return sum((1 - alpha) ** (2 * (b - z)) * variance(tree, y, z) for y, z in cover(a, b))

    q, r = divmod(t, n)
    decay = (1 - alpha) ** n
    s = [sum((1 - gamma) ** j * decay ** (i - 1 - j) for j in range(i)) for i in range(q + 1)]
    parts = [decay ** (2 * q) * part("G", 1, r), 0.0, 0.0, 0.0, part("r", 1, t)]
    if q:
        parts[1] = s[q] ** 2 * part("G", r + 1, r + n)
    for i in range(1, q):
        a, b = t - i * n + 1, t - (i - 1) * n
        parts[2] += s[i] ** 2 * gamma**2 * part("G", a, b)
        parts[3] += s[i] ** 2 * (1 - gamma) ** 2 * part("D", a, b)
    return [alpha**2 * p for p in parts]


def node_weights(visits, steps, alpha):
    """(start, end) of every node that one record enters -> its weight there."""
    weights = {}
    for t in visits:
        size = 1
        while size <= steps:
            index = (t - 1) // size
            y, z = index * size + 1, (index + 1) * size
            if z <= steps:
                weights[y, z] = weights.get((y, z), 0.0) + (1 - alpha) ** (z - t)
            size *= 2
    return weights


def cost(visits, steps, alpha, variance):
    """sum over trees and nodes of (weight^2 / v), v = variance(tree, y, z) or None if not released."""
    total = 0.0
    for (y, z), weight in node_weights(visits, steps, alpha).items():
        for tree in "AGDr":
            v = variance(tree, y, z)
            if v is not None:
                total += weight**2 / v
    return total
