"""Multiplier block bootstrap from a stored path.

Source: Dette & Graw, Algorithm 2, eq. (11), (12). Quantiles are Hyndman & Fan's type 7.
"""

import math

import numpy as np
from numpy.typing import NDArray

from tests.oracles.recursion import average
from tests.oracles.safe_floor import floor_power

Array = NDArray[np.float64]


def block_length(n, beta):
    """l = floor(n^beta)."""
    return floor_power(n, beta)


def block_count(n, l):
    """m = floor(n / l)."""
    return n // l


def block_deviations(path, l, m):
    """D_j = sum_{b=(j-1)l+1}^{jl} (theta_b - thetabar_n), j = 1..m: array (m, d).

    thetabar_n averages all n iterates, those after the last full block included.
    """
    n, d = path.shape
    if not 1 <= m * l <= n:
        raise ValueError(f"{m} blocks of {l} do not fit in {n} steps")
    theta_bar = average(path)
    deviations = np.zeros((m, d))
    for j in range(1, m + 1):
        for b in range((j - 1) * l + 1, j * l + 1):
            deviations[j - 1] += path[b - 1] - theta_bar
    return deviations


def bootstrap_replicates(path, l, m, eps):
    """thetabar*(k) = (1/(m l)) sum_j eps_j^(k) D_j, k = 1..B.

    Parameters
    ----------
    path : array (n, d).
    eps : multipliers, array (B, m); one vector of m serves all coordinates.

    Returns
    -------
    Array (B, d).
    """
    eps = np.asarray(eps, dtype=float)
    deviations = block_deviations(path, l, m)
    if eps.ndim != 2 or eps.shape[1] != m:
        raise ValueError("multipliers must be (B, m)")
    replicates = np.zeros((eps.shape[0], path.shape[1]))
    for k in range(eps.shape[0]):
        for j in range(m):
            replicates[k] += eps[k, j] * deviations[j]
        replicates[k] /= m * l
    return replicates


def conditional_sd(path, l, m):
    """Exact sd of thetabar* given the path, for multipliers of mean 0 and variance 1: (d,)."""
    variance = np.zeros(path.shape[1])
    for deviation in block_deviations(path, l, m):
        variance += deviation**2
    return np.sqrt(variance) / (m * l)


def quantile_type7(values, probability):
    """Empirical quantile: linear between order statistics at h = (B - 1) probability (from 0)."""
    ordered = sorted(float(v) for v in np.asarray(values, dtype=float))
    h = (len(ordered) - 1) * probability
    low = math.floor(h)
    if low >= len(ordered) - 1:
        return ordered[-1]
    return ordered[low] + (h - low) * (ordered[low + 1] - ordered[low])


def interval(path, l, m, eps, level):
    """[thetabar + q_a, thetabar + q_{1-a}], level = 1 - 2a, per coordinate; NaN when m < 2."""
    d = path.shape[1]
    if m < 2:
        return np.full(d, np.nan), np.full(d, np.nan)
    a = (1.0 - level) / 2.0
    theta_bar = average(path)
    replicates = bootstrap_replicates(path, l, m, eps)
    lower, upper = np.empty(d), np.empty(d)
    for j in range(d):
        lower[j] = theta_bar[j] + quantile_type7(replicates[:, j], a)
        upper[j] = theta_bar[j] + quantile_type7(replicates[:, j], 1.0 - a)
    return lower, upper
