"""Least squares of the private gradient A on powers of the iterate, from running sums; the root of the
fitted polynomial and the ends of its score set. Scalar theta, R replicates at once.

The sums are of x = theta_{i-1} - origin. With m and s the mean and standard deviation of x,
u = (x - m)/s, v(u) = (1, u, u^2, ...) and M = sum v v' = L D L' (L unit lower triangular), the
polynomials q(u) = L^-1 v(u) are orthogonal on the path: P_d = sum_{k<=d} c_k q_k with
c = D^-1 L^-1 sum A v, v(u)' M^-1 v(u) = sum_{k<=d} q_k(u)^2/D_k, and the fits of all degrees come
together. Nothing but + - * / and sqrt, element by element: the same bits on every processor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import comb

import numpy as np
from numpy.typing import NDArray

from ldpflow.kernels.module import compiled
from ldpflow.kernels.specialise import Case

__all__ = ["PolynomialFit", "fit_polynomial"]

Array = NDArray[np.float64]

LOSS = 1e9
"""Largest ratio of the sums to the centred moment made of them: 7 of 16 digits are left."""

REACH = 50.0
"""Range, in standard deviations of the path, in which a root of a cubic is searched."""

# Where the ends of the score set are looked for, in half widths of the interval that is linear in
# the error: eight points to each of the first two, then in steps of a quarter, to 71.
MARCH = tuple([j / 8.0 for j in range(1, 17)] + [2.0 * 1.25**j for j in range(1, 17)])


@dataclass(frozen=True)
class PolynomialFit:
    """Fits of all degrees up to P.

    Parameters
    ----------
    count : int
        N, steps in the fit.
    mean, sd : ndarray, shape (R,)
        m and s, in the unit of theta.
    lower : list of lists of ndarray, shape (R,)
        L below its diagonal.
    pivots : list of ndarray, shape (R,)
        The diagonal of D, P + 1 of them.
    coefficients : list of ndarray, shape (R,)
        c.
    square : ndarray, shape (R,)
        sum A^2.
    sound : list of ndarray of bool, shape (R,)
        By degree, whether enough digits are left in the moments it takes.
    """

    count: int
    mean: Array
    sd: Array
    lower: list[list[Array]]
    pivots: list[Array]
    coefficients: list[Array]
    square: Array
    sound: list[NDArray[np.bool_]]

    def residual_variance(self, degree: int) -> Array:
        """Sum of squared residuals over N - degree - 1."""
        rest = self.square
        for k in range(degree + 1):
            rest = rest - self.coefficients[k] * self.coefficients[k] * self.pivots[k]
        return rest / (self.count - degree - 1)

    def condition(self, degree: int) -> Array:
        """Largest over smallest pivot: at most the condition number of M in u."""
        largest = smallest = self.pivots[0]
        for k in range(1, degree + 1):
            largest = np.maximum(largest, self.pivots[k])
            smallest = np.minimum(smallest, self.pivots[k])
        return largest / smallest

    def lack_of_fit(self, degree: int, variance: Array) -> Array:
        """t statistic of the next power: N(0, 1) in the limit where the degree suffices."""
        k = degree + 1
        t: Array = self.coefficients[k] * np.sqrt(self.pivots[k] / variance)
        return np.where(self.sound[k], t, np.nan)

    def basis(self, u: Array, degree: int) -> list[Array]:
        """q_0(u), ..., q_degree(u)."""
        values = [np.ones_like(u)]
        power = values[0]
        for k in range(1, degree + 1):
            power = power * u
            q = power
            for j in range(k):
                q = q - self.lower[k][j] * values[j]
            values.append(q)
        return values

    def monomials(self, degree: int) -> list[Array]:
        """b with P(u) = b_0 + b_1 u + ..., from L' b = c."""
        b = list(self.coefficients[: degree + 1])
        for k in range(degree, -1, -1):
            for j in range(k + 1, degree + 1):
                b[k] = b[k] - self.lower[j][k] * b[j]
        return b

    def root(self, degree: int) -> tuple[Array, Array]:
        """u with P(u) = 0 on the increasing branch through the mean, and P'(u); NaN without one."""
        b = self.monomials(degree)
        if degree == 3:
            return cubic_root(b)
        b2 = b[2] if degree == 2 else np.zeros_like(b[0])
        slope = np.sqrt(b[1] * b[1] - 4.0 * b[0] * b2)
        u = np.where(b[1] > 0.0, -2.0 * b[0] / (b[1] + slope), np.nan)
        return u, np.where(b[1] > 0.0, slope, np.nan)

    def sound_root(self, degree: int) -> tuple[Array, Array]:
        """:meth:`root`, NaN where too few digits are left."""
        u, slope = self.root(degree)
        return np.where(self.sound[degree], u, np.nan), slope

    def leverage(self, u: Array, degree: int) -> Array:
        """v(u)' M^-1 v(u): P(u) has this variance where S is 1."""
        total = np.zeros_like(u)
        for k, q in enumerate(self.basis(u, degree)):
            total = total + q * q / self.pivots[k]
        return total

    def arms(
        self, u: Array, slope: Array, degree: int, variance: Array, critical: Array
    ) -> tuple[Array, Array]:
        """Distances, in u, from the root to the nearest points with P^2 = z^2 S v' M^-1 v.

        Parameters
        ----------
        u, slope, variance : ndarray, shape (R,)
            The root, P' there, and S.
        critical : ndarray, shape (L,)
            z, for every level.

        Returns
        -------
        below, above : ndarray, shape (L, R)
            NaN where there is none within 71 half widths of the interval that is linear.
        """
        z2 = critical * critical
        half = np.sqrt(z2[:, None] * (variance * self.leverage(u, degree))) / slope
        lower = np.zeros((degree + 1, degree + 1, len(u)))
        for k in range(degree + 1):
            for j in range(k):
                lower[k, j] = self.lower[k][j]
        found = np.empty((len(critical), 2, len(u)))
        pivots, coefficients = (np.stack(part[: degree + 1]) for part in (self.pivots, self.coefficients))
        ends_kernel()(
            lower, pivots, coefficients, u, half, variance * np.ones_like(u), z2, np.array(MARCH), found
        )
        return found[:, 0], found[:, 1]


