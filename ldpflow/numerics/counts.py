"""Binomial and multinomial counts of up to 2^52 trials, from counter streams.

A count has an address: the two key words of a counter stream (ldpflow.numerics.streams) and three counter
words (index, stage, turn). The fourth counter word numbers the attempts of the rejection method, so a count
does not depend on the number of attempts of other counts.

A count with a small mean is drawn by inversion. Others are drawn by transformed rejection with squeeze:
Hörmann, "The generation of binomial random variates", J. Statist. Comput. Simul. 46 (1993), algorithm BTRS.
The acceptance step compares probabilities in the saddle-point form of Loader, "Fast and accurate computation
of binomial probabilities" (2000), whose error does not grow with the number of trials. A uniform has 52 bits,
so the law is off by less than 2^-50 in total variation.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ldpflow.numerics.elementary import U64, exp, fma, jit, log, polynomial
from ldpflow.numerics.registers import philox
from ldpflow.numerics.samplers import unit

INVERSION_BELOW = 10.0  # means below are drawn by inversion: BTRS is proved for means from 10 on
INVERSION_ENDS = 200  # larger counts come from rounding errors alone: another uniform is drawn

# log k! - k log k + k for k = 0, ..., 15, with 0 log 0 = 0.
FACTORIAL_EXCESS = np.array([
    0.0, 1.0, 1.3068528194400546, 1.4959226032237258,
    1.6328763858683832, 1.7403021806115442, 1.828694396641771, 1.9037903176782212,
    1.9690705693065629, 2.0268062840554952, 2.0785616431350586, 2.12545984509181,
    2.168334698205882, 2.207822206123445, 2.244418568125061, 2.2785183673077407,
])  # fmt: skip


@njit(error_model="numpy", forceinline=True)
def uniform_pair(key0, key1, attempt, index, stage, turn):  # type: ignore[no-untyped-def]
    """Two uniforms on (0, 1) for one attempt at an address."""
    x0, x1, x2, x3 = philox(key0, key1, attempt, index, stage, turn)
    first = (x0 << U64(32)) | x1
    second = (x2 << U64(32)) | x3
    return unit(first), unit(second)


# atanh(s)/s as a series in s^2 up to s^18. For s^2 <= 1/49 the relative error is below 1e-17.
ATANH_SERIES = polynomial(*(1.0 / k for k in range(19, 0, -2)))
ATANH_EXCESS = polynomial(*(1.0 / k for k in range(17, 2, -2)))  # (atanh(s)/s - 1)/s^2
STIRLING_SERIES = polynomial(1.0 / 1188.0, -1.0 / 1680.0, 1.0 / 1260.0, -1.0 / 360.0, 1.0 / 12.0)


@jit
def log1m(x):  # type: ignore[no-untyped-def]
    """log(1 - x) for x in [0, 1). The relative error is below 1e-15.

    For x < 1/4 it is -2 atanh(s) with s = x/(2 - x) <= 1/7, computed by the Taylor series.
    """
    if x >= 0.25:
        return log(1.0 - x)
    s = x / (2.0 - x)
    return -2.0 * s * ATANH_SERIES(s * s)


@jit
def factorial_excess(k):  # type: ignore[no-untyped-def]
    """log k! - k log k + k by Stirling's series. The absolute error is 1e-15."""
    if k < 16.0:
        return FACTORIAL_EXCESS[np.int64(k)]
    r = 1.0 / k
    return fma(0.5, log(6.283185307179586 * k), STIRLING_SERIES(r * r) * r)


@jit
def deviance(x, distance, mean):  # type: ignore[no-untyped-def]
    """x log(x/mean) + mean - x (Loader, 2000). ``distance`` is x - mean, correct to its last bit."""
    total = x + mean
    if abs(distance) < 0.1 * total:
        s = distance / total
        v = s * s
        # 2 x atanh(s) - distance, where 2 x s - distance = distance s.
        return fma(2.0 * x * s * v, ATANH_EXCESS(v), distance * s)
    if x == 0.0:
        return mean
    return x * log(x / mean) - distance


