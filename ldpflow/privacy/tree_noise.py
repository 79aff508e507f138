"""Variance of the noise of tree sums per coordinate, exact and on average over steps.

Q_t = sum over nodes [y, z] of the cover of [1, t] of (1 - alpha)^(2 (t - z)) is the variance of a
prefix's noise in units of a node's. Plain arithmetic, no library's pow: schedules follow from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ldpflow.privacy.tree import compose


def chi_mean(dimension: int) -> float:
    """E||Z|| of a standard normal vector: sqrt(2) Gamma((d+1)/2) / Gamma(d/2)."""
    half = dimension / 2.0
    return math.sqrt(2.0) * math.exp(math.lgamma(half + 0.5) - math.lgamma(half))


def prefix_discount(t: int, alpha: float) -> float:
    """Q_t: over the set bits i of t, the sum of (1 - alpha)^(2 (t mod 2^i))."""
    total = 0.0
    for level in range(t.bit_length()):
        if t >> level & 1:
            total += power((1.0 - alpha) ** 2, t & ((1 << level) - 1))
    return total


def power(base: float, exponent: int) -> float:
    """base^exponent by repeated squaring."""
    result = 1.0
    while exponent:
        if exponent & 1:
            result *= base
        base *= base
        exponent >>= 1
    return result


def mean_prefix_discount(levels: int, alpha: float) -> float:
    """The mean of Q_t over t = 0, ..., 2^levels - 1, in closed form."""
    square = (1.0 - alpha) * (1.0 - alpha)
    total, last = 0.0, square  # last = (1 - alpha)^(2 2^level)
    for level in range(levels):
        mean = 1.0 if alpha >= 1.0 and level == 0 else (1.0 - last) / (1.0 - square) / (1 << level)
        total += 0.5 * mean
        last *= last
    return total


def window_variance(
    first: int, last: int, alpha: float, variance: Callable[[int, int], float] = lambda y, z: 1.0
) -> float:
    """sum over the cover of [first, last] of (1 - alpha)^(2 (last - z)) variance(y, z)."""
    square = (1.0 - alpha) * (1.0 - alpha)
    return math.fsum(power(square, last - z) * variance(y, z) for y, z in compose(first, last))


def mean_window_discount(length: int, alpha: float, samples: int = 61) -> float:
    """The mean over positions of a window's variance in units of a node's, from evenly spaced ones."""
    period = 1 << length.bit_length()
    starts = [period + 1 + i * period // samples for i in range(samples)]
    return math.fsum(window_variance(a, a + length - 1, alpha) for a in starts) / samples


def squared_weights(decay: float, cross: float) -> float:
    """sum over i >= 1 of S_i^2, S_i = sum_{j < i} (1 - cross)^j decay^(i - 1 - j), decay = (1-alpha)^M."""
    a, b = 1.0 - cross, decay
    if a == b:
        return (1.0 + a * a) / (1.0 - a * a) ** 3
    squares = a * a / (1.0 - a * a) - 2.0 * a * b / (1.0 - a * b) + b * b / (1.0 - b * b)
    return squares / ((a - b) * (a - b))


def reduced_variance(
    t: int, batches: int, alpha: float, cross: float, early: float, late: float, small: float
) -> tuple[float, float, float, float, float]:
    """Variance per coordinate of the sensitivity-reduced momentum's noise at step t, by its parts.

    Parameters
    ----------
    t, batches : int
        Step, and M.
    alpha, cross : float
    early, late : float
        Variance of a node of tree G that ends at step 2 M or before, and after.
    small : float
        Variance of a node of the trees Delta and r.

    Returns
    -------
    first, second, gamma, delta, residual : float
        Of the prefix and the window of G that enter in full, of the earlier windows of G (weight
        ``cross``) and of Delta, and of r. All are independent.
    """

    def of_g(y: int, z: int) -> float:
        return early if z <= 2 * batches else late

    q, r = divmod(t, batches)
    decay = power(1.0 - alpha, batches)
    square = alpha * alpha
    first = power(decay, 2 * q) * window_variance(1, r, alpha, of_g)
    second = gamma = delta = 0.0
    weight = 0.0  # S_i
    ahead = 1.0  # (1 - cross)^i
    peak = 0.0
    for i in range(1, q + 1):
        weight, ahead = decay * weight + ahead, ahead * (1.0 - cross)
        if i == q:
            second = weight * weight * window_variance(r + 1, r + batches, alpha, of_g)
            break
        peak = max(peak, weight)
        if weight < 1e-9 * peak:  # and falling: nothing that a double would notice is left
            break
        a, b = t - i * batches + 1, t - (i - 1) * batches
        unit = weight * weight
        gamma += unit * cross * cross * window_variance(a, b, alpha, of_g)
        delta += unit * (1.0 - cross) ** 2 * small * window_variance(a, b, alpha)
    residual = small * prefix_discount(t, alpha)
    return square * first, square * second, square * gamma, square * delta, square * residual
