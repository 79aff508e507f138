"""Regressions on the rows of a file: theta*, G and S, and records drawn with replacement.

The population is the file: a record is row floor(u N), u uniform on (0, 1) with 52 bits (off by less than
N 2^-52 in probability). theta* is the root of the mean of the bounded gradient w s(z, y) x over the rows,
z = x' theta, by Newton's method. s rises in z, so that the root minimises a convex function. G and S are the
means of w s' x x' and of w^2 s^2 x x' there. Every mean is rounded once, elementary functions are ldpflow's
own, and linear systems are solved with 40 digits: bits are equal on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from mpmath import matrix, mp
from numpy.typing import NDArray

from ldpflow.components.problems.problem import Matrix, scale_matrix
from ldpflow.errors import InputError
from ldpflow.numerics import constants, fill_uniform
from ldpflow.numerics.streams import PLANE, STRIDE

Floats = NDArray[np.float64]

MOST_ROWS = 2**20
NEWTON_STEPS = 200
HALVINGS = 40  # of one step


@dataclass(frozen=True, eq=False)
class Rows:
    """Columns of x, and y, of a file, each of shape (N,)."""

    columns: list[Floats]
    y: Floats

    def along(self, theta: tuple[float, ...]) -> Floats:
        """x' theta, added up in the order of the columns."""
        terms = [value * column for value, column in zip(theta, self.columns, strict=True)]
        return sum(terms[1:], terms[0])

    def square_norms(self) -> Floats:
        squares = [column * column for column in self.columns]
        return sum(squares[1:], squares[0])


@dataclass(frozen=True)
class Fit:
    """N, theta*, G and S (d x d) of the rows of a file."""

    size: int
    truth: tuple[float, ...]
    curvature: Matrix
    covariance: Matrix

    def text(self) -> str:
        """N, then theta*, G and S row by row, in hexadecimal."""
        numbers = [*self.truth, *(v for m in (self.curvature, self.covariance) for row in m for v in row)]
        return " ".join([str(self.size), str(len(self.truth)), *(value.hex() for value in numbers)])

    @classmethod
    def of_text(cls, text: str) -> Fit:
        """Read the output of :meth:`text`."""
        size, dimension, *words = text.split()
        d, numbers = int(dimension), [float.fromhex(word) for word in words]
        if not 1 <= d <= 64 or len(numbers) != d + 2 * d * d or not all(map(math.isfinite, numbers)):
            raise ValueError("not theta*, G and S of a file's rows")
        rows = [numbers[d + d * k : d + d * (k + 1)] for k in range(2 * d)]
        return cls(int(size), tuple(numbers[:d]), rows[:d], rows[d:])


Score = Callable[[Floats], tuple[Floats, Floats]]
"""s and its derivative at z = x' theta of every row."""


def mean(values: Floats) -> float:
    """Mean, its sum rounded once."""
    return math.fsum(values.tolist()) / len(values)


def second_moments(columns: list[Floats], weight: Floats) -> Matrix:
    """Mean of weight x x'."""
    d = len(columns)
    found = [[0.0] * d for _ in range(d)]
    for i in range(d):
        weighted = weight * columns[i]
        for j in range(i + 1):
            found[i][j] = found[j][i] = mean(weighted * columns[j])
    return found


def solve(left: Matrix, right: list[float]) -> list[float] | None:
    """Solution of a linear system with 40 digits, or None."""
    with constants.workdps(40):
        try:
            solution = mp.lu_solve(matrix(left), matrix(right))
        except ZeroDivisionError:
            return None
        return [float(value) for value in solution]


def check_independent(moments: Matrix, field: str, value: object) -> tuple[float, float]:
    """Refuse dependent columns, and return the least and largest eigenvalue of second moments."""
    eigenvalues = np.linalg.eigvalsh(np.array(moments))
    low, high = float(eigenvalues[0]), float(eigenvalues[-1])
    if low <= 1e-9 * high:
        hint = f"The eigenvalues of their second moments go from {low:.3g} to {high:.3g}."
        raise InputError(field, value, "columns none of which follows from the others", hint)
    return low, high


def fit_rows(rows: Rows, weight: Floats, score: Score, start: tuple[float, ...], bound: float) -> Fit:
    """theta*, G and S of rows with weights w > 0, by Newton's method.

    ``bound`` is the largest derivative of s: with it in the place of s' a step always approaches the root.
    """
    columns = rows.columns
    whole = second_moments(columns, weight)
    low, _ = check_independent(whole, "problem.features", len(columns))
    sizes = [math.sqrt(whole[j][j]) for j in range(len(columns))]

    def gradient(theta: tuple[float, ...]) -> tuple[list[float], float]:
        s, _ = score(rows.along(theta))
        found = [mean(weight * s * column) for column in columns]
        return found, max(abs(value) / size for value, size in zip(found, sizes, strict=True))

    theta = start
    g, size = gradient(theta)
    for _ in range(NEWTON_STEPS):
        _, slope = score(rows.along(theta))
        for moments in (second_moments(columns, weight * slope), scale_matrix(whole, bound)):
            step = solve(moments, g)
            better = None if step is None else descend(theta, step, gradient, size)
            if better is not None:
                break
        if better is None:
            break
        theta, g, size = better
    s, slope = score(rows.along(theta))
    curvature = second_moments(columns, weight * slope)
    covariance = second_moments(columns, (weight * s) * (weight * s))
    typical = mean(np.abs(weight * s))
    least = np.linalg.eigvalsh(np.array(curvature))[0]
    # For separable classes theta grows without end, and s' vanishes with the gradient.
    if size > 1e-11 * (typical + mean(weight)) or least <= 1e-7 * bound * low:
        hint = "Classes that a plane separates, or residuals that are all cut off, have none."
        raise InputError("problem.target", "the file's rows", "rows whose mean gradient has one root", hint)
    return Fit(len(rows.y), theta, curvature, covariance)


def descend(
    theta: tuple[float, ...], step: list[float], gradient: Callable[..., Any], size: float
) -> tuple[tuple[float, ...], list[float], float] | None:
    """theta, gradient and its size after the step, which is halved until the gradient is smaller."""
    for k in range(HALVINGS):
        moved = tuple(value - 0.5**k * change for value, change in zip(theta, step, strict=True))
        if moved == theta:
            break
        g, now = gradient(moved)
        if now < size:
            return moved, g, now
    return None


def draw_rows(kernel, state, parameters, planes):  # type: ignore[no-untyped-def]
    """Fill the planes of one chunk with rows, drawn with replacement from the table ``parameters``."""
    count = parameters.shape[0] // (kernel.D + 1)
    drawn = planes[kernel.D * STRIDE : kernel.D * STRIDE + PLANE]
    fill_uniform(state, 0.0, drawn)
    for i in range(PLANE):
        row = min(np.int64(drawn[i] * count), count - 1)
        for j in range(kernel.D + 1):
            planes[j * STRIDE + i] = parameters[row * (kernel.D + 1) + j]
