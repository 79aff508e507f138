"""Counts of randomised Hadamard signs: of the bins (``hrr``), and of Haar's halves (``haar``)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpflow.protocols.counts.bits import bits
from ldpflow.random.counts import split_evenly
from ldpflow.random.elementary import jit

__all__ = [
    "HaarDesign",
    "HrrDesign",
    "draw_haar",
    "draw_hrr",
    "spread_haar",
    "spread_hrr",
    "transform",
]

LEVELS, LYING, ROWS, LIARS, PLUS = 2, 3, 4, 5, 6


@jit
def transform(x):  # type: ignore[no-untyped-def]
    """x <- H x, H the Hadamard matrix in Sylvester's order; len(x) is a power of two."""
    size = x.shape[0]
    half = 1
    while half < size:
        for start in range(0, size, 2 * half):
            for i in range(start, start + half):
                a = x[i]
                b = x[i + half]
                x[i] = a + b
                x[i + half] = a - b
        half *= 2


@jit
def mean_signs(out, key0, key1, turn, honest, liars, chances, truths, lie, budget):  # type: ignore[no-untyped-def]
    """Debiased mean of the signs of every row, each user at a random row; returns the empty rows.

    ``chances``, ``truths``: probability that an honest user's report, or true sign, of the row is +1.
    ``lie``: a liar's report.
    """
    size = out.shape[0]
    asked = np.empty(size)
    lying = np.empty(size)
    split_evenly(asked, key0, key1, ROWS, turn, honest)
    split_evenly(lying, key0, key1, LIARS, turn, liars)
    empty = 0
    for r in range(size):
        plus = bits(key0, key1, r, PLUS, turn, asked[r], truths[r], chances[r], budget) / budget.answers
        total = asked[r] + lying[r]
        if total == 0.0:
            empty += 1
            out[r] = 0.0
        else:
            out[r] = (2.0 * plus - asked[r] + lie[r] * lying[r]) / total * budget.inflation
    return empty


class HrrDesign(NamedTuple):
    """Of the rows 1..k-1: chance of a report +1 and of a sign +1, a liar's report, squared prefix sums.

    ``squares`` has shape (rows, edges): (sum of the row's entries before the edge)^2.
    """

    chances: NDArray[np.float64]
    truths: NDArray[np.float64]
    lie: NDArray[np.float64]
    squares: NDArray[np.float64]


@jit
def draw_hrr(values, key0, key1, honest, liars, design, budget):  # type: ignore[no-untyped-def]
    """pi^ = H' mu / k with mu_0 = 1, added up."""
    k = design.chances.shape[0] + 1
    mu = np.empty(k)
    mu[0] = 1.0
    chances, truths = design.chances, design.truths
    empty = mean_signs(mu[1:], key0, key1, 0, honest, liars, chances, truths, design.lie, budget)
    transform(mu)
    below = 0.0
    for m in range(k - 1):
        below += mu[m] / k
        values[m] = below
    return empty


@jit
def spread_hrr(out, isotonic, tau, design, budget):  # type: ignore[no-untyped-def]
    """(k - 1)/k^2 sum_r s_rm^2 (1 + v/a - E_r^2), E_r from the bins of the isotonic estimate.

    a answers; 1 + v = c^2.
    """
    k = design.chances.shape[0] + 1
    mean = np.empty(k)
    for j in range(k):
        mean[j] = isotonic[j + 1] - isotonic[j]
    transform(mean)
    most = 1.0 + budget.noise / budget.answers
    out[:] = 0.0
    for r in range(k - 1):
        weight = most - mean[r + 1] * mean[r + 1]
        for m in range(k - 1):
            out[m] += weight * design.squares[r, m]
    scale = (k - 1.0) / (k * k)
    for m in range(k - 1):
        out[m] *= scale


class HaarDesign(NamedTuple):
    """Chances, true signs and lies of the rows of all levels (2^level each, level 0 first).

    ``squares`` has shape (levels, edges): the edge's Haar coefficient, squared.
    """

    chances: NDArray[np.float64]
    truths: NDArray[np.float64]
    lie: NDArray[np.float64]
    squares: NDArray[np.float64]


@jit
def draw_haar(values, key0, key1, honest, liars, design, budget):  # type: ignore[no-untyped-def]
    """d^ = H mu / 2^level; masses are halved from the top: left = (mass + d^)/2."""
    levels = design.squares.shape[0]
    k = 1 << levels
    asked = np.empty(levels)
    lying = np.empty(levels)
    split_evenly(asked, key0, key1, LEVELS, 0, honest)
    split_evenly(lying, key0, key1, LYING, 0, liars)
    mass = np.empty(k)
    mass[0] = 1.0
    found = np.empty(k)
    empty = 0
    for level in range(levels):
        nodes = 1 << level
        d = found[:nodes]
        first = nodes - 1
        empty += mean_signs(
            d,
            key0,
            key1,
            level,
            asked[level],
            lying[level],
            design.chances[first : first + nodes],
            design.truths[first : first + nodes],
            design.lie[first : first + nodes],
            budget,
        )
        transform(d)
        for node in range(nodes - 1, -1, -1):
            whole = mass[node]
            difference = d[node] / nodes
            mass[2 * node] = 0.5 * (whole + difference)
            mass[2 * node + 1] = 0.5 * (whole - difference)
    below = 0.0
    for m in range(k - 1):
        below += mass[m]
        values[m] = below
    return empty


@jit
def spread_haar(out, isotonic, tau, design, budget):  # type: ignore[no-untyped-def]
    """h sum_l g_lm^2 (1 + v/a - sum over nodes of d^2), d from the isotonic estimate; a answers."""
    levels = design.squares.shape[0]
    k = 1 << levels
    out[:] = 0.0
    for level in range(levels):
        size = k >> level
        weight = 1.0 + budget.noise / budget.answers
        for node in range(1 << level):
            start = node * size
            middle = isotonic[start + size // 2]
            d = (middle - isotonic[start]) - (isotonic[start + size] - middle)
            weight -= d * d
        for m in range(k - 1):
            out[m] += weight * design.squares[level, m]
    for m in range(k - 1):
        out[m] *= levels
