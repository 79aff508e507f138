"""Distribution functions of the standard laws, and draws by inversion of tabulated quantile functions.

The errors in docstrings of distribution functions are absolute.

A table of a quantile function Q(u) has one polynomial for each cell of t = min(u, 1 - u). Each octave of t
from 1/2 down to 2^-53, the smallest uniform, has CELLS = 16 equal cells. So the exponent of t and the first
four bits of its mantissa give the cell. The first half of the table is for u = t, the second for u = 1 - t.
One draw takes one uniform.

The gamma law with shape k has polynomials of degree 7. Q' = 1/f(Q) with f(x) = x^(k-1) exp(-x)/Gamma(k) gives
the Taylor coefficients of Q around the middle of a cell, one after the other: with D = Q' and L = log Q,
Q L' = Q' and D' = D ((1 - k) L' + Q'). The value of Q in the middle comes from the polynomial of the
neighbouring cell and a step of Newton's method. Chebyshev interpolation of the Taylor polynomial gives the
coefficients of the table. They are computed with 30 digits and rounded once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from mpmath import mp, mpf
from numpy.typing import NDArray

from ldpflow.numerics import constants
from ldpflow.numerics.elementary import U64, bits_of, exp, expm1, float_of, fma, jit, log, polynomial
from ldpflow.numerics.kernels import cache_folder, read_private, write_private
from ldpflow.numerics.registers import register_array
from ldpflow.numerics.samplers import fill_bits, unit
from ldpflow.numerics.streams import PLANE

TINY = 1e-300
TERMS = 10_000  # most terms of a series or continued fraction; the largest shape needs some hundreds


@jit
def cdf_normal(x):  # type: ignore[no-untyped-def]
    """Phi(x). The error is below 1e-13."""
    size = np.abs(x)
    tail = exp(-0.5 * size * size) * tail_ratio(size)
    return tail if x < 0.0 else 1.0 - tail


# Chebyshev interpolant of Phi(-|x|) exp(x^2/2) in t = 1/(1 + |x|/4).
TAIL_SERIES = polynomial(
    0.002445055682319712, -0.024370131603494813, 0.10682873263894295, -0.26826589406364326,
    0.4222063686907598, -0.4352275420028846, 0.3148939278287191, -0.17925224882554006,
    0.06613946233482045, -0.013433942136618212, 0.02792118179128932, 0.04252984108854223,
    0.06358229418904586, 0.08102940850357741, 0.09350235158489752, 0.09973556414370417,
    0.09973557015562391, -8.526825685352701e-14,
)  # fmt: skip


@jit
def tail_ratio(size):  # type: ignore[no-untyped-def]
    """Phi(-|x|) exp(x^2/2). The error times exp(-x^2/2) is below 3e-14."""
    return TAIL_SERIES(1.0 / (1.0 + 0.25 * size))


@jit
def cdf_laplace(x):  # type: ignore[no-untyped-def]
    """exp(x)/2 for x < 0, else 1 - exp(-x)/2. The error is below 1e-15."""
    tail = 0.5 * exp(-np.abs(x))
    return tail if x < 0.0 else 1.0 - tail


@jit
def cdf_exponential(x):  # type: ignore[no-untyped-def]
    """1 - exp(-x) for x > 0, else 0. The error is below 1e-15."""
    return 1.0 - exp(-max(x, 0.0))


@jit
def cdf_logistic(x):  # type: ignore[no-untyped-def]
    """1/(1 + exp(-x)). The error is below 1e-15."""
    return 1.0 / (1.0 + exp(-x))


@jit
def cdf_uniform(x):  # type: ignore[no-untyped-def]
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
    """(Phi(x - 3/2) + Phi(x + 3/2))/2. The error is below 1e-13."""
    return 0.5 * (cdf_normal(x - 1.5) + cdf_normal(x + 1.5))


@jit
def cdf_lognormal(x, shape):  # type: ignore[no-untyped-def]
    """Phi(log(x)/shape) for x > 0, else 0. The error is below 2e-13."""
    p = cdf_normal(log(max(x, TINY)) / shape)
    return p if x > TINY else 0.0


@jit
def cdf_weibull(x, shape):  # type: ignore[no-untyped-def]
    """1 - exp(-x^shape) for x > 0, else 0. The error is below 1e-14."""
    p = -expm1(-min(exp(min(shape * log(max(x, TINY)), 7.0)), 700.0))
    return p if x > TINY else 0.0


@jit
def cdf_pareto(x, shape):  # type: ignore[no-untyped-def]
    """1 - x^-shape for x > 1, else 0. The error is below 1e-15."""
    return -expm1(-min(shape * log(max(x, 1.0)), 700.0))


@jit
def log1p(x):  # type: ignore[no-untyped-def]
    """log(1 + x) for x > -1. The relative error is below 1e-15."""
    y = 1.0 + x
    return x if y == 1.0 else log(y) * (x / (y - 1.0))


@jit
def cdf_gamma(x, shape, peak):  # type: ignore[no-untyped-def]
    """Regularised lower incomplete gamma function P(a, x) with a = shape. The error is below 1e-13.

    ``peak`` is a log a - a - log Gamma(a). For x < a + 1 a series is used (Abramowitz and Stegun 6.5.29),
    else a continued fraction (6.5.31) by Lentz's method.
    """
    if x <= TINY:
        return 0.0
    away = (x - shape) / shape
    # front = x^a e^-x / Gamma(a), written so that no digits cancel near the mode.
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
    """Continued fraction of the incomplete beta function (Abramowitz and Stegun 26.5.8)."""
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
    """P(T <= x) for Student's t. ``log_beta`` is log B(df/2, 1/2). The error is below 1e-13."""
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
    """Arguments, after x, of the compiled distribution function of a law."""
    with constants.workdps(40):
        a = mpf(parameter)
        if name == "gamma":
            return (parameter, float(a * mp.log(a) - a - mp.loggamma(a)))
        if name == "student_t":
            half = a / 2
            return (parameter, float(mp.log(mp.beta(half, mpf(1) / 2))))
    return (parameter,) if name in ("lognormal", "weibull", "pareto") else ()


