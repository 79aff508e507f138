"""Least squares of a vector of private gradients on the coordinates of the iterate and their products.

A_j = P_j(x) + error with P_j a quadratic polynomial in x = theta_{i-1} - origin: the root of P has no bias
from the curvature of R, and its covariance is J^-1 S J^-T v' M^-1 v with J the derivative of P at the root,
v = (1, x_1, ..., x_d, x_1 x_1, x_2 x_1, x_2 x_2, ...) there and M = sum v v'. There are 1 + d (d + 3)/2
regressors, so it is for small d. Coordinates are scaled by their root mean square; the fit does not depend
on the origin but for rounding. Plain elimination, element by element over R replicates: the same bits on
every processor.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ldpflow.intervals.transcript_regression_linear import (
    apply,
    diagonal,
    inverted,
    product,
    sandwich,
)
from ldpflow.kernels.running_sums import regressors

__all__ = ["QuadraticFit", "fit_quadratic"]

Array = NDArray[np.float64]

NEWTON_STEPS = 40
CONVERGED = 1e-10
"""Size of the last step, in root mean squares of the coordinates."""


@dataclass(frozen=True)
class QuadraticFit:
    """The fit, and what follows from it.

    Parameters
    ----------
    count : int
        N, steps in the fit.
    unit : ndarray, shape (d, R)
        Root mean square of x by coordinate: u = x/unit.
    mean : ndarray, shape (d, R)
        Of u.
    coefficients : ndarray, shape (p, d, R)
        Of v(u), for every A_j.
    precision : ndarray, shape (p, p, R)
        (M/N)^-1 in u.
    residual : ndarray, shape (d, d, R)
        Covariance of the residuals.
    condition : ndarray, shape (R,)
        Largest over smallest pivot of M in u.
    """

    count: int
    unit: Array
    mean: Array
    coefficients: Array
    precision: Array
    residual: Array
    condition: Array

    @cached_property
    def scaled_root(self) -> Array:
        """u with P(u) = 0, by Newton's method from the mean of u; NaN where it does not converge."""
        u = self.mean
        for _ in range(NEWTON_STEPS):
            inverse, _ = inverted(self.derivative(u))
            step = apply(inverse, self.values(u))
            u = u - step
        sound = np.all(np.abs(step) <= CONVERGED * (1.0 + np.abs(u)), axis=0)
        return np.where(sound, u, np.nan)

    @cached_property
    def root(self) -> Array:
        """The root in the unit of theta, around the origin; shape (d, R)."""
        return self.unit * self.scaled_root

    @cached_property
    def inverse(self) -> Array:
        """J^-1 at the root, in the unit of theta; shape (d, d, R)."""
        inverse, _ = inverted(self.derivative(self.scaled_root))
        scaled: Array = self.unit[:, None] * inverse
        return scaled

    def values(self, u: Array) -> Array:
        """P(u), shape (d, R)."""
        result = np.zeros_like(u)
        for m, power in enumerate(powers(u)):
            result = result + self.coefficients[m] * power
        return result

    def derivative(self, u: Array) -> Array:
        """dP_j/du_k at u, shape (d, d, R)."""
        d = len(u)
        result: Array = np.empty((d, *u.shape))
        for k in range(d):
            along = np.zeros_like(u)
            for m, slope in enumerate(slopes(u, k)):
                along = along + self.coefficients[m] * slope
            result[:, k] = along
        return result

    def variances(self, covariance: Array) -> Array:
        """Diagonal of J^-1 S J^-T times v' M^-1 v, shape (d, R); S has shape (d, d, R)."""
        form: Array = self.form(powers(self.scaled_root))
        return sandwich(self.inverse, covariance) * form

    def form(self, v: list[Array]) -> Array:
        """v' M^-1 v, shape (R,)."""
        vector = np.stack([np.broadcast_to(value, self.condition.shape) for value in v])
        total: Array = np.zeros_like(vector[0])
        for k, value in enumerate(apply(self.precision, vector)):
            total = total + vector[k] * value
        return total / self.count

    def own_slopes(self, point: Array) -> tuple[Array, Array]:
        """dP_j/dx_j at a point (d, R) in the unit of theta, and its variance where S_jj is 1."""
        u = point / self.unit
        slope = diagonal(self.derivative(u)) / self.unit
        variance = np.stack([self.form(slopes(u, j)) for j in range(len(u))])
        return slope, variance / (self.unit * self.unit)


def powers(u: Array) -> list[Array]:
    """v(u): 1, the coordinates, and their products in the order of the running sums."""
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
    """The fit from the sums ``transcript_quadratic`` over ``count`` steps, shape (C, d, R)."""
    d = sums.shape[1]
    f = regressors(d)
    flat = iter(sums.reshape(-1, sums.shape[2]) / count)
    moments = np.empty((f + 1, f + 1, sums.shape[2]))
    cross = np.empty((f + 1, d, sums.shape[2]))
    errors = np.empty((d, d, sums.shape[2]))
    moments[0, 0] = 1.0
    for m in range(1, f + 1):
        moments[0, m] = moments[m, 0] = next(flat)
    for j in range(d):
        cross[0, j] = next(flat)
    for j in range(d):
        for m in range(1, f + 1):
            cross[m, j] = next(flat)
    for m in range(1, f + 1):
        for k in range(1, m + 1):
            moments[m, k] = moments[k, m] = next(flat)
    for j in range(d):
        for k in range(j + 1):
            errors[j, k] = errors[k, j] = next(flat)
    unit = np.stack([np.sqrt(moments[1 + k, 1 + k]) for k in range(d)])
    scale = np.stack(powers(unit))
    moments = moments / scale[:, None] / scale[None, :]
    cross = cross / scale[:, None]
    precision, pivots = inverted(moments)
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
