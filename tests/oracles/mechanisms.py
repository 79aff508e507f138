"""Local randomisers, from given random numbers.

Source: Dette & Graw, "Uncertainty quantification by block bootstrap for differentially private
stochastic gradient descent": randomised response and the Laplace mechanism.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray


def keep_probability(epsilon: float) -> float:
    """p = e^eps / (1 + e^eps), the chance to report the bit itself; 1 at eps = infinity."""
    if math.isinf(epsilon):
        return 1.0
    odds = math.exp(epsilon)
    return odds / (1.0 + odds)


def randomized_response(bit: int, p: float, u: float) -> int:
    """Report the bit when the uniform `u` is below `p`, its complement otherwise."""
    if bit not in (0, 1):
        raise ValueError(f"not a bit: {bit}")
    if u < p:
        return int(bit)
    return 1 - int(bit)


def debias(report: int, p: float) -> float:
    """(report - (1 - p)) / (2 p - 1), whose mean given the bit is the bit."""
    return (report - (1.0 - p)) / (2.0 * p - 1.0)


def randomized_response_variance(epsilon: float) -> float:
    """Variance of the debiased report given the bit: p (1 - p) / (2 p - 1)^2."""
    p = keep_probability(epsilon)
    return p * (1.0 - p) / (2.0 * p - 1.0) ** 2


def laplace_scale(sensitivity: float, epsilon: float) -> float:
    """Delta / eps (printed once, in Remark 2.1, as Delta * eps: a misprint)."""
    return sensitivity / epsilon


def add_laplace(
    value: ArrayLike, sensitivity: float, epsilon: float, standard: ArrayLike
) -> NDArray[np.float64]:
    """Value plus scaled noise, one standard Laplace variate (density e^-|x| / 2) per entry."""
    value = np.atleast_1d(np.asarray(value, dtype=float))
    standard = np.atleast_1d(np.asarray(standard, dtype=float))
    if value.shape != standard.shape:
        raise ValueError("one standard Laplace variate per entry")
    out = np.empty_like(value)
    for j in range(value.size):
        out[j] = value[j] + laplace_scale(sensitivity, epsilon) * standard[j]
    return out


def quantile_sensitivity() -> float:
    """Delta of -tau + 1{x <= theta}: two values one apart."""
    return 1.0


def quantile_regression_sup_norm(d: int, bound: float) -> float:
    """sup ||x||_1 for x = (1, x_2, ..., x_d), |x_j| <= bound."""
    total = 1.0
    for _ in range(d - 1):
        total += bound
    return total


def quantile_regression_sensitivity(tau: float, d: int, bound: float) -> float:
    """Delta = 2 max(tau, 1 - tau) sup ||x||_1.

    The paper prints 2 max(tau, 1 - tau) * bound * d, the same at bound = 1. An upper bound on
    sup ||g(x) - g(x')||_1, attained at tau = 1/2.
    """
    return 2.0 * max(tau, 1.0 - tau) * quantile_regression_sup_norm(d, bound)
