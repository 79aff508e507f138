"""Local randomisers, from given random numbers.

Source: Dette & Graw, "Uncertainty quantification by block bootstrap for differentially private
stochastic gradient descent": randomised response and the Laplace mechanism.
"""

import math


def keep_probability(epsilon):
    """p = e^eps / (1 + e^eps), the chance to report the bit itself."""
    odds = math.exp(epsilon)
    return odds / (1.0 + odds)


def randomized_response(bit, p, u):
    """Report the bit when the uniform `u` is below `p`, its complement otherwise."""
    return bit if u < p else 1 - bit


def debias(report, p):
    """(report - (1 - p)) / (2 p - 1), whose mean given the bit is the bit."""
    return (report - (1.0 - p)) / (2.0 * p - 1.0)


def randomized_response_variance(epsilon):
    """Variance of the debiased report given the bit: p (1 - p) / (2 p - 1)^2."""
    p = keep_probability(epsilon)
    return p * (1.0 - p) / (2.0 * p - 1.0) ** 2


def quantile_regression_sensitivity(tau, d, bound):
    """Delta = 2 max(tau, 1 - tau) sup ||x||_1, x = (1, x_2, ..., x_d), |x_j| <= bound.

    The paper prints 2 max(tau, 1 - tau) * bound * d, the same at bound = 1. An upper bound on
    sup ||g(x) - g(x')||_1, attained at tau = 1/2.
    """
    return 2.0 * max(tau, 1.0 - tau) * (1.0 + (d - 1) * bound)
