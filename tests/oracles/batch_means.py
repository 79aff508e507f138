"""Batch means with increasing batches, from a stored path.

Source: Chen, Lee, Tong & Zhang (2020), "Statistical inference for model parameters in stochastic
gradient descent", as compared with by Dette & Graw. Batch 0 is discarded.
"""

from decimal import Decimal, localcontext
from itertools import pairwise

import numpy as np

from tests.oracles.safe_floor import DIGITS, decimal_of, floor_power, safe_floor


def batch_count(n):
    """M = floor(n^(1/4)), our resolution of a number the paper does not print."""
    return floor_power(n, 0.25)


def batch_ends(n, M, gamma):
    """e_k = floor(((k+1)/(M+1))^(1/(1-gamma)) n), k = 0..M; e_M = n."""
    with localcontext() as context:
        context.prec = DIGITS
        exponent = 1 / (1 - decimal_of(gamma))
        return [safe_floor((Decimal(k + 1) / Decimal(M + 1)) ** exponent * n) for k in range(M + 1)]


def covariance(path, ends, centre):
    """(1/M) sum_k n_k (X_k - centre)(X_k - centre)', X_k the mean of steps e_{k-1}+1..e_k: array (d, d)."""
    V = np.zeros((path.shape[1], path.shape[1]))
    for begin, end in pairwise(ends):
        deviation = path[begin:end].mean(axis=0) - centre
        V += (end - begin) * np.outer(deviation, deviation)
    return V / (len(ends) - 1)


def variance(path, M, gamma):
    """V_jj around the mean of steps e_0+1..n: array (d,); NaN with M < 2 or an empty batch."""
    ends = batch_ends(len(path), M, gamma)
    if M < 2 or min(np.diff(ends)) < 1:
        return np.full(path.shape[1], np.nan)
    return np.diag(covariance(path, ends, path[ends[0] :].mean(axis=0)))
