"""Gaussian closure of LDP-SGD on a quantile: mean and variance of the iterates, without simulation.

theta_i is treated as N(m_i, v_i). With F the distribution function of a record, Z standard normal,
q = E F(m + sqrt(v) Z), H = E Z F(m + sqrt(v) Z)/sqrt(v) (Stein's identity for E F') and k the variance
that the mechanism adds to a gradient of spread 1,

    m <- m - eta (q - tau)        v <- v - 2 eta H v + eta^2 (q (1 - q) + k)

step by step up to i = 400, then by exponential Euler steps in s = sum eta on a grid of ratio 1.015 in
i. The variance of the sum of the iterates adds up their covariances v_i exp(-sum H eta).

Everything here is in relaxation units: y = G (theta - theta*), G the density at the quantile theta*. A
step size c i^-gamma becomes G c i^-gamma, whose sum is the number of relaxation times, and a change of
the data's unit changes nothing. This module is compiled; it predicts and makes no rows, so it may use
the mathematical library.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from ldpflow.kernels.module import compiled
from ldpflow.kernels.specialise import Case
from ldpflow.random import bits_of, float_of, register_array
from ldpflow.theory.arrival import EXACT, RATIO

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

NODES = 200
MERGED = 1e-5  # of the standard deviation: two runs this close stay together
SMOOTH = 1e-6  # rules of 9 and of 7 nodes agree to this: F is smooth on the scale of the iterates
NARROW = 1e-6

# Cells of the table of F: octaves of 1 + FINE |y|, each in CELLS equal parts.
CELLS = 64
OCTAVES = 44
FINE = 64.0
HALF = CELLS * OCTAVES
SHIFT = np.uint64(46)  # 52 bits of the mantissa less the 6 that name a cell
REST = np.uint64((1 << 46) - 1)
UP = np.uint64(6)
ONE = np.uint64(0x3FF0000000000000)
BASE = np.uint64(1023 * CELLS)
FIRST, SECOND = np.uint64(0), np.uint64(HALF)
ROW1, ROW2, ROW3 = np.uint64(1), np.uint64(2), np.uint64(3)
TWO = np.uint64(2)
FARTHEST = 2.0**OCTAVES * (1.0 - 2.0**-20)

WIDTH = 40  # sums that are added side by side, which the compiler does not make by itself

SIGNATURE = (
    "void(float64[::1], float64[::1], float64[:, ::1], int64[::1], float64[::1], float64, float64, float64, "
    "float64, float64, float64, int64[::1], float64[:, ::1])"
)


def follow_kernel() -> Callable[..., None]:
    """The compiled :func:`follow`."""
    return compiled(follow, Case(), SIGNATURE)


def tabulated(cdf: Callable[[Floats], Floats]) -> Floats:
    """Table of a distribution function of y: the cubic through four points of every cell.

    Parameters
    ----------
    cdf : callable
        F at an array of y.

    Returns
    -------
    ndarray, shape (2 HALF * 4,)
        Per cell four coefficients, lowest first, in the place t of [0, 1] within it; first the cells of
        y >= 0 outwards, then those of y < 0 outwards.
    """
    k = np.arange(HALF + 1)
    edge = (2.0 ** (k // CELLS) * (1.0 + (k % CELLS) / CELLS) - 1.0) / FINE
    width = np.diff(edge)
    table = np.empty((2 * HALF, 4))
    for side, sign in ((0, 1.0), (HALF, -1.0)):
        points = [cdf(sign * (edge[:-1] + width * t)) for t in (0.0, 1 / 3, 2 / 3)]
        f0, f1, f2 = points
        f3 = np.append(f0[1:], cdf(np.array([sign * edge[-1]])))
        cells = table[side : side + HALF]
        cells[:, 0] = f0
        cells[:, 1] = (-11 * f0 + 18 * f1 - 9 * f2 + 2 * f3) / 2
        cells[:, 2] = (18 * f0 - 45 * f1 + 36 * f2 - 9 * f3) / 2
        cells[:, 3] = (-9 * f0 + 27 * f1 - 27 * f2 + 9 * f3) / 2
    return table.reshape(-1)


def equal_probability(count: int = NODES) -> Floats:
    """Midpoints of ``count`` equal parts of the standard normal law, scaled to variance 1."""
    nodes = np.array([NormalDist().inv_cdf((i + 0.5) / count) for i in range(count)])
    result: Floats = nodes / math.sqrt(np.mean(nodes * nodes))
    return result


def few_nodes() -> Floats:
    """Rules of Gauss and Hermite with 9 and 7 nodes: rows of node, weights of E F and of E Z F."""
    rules = [np.polynomial.hermite_e.hermegauss(count) for count in (9, 7)]
    table = np.zeros((5, 16))
    for place, rows, (nodes, weights) in ((0, (1, 2), rules[0]), (9, (3, 4), rules[1])):
        part = slice(place, place + len(nodes))
        table[0, part] = nodes
        table[rows[0], part] = weights / weights.sum()
        table[rows[1], part] = nodes * weights / weights.sum()
    return table


def value(y, table):  # type: ignore[no-untyped-def]
    """F(y)."""
    bits = bits_of(min(1.0 + FINE * abs(y), FARTHEST))
    # Unsigned: no test for places counted from the end.
    row = ((bits >> SHIFT) - BASE + (SECOND if y < 0.0 else FIRST)) << TWO
    t = float_of(((bits & REST) << UP) | ONE) - 1.0
    return table[row] + t * (table[row + ROW1] + t * (table[row + ROW2] + t * table[row + ROW3]))


def moments(m, v, nodes, few, table):  # type: ignore[no-untyped-def]
    """q = E F(m + sqrt(v) Z) and H = E Z F(m + sqrt(v) Z)/sqrt(v) >= 0."""
    sd = max(math.sqrt(v), NARROW)
    values = register_array(16)
    for k in range(16):
        values[k] = value(m + sd * few[0, k], table)
    q = 0.0
    first = 0.0
    rough = 0.0
    rougher = 0.0
    for k in range(16):
        q += few[1, k] * values[k]
        first += few[2, k] * values[k]
        rough += few[3, k] * values[k]
        rougher += few[4, k] * values[k]
    if abs(q - rough) + abs(first - rougher) > SMOOTH:
        sums = register_array(WIDTH)
        moment = register_array(WIDTH)
        sums[:] = 0.0
        moment[:] = 0.0
        for k in range(nodes.shape[0] // WIDTH):
            for w in range(WIDTH):
                z = nodes[k * WIDTH + w]
                f = value(m + sd * z, table)
                sums[w] += f
                moment[w] += z * f
        q = 0.0
        first = 0.0
        for w in range(WIDTH):
            q += sums[w]
            first += moment[w]
        q /= nodes.shape[0]
        first /= nodes.shape[0]
    return q, max(first / sd, 0.0)


def power_sum(i, j, gamma):  # type: ignore[no-untyped-def]
    """Sum of k^-gamma over k = i + 1 .. j: exact up to EXACT, by the integral beyond."""
    if i < EXACT:
        return float(j) ** -gamma  # one step
    power = 1.0 - gamma
    return ((j + 0.5) ** power - (i + 0.5) ** power) / power


def grid(gamma: float, last: int) -> tuple[Integers, Floats]:
    """Ends j of the stretches of steps up to ``last`` and beyond, and the sums of k^-gamma over them.

    Paths with the same gamma share them.
    """
    ends = list(range(EXACT + 1))
    while ends[-1] < last:
        ends.append(max(ends[-1] + 1, int(ends[-1] * RATIO)))
    sums = [power_sum(i, j, gamma) for i, j in itertools.pairwise(ends)]
    return np.array(ends[1:], dtype=np.int64), np.array(sums)


def step(i, j, ds, run, tau, noise, records, q, h):  # type: ignore[no-untyped-def]
    """A run after steps i + 1 .. j, whose sizes add up to ``ds``, from the moments at i.

    ``run`` is m, v, sum of the m_i, variance of the sum of the iterates, and twice the covariance of
    that sum with the next iterate.
    """
    m, v, total, square, carried = run
    width = float(j - i)
    drift = q - tau
    s = (q * (1.0 - q) + noise) / records
    eta = ds / width
    a = h * ds
    # (1 - exp(-a))/a is the mean of a decay.
    lost = -np.expm1(-a)
    decay = 1.0 - lost
    mean_decay = lost / a if a > 1e-12 else 1.0
    square += width * mean_decay * (width * v + carried)
    carried = decay * carried + width * v * (1.0 + decay)
    if i < EXACT:
        m -= eta * drift
        least = eta * eta * s
        v = max(v - 2.0 * eta * h * v + least, 1e-3 * least)
        total += m
    else:
        before = m
        m -= drift * ds * mean_decay
        v = v * decay * decay + eta * s * ds * mean_decay * 0.5 * (1.0 + decay)
        total += width * 0.5 * (before + m)
    return m, v, total, square, carried


def follow(table, nodes, few, ends, sums, tau, noise, c, gamma, start, records, times, out):  # type: ignore[no-untyped-def]
    """Run the closure from ``start`` and from theta*, in relaxation units.

    Parameters
    ----------
    table : ndarray
        Of F (:func:`tabulated`).
    nodes, few : ndarray
        :func:`equal_probability` and :func:`few_nodes`, for the expectations over Z.
    ends, sums : ndarray
        :func:`grid` of gamma, up to the last of the times.
    tau, noise, c, gamma, start : float
        k = ``noise``; c times G; (theta0 - theta*) G.
    records : float
        Records averaged in a step.
    times : ndarray of int64
        Numbers of steps, sorted.
    out : ndarray, shape (len(times), 5)
        Filled with the bias of the average from ``start``, that from theta*, the standard deviation of
        the average, and the mean and the variance of the last iterate.
    """
    here = (start, 0.0, 0.0, 0.0, 0.0)
    other = (0.0, 0.0, 0.0, 0.0, 0.0)
    behind = 0.0
    together = False
    i = 0
    done = 0
    for k in range(ends.shape[0]):
        j = ends[k]
        ds = c * sums[k]
        q, h = moments(here[0], here[1], nodes, few, table)
        p, g = q, h
        if not together:
            p, g = moments(other[0], other[1], nodes, few, table)
        while done < times.shape[0] and times[done] <= j:
            n = times[done]
            within = ds if n == j else c * power_sum(i, n, gamma)
            end = step(i, n, within, here, tau, noise, records, q, h)
            if not together:
                behind = end[2] - step(i, n, within, other, tau, noise, records, p, g)[2]
            out[done, 0] = end[2] / n
            out[done, 1] = (end[2] - behind) / n
            out[done, 2] = math.sqrt(end[3]) / n
            out[done, 3] = end[0]
            out[done, 4] = end[1]
            done += 1
        if done == times.shape[0]:
            break
        here = step(i, j, ds, here, tau, noise, records, q, h)
        if not together:
            other = step(i, j, ds, other, tau, noise, records, p, g)
            behind = here[2] - other[2]
            apart = abs(here[0] - other[0])
            together = apart <= MERGED * math.sqrt(here[1]) and abs(here[1] - other[1]) <= MERGED * here[1]
        i = j
