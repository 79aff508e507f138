"""Multiplier block bootstrap from a stored path.

Source: Dette & Graw, Algorithm 2, eq. (11), (12). Quantiles are Hyndman & Fan's type 7.
"""

import numpy as np

from tests.oracles.recursion import average
from tests.oracles.safe_floor import floor_power


def block_length(n, beta):
    """l = floor(n^beta)."""
    return floor_power(n, beta)


def block_deviations(path, l, m):
    """D_j = sum_{b=(j-1)l+1}^{jl} (theta_b - thetabar_n), j = 1..m: array (m, d).

    thetabar_n averages all n iterates, those after the last full block included.
    """
    n, d = path.shape
    assert 1 <= m * l <= n
    theta_bar = average(path)
    deviations = np.zeros((m, d))
    for j in range(1, m + 1):
        for b in range((j - 1) * l + 1, j * l + 1):
            deviations[j - 1] += path[b - 1] - theta_bar
    return deviations


def bootstrap_replicates(path, l, m, eps):
    """thetabar*(k) = (1/(m l)) sum_j eps_j^(k) D_j, k = 1..B: array (B, d); eps has shape (B, m)."""
    return np.asarray(eps, dtype=float) @ block_deviations(path, l, m) / (m * l)


def conditional_sd(path, l, m):
    """Exact sd of thetabar* given the path, for multipliers of mean 0 and variance 1: (d,)."""
    variance = np.zeros(path.shape[1])
    for deviation in block_deviations(path, l, m):
        variance += deviation**2
    return np.sqrt(variance) / (m * l)


def interval(path, l, m, eps, level):
    """[thetabar + q_a, thetabar + q_{1-a}], level = 1 - 2a, per coordinate; NaN when m < 2."""
    d = path.shape[1]
    if m < 2:
        return np.full(d, np.nan), np.full(d, np.nan)
    a = (1.0 - level) / 2.0
    # NumPy's quantiles are of type 7.
    lower, upper = np.quantile(bootstrap_replicates(path, l, m, eps), [a, 1.0 - a], axis=0)
    return average(path) + lower, average(path) + upper
