"""Distribution functions of the standard laws, for kernels: same bits on every processor.

Errors are absolute, in probability, and are tested against mpmath.
"""

from __future__ import annotations

import numpy as np

from ldpflow.random.elementary import exp, fma, jit

__all__ = [
    "cdf_exponential",
    "cdf_laplace",
    "cdf_logistic",
    "cdf_normal",
    "cdf_uniform",
    "density_logistic",
    "density_normal",
    "slope_logistic",
    "slope_normal",
]


@jit
def cdf_normal(x):  # type: ignore[no-untyped-def]
    """Phi(x); error below 1e-13.

    Phi(-|x|) = exp(-x^2/2) p(t) with t = 1/(1 + |x|/4); the polynomial p is a Chebyshev interpolant
    of Phi(-|x|) exp(x^2/2) whose error, weighted with exp(-x^2/2), is 3e-14.
    """
    size = np.abs(x)
    t = 1.0 / (1.0 + 0.25 * size)
    p = fma(t, 0.002445055682319712, -0.024370131603494813)
    p = fma(p, t, 0.10682873263894295)
    p = fma(p, t, -0.26826589406364326)
    p = fma(p, t, 0.4222063686907598)
    p = fma(p, t, -0.4352275420028846)
    p = fma(p, t, 0.3148939278287191)
    p = fma(p, t, -0.17925224882554006)
    p = fma(p, t, 0.06613946233482045)
    p = fma(p, t, -0.013433942136618212)
    p = fma(p, t, 0.02792118179128932)
    p = fma(p, t, 0.04252984108854223)
    p = fma(p, t, 0.06358229418904586)
    p = fma(p, t, 0.08102940850357741)
    p = fma(p, t, 0.09350235158489752)
    p = fma(p, t, 0.09973556414370417)
    p = fma(p, t, 0.09973557015562391)
    p = fma(p, t, -8.526825685352701e-14)
    tail = exp(-0.5 * size * size) * p
    return tail if x < 0.0 else 1.0 - tail


@jit
def cdf_laplace(x):  # type: ignore[no-untyped-def]
    """exp(x)/2 below 0, 1 - exp(-x)/2 above; error below 1e-15."""
    tail = 0.5 * exp(-np.abs(x))
    return tail if x < 0.0 else 1.0 - tail


@jit
def cdf_exponential(x):  # type: ignore[no-untyped-def]
    """1 - exp(-x) for x > 0; error below 1e-15."""
    return 1.0 - exp(-max(x, 0.0))


@jit
def cdf_logistic(x):  # type: ignore[no-untyped-def]
    """1/(1 + exp(-x)); error below 1e-15."""
    return 1.0 / (1.0 + exp(-x))


@jit
def cdf_uniform(x):  # type: ignore[no-untyped-def]
    """x, clipped to [0, 1]."""
    return min(max(x, 0.0), 1.0)


@jit
def density_normal(x):  # type: ignore[no-untyped-def]
    """phi(x)."""
    return 0.3989422804014327 * exp(-0.5 * x * x)


@jit
def slope_normal(x):  # type: ignore[no-untyped-def]
    """phi'(x) = -x phi(x)."""
    return -x * density_normal(x)


@jit
def density_logistic(x):  # type: ignore[no-untyped-def]
    """F(x) (1 - F(x))."""
    f = cdf_logistic(x)
    return f * (1.0 - f)


@jit
def slope_logistic(x):  # type: ignore[no-untyped-def]
    """F(x) (1 - F(x)) (1 - 2 F(x))."""
    f = cdf_logistic(x)
    return f * (1.0 - f) * (1.0 - 2.0 * f)
