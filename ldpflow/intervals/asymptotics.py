"""Asymptotic covariance of the average (Polyak and Ruppert; Dette and Graw, Theorem 3.1).

sqrt(steps) (thetabar - theta*) -> N(0, Sigma),   Sigma = G^-1 S G^-1,   S = S_SGD + S_LDP
"""

from __future__ import annotations

import math
from functools import lru_cache

from mpmath import matrix

from ldpflow import constants
from ldpflow.intervals.record import PathSource

__all__ = ["asymptotic_covariance", "asymptotic_variances"]


def asymptotic_variances(path: PathSource) -> tuple[float, ...]:
    """Diagonal of Sigma per step, length d."""
    return tuple(row[j] for j, row in enumerate(asymptotic_covariance(path)))


@lru_cache(maxsize=256)
def asymptotic_covariance(path: PathSource) -> tuple[tuple[float, ...], ...]:
    """Sigma per step, by rows; NaN where the limit law is not known."""
    with constants.workdps(40):
        curvature = path.problem.curvature()
        d = len(curvature)
        if any(math.isnan(value) for row in curvature for value in row):
            return ((math.nan,) * d,) * d
        inverse = matrix(curvature) ** -1
        covariance = matrix(path.algorithm.step_covariance(path.problem, path.randomiser))
        sigma = inverse * covariance * inverse.T
        return tuple(tuple(float(sigma[j, k]) for k in range(d)) for j in range(d))
