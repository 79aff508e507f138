"""Distribution functions of the standard laws, for kernels: same bits on every processor.

Errors are absolute, in probability, and are tested against mpmath.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from mpmath import mp, mpf
from numpy.typing import NDArray

from ldpflow import constants
from ldpflow.random.elementary import exp, expm1, fma, jit, log

TINY = 1e-300


@jit
def cdf_normal(x):  # type: ignore[no-untyped-def]
    """Phi(x); error below 1e-13."""
    size = np.abs(x)
    tail = exp(-0.5 * size * size) * tail_ratio(size)
    return tail if x < 0.0 else 1.0 - tail


@jit
def tail_ratio(size):  # type: ignore[no-untyped-def]
    """Phi(-|x|) exp(x^2/2).

    It is p(t) with t = 1/(1 + |x|/4); the polynomial p is a Chebyshev interpolant whose error, weighted with
    exp(-x^2/2), is 3e-14.
    """
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
    return p


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
def expansion_normal(x):  # type: ignore[no-untyped-def]
    """Phi(x), phi(x) and phi'(x) = -x phi(x)."""
    size = np.abs(x)
    e = exp(-0.5 * size * size)
    tail = e * tail_ratio(size)
    density = 0.3989422804014327 * e
    return (tail if x < 0.0 else 1.0 - tail), density, -x * density


@jit
def expansion_logistic(x):  # type: ignore[no-untyped-def]
    """F(x), F (1 - F) and F (1 - F) (1 - 2 F)."""
    f = cdf_logistic(x)
    return f, f * (1.0 - f), f * (1.0 - f) * (1.0 - 2.0 * f)


@jit
def cdf_bimodal(x):  # type: ignore[no-untyped-def]
    """N(-3/2, 1) and N(3/2, 1) in equal parts; error below 1e-13."""
    return 0.5 * (cdf_normal(x - 1.5) + cdf_normal(x + 1.5))


@jit
def cdf_lognormal(x, shape):  # type: ignore[no-untyped-def]
    """Phi(log(x)/shape) for x > 0; error below 2e-13."""
    p = cdf_normal(log(max(x, TINY)) / shape)
    return p if x > TINY else 0.0


@jit
def cdf_weibull(x, shape):  # type: ignore[no-untyped-def]
    """1 - exp(-x^shape) for x > 0; error below 1e-14."""
    p = -expm1(-min(exp(min(shape * log(max(x, TINY)), 7.0)), 700.0))
    return p if x > TINY else 0.0


@jit
def cdf_pareto(x, shape):  # type: ignore[no-untyped-def]
    """1 - x^-shape for x > 1; error below 1e-15."""
    return -expm1(-min(shape * log(max(x, 1.0)), 700.0))


@jit
def log1p(x):  # type: ignore[no-untyped-def]
    """log(1 + x) for x > -1; error below 1e-15 relative."""
    y = 1.0 + x
    return x if y == 1.0 else log(y) * (x / (y - 1.0))


TERMS = 10_000  # of a series or a continued fraction; some hundreds are needed at the largest shape


@jit
def cdf_gamma(x, shape, peak):  # type: ignore[no-untyped-def]
    """Regularised lower incomplete gamma function; error below 1e-13.

    peak = a log a - a - log Gamma(a), a = shape. Series below a + 1, continued fraction above
    (Abramowitz and Stegun 6.5.29 and 6.5.31, the second by Lentz's method).
    """
    if x <= TINY:
        return 0.0
    away = (x - shape) / shape
    # log(x^a e^-x / Gamma(a)), without its cancellation near the mode.
    size = log1p(away) if away > -0.5 else log(x / shape)
    front = exp(shape * (size - away) + peak)
    if x < shape + 1.0:
        term = 1.0 / shape
        total = term
        for k in range(1, TERMS):
            term *= x / (shape + k)
            total += term
            if term < 1e-17 * total:
                break
        return min(front * total, 1.0)
    b = x + 1.0 - shape
    c = 1.0 / TINY
    d = 1.0 / b
    h = d
    for k in range(1, TERMS):
        a = -k * (k - shape)
        b += 2.0
        d = 1.0 / (a * d + b)
        c = b + a / c
        h *= d * c
        if abs(d * c - 1.0) < 1e-16:
            break
    return max(1.0 - front * h, 0.0)


@jit
def beta_fraction(a, b, y):  # type: ignore[no-untyped-def]
    """Continued fraction of the incomplete beta function (Abramowitz and Stegun 26.5.8), by Lentz."""
    c = 1.0
    d = 1.0 / (1.0 - (a + b) * y / (a + 1.0))
    h = d
    for k in range(1, TERMS):
        even = k * (b - k) * y / ((a - 1.0 + 2 * k) * (a + 2 * k))
        d = 1.0 / (1.0 + even * d)
        c = 1.0 + even / c
        h *= d * c
        odd = -(a + k) * (a + b + k) * y / ((a + 2 * k) * (a + 1.0 + 2 * k))
        d = 1.0 / (1.0 + odd * d)
        c = 1.0 + odd / c
        h *= d * c
        if abs(d * c - 1.0) < 1e-16:
            break
    return h


@jit
def cdf_student_t(x, df, log_beta):  # type: ignore[no-untyped-def]
    """Student's t; log_beta = log B(df/2, 1/2). Error below 1e-13."""
    square = x * x / df
    if square < TINY:
        return 0.5
    y = 1.0 / (1.0 + square)
    # y^(df/2) (1 - y)^(1/2) / B(df/2, 1/2)
    front = exp(-0.5 * (log1p(1.0 / square) + df * log1p(square)) - log_beta)
    if y * (0.5 * df + 2.5) < 0.5 * df + 1.0:
        tail = front * beta_fraction(0.5 * df, 0.5, y) / df
    else:
        tail = 0.5 - front * beta_fraction(0.5, 0.5 * df, square * y)
    return tail if x < 0.0 else 1.0 - tail


def law_constants(name: str, parameter: float) -> tuple[float, ...]:
    """Arguments of a distribution function after x."""
    with constants.workdps(40):
        a = mpf(parameter)
        if name == "gamma":
            return (parameter, float(a * mp.log(a) - a - mp.loggamma(a)))
        if name == "student_t":
            half = a / 2
            return (parameter, float(mp.log(mp.beta(half, mpf(1) / 2))))
    return (parameter,) if name in ("lognormal", "weibull", "pareto") else ()


@cache
def over_array(name: str) -> Callable[..., None]:
    """Compiled loop of the distribution function of a law; its constants come last."""
    cdf = globals()[f"cdf_{name}"]

    @jit
    def fill(x, out, *further):  # type: ignore[no-untyped-def]
        for i in range(x.shape[0]):
            out[i] = cdf(x[i], *further)

    return fill  # type: ignore[no-any-return]


def cdf_values(name: str, z: NDArray[np.float64], parameter: float = 0.0) -> NDArray[np.float64]:
    """Distribution function of a standard law at every z, any shape of array.

    Parameters
    ----------
    name : str
        normal, laplace, exponential, uniform, logistic, student_t, bimodal, lognormal, weibull,
        pareto or gamma.
    z : ndarray of float
    parameter : float
        Degrees of freedom or shape of the law, if it has one.
    """
    flat = np.ascontiguousarray(z, dtype=np.float64).reshape(-1)
    out = np.empty_like(flat)
    further = law_constants(name, parameter)
    over_array(name)(flat, out, *further)
    return out.reshape(np.shape(z))
