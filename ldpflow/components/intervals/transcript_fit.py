"""Least squares of the private gradient A on the iterate before the step, for R replicates at once.

The regressor is x = theta_{i-1} - origin, over N steps. S is the covariance of A given the past.
All operations are + - * / and sqrt, element by element and in a fixed order, so bits are equal on every
processor.

**Polynomial**, for a scalar theta. m and s are mean and standard deviation of x, and u = (x - m)/s:

    v(u) = (1, u, u^2, ...),   M = sum v v' = L D L',   L unit lower triangular,   q(u) = L^-1 v(u)
    P of degree p = sum_{k<=p} c_k q_k,   c = D^-1 L^-1 sum A v,   v(u)' M^-1 v(u) = sum_{k<=p} q_k(u)^2/D_k

The polynomials q_k are orthogonal on the path, so one computation gives the fits of all degrees p.

**Linear**, for a vector. m is the mean of x and C its covariance along the path:

    A = a + B (x - m) + error,   root = m - B^-1 a
    covariance of the root = B^-1 S B^-T (1 + (root - m)' C^-1 (root - m))/N

**Quadratic**, for a vector of few coordinates. P_j is a quadratic polynomial, and J the derivative of P at
the root:

    A_j = P_j(x) + error,   v(x) = (1, x_1, ..., x_d, x_1 x_1, x_2 x_1, x_2 x_2, ...),   M = sum v v'
    covariance of the root = J^-1 S J^-T v' M^-1 v at the root

There are 1 + d (d + 3)/2 regressors. Coordinates are scaled by their root mean square.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from math import comb

import numpy as np
from numpy.typing import NDArray

from ldpflow.components.intervals.interval import Array
from ldpflow.components.intervals.record import PathRecord
from ldpflow.numerics.kernels import compile_kernel
from ldpflow.numerics.running_sums import pieces, regressors
from ldpflow.numerics.specialise import Case

LOSS = 1e9  # largest ratio of a sum of powers to the centred moment; it leaves 7 of 16 digits
REACH = 50.0  # largest distance of a root of a cubic from the mean, in standard deviations of the path

# Distances from the root at which the ends of an interval are searched, in half widths z se.
MARCH = [*(j / 8.0 for j in range(1, 17)), *(2.0 * 1.25**j for j in range(1, 17))]


@dataclass(frozen=True)
class PolynomialFit:
    """Polynomial fits of all degrees up to the order, one for each coordinate and replicate."""

    count: int  # N, steps in the fit
    mean: Array  # m in the unit of theta, shape (d, R)
    sd: Array  # s, shape (d, R)
    lower: Array  # L below its diagonal, shape (order + 1, order + 1, d, R)
    pivots: Array  # diagonal of D, shape (order + 1, d, R)
    coefficients: Array  # c, shape (order + 1, d, R)
    square: Array  # sum A^2, shape (d, R)
    sound: list[NDArray[np.bool_]]  # for each degree, whether enough digits are left, shape (d, R)

    def residual_variance(self, degree: int) -> Array:
        """Sum of squared residuals over N - degree - 1."""
        rest = self.square
        for k in range(degree + 1):
            rest = rest - self.coefficients[k] * self.coefficients[k] * self.pivots[k]
        return rest / (self.count - degree - 1)

    def condition(self, degree: int) -> Array:
        """Largest over smallest pivot, which is at most the condition number of M."""
        pivots = self.pivots[: degree + 1]
        return np.asarray(pivots.max(axis=0) / pivots.min(axis=0))

    def lack_of_fit(self, degree: int, variance: Array) -> Array:
        """t statistic of the power u^(degree + 1). Its limit is N(0, 1) if the degree suffices."""
        k = degree + 1
        t: Array = self.coefficients[k] * np.sqrt(self.pivots[k] / variance)
        return np.where(self.sound[k], t, np.nan)

    def monomials(self, degree: int) -> list[Array]:
        """b with P(u) = b_0 + b_1 u + ..., from L' b = c."""
        b = list(self.coefficients[: degree + 1])
        for k in range(degree, -1, -1):
            for j in range(k + 1, degree + 1):
                b[k] = b[k] - self.lower[j, k] * b[j]
        return b

    def root(self, degree: int) -> tuple[Array, Array]:
        """Root u of P on the increasing branch through u = 0, and P'(u).

        u is NaN if there is no such root or too few digits are left.
        """
        b = self.monomials(degree)
        if degree == 3:
            u, slope = cubic_root(b)
        else:
            b2 = b[2] if degree == 2 else np.zeros_like(b[0])
            slope = np.sqrt(b[1] * b[1] - 4.0 * b[0] * b2)
            u = np.where(b[1] > 0.0, -2.0 * b[0] / (b[1] + slope), np.nan)
            slope = np.where(b[1] > 0.0, slope, np.nan)
        return np.where(self.sound[degree], u, np.nan), slope

    def leverage(self, u: Array, degree: int) -> Array:
        """v(u)' M^-1 v(u), the variance of P(u) if S = 1."""
        values: list[Array] = []  # q_0(u), q_1(u), ...
        power, total = np.ones_like(u), np.zeros_like(u)
        for k in range(degree + 1):
            q = power
            for j in range(k):
                q = q - self.lower[k, j] * values[j]
            values.append(q)
            total = total + q * q / self.pivots[k]
            power = power * u
        return total

    def arms(
        self, u: Array, slope: Array, degree: int, variance: Array, critical: Array
    ) -> tuple[Array, Array]:
        """Distances, in u, from the root down and up to the nearest points with P^2 = z^2 S v' M^-1 v.

        ``slope`` is P' at the root u, ``variance`` is S, and ``critical`` has z of L levels. Results have
        shape (L, d, R). A distance beyond 71 z se is NaN.
        """
        z2 = critical * critical
        half = np.sqrt(z2.reshape(-1, *(1,) * u.ndim) * (variance * self.leverage(u, degree))) / slope
        fits = [part[: degree + 1] for part in (self.lower[:, : degree + 1], self.pivots, self.coefficients)]
        flat = [part.reshape(*part.shape[: part.ndim - u.ndim], -1) for part in (*fits, u, half, variance)]
        found = np.empty((len(critical), 2, u.size))
        ends_kernel()(*map(np.ascontiguousarray, flat), z2, np.array(MARCH), found)
        lower, upper = found.reshape(len(critical), 2, *u.shape).swapaxes(0, 1)
        return lower, upper


