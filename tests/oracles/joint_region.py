"""Ellipsoids around the average of a vector: whether they hold a point, and their volume.

    n (thetabar - theta)' V^-1 (thetabar - theta) <= q

Source: any textbook (Hotelling, 1931, for batch means with F quantiles).
"""

import math

import numpy as np
from scipy import stats


def statistic(mean, theta, V, n):
    """n (mean - theta)' V^-1 (mean - theta)."""
    return float(n * (mean - theta) @ np.linalg.inv(V) @ (mean - theta))


def volume(V, n, q):
    """Unit ball's volume times q^(d/2) det(V/n)^(1/2)."""
    d = len(V)
    ball = math.pi ** (d / 2) / math.gamma(d / 2 + 1)
    return ball * q ** (d / 2) * math.sqrt(np.linalg.det(V / n))


def hotelling(level, d, M):
    """d (M - 1)/(M - d) times the quantile of F with d and M - d degrees."""
    return float(d * (M - 1) / (M - d) * stats.f.ppf(level, d, M - d))
