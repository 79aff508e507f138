"""Ellipsoids around the average of a vector: whether they hold a point, and their volume.

    n (thetabar - theta)' V^-1 (thetabar - theta) <= q

Source: any textbook (Hotelling, 1931, for batch means with F quantiles).
"""

import math
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from tests.oracles import batch_means
from tests.oracles.recursion import average

Vector = NDArray[np.float64]


def statistic(mean: Vector, theta: Vector, V: Vector, n: int) -> float:
    """n (mean - theta)' V^-1 (mean - theta)."""
    return float(n * (mean - theta) @ np.linalg.inv(V) @ (mean - theta))


def volume(V: Vector, n: int, q: float) -> float:
    """Unit ball's volume times q^(d/2) det(V/n)^(1/2)."""
    d = len(V)
    ball = math.pi ** (d / 2) / math.gamma(d / 2 + 1)
    return ball * q ** (d / 2) * math.sqrt(np.linalg.det(V / n))


def chi2(level: float, d: int) -> float:
    """Quantile of chi-squared with d degrees."""
    return float(stats.chi2.ppf(level, d))


def hotelling(level: float, d: int, M: int) -> float:
    """d (M - 1)/(M - d) times the quantile of F with d and M - d degrees."""
    return float(d * (M - 1) / (M - d) * stats.f.ppf(level, d, M - d))


def batch_means_matrix(path: Vector, M: int, gamma: float | str, divisor: int) -> Vector:
    """sum_k n_k (X_k - Xbar)(X_k - Xbar)' / divisor over BM's batches."""
    ends = batch_means.batch_ends(len(path), M, gamma)
    centre = average(path[ends[0] :])
    V = np.zeros((path.shape[1], path.shape[1]))
    for begin, end in pairwise(ends):
        deviation = average(path[begin:end]) - centre
        V += (end - begin) * np.outer(deviation, deviation)
    return V / divisor
