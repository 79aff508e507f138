"""Self-normalisation ("random scaling"), from a stored path.

Source: Liu, Hu, Ding & Kong (2023), "Online local differential private quantile inference via
self-normalization", as compared with by Dette & Graw.
"""

from functools import cache

import mpmath
import numpy as np


def variance(path):
    """V_j = n^-2 sum_{i=1}^n i^2 (thetabar_i - thetabar_n)_j^2, running means one by one: (d,)."""
    n = len(path)
    terms = (i**2 * (path[:i].mean(axis=0) - path.mean(axis=0)) ** 2 for i in range(1, n + 1))
    return sum(terms) / n**2


def tail_probability(q):
    """P(|T| > q) = (2/pi) int_0^{pi/2} sqrt((q / sin a) / sinh(q / sin a)) da.

    T = W(1) / sqrt(int_0^1 (W(r) - r W(1))^2 dr), W a Brownian motion. From Craig's form of the
    normal tail and the Laplace transform of the squared Brownian bridge's integral, which is
    independent of W(1).
    """

    def integrand(angle):
        ratio = q / mpmath.sin(angle)
        if ratio > 1000:  # below e^-490
            return mpmath.mpf(0)
        return mpmath.sqrt(ratio / mpmath.sinh(ratio))

    knots = [0, mpmath.pi / 16, mpmath.pi / 8, mpmath.pi / 4, mpmath.pi / 2]
    return 2 / mpmath.pi * mpmath.quad(integrand, knots)


@cache
def critical_value(level):
    """cv with P(|T| <= cv) = level."""
    with mpmath.workdps(20):
        miss = 1 - mpmath.mpf(str(level))
        return float(mpmath.findroot(lambda q: tail_probability(q) - miss, (1, 20), solver="anderson"))


def interval(path, level):
    """thetabar_n +- cv_level sqrt(V_j / n), level = 1 - 2a."""
    center = path.mean(axis=0)
    half = critical_value(level) * np.sqrt(variance(path) / len(path))
    return center - half, center + half
