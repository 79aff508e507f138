"""Start of a path near theta*: how much of it is left in the average where the gradient is linear.

With R(theta) = G (theta - theta*) the mean of theta_i - theta* is exp(-G s_i)(theta0 - theta*), up to terms
of higher order in the steps, s_i = sum_{j <= i} eta_j. In the eigenvectors of G the average keeps the mean
of exp(-lambda s_i) of the distance. What the steps themselves do to the bias takes more than G and is not
predicted.
"""

from __future__ import annotations

import math

import numpy as np

from ldpflow import constants
from ldpflow.simulators.approach import LinearApproach
from ldpflow.theory.arrival import Arrival

__all__ = ["linear_arrivals", "mean_decay"]

EXACT = 400
RATIO = 1.015


def linear_arrivals(case: LinearApproach) -> list[Arrival]:
    """The arrival of every coordinate; no bias of the steps, and the standard error's own deviation.

    ``relaxation_times`` is that of the slowest direction.
    """
    eigenvalues, vectors = np.linalg.eigh(np.array(case.curvature))
    total = case.c * constants.sum_of_powers(1, case.steps, case.gamma)
    left = np.array([mean_decay(float(v) * case.c, case.gamma, case.steps) for v in eigenvalues])
    bias = vectors @ (left * (vectors.T @ np.array(case.distance)))
    found = []
    for j, variance in enumerate(case.variances):
        error = math.sqrt(variance / case.steps)
        b = float(bias[j]) / error
        found.append(
            Arrival(
                relaxation_times=float(eigenvalues[0]) * total,
                standard_error=error,
                bias=b,
                bias_start=b,
                bias_steps=0.0,
                sd_ratio=1.0,
                last_mean=math.nan,
            )
        )
    return found


def mean_decay(rate: float, gamma: float, steps: int) -> float:
    """(1/n) sum_{i <= n} exp(-rate sum_{j <= i} j^-gamma): step by step, then on a grid of ratio 1.015."""
    s = total = 0.0
    power = 1.0 - gamma
    i = 0
    while i < min(EXACT, steps):
        i += 1
        s += i**-gamma
        total += math.exp(-rate * s)
    while i < steps:
        j = min(steps, max(i + 1, int(i * RATIO)))
        ds = ((j + 0.5) ** power - (i + 0.5) ** power) / power
        a = rate * ds
        # The mean over i + 1 .. j of a decay that starts at the end of step i.
        width = j - i
        total += math.exp(-rate * s) * (width if a < 1e-12 else width * -math.expm1(-a) / a)
        s += ds
        i = j
    return total / steps
