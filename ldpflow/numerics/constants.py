"""Constants of a study, such as a quantile of the normal law or a block length.

mpmath computes them with 40 digits or, for self-normalisation, 25. Then they are rounded once, so that they
have equal bits on every machine.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache

from mpmath import mp, mpf

DIGITS = 40
PRECISION = threading.RLock()


@contextmanager
def workdps(digits: int) -> Iterator[None]:
    """Context in which mpmath computes with ``digits`` digits, while other threads wait for mpmath."""
    with PRECISION, mp.workdps(digits):
        yield


@lru_cache(maxsize=4096)
def normal_quantile(p: float) -> float:
    with workdps(DIGITS):
        return float(mp.sqrt(2) * mp.erfinv(2 * mpf(p) - 1))


def normal_density(x: float) -> float:
    with workdps(DIGITS):
        return float(mp.npdf(mpf(x)))


def bisect(below: Callable[[mpf], bool], low: mpf | str | int, high: mpf | int, halvings: int = 140) -> mpf:
    """Largest x between low and high with ``below(x)``, if ``below`` changes once from true to false."""
    low, high = mpf(low), mpf(high)
    for _ in range(halvings):
        middle = (low + high) / 2
        if below(middle):
            low = middle
        else:
            high = middle
    return low


@lru_cache(maxsize=1024)
def student_quantile(p: float, df: float) -> float:
    if p == 0.5:
        return 0.0
    with workdps(DIGITS):
        x = mp.sqrt(f_point(2 * min(mpf(p), 1 - mpf(p)), mpf(1), mpf(df)))  # T^2 has the law F(1, df)
        return float(x if p > 0.5 else -x)


@lru_cache(maxsize=1024)
def chi_squared_quantile(p: float, df: int) -> float:
    with workdps(DIGITS):
        shape, level = mpf(df) / 2, mpf(p)
        x = bisect(lambda x: mp.gammainc(shape, 0, x / 2, regularized=True) < level, 0, 100 * df + 100)
        return float(x)


@lru_cache(maxsize=1024)
def f_quantile(p: float, df: int, df2: int) -> float:
    with workdps(DIGITS):
        return float(f_point(1 - mpf(p), mpf(df), mpf(df2)))


def f_point(tail: mpf, df: mpf, df2: mpf) -> mpf:
    """x with P(F > x) = tail for the F distribution.

    P(F > x) = I_y(df2/2, df/2), the regularised incomplete beta function, with y = df2/(df2 + df x).
    """
    y = bisect(lambda y: mp.betainc(df2 / 2, df / 2, 0, y, regularized=True) <= tail, 0, 1)
    return df2 * (1 - y) / (df * y)


@lru_cache(maxsize=1024)
def bimodal_quantile(p: float) -> float:
    if p == 0.5:
        return 0.0
    with workdps(DIGITS):
        tail, apart = min(mpf(p), 1 - mpf(p)), mpf(3) / 2
        x = bisect(lambda x: mp.ncdf(x - apart) + mp.ncdf(x + apart) <= 2 * tail, -50, 0)
        return float(x if p < 0.5 else -x)


@lru_cache(maxsize=256)
def self_normalization_critical_value(level: float) -> float:
    """cv with P(|T| <= cv) = level, where T is the limit of the self-normalised statistic.

    T = W(1) / sqrt(int_0^1 (W(r) - r W(1))^2 dr) with a Brownian motion W. Its tail is

        P(|T| > q) = (2/pi) int_0^(pi/2) sqrt(x / sinh x) da,   x = q / sin a.

    The integrand is even and smooth around pi/2, and all its derivatives are 0 at 0. So the error of the
    trapezoidal rule falls faster than any power of the step.
    """
    with workdps(25):
        target = 1 - mpf(level)
        return float(bisect(lambda q: self_normalization_tail(q) > target, "1e-3", 1000, halvings=90))


def self_normalization_tail(q: mpf) -> mpf:
    """P(|T| > q) by the trapezoidal rule. The integrand rises at angles near q/50."""
    points = max(160, int(60 / q))
    total = mpf(0)
    for k in range(1, points + 1):
        x = q / mp.sin(mp.pi * k / (2 * points))
        weight = mpf(1) / 2 if k == points else 1
        total += weight * mp.sqrt(x / mp.sinh(x))
    return total / points


def near_integer(x: mpf) -> int | None:
    """Positive integer within 1e-9 x of x, or None."""
    nearest = mp.nint(x)
    return int(nearest) if nearest > 0 and abs(x - nearest) <= mpf("1e-9") * x else None


def safe_floor(x: mpf) -> int:
    """floor(x) for x >= 0. An x near an integer (:func:`near_integer`) is this integer."""
    return near_integer(x) or int(mp.floor(x))


@lru_cache(maxsize=4096)
def floor_power(n: int, exponent: float) -> int:
    """floor(n^exponent). ``exponent`` is the decimal that the user typed: 10^8 to the power .75 is 10^6."""
    with workdps(DIGITS):
        return safe_floor(mpf(n) ** mpf(repr(exponent)))


@lru_cache(maxsize=4096)
def ceil_power(n: int, exponent: float) -> int:
    """ceil(n^exponent), see :func:`floor_power`."""
    with workdps(DIGITS):
        power = mpf(n) ** mpf(repr(exponent))
        return near_integer(power) or int(mp.ceil(power))


@lru_cache(maxsize=4096)
def sum_of_powers(first: int, last: int, exponent: float) -> float:
    """sum_{i=first}^{last} i^(-exponent), by Hurwitz zeta functions."""
    with workdps(DIGITS):
        s = mpf(repr(exponent))
        if s == 1:
            return float(mp.digamma(last + 1) - mp.digamma(first))
        return float(mp.zeta(s, first) - mp.zeta(s, last + 1))