SIGNATURE = (
    "void(float64[:, :, ::1], float64[:, ::1], float64[:, ::1], float64[::1], float64[:, ::1], "
    "float64[::1], float64[::1], float64[::1], float64[:, :, ::1])"
)


@cache
def ends_kernel() -> Callable[..., None]:
    return compile_kernel(find_ends, Case((("excess", excess),)), SIGNATURE)


def find_ends(kernel, lower, pivots, coefficients, u, half, variance, z2, march, found):  # type: ignore[no-untyped-def]
    """Fill found[level, side] with the least t at which P^2 - z^2 S v' M^-1 v changes sign at u -+ t, or NaN.

    Tries the distances ``march`` until the sign has changed, then bisects.
    """
    values = np.empty(pivots.shape[0])
    for level in range(z2.shape[0]):
        for side in range(2):
            sign = 2.0 * side - 1.0
            for r in range(u.shape[0]):
                S, z = variance[r], z2[level]
                low = 0.0
                high = np.nan
                for step in range(march.shape[0]):
                    t = march[step] * half[level, r]
                    at = u[r] + sign * t
                    if kernel.excess(lower, pivots, coefficients, at, r, S, z, values) >= 0.0:
                        high = t
                        break
                    low = t
                if np.isnan(high):
                    found[level, side, r] = np.nan
                    continue
                for _ in range(50):
                    middle = 0.5 * (low + high)
                    at = u[r] + sign * middle
                    if kernel.excess(lower, pivots, coefficients, at, r, S, z, values) < 0.0:
                        low = middle
                    else:
                        high = middle
                found[level, side, r] = 0.5 * (low + high)


