"""Self-normalisation ("random scaling"), from a stored path.

Source: Liu, Hu, Ding & Kong (2023), "Online local differential private quantile inference via
self-normalization", as compared with by Dette & Graw.
"""

from functools import cache

import mpmath
import numpy as np


def variance(path):
    """V_j = n^-2 sum_{i=1}^n i^2 (thetabar_i - thetabar_n)_j^2, running means one by one: (d,)."""
    n, d = path.shape
    theta_bar_n = path.mean(axis=0)
    V = np.zeros(d)
    for i in range(1, n + 1):
        theta_bar_i = path[:i].mean(axis=0)
        V += i**2 * (theta_bar_i - theta_bar_n) ** 2
    return V / n**2


def tail_probability(q):
    """P(|T| > q) = (2/pi) int_0^{pi/2} sqrt((q / sin a) / sinh(q / sin a)) da.

    T = W(1) / sqrt(int_0^1 (W(r) - r W(1))^2 dr), W a Brownian motion. From Craig's form of the
    normal tail and the Laplace transform of the squared Brownian bridge's integral, which is
    independent of W(1).
    """
    if q == 0:
        return mpmath.mpf(1)

    def integrand(angle):
        ratio = q / mpmath.sin(angle)
        if ratio > 1000:  # below e^-490
            return mpmath.mpf(0)
        return mpmath.sqrt(ratio / mpmath.sinh(ratio))

    knots = [0, mpmath.pi / 16, mpmath.pi / 8, mpmath.pi / 4, mpmath.pi / 2]
    return 2 / mpmath.pi * mpmath.quad(integrand, knots)


@cache
def critical_value(level):
    """cv with P(|T| <= cv) = level, by bisection on the quadrature; any level in (0, 1)."""
    if not 0.0 < level < 1.0:
        raise ValueError("level must lie in (0, 1)")
    with mpmath.workdps(20):
        target = 1 - mpmath.mpf(str(level))
        low, high = mpmath.mpf(0), mpmath.mpf(1)
        while tail_probability(high) > target:
            low, high = high, 2 * high
        while high - low > mpmath.mpf("1e-12") * high:
            middle = (low + high) / 2
            if tail_probability(middle) > target:
                low = middle
            else:
                high = middle
        return float((low + high) / 2)


def interval(path, level):
    """thetabar_n +- cv_level sqrt(V_j / n), level = 1 - 2a."""
    center = path.mean(axis=0)
    half = critical_value(level) * np.sqrt(variance(path) / len(path))
    return center - half, center + half
