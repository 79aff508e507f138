"""Batch means with increasing batches, from a stored path.

Source: Chen, Lee, Tong & Zhang (2020), "Statistical inference for model parameters in stochastic
gradient descent", as compared with by Dette & Graw. Batch 0 is discarded.
"""

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
from scipy import stats

from tests.oracles.recursion import average
from tests.oracles.safe_floor import DIGITS, decimal_of, floor_power, safe_floor


def batch_count(n):
    """M = floor(n^(1/4)), our resolution of a number the paper does not print."""
    return floor_power(n, Fraction(1, 4))


def batch_ends(n, M, gamma):
    """e_k = floor(((k+1)/(M+1))^(1/(1-gamma)) n), k = 0..M; e_M = n."""
    ends = []
    with localcontext() as context:
        context.prec = DIGITS
        exponent = 1 / (1 - decimal_of(gamma))
        for k in range(M + 1):
            share = Decimal(k + 1) / Decimal(M + 1)
            ends.append(safe_floor(share**exponent * n))
    return ends


def is_defined(ends):
    """At least two batches after batch 0, none of them empty. (Batch 0 itself may be empty.)"""
    M = len(ends) - 1
    return M >= 2 and all(ends[k] > ends[k - 1] for k in range(1, M + 1))


def batch_averages(path, ends):
    """X_k = mean of theta over steps e_{k-1}+1..e_k, k = 1..M: array (M, d)."""
    return np.array([average(path[ends[k - 1] : ends[k]]) for k in range(1, len(ends))])


def variance(path, M, gamma):
    """V_jj = (1/M) sum_{k=1}^M n_k (X_k - Xbar)_j^2, Xbar over steps e_0+1..n: array (d,).

    NaN where undefined: M < 2 or an empty batch.
    """
    n, d = path.shape
    ends = batch_ends(n, M, gamma)
    if not is_defined(ends):
        return np.full(d, np.nan)
    X = batch_averages(path, ends)
    X_bar = average(path[ends[0] :])
    V = np.zeros(d)
    for k in range(1, M + 1):
        V += (ends[k] - ends[k - 1]) * (X[k - 1] - X_bar) ** 2
    return V / M


def interval(path, M, gamma, level):
    """thetabar_n +- z_{1-a} sqrt(V_jj / n), level = 1 - 2a; NaN where undefined."""
    z = stats.norm.ppf(1.0 - (1.0 - level) / 2.0)
    half = z * np.sqrt(variance(path, M, gamma) / len(path))
    center = average(path)
    return center - half, center + half