def excess(lower, pivots, coefficients, at, r, variance, z2, values):  # type: ignore[no-untyped-def]
    """P^2 - z^2 S v' M^-1 v of one replicate. Writes q_0, ..., q_degree to ``values``."""
    fitted = 0.0
    leverage = 0.0
    power = 1.0
    for k in range(pivots.shape[0]):
        q = power
        for j in range(k):
            q -= lower[k, j, r] * values[j]
        values[k] = q
        fitted += coefficients[k, r] * q
        leverage += q * q / pivots[k, r]
        power *= at
    return fitted * fitted - z2 * (variance * leverage)


def cubic_root(b: list[Array]) -> tuple[Array, Array]:
    """The root of a cubic on the increasing branch through 0, and the slope at the root, by bisection."""

    def value(u: Array) -> Array:
        return np.asarray(b[0] + u * (b[1] + u * (b[2] + u * b[3])))

    # The branch ends at the nearest zero of P' = b1 + 2 b2 u + 3 b3 u^2 on the side of the root.
    side = np.where(b[0] > 0.0, -1.0, 1.0)
    b2 = side * b[2]
    bend = b2 * b2 - 3.0 * b[1] * b[3]
    turn = b[1] / (np.sqrt(np.maximum(bend, 0.0)) - b2)
    end = np.where((bend >= 0.0) & (turn > 0.0), np.minimum(turn, REACH), REACH)
    low, high = np.zeros_like(end), end
    for _ in range(64):
        middle = 0.5 * (low + high)
        before = side * value(side * middle) < 0.0
        low = np.where(before, middle, low)
        high = np.where(before, high, middle)
    u = side * 0.5 * (low + high)
    slope = b[1] + u * (2.0 * b[2] + 3.0 * u * b[3])
    exists = (b[1] > 0.0) & (side * value(side * end) >= 0.0) & (slope > 0.0)
    return np.where(exists, u, np.nan), np.where(exists, slope, np.nan)


def fit_polynomial(sums: Array, gross: Array, count: int, order: int) -> PolynomialFit:
    """Least squares of A on 1, x, ..., x^order, from sums over ``count`` steps.

    ``sums``, shape (3 order + 2, d, R), are sum x^k for k = 1..2 order, sum A x^k for k = 0..order, and
    sum A^2. ``gross`` has the sums before a subtraction. They show how many digits the subtraction lost.
    """
    ones = np.ones_like(sums[0])
    powers = [count * ones, *sums[: 2 * order]]
    cross = list(sums[2 * order : 3 * order + 1])
    mean = powers[1] / count
    sd = np.sqrt(powers[2] / count - mean * mean)
    shift = mean / sd
    sound = [ones > 0.0]
    scale = ones
    for k in range(1, order + 1):
        scale = scale * (sd * sd)
        sound.append(gross[2 * k - 1] <= LOSS * (count * scale))
    moments = centre(powers, shift, sd)
    responses = centre(cross, shift, sd)
    lower = np.zeros((order + 1, order + 1, *ones.shape))
    pivots, coefficients = np.empty((2, order + 1, *ones.shape))
    for k in range(order + 1):
        row = lower[k]
        for j in range(k):
            entry = moments[j + k]
            for i in range(j):
                entry = entry - row[i] * pivots[i] * lower[j, i]
            row[j] = entry / pivots[j]
        pivot, rest = moments[2 * k], responses[k]
        for i in range(k):
            pivot = pivot - row[i] * row[i] * pivots[i]
            rest = rest - row[i] * (coefficients[i] * pivots[i])
        pivots[k] = pivot
        coefficients[k] = rest / pivot
        sound[k] = sound[k] & (pivot > 0.0)
        if k:
            sound[k] = sound[k] & sound[k - 1]
    return PolynomialFit(count, mean, sd, lower, pivots, coefficients, sums[3 * order + 1], sound)


