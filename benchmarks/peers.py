"""Loops that a user could write in place of ldpflow: one replicate at a time, random numbers in the loop.

They use Numba with its defaults. The recursion is Algorithm 1 of Dette and Graw. It keeps S(t), the sum of
the iterates, at the times of ldpflow's kernels. One loop also keeps the sums of SN.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit
def naive_quantile_generator(rng, n, tau, p, c, gamma, truth, times, sums):
    """Path for a quantile of N(0, 1) under randomised response, with a NumPy Generator."""
    theta = 0.0
    total = 0.0
    t = 0
    for i in range(1, n + 1):
        x = rng.standard_normal()
        bit = x <= theta
        if rng.random() >= p:
            bit = not bit
        report = 1.0 if bit else 0.0
        gradient = (report - (1.0 - p)) / (2.0 * p - 1.0) - tau
        theta -= c * i**-gamma * gradient
        total += theta - truth
        if i == times[t]:
            sums[t] = total
            t += 1


@njit
def naive_quantile_legacy(seed, n, tau, p, c, gamma, truth, times, sums):
    """Path of :func:`naive_quantile_generator`, with ``np.random``: Numba's Mersenne Twister."""
    np.random.seed(seed)  # noqa: NPY002 (what is measured)
    theta = 0.0
    total = 0.0
    t = 0
    for i in range(1, n + 1):
        x = np.random.standard_normal()  # noqa: NPY002
        bit = x <= theta
        if np.random.random() >= p:  # noqa: NPY002
            bit = not bit
        report = 1.0 if bit else 0.0
        gradient = (report - (1.0 - p)) / (2.0 * p - 1.0) - tau
        theta -= c * i**-gamma * gradient
        total += theta - truth
        if i == times[t]:
            sums[t] = total
            t += 1


@njit
def naive_quantile_sn_generator(rng, n, tau, p, c, gamma, truth, times, sums, sn):
    """Path of :func:`naive_quantile_generator`, with the sums of SN: sum i S(i) and sum S(i)^2."""
    theta = 0.0
    total = 0.0
    weighted = 0.0
    squared = 0.0
    t = 0
    for i in range(1, n + 1):
        x = rng.standard_normal()
        bit = x <= theta
        if rng.random() >= p:
            bit = not bit
        report = 1.0 if bit else 0.0
        gradient = (report - (1.0 - p)) / (2.0 * p - 1.0) - tau
        theta -= c * i**-gamma * gradient
        total += theta - truth
        weighted += i * total
        squared += total * total
        if i == times[t]:
            sums[t] = total
            t += 1
    sn[0] = weighted
    sn[1] = squared


@njit
def naive_regression_generator(rng, n, tau, scale, c, gamma, truth, times, sums):
    """Path of quantile regression under Laplace noise. Covariates are N(0, 1) on [-1, 1], by rejection."""
    d = len(truth)
    theta = np.zeros(d)
    total = np.zeros(d)
    x = np.ones(d)
    t = 0
    for i in range(1, n + 1):
        y = rng.standard_normal() + truth[0]
        for j in range(1, d):
            draw = rng.standard_normal()
            while abs(draw) > 1.0:
                draw = rng.standard_normal()
            x[j] = draw
            y += draw * truth[j]
        fitted = 0.0
        for j in range(d):
            fitted += x[j] * theta[j]
        sign = (1.0 if y - fitted <= 0.0 else 0.0) - tau
        eta = c * i**-gamma
        for j in range(d):
            theta[j] -= eta * (sign * x[j] + rng.laplace(0.0, scale))
            total[j] += theta[j] - truth[j]
        if i == times[t]:
            for j in range(d):
                sums[t, j] = total[j]
            t += 1


def vectorised_quantile(rng, replicates, n, tau, p, c, gamma, truth):
    """Paths in plain NumPy: a Python loop over steps, with a vector of replicates in each step."""
    theta = np.zeros(replicates)
    total = np.zeros(replicates)
    for i in range(1, n + 1):
        bit = rng.standard_normal(replicates) <= theta
        report = bit == (rng.random(replicates) < p)
        gradient = (report - (1.0 - p)) / (2.0 * p - 1.0) - tau
        theta -= c * i**-gamma * gradient
        total += theta - truth
    return total
