"""Logistic regression with Mallows weights, or with clipped gradients.

y ~ Bernoulli(p*), p* = 1/(1 + exp(-x' theta*)), x ~ N(0, I_d) or x = 1. With p = 1/(1 + exp(-x' theta))

    mallows: g = (p - y) u(x) x,  u = min(1, 2/||x||^2);  ||g|| <= C0 = sqrt(2) (1 where x = 1)
    clip:    g = (p - y) x min(1, C0/||(p - y) x||), C0 given

Clipping moves the root of the mean gradient away from theta*: its estimates are biased, its curvature
at theta* is not that of the limit law, and no oracle interval exists. Source: the experiments of
"Non-asymptotic analysis of SGD under local differential privacy guarantee" (2024).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Annotated, Literal, Self

import numpy as np
from mpmath import mp, mpf
from pydantic import Field, model_validator

from ldpflow.components.problems.file_rows import Fit, Rows, fitted
from ldpflow.components.problems.laws import Variate
from ldpflow.components.problems.mallows import Array, BoundedRegression, along_and_across, weight
from ldpflow.components.problems.problem import Matrix, isotropic, unknown_matrix
from ldpflow.errors import InputError
from ldpflow.numerics import constants, exp, log
from ldpflow.numerics.streams import LANES, STRIDE
from ldpflow.settings import Parameters, Setting


class LogisticRegression(BoundedRegression):
    """Logistic regression.

    Parameters
    ----------
    coefficients : tuple of float
        theta*; its length d is the dimension.
    covariates : str
        ``normal``: x ~ N(0, I_d), no intercept. ``one``: x = 1 and d = 1, the log-odds of a bit.
    bounding : str
        ``mallows`` or ``clip``: how the gradient is bounded in x.
    clip : float, optional
        C0 of ``clip``; must be given with it and only with it.
    file : str, optional
        A Parquet or CSV file whose rows are the population: records are drawn with replacement.
    target : str, optional
        The file's column y.
    features : tuple of str, optional
        Columns of the file that make x; all but the target unless given.
    sha256 : str, optional
        Digest of the file, filled in when it is first read and checked afterwards.
    moments : str, optional
        theta*, G and S of the rows, filled in with the digest.
    """

    kind: Literal["logistic_regression"] = "logistic_regression"
    coefficients: Annotated[tuple[float, ...], Field(min_length=1, max_length=64)] = (0.4472135954999579,) * 5
    covariates: Literal["normal", "one"] = "normal"
    bounding: Literal["mallows", "clip"] = "mallows"
    clip: Annotated[float, Field(ge=1e-3, le=1e6)] | None = None
    file: Annotated[str, Setting(stored=False)] | None = None
    target: Annotated[str, Setting(stored=False)] | None = None
    features: Annotated[tuple[str, ...], Setting(stored=False)] | None = None
    sha256: str | None = None
    moments: Annotated[str, Setting(stored=False)] | None = None

    @model_validator(mode="after")
    def check_covariates(self) -> Self:
        if self.covariates == "one" and self.file is not None:
            raise ValueError("covariates = 'one' is simulated: a file has columns of its own")
        if self.covariates == "one" and self.dimension > 1:
            raise ValueError("covariates = 'one' has one coefficient, the log-odds")
        return self

    def variates(self) -> tuple[Variate, ...]:
        # |Rademacher| is 1.
        x = Variate("normal" if self.covariates == "normal" else "rademacher")
        return (*((x,) * self.dimension), Variate("uniform"))

    def gradient_bound(self) -> float:
        if self.clip is not None:
            return self.clip
        return math.sqrt(2.0) if self.covariates == "normal" else 1.0

    def kernel_parameters(self) -> Parameters:
        clip = 0.0 if self.clip is None else self.clip
        one = 0.0 if self.covariates == "normal" else 1.0
        return {"clip": clip, "one": one, "coefficients": self.coefficients}

    def smoothness(self) -> float | None:
        if self.clip is not None:
            return None
        return 0.5 if self.covariates == "normal" else 0.25

    def caution(self) -> str | None:
        if self.clip is None:
            return None
        if self.file is not None:
            return (
                "logistic_regression with bounding = 'clip' on a file: the parameter is the root of the mean "
                "clipped gradient, not that of logistic regression"
            )
        return (
            "logistic_regression with bounding = 'clip': clipped gradients have their root away "
            "from theta*; estimates are biased, and the oracle interval is undefined"
        )

    def labels(self, rows: Rows) -> Array:
        """y as 0 and 1: the larger of its two values is 1."""
        values = np.unique(rows.y)
        if len(values) != 2:
            raise InputError(
                "problem.target",
                self.target,
                "a column with two different values",
                f"It has {len(values):,}.",
            )
        result: Array = (rows.y == values[1]).astype(np.float64)
        return result

    def fit_of(self, rows: Rows) -> Fit:
        from ldpflow.numerics.distributions import cdf_values

        y, limit = self.labels(rows), self.row_limits(rows)

        def score(z: Array) -> tuple[Array, Array]:
            p = cdf_values("logistic", z)
            inside = (np.abs(p - y) < limit).astype(np.float64)
            return np.clip(p - y, -limit, limit), inside * p * (1.0 - p)

        weight = self.row_weights(rows)
        return fitted(rows, weight, score, (0.0,) * len(rows.columns), 0.25)

    def last_column(self, rows: Rows) -> Array:
        """A number that is below every probability for y = 1 and above for y = 0."""
        return np.where(self.labels(rows) == 1.0, -1.0, 2.0)

    def along_truth(self, power: int) -> Matrix:
        """E u^power p* (1 - p*) x x'; of a file G and S, means over its rows."""
        d = self.dimension
        if (fit := self.fit) is not None:
            return [list(row) for row in (fit.curvature if power == 1 else fit.covariance)]
        if self.clip is not None:
            return unknown_matrix(d)
        with constants.workdps(30):
            norm = mp.sqrt(sum(mpf(b) ** 2 for b in self.coefficients))
            if self.covariates == "one":
                return [[float(bernoulli(norm))]]
            along, across = eigenvalues(d, norm, power)
            result = isotropic(d, float(across if norm > 0 else along))
            if norm > 0:
                unit = [mpf(b) / norm for b in self.coefficients]
                for i in range(d):
                    for j in range(d):
                        change = (along - across) * unit[i] * unit[j]
                        result[i][j] = float(change + (across if i == j else 0))
            return result

    def curvature(self) -> Matrix:
        """H = E u p* (1 - p*) x x'."""
        return self.along_truth(1)

    def gradient_covariance(self) -> Matrix:
        """S = E u^2 p* (1 - p*) x x'."""
        return self.along_truth(2)