def centre(sums: list[Array], shift: Array, sd: Array) -> list[Array]:
    """sum w u^k for k = 0, 1, ... from sum w x^j, with u = x/sd - shift."""
    scaled, result = [], []
    unit = np.ones_like(sd)
    for total in sums:
        scaled.append(total / unit)
        unit = unit * sd
    for k in range(len(sums)):
        # Horner's rule in -shift: sum_j C(k, j) (-shift)^(k - j) scaled_j.
        value = scaled[0]
        for j in range(1, k + 1):
            value = comb(k, j) * scaled[j] - shift * value
        result.append(value)
    return result


@dataclass(frozen=True)
class LinearFit:
    """Linear fit of a vector."""

    root: Array  # shape (d, R)
    slope: Array  # B, shape (d, d, R)
    inverse: Array  # B^-1, shape (d, d, R)
    residual: Array  # covariance of the residuals, shape (d, d, R)
    spread: Array  # diagonal of C^-1/N: the variance of B_jj if S_jj is 1, shape (d, R)
    leverage: Array  # (1 + (root - m)' C^-1 (root - m))/N, shape (R,)
    condition: Array  # largest over smallest pivot of the correlation matrix of x, shape (R,)

    def variances(self, covariance: Array) -> Array:
        """Diagonal of B^-1 S B^-T times the leverage, shape (d, R). S has shape (d, d, R)."""
        return diagonal(sandwich(self.inverse, covariance)) * self.leverage

    def own_slopes(self, point: Array) -> tuple[Array, Array]:
        """B_jj, equal at all points, and its variance for S_jj = 1."""
        return diagonal(self.slope), self.spread


def fit_linear(sums: Array, count: int) -> LinearFit:
    """Linear fit from the sums ``transcript_linear`` over ``count`` steps, shape (2 + 3d, d, R)."""
    d = sums.shape[1]
    j, k = np.tril_indices(d)
    mean, response = sums[0] / count, sums[1] / count
    cross = sums[2 : 2 + d].transpose(1, 0, 2) / count - response[:, None] * mean
    spread = symmetric(sums[2 + d + k, j] / count - mean[j] * mean[k], d)
    errors = symmetric(sums[2 + 2 * d + k, j] / count - response[j] * response[k], d)
    sd = np.sqrt(diagonal(spread))
    correlation, pivots = invert(spread / sd[:, None] / sd[None, :])
    precision = correlation / sd[:, None] / sd[None, :]
    slope = product(cross, precision)
    inverse, _ = invert(slope)
    step = -apply(inverse, response)
    leverage = np.ones_like(step[0])
    for value, weighted in zip(step, apply(precision, step), strict=True):
        leverage = leverage + value * weighted
    explained = product(slope, cross.transpose(1, 0, 2))
    return LinearFit(
        root=mean + step,
        slope=slope,
        inverse=inverse,
        residual=(errors - explained) * (count / (count - d - 1)),
        spread=diagonal(precision) / count,
        leverage=leverage / count,
        condition=pivots.max(axis=0) / pivots.min(axis=0),
    )


def symmetric(rows: Array, d: int) -> Array:
    """Symmetric matrices, shape (d, d, R), from the rows of their lower triangles."""
    j, k = np.tril_indices(d)
    result = np.empty((d, d, rows.shape[1]))
    result[j, k] = result[k, j] = rows
    return result


def sandwich(matrix: Array, covariance: Array) -> Array:
    """matrix covariance matrix', shape (d, d, R)."""
    return product(product(matrix, covariance), matrix.transpose(1, 0, 2))


def diagonal(matrix: Array) -> Array:
    """Diagonal of matrices of shape (d, d, R), shape (d, R)."""
    return np.asarray(np.einsum("jjr->jr", matrix))


def product(first: Array, second: Array) -> Array:
    """Matrix product of shapes (a, b, R) and (b, c, R), with sums in a fixed order."""
    result: Array = np.zeros((len(first), *second.shape[1:]))
    for k in range(first.shape[1]):
        result = result + first[:, k, None] * second[None, k]
    return result


