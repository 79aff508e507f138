"""Asymptotic variances Sigma = G^-1 (S_SGD + S_LDP) G^-1 and the interval that knows them.

Source: Dette & Graw, quantile and quantile regression examples. Two misprints are set right:
S_LDP of randomised response is e^eps / (e^eps - 1)^2 (printed without the square), and the
sensitivity of quantile regression uses sup ||x||_1 (printed: bound * d).
"""

import math

import numpy as np
from scipy import stats

from tests.oracles.mechanisms import quantile_regression_sensitivity, randomized_response_variance


def law(kind, location=0.0, scale=1.0, df=None):
    """A SciPy distribution: location + scale * standard variate (uniform: [0, 1], exponential: mean 1)."""
    if kind == "student_t":
        return stats.t(df, location, scale)
    families = {"normal": stats.norm, "laplace": stats.laplace, "exponential": stats.expon}
    return {**families, "uniform": stats.uniform}[kind](location, scale)


def quantile_truth(distribution, tau):
    """theta* = x_tau, F(x_tau) = tau."""
    return float(distribution.ppf(tau))


def quantile_g(distribution, tau):
    """G = p(x_tau)."""
    return float(distribution.pdf(quantile_truth(distribution, tau)))


def quantile_sigma(distribution, tau, epsilon, mechanism="randomized_response"):
    """Sigma = (S_SGD + S_LDP) / p(x_tau)^2, S_SGD = tau (1 - tau).

    S_LDP is the variance the mechanism adds: e^eps/(e^eps-1)^2, 2 (Delta/eps)^2 with Delta = 1, or 0.
    """
    added = 0.0
    if mechanism == "randomized_response" and math.isfinite(epsilon):
        added = randomized_response_variance(epsilon)
    if mechanism == "laplace":
        added = 2.0 / epsilon**2
    return (tau * (1.0 - tau) + added) / quantile_g(distribution, tau) ** 2


def regression_sigma_x(covariates, d, bound):
    """Sigma_X = E x x' for x = (1, x_2, ..., x_d), (d, d), slopes' covariates iid.

    They are `bound` times a standard normal truncated to [-1, 1], or uniform on [-bound, bound].
    """
    column = {
        "truncated_normal": stats.truncnorm(-1.0, 1.0, 0.0, bound),
        "uniform": stats.uniform(-bound, 2.0 * bound),
    }[covariates]
    means = np.array([1.0] + [column.moment(1)] * (d - 1))
    sigma_x = np.outer(means, means)
    np.fill_diagonal(sigma_x, [1.0] + [column.moment(2)] * (d - 1))
    return sigma_x


def error_density_at_zero(error, tau):
    """p_e(0) of e = Z - F_Z^-1(tau), the error shifted so that F_e(0) = tau."""
    return float(error.pdf(error.ppf(tau)))


def regression_sigma(error, tau, epsilon, d=4, bound=1.0, covariates="truncated_normal", mechanism="laplace"):
    """Sigma = G^-1 (S_SGD + S_LDP) G^-1: array (d, d).

    G = Sigma_X p_e(0), S_SGD = tau (1 - tau) Sigma_X, S_LDP = 2 (Delta / eps)^2 I for the Laplace mechanism.
    """
    sigma_x = regression_sigma_x(covariates, d, bound)
    g_inverse = np.linalg.inv(sigma_x * error_density_at_zero(error, tau))
    added = 0.0
    if mechanism == "laplace":
        added = 2.0 * (quantile_regression_sensitivity(tau, d, bound) / epsilon) ** 2
    return g_inverse @ (tau * (1.0 - tau) * sigma_x + added * np.eye(d)) @ g_inverse


def oracle_interval(theta_bar, sigma, n, level):
    """thetabar +- z_{1-a} sqrt(Sigma_jj / n), level = 1 - 2a; sigma a number or (d, d)."""
    diagonal = np.diag(np.atleast_2d(sigma))
    half = stats.norm.ppf(1.0 - (1.0 - level) / 2.0) * np.sqrt(diagonal / n)
    return np.atleast_1d(theta_bar) - half, np.atleast_1d(theta_bar) + half
