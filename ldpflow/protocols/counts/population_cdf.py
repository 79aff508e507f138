"""Distribution function of a population at any point: same bits on every processor."""

from __future__ import annotations

import numpy as np

from ldpflow.random.distributions import (
    cdf_bimodal,
    cdf_exponential,
    cdf_gamma,
    cdf_laplace,
    cdf_logistic,
    cdf_lognormal,
    cdf_normal,
    cdf_pareto,
    cdf_student_t,
    cdf_uniform,
    cdf_weibull,
)
from ldpflow.random.elementary import jit

__all__ = ["cdf", "cdf_at"]

EMPIRICAL = 11


@jit
def empirical_cdf(x, population):  # type: ignore[no-untyped-def]
    """u with Q(u) = x, Q the quantile function given by cells; 0 and 1 outside its values."""
    q = population.q
    if x <= q[0]:
        return 0.0
    if x >= population.end:
        return 1.0
    low = 0
    high = q.shape[0]
    while high - low > 1:
        middle = (low + high) // 2
        if q[middle] <= x:
            low = middle
        else:
            high = middle
    slope = population.slope[low]
    rise = x - q[low]
    # The root of bend d^2 + slope d = rise, in the form that does not cancel.
    root = np.sqrt(max(slope * slope + 4.0 * population.bend[low] * rise, 0.0))
    return population.p[low] + 2.0 * rise / (slope + root)


@jit
def standard_cdf(code, x, shape, norm):  # type: ignore[no-untyped-def]
    """P(Z <= x) of the standard law with this code (see CODES); not for the empirical law."""
    if code == 0:
        return cdf_normal(x)
    if code == 1:
        return cdf_laplace(x)
    if code == 2:
        return cdf_exponential(x)
    if code == 3:
        return cdf_uniform(x)
    if code == 4:
        return cdf_logistic(x)
    if code == 5:
        return cdf_student_t(x, shape, norm)
    if code == 6:
        return cdf_bimodal(x)
    if code == 7:
        return cdf_lognormal(x, shape)
    if code == 8:
        return cdf_weibull(x, shape)
    if code == 9:
        return cdf_pareto(x, shape)
    return cdf_gamma(x, shape, norm)


@jit
def cdf(population, x):  # type: ignore[no-untyped-def]
    """F(x): the components' distribution functions by weight, within [0, 1]."""
    total = 0.0
    for i in range(population.codes.shape[0]):
        z = (x - population.locations[i]) / population.scales[i]
        code = population.codes[i]
        if code == EMPIRICAL:
            value = empirical_cdf(z, population)
        else:
            value = standard_cdf(code, z, population.shapes[i], population.norms[i])
        total += population.weights[i] * value
    return min(max(total, 0.0), 1.0)


def cdf_at(kernel, out, population, points):  # type: ignore[no-untyped-def]
    """F at every point of an array."""
    for i in range(points.shape[0]):
        out[i] = cdf(population, points[i])