@jit
def log_probability(k, n, mean, rest):  # type: ignore[no-untyped-def]
    """log P(Bin(n, p) = k) less a term that does not depend on k.

    ``mean`` is the product n p in double precision, ``rest`` its rounding error: mean + rest = n p.
    """
    distance = (k - mean) - rest
    return -(
        deviance(k, distance, mean)
        + deviance(n - k, -distance, n - mean)
        + factorial_excess(k)
        + factorial_excess(n - k)
    )


@jit
def by_inversion(key0, key1, index, stage, turn, n, p):  # type: ignore[no-untyped-def]
    """Bin(n, p) for n p < INVERSION_BELOW: the least k with u <= P(count <= k)."""
    ratio = p / (1.0 - p)
    none = exp(n * log1m(p))
    attempt = 0
    while True:
        u, _ = uniform_pair(key0, key1, attempt, index, stage, turn)
        term = none
        count = 0.0
        while u > term and count < INVERSION_ENDS:
            u -= term
            count += 1.0
            term *= ratio * (n - count + 1.0) / count
        if u <= term:
            return count
        attempt += 1


@jit
def by_rejection(key0, key1, index, stage, turn, n, p):  # type: ignore[no-untyped-def]
    """Bin(n, p) for p <= 1/2 and n p >= INVERSION_BELOW: Hörmann's BTRS."""
    mean = n * p
    rest = fma(n, p, -mean)
    sd = np.sqrt(mean * (1.0 - p))
    b = 1.15 + 2.53 * sd
    a = -0.0873 + 0.0248 * b + 0.01 * p
    alpha = (2.83 + 5.1 / b) * sd
    squeeze = 0.92 - 4.2 / b
    mode = np.floor(mean + p)
    centre = mean - mode + 0.5
    most = log_probability(mode, n, mean, rest)
    attempt = 0
    while True:
        u, v = uniform_pair(key0, key1, attempt, index, stage, turn)
        attempt += 1
        u -= 0.5
        side = 0.5 - abs(u)
        # The distance from the mode is rounded down: if n is large, a double holds no fraction of a count.
        count = mode + np.floor((2.0 * a / side + b) * u + centre)
        if side >= 0.07 and v <= squeeze:
            return count
        if count < 0.0 or count > n:
            continue
        v *= alpha / (a / (side * side) + b)
        if log(v) <= log_probability(count, n, mean, rest) - most:
            return count


@jit
def binomial(key0, key1, index, stage, turn, n, p):  # type: ignore[no-untyped-def]
    """Draw Bin(n, p), as a double, for an integer n in [0, 2^52]. p is clipped to [0, 1]."""
    if n <= 0.0 or p <= 0.0:
        return 0.0
    if p >= 1.0:
        return n
    small = p if p <= 0.5 else 1.0 - p
    if n * small < INVERSION_BELOW:
        count = by_inversion(key0, key1, U64(index), U64(stage), U64(turn), n, small)
    else:
        count = by_rejection(key0, key1, U64(index), U64(stage), U64(turn), n, small)
    return count if p <= 0.5 else n - count


@jit
def multinomial(out, key0, key1, stage, turn, n, weights):  # type: ignore[no-untyped-def]
    """Draw multinomial counts of n trials. Class j has a probability proportional to weights[j].

    The count of a class is binomial, given the counts of the classes before it. Its probability is its weight
    divided by the sum of its weight and all later weights. These sums start at the last class, so that the
    probabilities of late classes are precise.
    """
    k = out.shape[0]
    rest = 0.0
    for j in range(k - 1, -1, -1):
        rest += weights[j]
        out[j] = rest
    left = n
    for j in range(k):
        share = 1.0 if j == k - 1 else weights[j] / out[j]
        count = binomial(key0, key1, j, stage, turn, left, share)
        out[j] = count
        left -= count