@cache
def over_array(function: Callable[..., float]) -> Callable[..., None]:
    """Compile a loop that calls a compiled function for each x. ``further`` are its other arguments."""

    @jit
    def fill(x, out, *further):  # type: ignore[no-untyped-def]
        for i in range(x.shape[0]):
            out[i] = function(x[i], *further)

    return fill  # type: ignore[no-any-return]


def values_of(function: Callable[..., float], x: NDArray[np.float64], *further: float) -> NDArray[np.float64]:
    """Values of a compiled function for an array x. ``further`` are its other arguments."""
    flat = np.ascontiguousarray(x, dtype=np.float64).reshape(-1)
    out = np.empty_like(flat)
    over_array(function)(flat, out, *further)
    return out.reshape(np.shape(x))


def cdf_values(name: str, z: NDArray[np.float64], parameter: float = 0.0) -> NDArray[np.float64]:
    """Distribution function of a standard law for an array z. ``parameter`` is df or shape, or 0."""
    return values_of(globals()[f"cdf_{name}"], z, *law_constants(name, parameter))


CELLS = 16
OCTAVES = 52
HALF = CELLS * OCTAVES
WIDTHS = {"empirical": 4, "gamma": 8}
"""Length of the row of a cell in a table.

``empirical``: three coefficients of a polynomial in t minus the lower edge of the cell, and an unused number.
``gamma``: eight coefficients of a polynomial in p, which goes from -1 to 1 in the cell.
"""

BLOCK = 256
SHIFT = U64(48)  # bits of the mantissa without the four that give the cell
FIRST = U64((1023 - 53) * CELLS)
EDGE = ~U64((1 << 48) - 1)
PLACE = U64((1 << 48) - 1)
SIGN = np.int64(63)
SECOND = U64(HALF)
ONE = U64(0x3FF0000000000000)


