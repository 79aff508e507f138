"""Least squares of a vector of private gradients on the vector of iterates, from running sums.

A = a + B (x - m) + error, x = theta_{i-1} - origin with mean m: an estimate of the curvature B (which
needs no budget of its own: the transcript is public), of the root m - B^-1 a, and of its covariance
B^-1 S B^-T (1 + (root - m)' C^-1 (root - m))/N with C the covariance of x along the path. Plain
elimination, element by element over R replicates: the same bits on every processor.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["LinearFit", "fit_linear"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class LinearFit:
    """The root of the fit and what goes into its covariance.

    Parameters
    ----------
    root : ndarray, shape (d, R)
    slope, inverse : ndarray, shape (d, d, R)
        B and B^-1.
    residual : ndarray, shape (d, d, R)
        Covariance of the residuals.
    spread : ndarray, shape (d, R)
        Diagonal of C^-1/N: the variance of B_jj where S_jj is 1.
    leverage : ndarray, shape (R,)
        (1 + (root - m)' C^-1 (root - m))/N.
    condition : ndarray, shape (R,)
        Largest over smallest pivot of the correlation matrix of x.
    """

    root: Array
    slope: Array
    inverse: Array
    residual: Array
    spread: Array
    leverage: Array
    condition: Array

    def variances(self, covariance: Array) -> Array:
        """Diagonal of B^-1 S B^-T times the leverage, shape (d, R); S has shape (d, d, R)."""
        return sandwich(self.inverse, covariance) * self.leverage

    def own_slopes(self, point: Array) -> tuple[Array, Array]:
        """B_jj, and its variance where S_jj is 1; the same at every point."""
        return diagonal(self.slope), self.spread


def fit_linear(sums: Array, count: int) -> LinearFit:
    """The fit from the sums ``transcript_linear`` over ``count`` steps, shape (2 + 3d, d, R)."""
    d = sums.shape[1]
    mean, response = sums[0] / count, sums[1] / count
    spread = np.empty((d, d, sums.shape[2]))
    errors = np.empty_like(spread)
    cross = np.empty_like(spread)
    for j in range(d):
        for k in range(d):
            cross[j, k] = sums[2 + k, j] / count - response[j] * mean[k]
            if k <= j:
                spread[j, k] = sums[2 + d + k, j] / count - mean[j] * mean[k]
                spread[k, j] = spread[j, k]
                errors[j, k] = sums[2 + 2 * d + k, j] / count - response[j] * response[k]
                errors[k, j] = errors[j, k]
    sd = np.stack([np.sqrt(spread[j, j]) for j in range(d)])
    correlation, pivots = inverted(spread / sd[:, None] / sd[None, :])
    precision = correlation / sd[:, None] / sd[None, :]
    slope = product(cross, precision)
    inverse, _ = inverted(slope)
    step = -apply(inverse, response)
    leverage = np.ones_like(step[0])
    for j, value in enumerate(apply(precision, step)):
        leverage = leverage + step[j] * value
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


def sandwich(matrix: Array, covariance: Array) -> Array:
    """Diagonal of matrix covariance matrix', shape (d, R)."""
    half = product(matrix, covariance)
    d = len(half)
    result: Array = np.zeros_like(half[0])
    for j in range(d):
        for k in range(d):
            result[j] += half[j, k] * matrix[j, k]
    return result


def diagonal(matrix: Array) -> Array:
    """Diagonal of matrices of shape (d, d, R), shape (d, R)."""
    return np.stack([matrix[j, j] for j in range(len(matrix))])


def product(first: Array, second: Array) -> Array:
    """Matrix product, shapes (a, b, R) and (b, c, R), in a fixed order."""
    result = np.zeros((len(first), *second.shape[1:]))
    for k in range(first.shape[1]):
        result = result + first[:, k, None] * second[None, k]
    return result


def apply(matrix: Array, vector: Array) -> Array:
    """Matrix times vector, shape (d, R), in a fixed order."""
    result = np.zeros_like(vector)
    for k in range(len(vector)):
        result = result + matrix[:, k] * vector[k]
    return result


def inverted(matrix: Array) -> tuple[Array, Array]:
    """Inverse by Gauss-Jordan elimination without exchanges, and the pivots, shape (d, R).

    For matrices that are, or estimate, positive definite ones; a pivot that vanishes makes NaN.
    """
    d = len(matrix)
    left = matrix.copy()
    right = np.zeros_like(matrix)
    for j in range(d):
        right[j, j] = 1.0
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