SIGNATURE = (
    "void(float64[:, :, ::1], float64[:, ::1], float64[:, ::1], float64[::1], float64[:, ::1], "
    "float64[::1], float64[::1], float64[::1], float64[:, :, ::1])"
)


@cache
def ends_kernel() -> Callable[..., None]:
    """:func:`find_ends`, compiled."""
    return compiled(find_ends, Case((("excess", excess),)), SIGNATURE)


def find_ends(kernel, lower, pivots, coefficients, u, half, variance, z2, march, found):  # type: ignore[no-untyped-def]
    """found[level, side] = t where P^2 - z^2 S v' M^-1 v at u -+ t changes its sign, NaN if nowhere.

    Along the march in half widths to the first point outside, then fifty halvings.
    """
    values = np.empty(pivots.shape[0])
    for level in range(z2.shape[0]):
        for side in range(2):
            sign = 2.0 * side - 1.0
            for r in range(u.shape[0]):
                low = 0.0
                high = np.nan
                for step in range(march.shape[0]):
                    t = march[step] * half[level, r]
                    at = u[r] + sign * t
                    if (
                        kernel.excess(lower, pivots, coefficients, at, r, variance[r], z2[level], values)
                        >= 0.0
                    ):
                        high = t
                        break
                    low = t
                if np.isnan(high):
                    found[level, side, r] = np.nan
                    continue
                for _ in range(50):
                    middle = 0.5 * (low + high)
                    at = u[r] + sign * middle
                    if (
                        kernel.excess(lower, pivots, coefficients, at, r, variance[r], z2[level], values)
                        < 0.0
                    ):
                        low = middle
                    else:
                        high = middle
                found[level, side, r] = 0.5 * (low + high)


def excess(lower, pivots, coefficients, at, r, variance, z2, values):  # type: ignore[no-untyped-def]
    """P^2 - z^2 S v' M^-1 v of one replicate; ``values`` is where q_0, ..., q_degree go."""
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
    """The root of a cubic on the increasing branch through 0, and the slope there, by bisection."""

    def value(u: Array) -> Array:
        result: Array = b[0] + u * (b[1] + u * (b[2] + u * b[3]))
        return result

    # P' = b1 + 2 b2 u + 3 b3 u^2 is b1 > 0 at 0: its nearest zero on the root's side ends the branch.
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
    """Least squares of A on 1, x, ..., x^order.

    Parameters
    ----------
    sums : ndarray, shape (3 order + 2, R)
        sum x^k for k = 1..2 order, sum A x^k for k = 0..order, sum A^2, over the ``count`` steps.
    gross : ndarray, shape (3 order + 2, R)
        What ``sums`` was before a subtraction.
    count : int
    order : int
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
    moments = centred(powers, shift, sd)
    responses = centred(cross, shift, sd)
    lower: list[list[Array]] = []
    pivots: list[Array] = []
    coefficients: list[Array] = []
    for k in range(order + 1):
        row: list[Array] = []
        for j in range(k):
            entry = moments[j + k]
            for i in range(j):
                entry = entry - row[i] * pivots[i] * lower[j][i]
            row.append(entry / pivots[j])
        pivot = moments[2 * k]
        for i in range(k):
            pivot = pivot - row[i] * row[i] * pivots[i]
        pivots.append(pivot)
        lower.append(row)
        rest = responses[k]
        for i in range(k):
            rest = rest - row[i] * (coefficients[i] * pivots[i])
        coefficients.append(rest / pivots[k])
        sound[k] = sound[k] & (pivots[k] > 0.0)
        if k:
            sound[k] = sound[k] & sound[k - 1]
    return PolynomialFit(count, mean, sd, lower, pivots, coefficients, sums[3 * order + 1], sound)


def centred(sums: list[Array], shift: Array, sd: Array) -> list[Array]:
    """sum w u^k from sum w x^j, j <= k, where u = x/sd - shift."""
    scaled = []
    unit = np.ones_like(sd)
    for total in sums:
        scaled.append(total / unit)
        unit = unit * sd
    result = []
    for k in range(len(sums)):
        # Horner's rule in -shift: sum_j C(k, j) (-shift)^(k - j) scaled_j.
        value = scaled[0]
        for j in range(1, k + 1):
            value = comb(k, j) * scaled[j] - shift * value
        result.append(value)
    return result