def cell_edges() -> NDArray[np.float64]:
    k = np.arange(HALF)
    result: NDArray[np.float64] = 2.0 ** (k // CELLS - 53) * (1.0 + (k % CELLS) / CELLS)
    return result


@jit
def fill_quadratic(state, table, out):  # type: ignore[no-untyped-def]
    """Draw by a table of quadratics q + d (s + d r). d is t minus the lower edge of its cell.

    A row of the table has q, s, r and an unused number.
    """
    fill_bits(state, out)
    # The rows are copied first. If loads stood in the arithmetic, the compiler would make gathers of them,
    # which take longer.
    rows = np.empty(4 * BLOCK)
    cells = register_array(BLOCK)
    distances = register_array(BLOCK)
    for k in range(PLANE // BLOCK):
        o = out[k * BLOCK : (k + 1) * BLOCK]
        for i in range(BLOCK):
            bits = bits_of(o[i])
            upper = U64(np.int64(bits) >> SIGN)  # all bits are 1 if u > 1/2, else 0
            t = unit(bits ^ upper)
            cell = (bits_of(t) >> SHIFT) - FIRST + (upper & SECOND)
            cells[i] = float_of(cell << U64(2))
            distances[i] = t - float_of(bits_of(t) & EDGE)
        for i in range(BLOCK):
            row = bits_of(cells[i])
            q = table[row]
            s = table[row + U64(1)]
            r = table[row + U64(2)]
            unused = table[row + U64(3)]
            rows[4 * i] = q
            rows[4 * i + 1] = s
            rows[4 * i + 2] = r
            rows[4 * i + 3] = unused
        for i in range(BLOCK):
            d = distances[i]
            o[i] = fma(d, fma(d, rows[4 * i + 2], rows[4 * i + 1]), rows[4 * i])


@jit
def fill_octic(state, table, out):  # type: ignore[no-untyped-def]
    """Draw by a table of polynomials of degree 7 in p. A row has the coefficients of 1, p, ..., p^7."""
    fill_bits(state, out)
    for k in range(PLANE // BLOCK):
        o = out[k * BLOCK : (k + 1) * BLOCK]
        for i in range(BLOCK):
            bits = bits_of(o[i])
            upper = U64(np.int64(bits) >> SIGN)
            t = bits_of(unit(bits ^ upper))
            row = ((t >> SHIFT) - FIRST + (upper & SECOND)) << U64(3)
            p = 2.0 * float_of(((t & PLACE) << U64(4)) | ONE) - 3.0
            x = fma(p, table[row + U64(7)], table[row + U64(6)])
            x = fma(p, x, table[row + U64(5)])
            x = fma(p, x, table[row + U64(4)])
            x = fma(p, x, table[row + U64(3)])
            x = fma(p, x, table[row + U64(2)])
            x = fma(p, x, table[row + U64(1)])
            o[i] = fma(p, x, table[row])


@jit
def fill_records(state, table, out):  # type: ignore[no-untyped-def]
    """Draw with replacement from the numbers of a table."""
    fill_bits(state, out)
    for i in range(PLANE):
        out[i] = table[min(np.int64(unit(bits_of(out[i])) * table.shape[0]), table.shape[0] - 1)]


TABLE_SAMPLERS = {"empirical": fill_quadratic, "gamma": fill_octic, "records": fill_records}

DIGITS = 30
ORDER = 12  # of the Taylor polynomial; half the width of a cell is at most 1/33 of its middle t
DEGREE = WIDTHS["gamma"] - 1


@lru_cache(maxsize=16)
def gamma_table(shape: float) -> NDArray[np.float64]:
    """Flat table for :func:`fill_octic`, stored in the kernel cache since it takes seconds to compute."""
    source = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    name = hashlib.sha256(f"{shape.hex()}/{source}".encode()).hexdigest()[:40]
    file = cache_folder() / f"gamma-{name}.bin"
    content = read_private(file)
    if content is not None and hashlib.sha256(content[32:]).digest() == content[:32]:
        return np.frombuffer(content[32:], dtype=np.float64)
    table = compute_gamma_table(shape)
    write_private(file, hashlib.sha256(table.tobytes()).digest() + table.tobytes())
    return table


def compute_gamma_table(shape: float) -> NDArray[np.float64]:
    table = np.empty((2 * HALF, DEGREE + 1))
    with constants.workdps(DIGITS):
        k = mpf(shape)
        half = constants.bisect(lambda x: mp.gammainc(k, 0, x, regularized=True) <= 0.5, 0, k + 40, 120)
        for side, sign in ((0, 1), (HALF, -1)):
            # Cells are computed from t = 1/2 down.
            at, x = mpf(1) / 2, half
            coefficients = taylor(x, k, sign)
            for cell in reversed(range(HALF)):
                width = mpf(2) ** (cell // CELLS - OCTAVES - 1) / CELLS
                middle = width * (CELLS + cell % CELLS + mpf(1) / 2)
                x = newton(mp.polyval(coefficients[::-1], middle - at), middle, k, sign)
                at, coefficients = middle, taylor(x, k, sign)
                table[side + cell] = chebyshev(coefficients, width / 2)
    return table.reshape(-1)


def taylor(x: Any, k: Any, sign: int) -> list[Any]:
    """Taylor coefficients of Q(t) (sign 1) or Q(1 - t) (sign -1) around the t at which Q is x."""
    q = [x]
    logs = [mp.log(x)]  # coefficients of L = log Q
    slopes = [sign * mp.exp(mp.loggamma(k) + (1 - k) * logs[0] + x)]  # of D = Q'
    growth = []  # of D'/D
    for n in range(ORDER):
        q.append(slopes[n] / (n + 1))
        # (n + 1) L_{n+1} Q_0 = (n + 1) Q_{n+1} - sum_{j=1}^n j L_j Q_{n+1-j}
        inner = sum((j * logs[j] * q[n + 1 - j] for j in range(1, n + 1)), mpf(0))
        logs.append(((n + 1) * q[n + 1] - inner) / ((n + 1) * x))
        growth.append((n + 1) * ((1 - k) * logs[n + 1] + q[n + 1]))
        slopes.append(sum((slopes[j] * growth[n - j] for j in range(n + 1)), mpf(0)) / (n + 1))
    return q


def newton(x: Any, t: Any, k: Any, sign: int) -> Any:
    """Solve P(X <= x) = t (sign 1) or P(X > x) = t (sign -1) by one step from an x with 15 right digits."""
    ends = {"b": x} if sign > 0 else {"a": x}
    excess = mp.gammainc(k, regularized=True, **ends) - t
    density = mp.exp((k - 1) * mp.log(x) - x - mp.loggamma(k))
    return x - sign * excess / density


def chebyshev(coefficients: list[Any], half: Any) -> list[float]:
    """Coefficients in p of the Chebyshev interpolant of a polynomial in ``half * p``."""
    count = DEGREE + 1
    nodes = [mp.cos(mp.pi * (2 * i + 1) / (2 * count)) for i in range(count)]
    values = [mp.polyval(coefficients[::-1], half * node) for node in nodes]
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
