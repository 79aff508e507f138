"""Quantile function of the gamma law as a polynomial of degree 7 in every cell of a table.

Q' = 1/f(Q) with f(x) = x^(k-1) exp(-x)/Gamma(k) gives the Taylor coefficients of Q around the middle of a
cell one after the other: with D = Q' and L = log Q, Q L' = Q' and D' = D ((1 - k) L' + Q'). The value in
the middle comes from the neighbouring cell and a step of Newton's method; Chebyshev interpolation of the
Taylor polynomial gives the coefficients. All in 30 digits, rounded once: every machine has the same table.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from mpmath import mp, mpf
from numpy.typing import NDArray

from ldpflow import constants
from ldpflow.random.quantile_tables import CELLS, HALF, OCTAVES, WIDTHS

DIGITS = 30
ORDER = 12  # of the Taylor polynomial: a cell's half width is 1/33 of its distance from 0
DEGREE = WIDTHS["gamma"] - 1


def gamma_table(shape: float) -> NDArray[np.float64]:
    """Table for ldpflow.random.quantile_tables.fill_octic, flat; some seconds of mpmath."""
    table = np.empty((2 * HALF, DEGREE + 1))
    with constants.workdps(DIGITS):
        k = mpf(shape)
        half = median(k)
        for side, sign in ((0, 1), (HALF, -1)):
            # From t = 1/2 downwards; u = t in the lower half, u = 1 - t in the upper.
            at, x = mpf(1) / 2, half
            coefficients = taylor(x, k, sign)
            for cell in reversed(range(HALF)):
                width = mpf(2) ** (cell // CELLS - OCTAVES - 1) / CELLS
                middle = width * (CELLS + cell % CELLS + mpf(1) / 2)
                x = newton(polynomial(coefficients, middle - at), middle, k, sign)
                at, coefficients = middle, taylor(x, k, sign)
                table[side + cell] = chebyshev(coefficients, width / 2)
    return table.reshape(-1)


def median(k: Any) -> Any:
    """1/2-quantile, by bisection."""
    low, high = mpf(0), k + 40
    for _ in range(120):
        middle = (low + high) / 2
        low, high = (low, middle) if mp.gammainc(k, 0, middle, regularized=True) > 0.5 else (middle, high)
    return (low + high) / 2


def taylor(x: Any, k: Any, sign: int) -> list[Any]:
    """Taylor coefficients of Q(t) (sign 1) or Q(1 - t) (sign -1) around the t with value x."""
    q = [x]
    logs = [mp.log(x)]
    slopes = [sign * mp.exp(mp.loggamma(k) + (1 - k) * logs[0] + x)]  # of Q', whose log has ...
    growth = []  # ... this derivative
    for n in range(ORDER):
        q.append(slopes[n] / (n + 1))
        # (n + 1) L_{n+1} Q_0 = (n + 1) Q_{n+1} - sum over j of j L_j Q_{n+1-j}
        inner = sum((j * logs[j] * q[n + 1 - j] for j in range(1, n + 1)), mpf(0))
        logs.append(((n + 1) * q[n + 1] - inner) / ((n + 1) * x))
        growth.append((n + 1) * ((1 - k) * logs[n + 1] + q[n + 1]))
        slopes.append(sum((slopes[j] * growth[n - j] for j in range(n + 1)), mpf(0)) / (n + 1))
    return q


def polynomial(coefficients: list[Any], h: Any) -> Any:
    """Value at h."""
    value = mpf(0)
    for coefficient in reversed(coefficients):
        value = value * h + coefficient
    return value


def newton(x: Any, t: Any, k: Any, sign: int) -> Any:
    """The root of P(X <= x) = t (sign 1) or P(X > x) = t (sign -1), one step from 15 good digits."""
    ends = {"b": x} if sign > 0 else {"a": x}
    excess = mp.gammainc(k, regularized=True, **ends) - t
    density = mp.exp((k - 1) * mp.log(x) - x - mp.loggamma(k))
    return x - sign * excess / density


def chebyshev(coefficients: list[Any], half: Any) -> list[float]:
    """Coefficients in p = h/half of the polynomial through the Chebyshev nodes of (-1, 1)."""
    count = DEGREE + 1
    nodes = [mp.cos(mp.pi * (2 * i + 1) / (2 * count)) for i in range(count)]
    values = [polynomial(coefficients, half * node) for node in nodes]
    # Newton's divided differences, then the powers of p.
    for level in range(1, count):
        for i in reversed(range(level, count)):
            values[i] = (values[i] - values[i - 1]) / (nodes[i] - nodes[i - level])
    powers = [mpf(0)] * count
    for i in reversed(range(count)):
        shifted = [mpf(0), *powers[:-1]]
        powers = [s - nodes[i] * p for s, p in zip(shifted, powers, strict=True)]
        powers[0] += values[i]
    return [float(value) for value in powers]
