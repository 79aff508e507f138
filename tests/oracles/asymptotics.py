"""Asymptotic variances Sigma = G^-1 (S_SGD + S_LDP) G^-1 and the interval that knows them.

Source: Dette & Graw, quantile and quantile regression examples. Two misprints are set right:
S_LDP of randomised response is e^eps / (e^eps - 1)^2 (printed without the square), and the
sensitivity of quantile regression uses sup ||x||_1 (printed: bound * d).
"""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from tests.oracles.mechanisms import quantile_regression_sensitivity, quantile_sensitivity

Array = NDArray[np.float64]


def law(kind: str, location: float = 0.0, scale: float = 1.0, df: float | None = None) -> Any:
    """A SciPy distribution: location + scale * standard variate.

    Standard: N(0,1); Laplace density e^-|x|/2; exponential of mean 1; uniform on [0, 1];
    Student t with `df` degrees of freedom.
    """
    if kind == "normal":
        return stats.norm(location, scale)
    if kind == "laplace":
        return stats.laplace(location, scale)
    if kind == "exponential":
        return stats.expon(location, scale)
    if kind == "uniform":
        return stats.uniform(location, scale)
    if kind == "student_t":
        return stats.t(df, location, scale)
    raise ValueError(f"unknown law: {kind}")


def quantile_truth(distribution: Any, tau: float) -> float:
    """theta* = x_tau, F(x_tau) = tau."""
    return float(distribution.ppf(tau))


def quantile_g(distribution: Any, tau: float) -> float:
    """G = p(x_tau)."""
    return float(distribution.pdf(quantile_truth(distribution, tau)))


def quantile_s_sgd(tau: float) -> float:
    """S_SGD = tau (1 - tau)."""
    return tau * (1.0 - tau)


def quantile_s_ldp(mechanism: str, epsilon: float) -> float:
    """Variance the mechanism adds: e^eps/(e^eps-1)^2, 2 (Delta/eps)^2 with Delta = 1, or 0."""
    if mechanism == "none" or math.isinf(epsilon):
        return 0.0
    if mechanism == "randomized_response":
        return math.exp(epsilon) / (math.exp(epsilon) - 1.0) ** 2
    if mechanism == "laplace":
        return 2.0 * (quantile_sensitivity() / epsilon) ** 2
    raise ValueError(f"unknown mechanism: {mechanism}")


def quantile_sigma(
    distribution: Any, tau: float, epsilon: float, mechanism: str = "randomized_response"
) -> float:
    """Sigma = (S_SGD + S_LDP) / p(x_tau)^2."""
    s = quantile_s_sgd(tau) + quantile_s_ldp(mechanism, epsilon)
    return s / quantile_g(distribution, tau) ** 2


def covariate_law(kind: str, bound: float) -> Any:
    """`bound` times a standard normal truncated to [-1, 1], or uniform on [-bound, bound]."""
    if kind == "truncated_normal":
        return stats.truncnorm(-1.0, 1.0, 0.0, bound)
    if kind == "uniform":
        return stats.uniform(-bound, 2.0 * bound)
    raise ValueError(f"unknown covariates: {kind}")


def regression_sigma_x(covariates: str, d: int, bound: float) -> Array:
    """Sigma_X = E x x' for x = (1, x_2, ..., x_d), slopes' covariates iid: array (d, d)."""
    column = covariate_law(covariates, bound)
    first, second = column.moment(1), column.moment(2)
    sigma_x = np.empty((d, d))
    for i in range(d):
        for j in range(d):
            if i == j:
                sigma_x[i, j] = 1.0 if i == 0 else second
            elif i == 0 or j == 0:
                sigma_x[i, j] = first
            else:
                sigma_x[i, j] = first * first
    return sigma_x


def error_density_at_zero(error: Any, tau: float) -> float:
    """p_e(0) of e = Z - F_Z^-1(tau), the error shifted so that F_e(0) = tau."""
    return float(error.pdf(error.ppf(tau)))


def regression_g(error: Any, tau: float, sigma_x: ArrayLike) -> Array:
    """G = Sigma_X p_e(0)."""
    return np.asarray(sigma_x, dtype=float) * error_density_at_zero(error, tau)


def regression_s_sgd(tau: float, sigma_x: ArrayLike) -> Array:
    """S_SGD = tau (1 - tau) Sigma_X."""
    return tau * (1.0 - tau) * np.asarray(sigma_x, dtype=float)


def regression_s_ldp(mechanism: str, epsilon: float, tau: float, d: int, bound: float) -> Array:
    """S_LDP = 2 (Delta / eps)^2 I for the Laplace mechanism; 0 without."""
    if mechanism == "none" or math.isinf(epsilon):
        return np.zeros((d, d))
    if mechanism == "laplace":
        sensitivity = quantile_regression_sensitivity(tau, d, bound)
        return 2.0 * (sensitivity / epsilon) ** 2 * np.eye(d)
    raise ValueError(f"unknown mechanism: {mechanism}")


def regression_sigma(
    error: Any,
    tau: float,
    epsilon: float,
    d: int = 4,
    bound: float = 1.0,
    covariates: str = "truncated_normal",
    mechanism: str = "laplace",
) -> Array:
    """Sigma = G^-1 (S_SGD + S_LDP) G^-1: array (d, d)."""
    sigma_x = regression_sigma_x(covariates, d, bound)
    g_inverse = np.linalg.inv(regression_g(error, tau, sigma_x))
    s = regression_s_sgd(tau, sigma_x) + regression_s_ldp(mechanism, epsilon, tau, d, bound)
    return g_inverse @ s @ g_inverse


def oracle_interval(theta_bar: ArrayLike, sigma: ArrayLike, n: int, level: float) -> tuple[Array, Array]:
    """thetabar +- z_{1-a} sqrt(Sigma_jj / n), level = 1 - 2a; sigma a number or (d, d)."""
    theta_bar = np.atleast_1d(np.asarray(theta_bar, dtype=float))
    diagonal = np.diag(np.atleast_2d(np.asarray(sigma, dtype=float)))
    half = stats.norm.ppf(1.0 - (1.0 - level) / 2.0) * np.sqrt(diagonal / n)
    return theta_bar - half, theta_bar + half
