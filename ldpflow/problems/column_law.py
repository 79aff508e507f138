"""Law of a column of data: a quadratic spline for its quantile function.

    Q(u) = Q_j + d (s_j + d r_j),   d = u - p_j,   r_j = (s_{j+1} - s_j) / (2 (p_{j+1} - p_j))

for u in the cell (p_j, p_{j+1}). Q' is linear in every cell, continuous and greater than 0, so the
density 1/Q' is continuous and the distribution function takes one square root. Knots are dyadic: each
octave of min(p, 1 - p) from 1/2 down to 2^-J, J = floor(log2(N/8)), has 16 equal cells, and the cell of
a uniform is read off its exponent and four bits of its mantissa. The sparsities s_j = Q'(p_j) are
differences of means of the sorted column over neighbouring stretches of 2h,
h = t min(1, (N t)^(-1/5)) / 2 with t = min(p, 1 - p): ties are smoothed.

The table is made by additions, multiplications, divisions and correctly rounded roots in a fixed
order: it has the same bits on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from mpmath import mp, mpf
from numpy.typing import NDArray

from ldpflow import constants

__all__ = ["CELLS", "SMALLEST", "ColumnLaw", "column_law", "knots"]

Floats = NDArray[np.float64]

CELLS = 16
"""Cells per octave of min(p, 1 - p)."""

SMALLEST = 100
"""Fewest values that make a law."""


@dataclass(frozen=True)
class ColumnLaw:
    """Law of a column.

    Parameters
    ----------
    size : int
        N, the number of values of the column.
    sparsities : tuple of float
        s_j > 0, the derivative of the quantile function at the knots, unit of the column.
    median : float
        Q(1/2), the median of the column.
    """

    size: int
    sparsities: tuple[float, ...]
    median: float

    @cached_property
    def p(self) -> Floats:
        """Knots p_j."""
        return knots(self.size)

    @cached_property
    def s(self) -> Floats:
        """Sparsities s_j."""
        return np.array(self.sparsities)

    @cached_property
    def q(self) -> Floats:
        """Quantiles Q_j at the knots."""
        steps = np.diff(self.p) * (self.s[:-1] + self.s[1:]) / 2
        below = np.concatenate([[0.0], np.cumsum(steps)])
        result: Floats = below - below[len(below) // 2] + self.median
        return result

    @cached_property
    def r(self) -> Floats:
        """r_j = half the second derivative of Q in cell j."""
        return 0.5 * (np.diff(self.s) / np.diff(self.p))

    def cell(self, u: Floats) -> NDArray[np.intp]:
        """Index j of the cell of u; the last one that begins at or below u."""
        found = np.searchsorted(self.p, u, side="right") - 1
        return np.clip(found, 0, len(self.p) - 2)

    def quantiles(self, u: Floats) -> Floats:
        """Q(u) for u in [0, 1]."""
        j = self.cell(u)
        d = u - self.p[j]
        return self.q[j] + d * (self.s[j] + d * self.r[j])

    def cdf_values(self, x: Floats) -> Floats:
        """F(x); 0 and 1 outside the range."""
        x = np.clip(x, self.q[0], self.q[-1])
        j = np.clip(np.searchsorted(self.q, x, side="right") - 1, 0, len(self.q) - 2)
        d = x - self.q[j]
        s = self.s[j]
        return self.p[j] + 2.0 * d / (s + np.sqrt(s * s + 4.0 * d * self.r[j]))

    def sparsity(self, tau: float) -> float:
        """Q'(tau) = 1/f(Q(tau)), unit of the column."""
        u = np.array([tau])
        j = self.cell(u)
        return float((self.s[j] + (u - self.p[j]) * (2.0 * self.r[j]))[0])

    def slope(self, tau: float) -> float:
        """f'(Q(tau)) = -Q"(tau)/Q'(tau)^3, the mean of both cells at a knot."""
        j = int(self.cell(np.array([tau]))[0])
        bend = self.r[j] if tau > self.p[j] else 0.5 * (self.r[j - 1] + self.r[j])
        return float(-2.0 * bend / self.sparsity(tau) ** 3)


def knots(size: int) -> Floats:
    """p_j of the law of a column of ``size`` values, from 0 to 1."""
    octaves = max(2, (size // 8).bit_length() - 1)  # floor(log2(size / 8))
    low = [2.0**e * (1.0 + k / CELLS) for e in range(-octaves, -1) for k in range(CELLS)]
    half = np.array([0.0, *low, 0.5])
    return np.concatenate([half, 1.0 - half[:-1][::-1]])


def bandwidths(t: Floats, size: int) -> Floats:
    """h = t min(1, (N t)^(-1/5)) / 2, the root correctly rounded."""
    with constants.workdps(40):
        roots = [float(mp.root(mpf(value), 5)) for value in (size * t).tolist()]
    result: Floats = np.minimum(0.5 * t / np.array(roots), 0.5 * t)
    return result


def column_law(values: Floats) -> ColumnLaw:
    """The law of a column.

    Parameters
    ----------
    values : ndarray of float, shape (N,)
        At least SMALLEST of them, finite and not all equal.
    """
    x = np.sort(np.asarray(values, dtype=np.float64) + 0.0)
    size = len(x)
    p = knots(size)
    prefix = np.concatenate([[0.0], np.cumsum(x)])

    def integral(u: Floats) -> Floats:
        """Integral of the sample quantile function over (0, u)."""
        t = u * size
        i = np.minimum(np.floor(t).astype(np.int64), size - 1)
        result: Floats = (prefix[i] + (t - i) * x[i]) / size
        return result

    inner = p[1:-1]
    h = bandwidths(np.minimum(inner, 1.0 - inner), size)
    right = np.minimum(inner + 2.0 * h, 1.0)
    left = np.maximum(inner - 2.0 * h, 0.0)
    middle = integral(inner)
    above = (integral(right) - middle) / (right - inner)
    below = (middle - integral(left)) / (inner - left)
    s = np.empty(len(p))
    s[1:-1] = (above - below) / (2.0 * h)
    s[0], s[-1] = s[1], s[-2]
    s = np.maximum(s, 1e-9 * (x[-1] - x[0]))
    return ColumnLaw(size, tuple(s.tolist()), float((x[(size - 1) // 2] + x[size // 2]) / 2))
