"""Multiplier block bootstrap from a stored path.

Source: Dette & Graw, Algorithm 2, eq. (11), (12). Quantiles are Hyndman & Fan's type 7.
"""

import numpy as np


def block_deviations(path, l, m):
    """D_j = sum_{b=(j-1)l+1}^{jl} (theta_b - thetabar_n), j = 1..m: array (m, d).

    thetabar_n averages all n iterates, those after the last full block included.
    """
    deviations = path - path.mean(axis=0)
    return np.array([deviations[j * l : (j + 1) * l].sum(axis=0) for j in range(m)])


def bootstrap_replicates(path, l, m, eps):
    """thetabar*(k) = (1/(m l)) sum_j eps_j^(k) D_j, k = 1..B: array (B, d); eps has shape (B, m)."""
    return np.asarray(eps, dtype=float) @ block_deviations(path, l, m) / (m * l)


def conditional_sd(path, l, m):
    """Exact sd of thetabar* given the path, for multipliers of mean 0 and variance 1: (d,)."""
    return np.sqrt((block_deviations(path, l, m) ** 2).sum(axis=0)) / (m * l)


def interval(path, l, m, eps, level):
    """[thetabar + q_a, thetabar + q_{1-a}], level = 1 - 2a, per coordinate."""
    a = (1.0 - level) / 2.0
    # NumPy's quantiles are of type 7.
    lower, upper = np.quantile(bootstrap_replicates(path, l, m, eps), [a, 1.0 - a], axis=0)
    return path.mean(axis=0) + lower, path.mean(axis=0) + upper
