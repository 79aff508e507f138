"""Stochastic gradient descent with private gradients: the whole path.

Source: Dette & Graw, Algorithm 1, eq. (2), (3), (6), (9), and Remark 2.1 with eq. (4) for
mini-batches. Algorithm 1 prints "theta + c i^-gamma A(...)"; the sign is minus, as in eq. (6).
Steps and records are numbered from 1, as in print.
"""

import numpy as np

from tests.oracles.mechanisms import debias, keep_probability, randomized_response


def learning_rate(i, c, gamma):
    return c * float(i) ** (-gamma)


def ldp_sgd_path(x, private_gradient, theta0, c, gamma):
    """theta_i = theta_{i-1} - eta_i private_gradient(i, x_i, theta_{i-1}), i = 1..n: array (n, d)."""
    theta = np.atleast_1d(np.asarray(theta0, dtype=float)).copy()
    path = np.empty((len(x), theta.size))
    for i in range(1, len(x) + 1):
        direction = np.atleast_1d(np.asarray(private_gradient(i, x[i - 1], theta), dtype=float))
        theta = theta - learning_rate(i, c, gamma) * direction
        path[i - 1] = theta
    return path


def quantile_gradient(x, theta, tau):
    theta = np.atleast_1d(np.asarray(theta, dtype=float))
    return np.array([-tau + (1.0 if x <= theta[0] else 0.0)])


def quantile_regression_gradient(covariates, response, theta, tau):
    residual = float(response)
    for x, coefficient in zip(covariates, theta, strict=True):
        residual -= x * coefficient
    return (-tau + (1.0 if residual <= 0.0 else 0.0)) * np.asarray(covariates)


def private_quantile_gradient(tau, epsilon, u):
    """A(g) = -tau + (RR(1{x <= theta}) - (1 - p)) / (2 p - 1); u[i - 1] serves record i."""
    u = np.asarray(u, dtype=float)
    p = keep_probability(epsilon)

    def gradient(i, x_i, theta):
        bit = 1 if x_i <= theta[0] else 0
        return np.array([-tau + debias(randomized_response(bit, p, u[i - 1]), p)])

    return gradient


def minibatch_path(x, gradient, theta0, c, gamma, s, noise=None):
    """Step k averages gradient(i, x_i, theta) of its records (k-1)s+1, ..., ks; floor(n/s) steps.

    With a curator (Remark 2.1, central DP) row k - 1 of the scaled ``noise`` is added to the sum of step k.
    """
    batches = [range((k - 1) * s + 1, k * s + 1) for k in range(1, len(x) // s + 1)]

    def mean_gradient(k, batch, theta):
        total = np.zeros(theta.size) if noise is None else np.asarray(noise[k - 1], dtype=float)
        for i in batch:
            total = total + np.atleast_1d(gradient(i, x[i - 1], theta))
        return total / s

    return ldp_sgd_path(batches, mean_gradient, theta0, c, gamma)