def bernoulli(z: mpf) -> mpf:
    """p (1 - p) for p = 1/(1 + e^-z)."""
    p = 1 / (1 + mp.exp(-z))
    return p * (1 - p)


@lru_cache(maxsize=256)
def eigenvalues(d: int, norm: mpf, power: int) -> tuple[mpf, mpf]:
    """Of E u^power p* (1 - p*) x x', along theta* and across it; seconds of mpmath."""
    return along_and_across(d, lambda r, t: weight(r) ** power * bernoulli(norm * r * t), (math.sqrt(2.0),))


def gradient(kernel, g, theta, data, at, lane, problem):  # type: ignore[no-untyped-def]
    """g((x, y), theta) = (p - y) times the weight, times x; y = 1{U < p*}, U in the last plane."""
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
    score = 1.0 / (1.0 + exp(-z)) - y
    clip = problem.clip
    if clip > 0.0:
        score *= min(1.0, clip / (np.abs(score) * np.sqrt(square)))
    else:
        score *= min(1.0, 2.0 / square)
    for j in range(kernel.D):
        g[j * LANES + lane] = score * (1.0 if one else data[j * STRIDE + at])


def loss_gap(z, truth, square, problem):  # type: ignore[no-untyped-def]
    """E[u (log(1 + e^z) - y z)] minus the same at z*, over y given x, z = x' theta, square = ||x||^2."""
    p = 1.0 / (1.0 + exp(-truth))
    # log(1 + e^z) = max(z, 0) + log(1 + e^-|z|)
    here = max(z, 0.0) + log(1.0 + exp(-np.abs(z))) - p * z
    there = max(truth, 0.0) + log(1.0 + exp(-np.abs(truth))) - p * truth
    return (1.0 if problem.clip > 0.0 else min(1.0, 2.0 / square)) * (here - there)
