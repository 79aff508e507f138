"""Self-normalisation ("random scaling"), from a stored path.

Source: Liu, Hu, Ding & Kong (2023), "Online local differential private quantile inference via
self-normalization", as compared with by Dette & Graw.
"""

import math
from functools import cache

import numpy as np
from scipy import integrate, optimize


def variance(path):
    """V_j = n^-2 sum_{i=1}^n i^2 (thetabar_i - thetabar_n)_j^2, running means one by one; NaN at n = 1."""
    n = len(path)
    if n == 1:
        return np.full(path.shape[1], np.nan)
    terms = (i**2 * (path[:i].mean(axis=0) - path.mean(axis=0)) ** 2 for i in range(1, n + 1))
    return sum(terms) / n**2


def tail_probability(q):
    """P(|T| > q) = (2/pi) int_0^{pi/2} sqrt((q / sin a) / sinh(q / sin a)) da.

    T = W(1) / sqrt(int_0^1 (W(r) - r W(1))^2 dr), W a Brownian motion. From Craig's form of the
    normal tail and the Laplace transform of the squared Brownian bridge's integral, which is
    independent of W(1).
    """

    def integrand(angle):
        ratio = q / math.sin(angle)
        return math.sqrt(ratio / math.sinh(ratio)) if ratio < 700 else 0.0

    return 2 / math.pi * integrate.quad(integrand, 0, math.pi / 2, epsabs=1e-16, epsrel=1e-13)[0]


@cache
def critical_value(level):
    return optimize.brentq(lambda q: tail_probability(q) - (1 - level), 1, 20, xtol=1e-14)


def interval(path, level):
    """thetabar_n +- cv_level sqrt(V_j / n), level = 1 - 2a."""
    center = path.mean(axis=0)
    half = critical_value(level) * np.sqrt(variance(path) / len(path))
    return center - half, center + half
