"""Regressions on the rows of a file: their constants, and records drawn with replacement.

The population is the N rows of the file. A record is row floor(u N) with u uniform on (0, 1). Probabilities
are off by less than N 2^-52. A row has the gradient w s(z, y) x with its weight w, its score s and
z = x' theta. theta* is the root of the mean gradient. s increases in z, so theta* minimises a convex
function, and Newton's method finds theta*. With the derivative s' of s in z, the derivative G of the mean
gradient at theta* is the mean of w s' x x', and the covariance S of the gradient is that of w^2 s^2 x x'.

The sums of means are rounded once, elementary functions are those of ldpflow.numerics, and linear systems are
solved with 40 digits. So theta*, G and S have equal bits on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

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
HALVINGS = 40  # largest number of halvings of a step


@dataclass(frozen=True, eq=False)
class Rows:
    """Columns of x, and y, each of shape (N,)."""

    columns: list[Floats]
    y: Floats

    def along(self, theta: tuple[float, ...]) -> Floats:
        terms = [value * column for value, column in zip(theta, self.columns, strict=True)]
        return sum(terms[1:], terms[0])


@dataclass(frozen=True)
class Fit:
    """N, theta*, G and S (d x d) of the rows of a file."""

    size: int
    truth: tuple[float, ...]
    curvature: Matrix
    covariance: Matrix

    def text(self) -> str:
        """N and d, then theta* and the rows of G and S in hexadecimal."""
        numbers = [*self.truth, *(v for m in (self.curvature, self.covariance) for row in m for v in row)]
        return " ".join([str(self.size), str(len(self.truth)), *(value.hex() for value in numbers)])

    @classmethod
    def of_text(cls, text: str) -> Fit:
        size, dimension, *words = text.split()
        d, numbers = int(dimension), [float.fromhex(word) for word in words]
        if not 1 <= d <= 64 or len(numbers) != d + 2 * d * d or not all(map(math.isfinite, numbers)):
            raise ValueError("not theta*, G and S of a file's rows")
        rows = [numbers[d + d * k : d + d * (k + 1)] for k in range(2 * d)]
        return cls(int(size), tuple(numbers[:d]), rows[:d], rows[d:])


Score = Callable[[Floats], tuple[Floats, Floats]]
"""Scores s and their derivatives s' for given z = x' theta of all rows."""


def mean(values: Floats) -> float:
    """Mean, with a correctly rounded sum."""
    return math.fsum(values.tolist()) / len(values)


def second_moments(columns: list[Floats], weight: Floats) -> Matrix:
    """Mean of weight x x' over the rows."""
    d = len(columns)
    found = [[0.0] * d for _ in range(d)]
    for i in range(d):
        weighted = weight * columns[i]
        for j in range(i + 1):
            found[i][j] = found[j][i] = mean(weighted * columns[j])
    return found


def solve(left: Matrix, right: list[float]) -> list[float] | None:
    """Solve a linear system with 40 digits. None if it is singular."""
    with constants.workdps(40):
        try:
            solution = mp.lu_solve(matrix(left), matrix(right))
        except ZeroDivisionError:
            return None
        return [float(value) for value in solution]


def check_independent(moments: Matrix, field: str, value: object) -> tuple[float, float]:
    """Return the least and largest eigenvalue of second moments. Linearly dependent columns are refused."""
    eigenvalues = np.linalg.eigvalsh(np.array(moments))
    low, high = float(eigenvalues[0]), float(eigenvalues[-1])
    if low <= 1e-9 * high:
        hint = f"The eigenvalues of their second moments go from {low:.3g} to {high:.3g}."
        raise InputError(field, value, "columns none of which follows from the others", hint)
    return low, high


def fit_rows(rows: Rows, weight: Floats, score: Score, start: tuple[float, ...], bound: float) -> Fit:
    """theta*, G and S of rows with weights w > 0, by Newton's method from ``start``.

    ``bound`` is an upper bound of s'. A step with ``bound`` in place of s' is tried if Newton's step does not
    make the gradient smaller.
    """
    columns = rows.columns
    whole = second_moments(columns, weight)
    low, _ = check_independent(whole, "problem.features", len(columns))
    sizes = [math.sqrt(whole[j][j]) for j in range(len(columns))]

    def gradient(theta: tuple[float, ...]) -> tuple[list[float], float]:
        s, _ = score(rows.along(theta))
        found = [mean(weight * s * column) for column in columns]
        return found, max(abs(value) / size for value, size in zip(found, sizes, strict=True))

    def descend(step: list[float]) -> tuple[tuple[float, ...], list[float], float] | None:
        for k in range(HALVINGS):
            moved = tuple(value - 0.5**k * change for value, change in zip(theta, step, strict=True))
            if moved == theta:
                break
            g, now = gradient(moved)
            if now < size:
                return moved, g, now
        return None

    theta = start
    g, size = gradient(theta)
    for _ in range(NEWTON_STEPS):
        _, slope = score(rows.along(theta))
        for moments in (second_moments(columns, weight * slope), scale_matrix(whole, bound)):
            step = solve(moments, g)
            better = None if step is None else descend(step)
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
    # If a plane separates the classes, theta grows without limit, and both gradient and s' go to 0.
    if size > 1e-11 * (typical + mean(weight)) or least <= 1e-7 * bound * low:
        hint = "Classes that a plane separates, or residuals that are all cut off, have none."
        raise InputError("problem.target", "the file's rows", "rows whose mean gradient has one root", hint)
    return Fit(len(rows.y), theta, curvature, covariance)


def draw_rows(kernel, state, parameters, planes):  # type: ignore[no-untyped-def]
    """Draw rows of the table ``parameters`` with replacement. ``planes`` gets CHUNK draws of each column."""
    count = parameters.shape[0] // (kernel.D + 1)
    drawn = planes[kernel.D * STRIDE : kernel.D * STRIDE + PLANE]
    fill_uniform(state, 0.0, drawn)
    for i in range(PLANE):
        row = min(np.int64(drawn[i] * count), count - 1)
        for j in range(kernel.D + 1):
            planes[j * STRIDE + i] = parameters[row * (kernel.D + 1) + j]
