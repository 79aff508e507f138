"""Monotone scales: an algorithm works on Y = T(X), users read rows in the unit of X.

    log1p   T(x) = log(1 + x), x > -1
    log     T(x) = log x, x > 0
    sqrt    T(x) = sqrt(x), and -sqrt(-x) below 0
    edges e_0 < .. < e_k   T(e_j) = j/k, linear between them; beyond e_0 and e_k the nearest line goes on

T increases: the tau-quantile of X is T^-1 of the tau-quantile of Y, and an interval [a, b] covers the second
exactly if [T^-1(a), T^-1(b)] covers the first. Bits are equal on every machine.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpflow.errors import InputError

Floats = NDArray[np.float64]
Transform = str | tuple[float, ...] | None
"""Name of a scale, edges of a piecewise linear one, or None for T(x) = x."""

LARGEST = 700.0  # argument of exp


def forward(transform: Transform, x: Any, field: str = "problem.transform") -> Floats:
    """T(x), with the shape of ``x``, refused if T is not defined for all values."""
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
    """T^-1(y), with the shape of ``y``; what is not finite stays."""
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
    """Derivative of T^-1 at y: a standard error of y times this is one of T^-1(y) (delta method)."""
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
    """Number of the piece between two edges, the first or last one beyond them."""
    return np.asarray(np.clip(np.nan_to_num(place), 0, len(edges) - 2), dtype=np.intp)


def elementwise(name: str, x: Floats) -> Floats:
    from ldpflow.numerics import distributions

    return distributions.values_of(getattr(distributions, name), x)
