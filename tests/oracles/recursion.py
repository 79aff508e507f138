"""Stochastic gradient descent with private gradients: the whole path.

Source: Dette & Graw, Algorithm 1, eq. (2), (3), (6), (9), and Remark 2.1 with eq. (4) for
mini-batches. Algorithm 1 prints "theta + c i^-gamma A(...)"; the sign is minus, as in eq. (6).
Steps and records are numbered from 1, as in print.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tests.oracles.mechanisms import (
    debias,
    keep_probability,
    laplace_scale,
    randomized_response,
)

Vector = NDArray[np.float64]
PrivateGradient = Callable[[int, Any, Vector], ArrayLike]
Gradient = Callable[[Any, Vector], ArrayLike]


def learning_rate(i: int, c: float, gamma: float) -> float:
    """eta_i = c i^(-gamma), i = 1, 2, ..."""
    return c * float(i) ** (-gamma)


def ldp_sgd_path(
    x: Sequence[Any],
    private_gradient: PrivateGradient,
    theta0: ArrayLike,
    c: float,
    gamma: float,
) -> Vector:
    """theta_i = theta_{i-1} - eta_i A(g(x_i, theta_{i-1})), i = 1..n.

    Parameters
    ----------
    x : the n records, in order.
    private_gradient : called as private_gradient(i, x_i, theta_{i-1}) with i = 1..n.
    theta0 : start; not part of the result, nor of the average.

    Returns
    -------
    Array (n, d) of theta_1, ..., theta_n.
    """
    theta = np.atleast_1d(np.asarray(theta0, dtype=float)).copy()
    path = np.empty((len(x), theta.size))
    for i in range(1, len(x) + 1):
        direction = np.atleast_1d(np.asarray(private_gradient(i, x[i - 1], theta), dtype=float))
        theta = theta - learning_rate(i, c, gamma) * direction
        path[i - 1] = theta
    return path


def average(path: Vector) -> Vector:
    """thetabar_n = (1/n) sum_{i=1}^n theta_i."""
    total = np.zeros(path.shape[1])
    for theta in path:
        total = total + theta
    return total / len(path)


def quantile_gradient(x: float, theta: ArrayLike, tau: float) -> Vector:
    """g = -tau + 1{x <= theta}."""
    theta = np.atleast_1d(np.asarray(theta, dtype=float))
    return np.array([-tau + (1.0 if x <= theta[0] else 0.0)])


def quantile_regression_gradient(
    covariates: ArrayLike, response: float, theta: ArrayLike, tau: float
) -> Vector:
    """g = (-tau + 1{y - x'theta <= 0}) x."""
    covariates = np.asarray(covariates, dtype=float)
    theta = np.asarray(theta, dtype=float)
    residual = float(response)
    for j in range(covariates.size):
        residual -= covariates[j] * theta[j]
    factor = -tau + (1.0 if residual <= 0.0 else 0.0)
    return np.array([factor * covariates[j] for j in range(covariates.size)])


def private_quantile_gradient(tau: float, epsilon: float, u: ArrayLike) -> PrivateGradient:
    """A(g) = -tau + (RR(1{x <= theta}) - (1 - p)) / (2 p - 1); u[i - 1] serves record i."""
    u = np.asarray(u, dtype=float)
    p = keep_probability(epsilon)

    def gradient(i: int, x_i: float, theta: Vector) -> Vector:
        bit = 1 if x_i <= theta[0] else 0
        return np.array([-tau + debias(randomized_response(bit, p, u[i - 1]), p)])

    return gradient


def minibatch_sgd_path(
    x: Sequence[Any], gradient: Gradient, theta0: ArrayLike, c: float, gamma: float, s: int
) -> Vector:
    """Mini-batch SGD without privacy, eq. (4): step k averages records (k-1)s+1, ..., ks.

    floor(n/s) steps; the n - s floor(n/s) last records are not used.
    """

    def mean_gradient(k: int, batch: Sequence[Any], theta: Vector) -> Vector:
        total = np.zeros(theta.size)
        for j in range(1, s + 1):
            total = total + np.atleast_1d(gradient(batch[j - 1], theta))
        return total / s

    return ldp_sgd_path(_batches(x, s), mean_gradient, theta0, c, gamma)


def minibatch_central_dp_path(
    x: Sequence[Any],
    gradient: Gradient,
    theta0: ArrayLike,
    c: float,
    gamma: float,
    s: int,
    sensitivity: float,
    epsilon: float,
    standard_laplace: ArrayLike,
) -> Vector:
    """Remark 2.1, central DP (Song et al. 2013): mean of s gradients + L_k / s.

    L_k ~ Lap(0, Delta / eps) per coordinate: row k - 1 of `standard_laplace` (steps, d), scaled.
    Needs a curator: not LDP.
    """
    noise = np.asarray(standard_laplace, dtype=float)

    def noisy_mean(k: int, batch: Sequence[Any], theta: Vector) -> Vector:
        total = np.zeros(theta.size)
        for j in range(1, s + 1):
            total = total + np.atleast_1d(gradient(batch[j - 1], theta))
        return total / s + laplace_scale(sensitivity, epsilon) * noise[k - 1] / s

    return ldp_sgd_path(_batches(x, s), noisy_mean, theta0, c, gamma)


def minibatch_ldp_path(
    x: Sequence[Any],
    private_gradient: PrivateGradient,
    theta0: ArrayLike,
    c: float,
    gamma: float,
    s: int,
) -> Vector:
    """Remark 2.1, LDP: mean over the s users of their own private gradients.

    `private_gradient(i, x_i, theta)` as in `ldp_sgd_path`, i the number of the record, 1..n; for
    the Laplace mechanism it is g + L_i with L_i ~ Lap(0, Delta / eps) of the user's own.
    """

    def mean_report(k: int, batch: Sequence[Any], theta: Vector) -> Vector:
        total = np.zeros(theta.size)
        for j in range(1, s + 1):
            record = (k - 1) * s + j
            total = total + np.atleast_1d(private_gradient(record, batch[j - 1], theta))
        return total / s

    return ldp_sgd_path(_batches(x, s), mean_report, theta0, c, gamma)


def _batches(x: Sequence[Any], s: int) -> list[list[Any]]:
    """Consecutive full batches of s records."""
    return [[x[(k - 1) * s + j - 1] for j in range(1, s + 1)] for k in range(1, len(x) // s + 1)]
