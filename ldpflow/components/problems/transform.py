"""Monotone scales: an algorithm works on Y = T(X), and rows are in the unit of X.

    log1p   T(x) = log(1 + x) for x > -1
    log     T(x) = log x for x > 0
    sqrt    T(x) = sqrt(x) for x >= 0, and -sqrt(-x) for x < 0
    edges   T(e_j) = j/k for e_0 < ... < e_k, and linear between edges

Beyond e_0 and e_k the first and the last line continue. T increases, so the tau-quantile of X is T^-1 of the
tau-quantile of Y. If [a, b] covers the quantile of Y, then [T^-1(a), T^-1(b)] covers the quantile of X. Bits
are equal on every machine.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpflow.errors import InputError

Floats = NDArray[np.float64]
Transform = str | tuple[float, ...] | None
"""Name of a scale, edges of a piecewise linear scale, or None for T(x) = x."""

LARGEST = 700.0  # argument of exp


def forward(transform: Transform, x: Any, field: str = "problem.transform") -> Floats:
    """T(x) for an array x. Values for which T is not defined are refused."""
    values: Floats = np.asarray(x, dtype=np.float64)
    if transform is None:
        return values
    if not isinstance(transform, str):
        edges = np.array(transform)
        j = piece(np.searchsorted(edges, values, side="right") - 1.0, edges)
        return np.asarray((j + (values - edges[j]) / (edges[j + 1] - edges[j])) / (len(edges) - 1))
    if transform == "sqrt":
        return np.asarray(np.copysign(np.sqrt(np.abs(values)), values))
    least = -1.0 if transform == "log1p" else 0.0
    outside = values.size - np.count_nonzero(values > least)
    if outside:
        hint = f"{outside:,} of {values.size:,} values are not > {least:g}."
        raise InputError(field, transform, "a scale that is defined for all values", hint)
    return elementwise(transform, values)


def inverse(transform: Transform, y: Any) -> Floats:
    """T^-1(y) for an array y. NaN and infinite values stay as they are."""
    values: Floats = np.asarray(y, dtype=np.float64)
    if transform is None:
        return values
    if not isinstance(transform, str):
        edges = np.array(transform)
        place = values * (len(edges) - 1)
        j = piece(np.floor(place), edges)
        return np.asarray(edges[j] + (place - j) * (edges[j + 1] - edges[j]))
    if transform == "sqrt":
        return np.asarray(values * np.abs(values))
    found = elementwise("expm1" if transform == "log1p" else "exp", np.clip(values, -LARGEST, LARGEST))
    found = np.where(values > LARGEST, math.inf, found)
    return np.asarray(np.where(np.isfinite(values), found, values))


def slope(transform: Transform, y: Any) -> Floats:
    """Derivative of T^-1 at y, by which the delta method multiplies a standard error of y."""
    values: Floats = np.asarray(y, dtype=np.float64)
    if transform is None:
        return np.ones_like(values)
    if transform == "sqrt":
        return np.asarray(2.0 * np.abs(values))
    if isinstance(transform, str):
        return inverse("log", values)
    edges = np.array(transform)
    j = piece(np.floor(values * (len(edges) - 1)), edges)
    return np.asarray((len(edges) - 1) * (edges[j + 1] - edges[j]))


def piece(place: NDArray[Any], edges: Floats) -> NDArray[np.intp]:
    """Index of the piece between two edges. Beyond the edges it is the first or last piece."""
    return np.asarray(np.clip(np.nan_to_num(place), 0, len(edges) - 2), dtype=np.intp)


def elementwise(name: str, x: Floats) -> Floats:
    from ldpflow.numerics import distributions

    return distributions.values_of(getattr(distributions, name), x)