def apply(matrix: Array, vector: Array) -> Array:
    """Matrix times vector, shape (d, R)."""
    return product(matrix, vector[:, None])[:, 0]


def invert(matrix: Array) -> tuple[Array, Array]:
    """Inverse by Gauss-Jordan elimination without pivoting, and the pivots, shape (d, R).

    A zero pivot makes NaN.
    """
    d = len(matrix)
    left = matrix.copy()
    right = np.zeros_like(matrix)
    right[np.arange(d), np.arange(d)] = 1.0
    pivots = np.empty_like(matrix[0])
    for j in range(d):
        pivots[j] = left[j, j]
        left[j] = left[j] / pivots[j]
        right[j] = right[j] / pivots[j]
        for k in range(d):
            if k != j:
                factor = left[k, j].copy()
                left[k] = left[k] - factor * left[j]
                right[k] = right[k] - factor * right[j]
    return right, pivots


NEWTON_STEPS = 40
CONVERGED = 1e-10  # largest last step of Newton's method, relative to 1 + |u|


@dataclass(frozen=True)
class QuadraticFit:
    """Quadratic fit of a vector in u = x/unit, with p regressors."""

    count: int  # N, steps in the fit
    unit: Array  # root mean square of each coordinate of x, shape (d, R)
    mean: Array  # mean of u, shape (d, R)
    coefficients: Array  # coefficients of v(u) in P_j, shape (p, d, R)
    precision: Array  # (M/N)^-1 for u, shape (p, p, R)
    residual: Array  # covariance of the residuals, shape (d, d, R)
    condition: Array  # largest over smallest pivot of M for u, shape (R,)

    @cached_property
    def scaled_root(self) -> Array:
        """Root u of P by Newton's method from the mean of u. NaN if the method does not converge."""
        u = self.mean
        for _ in range(NEWTON_STEPS):
            inverse, _ = invert(self.derivative(u))
            step = apply(inverse, self.values(u))
            u = u - step
        sound = np.all(np.abs(step) <= CONVERGED * (1.0 + np.abs(u)), axis=0)
        return np.where(sound, u, np.nan)

    @cached_property
    def root(self) -> Array:
        """Root less origin, in the unit of theta, shape (d, R)."""
        return self.unit * self.scaled_root

    @cached_property
    def inverse(self) -> Array:
        """J^-1 in the unit of theta, shape (d, d, R)."""
        inverse, _ = invert(self.derivative(self.scaled_root))
        return np.asarray(self.unit[:, None] * inverse)

    def values(self, u: Array) -> Array:
        """P(u), shape (d, R)."""
        return self.combine(powers(u))

    def derivative(self, u: Array) -> Array:
        """dP_j/du_k at u, shape (d, d, R)."""
        return np.stack([self.combine(slopes(u, k)) for k in range(len(u))], axis=1)

    def combine(self, v: list[Array]) -> Array:
        """Sum of v_m times coefficient m of each P_j, shape (d, R)."""
        return np.asarray(product(np.stack(v)[None], self.coefficients)[0])

    def variances(self, covariance: Array) -> Array:
        """Diagonal of J^-1 S J^-T times v' M^-1 v, shape (d, R). S has shape (d, d, R)."""
        return diagonal(sandwich(self.inverse, covariance)) * self.form(powers(self.scaled_root))

    def form(self, v: list[Array]) -> Array:
        """v' M^-1 v, shape (R,)."""
        vector = np.stack([np.broadcast_to(value, self.condition.shape) for value in v])
        return np.asarray(apply(vector[None], apply(self.precision, vector))[0] / self.count)

    def own_slopes(self, point: Array) -> tuple[Array, Array]:
        """dP_j/dx_j at a point (d, R) in the unit of theta, and its variance for S_jj = 1."""
        u = point / self.unit
        slope = diagonal(self.derivative(u)) / self.unit
        variance = np.stack([self.form(slopes(u, j)) for j in range(len(u))])
        return slope, variance / (self.unit * self.unit)


