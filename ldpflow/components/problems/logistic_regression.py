"""Logistic regression with Mallows weights, or with clipped gradients.

y ~ Bernoulli(p*), p* = 1/(1 + exp(-x' theta*)), x ~ N(0, I_d) or x = 1. With p = 1/(1 + exp(-x' theta))

    mallows: g = (p - y) u(x) x,  u = min(1, 2/||x||^2);  ||g|| <= C0 = sqrt(2), or 1 for x = 1
    clip:    g = (p - y) x min(1, C0/||(p - y) x||), C0 given

Clipping moves the root of the mean gradient away from theta*. So estimates are biased, and there is no oracle
interval. Source: the experiments of "Non-asymptotic analysis of SGD under local differential privacy
guarantee" (2024).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Annotated, Literal, Self

import numpy as np
from mpmath import mp, mpf
from pydantic import Field, model_validator

from ldpflow.components.problems.file_rows import Fit, Floats, Rows, fit_rows
from ldpflow.components.problems.laws import Variate
from ldpflow.components.problems.mallows import BoundedRegression, along_and_across, bounded, weight
from ldpflow.components.problems.problem import Matrix, isotropic, nan_matrix
from ldpflow.components.problems.tables import check_two_values
from ldpflow.numerics import constants, exp, log
from ldpflow.numerics.streams import LANES, STRIDE
from ldpflow.settings import Parameters


class LogisticRegression(BoundedRegression):
    """Logistic regression.

    Parameters
    ----------
    covariates : str
        ``normal``: x ~ N(0, I_d) without intercept. ``one``: x = 1 and d = 1, so theta* is the log-odds of y.
    """

    kind: Literal["logistic_regression"] = "logistic_regression"
    coefficients: Annotated[tuple[float, ...], Field(min_length=1, max_length=64)] = (0.4472135954999579,) * 5
    covariates: Literal["normal", "one"] = "normal"

    @model_validator(mode="after")
    def check_covariates(self) -> Self:
        if self.covariates == "one" and (self.file is not None or self.dimension > 1):
            raise ValueError("covariates = 'one' has one coefficient, the log-odds, and no file")
        return self

    def variates(self) -> tuple[Variate, ...]:
        x = Variate("normal" if self.covariates == "normal" else "rademacher")
        return (*((x,) * self.dimension), Variate("uniform"))

    def gradient_bound(self) -> float:
        if self.clip is not None:
            return self.clip
        return math.sqrt(2.0) if self.covariates == "normal" else 1.0

    def kernel_parameters(self) -> Parameters:
        one = 0.0 if self.covariates == "normal" else 1.0
        return {"clip": self.clip or 0.0, "one": one, "coefficients": self.coefficients}

    def smoothness(self) -> float | None:
        if self.clip is not None:
            return None
        return 0.5 if self.covariates == "normal" else 0.25

    def caution(self) -> str | None:
        if self.clip is None:
            return None
        return "logistic_regression with bounding = 'clip': estimates are biased, the oracle is undefined"

    def labels(self, rows: Rows) -> Floats:
        """0 for the smaller of the two values of y, 1 for the larger."""
        return np.asarray((rows.y == check_two_values(rows.y, self.target)[1]).astype(np.float64))

    def fit_of(self, rows: Rows, weight: Floats) -> Fit:
        from ldpflow.numerics.distributions import cdf_values

        y = self.labels(rows)

        def score(z: Floats) -> tuple[Floats, Floats]:
            p = cdf_values("logistic", z)
            return p - y, p * (1.0 - p)

        return fit_rows(rows, weight, score, (0.0,) * len(rows.columns), 0.25)

    def last_column(self, rows: Rows) -> Floats:
        """Numbers in place of uniforms: below p* for y = 1, above p* for y = 0."""
        return np.where(self.labels(rows) == 1.0, -1.0, 2.0)

    def moment(self, power: int) -> Matrix:
        """E u^power p* (1 - p*) x x'."""
        d = self.dimension
        if self.clip is not None:
            return nan_matrix(d)
        with constants.workdps(30):
            norm = mp.sqrt(sum(mpf(b) ** 2 for b in self.coefficients))
            if self.covariates == "one":
                return [[float(bernoulli(norm))]]
            along, across = eigenvalues(d, norm, power)
            if norm == 0:
                return isotropic(d, float(along))
            unit = [mpf(b) / norm for b in self.coefficients]

            def entry(i: int, j: int) -> float:
                return float((along - across) * unit[i] * unit[j] + (across if i == j else 0))

            return [[entry(i, j) for j in range(d)] for i in range(d)]


def bernoulli(z: mpf) -> mpf:
    p = 1 / (1 + mp.exp(-z))
    return p * (1 - p)


@lru_cache(maxsize=256)
def eigenvalues(d: int, norm: mpf, power: int) -> tuple[mpf, mpf]:
    """Eigenvalues of E u^power p* (1 - p*) x x' along theta* and across it (takes seconds)."""
    return along_and_across(d, lambda r, t: weight(r) ** power * bernoulli(norm * r * t), math.sqrt(2.0))


def gradient(kernel, g, theta, data, at, lane, problem):  # type: ignore[no-untyped-def]
    """g((x, y), theta), see the top of this module. y = 1{U < p*}, and the last variate is U."""
    one = problem.one > 0.0
    z = 0.0
    truth = 0.0
    square = 0.0
    for j in range(kernel.D):
        x = 1.0 if one else data[j * STRIDE + at]
        z += x * theta[j * LANES + lane]
        truth += x * problem.coefficients[j]
        square += x * x
    y = 1.0 if data[kernel.D * STRIDE + at] < 1.0 / (1.0 + exp(-truth)) else 0.0
    score = bounded(1.0 / (1.0 + exp(-z)) - y, square, problem.clip)
    for j in range(kernel.D):
        g[j * LANES + lane] = score * (1.0 if one else data[j * STRIDE + at])


def loss_gap(z, truth, square, problem):  # type: ignore[no-untyped-def]
    """u E[l(z) - l(z*)] given x, with l(z) = log(1 + e^z) - y z.

    z is x' theta, z* (``truth``) is x' theta*, and ``square`` is ||x||^2.
    """
    p = 1.0 / (1.0 + exp(-truth))
    # log(1 + e^z) = max(z, 0) + log(1 + e^-|z|)
    here = max(z, 0.0) + log(1.0 + exp(-np.abs(z))) - p * z
    there = max(truth, 0.0) + log(1.0 + exp(-np.abs(truth))) - p * truth
    return (1.0 if problem.clip > 0.0 else min(1.0, 2.0 / square)) * (here - there)
