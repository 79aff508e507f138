"""Asymptotic variances Sigma = G^-1 (S_SGD + S_LDP) G^-1.

Source: Dette & Graw, quantile and quantile regression examples. Two misprints are set right:
S_LDP of randomised response is e^eps / (e^eps - 1)^2 (printed without the square), and the
sensitivity of quantile regression uses sup ||x||_1 (printed: bound * d).
"""

import numpy as np
from scipy import stats

from tests.oracles.mechanisms import quantile_regression_sensitivity, randomized_response_variance


def quantile_sigma(distribution, tau, epsilon):
    """Sigma = (S_SGD + S_LDP) / p(x_tau)^2, S_SGD = tau (1 - tau), by randomised response."""
    density = distribution.pdf(distribution.ppf(tau))
    return (tau * (1.0 - tau) + randomized_response_variance(epsilon)) / density**2


def regression_sigma(error, tau, epsilon, d, bound, covariates):
    """Sigma, shape (d, d): G = Sigma_X p_e(0), S_SGD = tau (1 - tau) Sigma_X, S_LDP = 2 (Delta / eps)^2 I.

    Sigma_X = E x x' for x = (1, x_2, ..., x_d), slopes' covariates centred and independent: `bound` times a
    standard normal truncated to [-1, 1], or uniform on [-bound, bound]. The error e = Z - F_Z^-1(tau).
    """
    column = {
        "truncated_normal": stats.truncnorm(-1.0, 1.0, 0.0, bound),
        "uniform": stats.uniform(-bound, 2.0 * bound),
    }[covariates]
    sigma_x = np.diag([1.0] + [column.moment(2)] * (d - 1))
    g_inverse = np.linalg.inv(sigma_x * error.pdf(error.ppf(tau)))
    added = 2.0 * (quantile_regression_sensitivity(tau, d, bound) / epsilon) ** 2
    return g_inverse @ (tau * (1.0 - tau) * sigma_x + added * np.eye(d)) @ g_inverse
