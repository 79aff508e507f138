"""Asymptotic covariance of the average (Polyak and Ruppert; Dette and Graw, Theorem 3.1).

sqrt(steps) (thetabar - theta*) -> N(0, Sigma),   Sigma = G^-1 S G^-1,   S = S_SGD + S_LDP
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from mpmath import matrix

from ldpflow import constants

__all__ = ["asymptotic_variances"]


@lru_cache(maxsize=256)
def asymptotic_variances(path: Any) -> tuple[float, ...]:
    """Diagonal of Sigma per step, length d."""
    with constants.workdps(40):
        if any(math.isnan(value) for row in path.problem.curvature() for value in row):
            return (math.nan,) * len(path.problem.curvature())  # a limit law that is not known
        inverse = matrix(path.problem.curvature()) ** -1
        covariance = matrix(path.algorithm.step_covariance(path.problem, path.randomiser))
        sigma = inverse * covariance * inverse.T
        return tuple(float(sigma[j, j]) for j in range(path.problem.dimension))
