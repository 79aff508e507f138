"""Robust linear regression: Huber's loss with Mallows weights, or with clipped gradients.

Simulated records have y = x' theta* + e, x ~ N(0, I_d) and e ~ N(0, 1). With the constant c of Huber's loss,
r = y - x' theta and psi_c(r) = max(-c, min(c, r)), the gradient is

    mallows: g = -psi_c(r) u(x) x,  u = min(1, 2/||x||^2);  ||g|| <= C0 = sqrt(2) c
    clip:    g = -psi_c(r) x min(1, C0/(|psi_c(r)| ||x||)), C0 given

At theta* both gradients are odd functions of e, so theta* is the root of the mean gradient. Source: the
experiments of "Non-asymptotic analysis of SGD under local differential privacy guarantee" (2024).
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

import numpy as np
from mpmath import mp, mpf
from pydantic import Field

from ldpflow.components.problems.file_rows import Fit, Floats, Rows, fit_rows, mean, second_moments, solve
from ldpflow.components.problems.laws import Variate
from ldpflow.components.problems.mallows import BoundedRegression, bounded, mean_along, radial_mean, weight
from ldpflow.components.problems.problem import Matrix, isotropic
from ldpflow.numerics import cdf_normal, constants, exp
from ldpflow.numerics.streams import LANES, STRIDE
from ldpflow.settings import Parameters


class LinearRegression(BoundedRegression):
    """Linear regression without intercept under Huber's loss.

    Parameters
    ----------
    huber : float > 0
        Constant c of Huber's loss, in standard deviations of the error, or in the unit of a file's y.
    """

    kind: Literal["linear_regression"] = "linear_regression"
    huber: Annotated[float, Field(ge=1e-3, le=1e3)] = 1.345

    def variates(self) -> tuple[Variate, ...]:
        return (Variate("normal"),) * (self.dimension + 1)

    def gradient_bound(self) -> float:
        return math.sqrt(2.0) * self.huber if self.clip is None else self.clip

    def kernel_parameters(self) -> Parameters:
        return {"huber": self.huber, "clip": self.clip or 0.0, "coefficients": self.coefficients}

    def smoothness(self) -> float | None:
        return None if self.clip is not None else 2.0

    def fit_of(self, rows: Rows, weight: Floats) -> Fit:
        def score(z: Floats) -> tuple[Floats, Floats]:
            residual = rows.y - z
            inside = (np.abs(residual) < self.huber).astype(np.float64)
            return -np.clip(residual, -self.huber, self.huber), inside

        moments = second_moments(rows.columns, weight)
        start = solve(moments, [mean(weight * rows.y * column) for column in rows.columns])
        return fit_rows(rows, weight, score, tuple(start or (0.0,) * len(rows.columns)), 1.0)

    def last_column(self, rows: Rows) -> Floats:
        """Errors y - x' theta*."""
        residual: Floats = rows.y - rows.along(self.coefficients)
        return residual

    def one_point_convexity(self, distance: float) -> float | None:
        """E[u psi(R z) z]/R, where R is ``distance``, z = x'v with ||v|| = 1, and psi(w) = E psi_c(e + w)."""
        if self.clip is not None or self.file is not None:
            return None
        from scipy.special import ndtr

        c = self.huber

        def slope(r: Floats, t: Floats) -> Floats:
            w = distance * r * t
            low, high = -c - w, c - w
            densities = (np.exp(-(low**2) / 2) - np.exp(-(high**2) / 2)) / math.sqrt(2 * math.pi)
            score = w * (ndtr(high) - ndtr(low)) + densities + c * (ndtr(-high) - ndtr(low))
            return np.asarray(np.minimum(1.0, 2.0 / r**2) * score / w)

        return mean_along(self.dimension, slope, math.sqrt(2.0))

    def moment(self, power: int) -> Matrix:
        """G = h I with h = E[u ||x||^2 P(|e| < c)]/d, and S = v I with v = E[u^2 ||x||^2 psi_c(e)^2]/d.

        G is the derivative of the mean gradient at theta*, and S the covariance of the gradient. With
        clipping, u is 1 and c is replaced by min(c, C0/||x||).
        """
        d = self.dimension

        def integrand(r: mpf) -> mpf:
            c, u = mpf(self.huber), weight(r)
            if self.clip is not None:
                c, u = min(c, mpf(self.clip) / r), mpf(1)
            p = 2 * mp.ncdf(c) - 1
            if power == 1:
                return u * r**2 * p
            return (u * r) ** 2 * (p - 2 * c * mp.npdf(c) + c**2 * (1 - p))

        kink = math.sqrt(2.0) if self.clip is None else self.clip / self.huber
        with constants.workdps(30):
            return isotropic(d, float(radial_mean(d, integrand, kink) / d))


def gradient(kernel, g, theta, data, at, lane, problem):  # type: ignore[no-untyped-def]
    """g((x, y), theta), see the top of this module. The last variate is e."""
    residual = data[kernel.D * STRIDE + at]
    square = 0.0
    for j in range(kernel.D):
        x = data[j * STRIDE + at]
        residual += x * (problem.coefficients[j] - theta[j * LANES + lane])
        square += x * x
    score = -bounded(max(-problem.huber, min(problem.huber, residual)), square, problem.clip)
    for j in range(kernel.D):
        g[j * LANES + lane] = score * data[j * STRIDE + at]


def loss_gap(z, truth, square, problem):  # type: ignore[no-untyped-def]
    """u E[rho_c(y - z) - rho_c(y - z*)] given x, with Huber's loss rho_c.

    z is x' theta, z* (``truth``) is x' theta*, and ``square`` is ||x||^2. y - z is e + v with v = z* - z.
    """
    c = problem.huber
    v = truth - z
    a = -c - v
    b = c - v
    below = cdf_normal(a)
    above = cdf_normal(-b)
    middle = 1.0 - above - below
    da = 0.3989422804014327 * exp(-0.5 * a * a)
    db = 0.3989422804014327 * exp(-0.5 * b * b)
    here = 0.5 * (middle * (1.0 + v * v) + a * da - b * db + 2.0 * v * (da - db))
    here += c * (db + v * above) + c * (da - v * below) - 0.5 * c * c * (above + below)
    tail = cdf_normal(-c)
    dc = 0.3989422804014327 * exp(-0.5 * c * c)
    there = 0.5 * (1.0 - 2.0 * tail - 2.0 * c * dc) + 2.0 * c * dc - c * c * tail
    return (1.0 if problem.clip > 0.0 else min(1.0, 2.0 / square)) * (here - there)