def powers(u: Array) -> list[Array]:
    """v(u): 1, the coordinates, and their products."""
    products = [u[k] * u[h] for k in range(len(u)) for h in range(k + 1)]
    return [np.ones_like(u[0]), *u, *products]


def slopes(u: Array, at: int) -> list[Array]:
    """dv/du_at."""
    zero, one = np.zeros_like(u[0]), np.ones_like(u[0])
    first = [one if k == at else zero for k in range(len(u))]
    second = [
        (u[h] if k == at else zero) + (u[k] if h == at else zero) for k in range(len(u)) for h in range(k + 1)
    ]
    return [zero, *first, *second]


def fit_quadratic(sums: Array, count: int) -> QuadraticFit:
    """Quadratic fit from the sums ``transcript_quadratic`` over ``count`` steps, shape (numbers, d, R)."""
    d = sums.shape[1]
    f = regressors(d)
    flat = sums.reshape(-1, sums.shape[2]) / count
    ends = np.cumsum([f, d, d * f, f * (f + 1) // 2, d * (d + 1) // 2])
    means, responses, crossed, squares, products, _ = np.split(flat, ends)
    moments = np.ones((f + 1, f + 1, sums.shape[2]))
    moments[0, 1:] = moments[1:, 0] = means
    moments[1:, 1:] = symmetric(squares, f)
    cross = np.concatenate([responses[None], crossed.reshape(d, f, -1).transpose(1, 0, 2)])
    errors = symmetric(products, d)
    unit = np.sqrt(diagonal(moments[1 : d + 1, 1 : d + 1]))
    scale = np.stack(powers(unit))
    moments = moments / scale[:, None] / scale[None, :]
    cross = cross / scale[:, None]
    precision, pivots = invert(moments)
    coefficients = product(precision, cross)
    explained = product(cross.transpose(1, 0, 2), coefficients)
    return QuadraticFit(
        count=count,
        unit=unit,
        mean=moments[0, 1 : d + 1],
        coefficients=coefficients,
        precision=precision,
        residual=(errors - explained) * (count / (count - f - 1)),
        condition=pivots.max(axis=0) / pivots.min(axis=0),
    )


VectorFit = LinearFit | QuadraticFit

# For each order of a fit, where the sums of x^1, x^2, ..., A, A x, ..., A^2 stand in the running sums.
PLACES = {2: [0, 1, 2, 3, 6, 7, 8, 10], 3: list(range(11)), 4: [0, 1, 2, 3, 4, 5, 11, 12, 6, 7, 8, 9, 13, 10]}


def sums_between(record: PathRecord, names: Sequence[str], first: int, last: int) -> tuple[Array, Array]:
    """Sums over the steps first + 1, ..., last, and the sums before a subtraction, shapes (count, d, R)."""

    def at(time: int) -> Array:
        return np.concatenate([record.running(name, time) for name in names])

    total, *others = [at(time) for time in pieces(first, last)]
    gross = total
    if first & (first - 1):
        total = total - at(first)
    for piece in others:
        total, gross = total + piece, gross + piece
    return total, gross


def polynomial_fit(record: PathRecord, first: int, last: int, order: int) -> PolynomialFit:
    """Fits of each coordinate, up to degree ``order`` (2 to 4), over the steps first + 1, ..., last."""

    def fit() -> PolynomialFit:
        names = ("transcript_cubic",) if order < 4 else ("transcript_cubic", "transcript_quartic")
        sums, gross = (part[PLACES[order]] for part in sums_between(record, names, first, last))
        return fit_polynomial(sums, gross, last - first, order)

    return record.once(("polynomial", first, last, order), fit)


def vector_fit(record: PathRecord, degree: int, first: int, last: int) -> VectorFit:
    """Fit of degree 1 or 2 of a vector theta over the steps first + 1, ..., last."""

    def fit() -> VectorFit:
        name = "transcript_linear" if degree == 1 else "transcript_quadratic"
        sums, _ = sums_between(record, [name], first, last)
        return (fit_linear if degree == 1 else fit_quadratic)(sums, last - first)

    return record.once(("vector", degree, first, last), fit)
