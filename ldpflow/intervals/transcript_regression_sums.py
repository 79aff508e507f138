"""Fits of a record's transcript from its running sums, over any range of steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ldpflow.intervals.interval import Array
from ldpflow.intervals.record import PathRecord
from ldpflow.intervals.transcript_regression_checks import VectorFit
from ldpflow.intervals.transcript_regression_fit import PolynomialFit, fit_polynomial
from ldpflow.intervals.transcript_regression_linear import fit_linear
from ldpflow.intervals.transcript_regression_quadratic import fit_quadratic
from ldpflow.kernels.running_sums import pieces

__all__ = ["polynomial_fit", "vector_fit"]

# Where a fit of degree 1 and the power above it find their sums in those of the cubic.
QUADRATIC = [0, 1, 2, 3, 6, 7, 8, 10]

# The cubic's sums and the three of the quartic, sorted: x^1..x^8, A..A x^4, A^2.
QUARTIC = [0, 1, 2, 3, 4, 5, 11, 12, 6, 7, 8, 9, 13, 10]


def sums_between(record: PathRecord, names: Sequence[str], first: int, last: int) -> tuple[Array, Array]:
    """Sums over the steps first + 1, ..., last, and what they were before a subtraction.

    The shapes are (count, d, R), of all names together.
    """

    def at(time: int) -> Array:
        return np.concatenate([record.running(name, time) for name in names])

    total, *others = [at(time) for time in pieces(first, last)]
    gross = total
    if first & (first - 1):
        total = total - at(first)
    for piece in others:
        total, gross = total + piece, gross + piece
    return total, gross


def polynomial_fit(
    record: PathRecord, first: int, last: int, order: int, coordinate: int = 0
) -> PolynomialFit:
    """Fits of a coordinate of theta up to a degree (2 to 4) over the steps first + 1, ..., last."""

    def fit() -> PolynomialFit:
        names = ("transcript_cubic",) if order < 4 else ("transcript_cubic", "transcript_quartic")
        sums, gross = sums_between(record, names, first, last)
        if order != 3:
            taken = QUADRATIC if order == 2 else QUARTIC
            sums, gross = sums[taken], gross[taken]
        return fit_polynomial(sums[:, coordinate], gross[:, coordinate], last - first, order)

    return record.once(("polynomial", first, last, order, coordinate), fit)


def vector_fit(record: PathRecord, degree: int, first: int, last: int) -> VectorFit:
    """Fit of a vector theta of degree 1 or 2 over the steps first + 1, ..., last."""

    def fit() -> VectorFit:
        names = ("transcript_linear",) if degree == 1 else ("transcript_quadratic",)
        fit_vector = fit_linear if degree == 1 else fit_quadratic
        return fit_vector(sums_between(record, names, first, last)[0], last - first)

    return record.once(("vector", degree, first, last), fit)
