"""Least squares from second moments: ordinary, or private by perturbing them (Smith et al., 2017).

    A = (1/N) sum x x' + E,   v = (1/N) sum x y + e,   theta = A^-1 v

For privacy x is scaled to norm at most X, and y is cut at Y. Replacing a record moves A by at most
sqrt(2) X^2/N in Frobenius norm, and v by at most 2 X Y/N. A and v get half of the budget each, with noise
multiplier sqrt(2) alpha. E is symmetric with N(0, s^2) on the diagonal and N(0, s^2/2) off the diagonal,
s = 2 X^2 alpha/N. e has the standard deviation 2 sqrt(2) X Y alpha/N. Together they are 1/(2 alpha^2)-zCDP
and 1/alpha-GDP. The path has one step.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

import numpy as np
from mpmath import mp, mpf
from pydantic import Field

from ldpflow.components.algorithms.regression import OnePassRegression, PrivateRegression
from ldpflow.components.mechanisms import Mechanism, PrivacyStatement
from ldpflow.components.problems.least_squares import LeastSquares
from ldpflow.components.problems.problem import Matrix, Problem
from ldpflow.errors import InputError
from ldpflow.numerics import constants, fill_normal, register_array
from ldpflow.numerics.streams import CHUNK, LANES, PLANE, STRIDE


class OrdinaryLeastSquares(OnePassRegression):
    """Ordinary least squares of all n records, without privacy, for comparison."""

    kind: Literal["ols"] = "ols"

    def resolved(self, problem: Problem, horizon: int | None) -> Self:
        assert horizon is not None
        if horizon < problem.dimension:
            raise InputError("grid.n", horizon, f"at least d = {problem.dimension}")
        return self

    def steps(self, n: int, horizon: int | None = None) -> int:
        return 1

    def checkpoints(self, n: int) -> tuple[int, ...]:
        return (n,)

    def step_constant(self) -> float:
        return 1.0

    def step_covariance(self, problem: Problem, mechanism: Mechanism) -> Matrix:
        return problem.gradient_covariance()

    def privacy(self, mechanism: Mechanism) -> PrivacyStatement:
        return mechanism.privacy()

    def kernel_parameters(self, horizon: int | None) -> dict[str, float]:
        assert horizon is not None
        noise = {"moment_noise": 0.0, "cross_noise": 0.0}
        return {"n": float(horizon), "x_bound": np.inf, "y_bound": np.inf, **noise}


class SufficientStatistics(PrivateRegression, OrdinaryLeastSquares):
    """Least squares from noisy second moments.

    Parameters
    ----------
    x_bound : float > 0, optional
        Bound X of ||x||, by default 2 sqrt(Tr H).
    y_bound : float > 0, optional
        Bound Y of the absolute value of y, by default 4 sqrt(||w*||_H^2 + sigma^2).
    """

    kind: Literal["sufficient_statistics"] = "sufficient_statistics"  # type: ignore[assignment]
    accounting: Literal["disjoint", "gdp"] = "disjoint"
    x_bound: Annotated[float, Field(gt=0, le=1e9)] | None = None
    y_bound: Annotated[float, Field(gt=0, le=1e9)] | None = None

    def resolved(self, problem: Problem, horizon: int | None) -> Self:
        found = super().resolved(problem, horizon)
        assert isinstance(problem, LeastSquares)
        with constants.workdps(30):
            x = float(2 * mp.sqrt(problem.trace()))
            y = float(4 * mp.sqrt(mpf(problem.signal()) ** 2 + mpf(problem.error_variance())))
        return found.model_copy(update={"x_bound": self.x_bound or x, "y_bound": self.y_bound or y})

    def kernel_parameters(self, horizon: int | None) -> dict[str, float]:
        assert horizon is not None and self.x_bound is not None and self.y_bound is not None
        share = 2.0 * self.x_bound * self.alpha() / horizon
        return {
            "n": float(horizon),
            "x_bound": self.x_bound,
            "y_bound": self.y_bound,
            "moment_noise": share * self.x_bound,
            "cross_noise": share * self.y_bound * math.sqrt(2.0),
        }


def recursion(kernel, users, noises, problem, mechanism, settings, record):  # type: ignore[no-untyped-def]
    """Compute the estimates of LANES replicates in one step (see one_pass).

    The noise is drawn in this order: the lower triangle of E by rows, then e.
    """
    n, x_bound, y_bound = int(settings.n), settings.x_bound, settings.y_bound
    moment_noise, cross_noise = settings.moment_noise, settings.cross_noise
    size = kernel.D  # loops over this name are not unrolled
    data = np.empty(kernel.DATA_PLANES * STRIDE)
    plane = np.empty(PLANE)
    nothing = register_array(kernel.STATE)
    nothing[:] = 0.0
    x = np.empty(kernel.D * LANES)
    y = np.empty(LANES)
    moments = np.zeros(kernel.D * kernel.D * LANES)
    cross = np.zeros(kernel.D * LANES)
    taken = CHUNK
    for _ in range(n):
        if taken == CHUNK:
            kernel.draw_data(*users, data)
            taken = 0
        for lane in range(LANES):
            at = taken * LANES + lane
            factor = min(1.0, x_bound / np.sqrt(kernel.square_norm(data, at, problem)))
            target = -kernel.residual(nothing, data, at, lane, problem)
            y[lane] = min(max(target, -y_bound), y_bound)
            for j in range(kernel.D):
                x[j * LANES + lane] = factor * kernel.feature(j, data, at, problem)
        for j in range(size):
            for k in range(j + 1):
                for lane in range(LANES):
                    moments[(j * size + k) * LANES + lane] += x[j * LANES + lane] * x[k * LANES + lane]
            for lane in range(LANES):
                cross[j * LANES + lane] += x[j * LANES + lane] * y[lane]
        taken += 1
    drawn = CHUNK
    for j in range(size):
        for k in range(j + 1):
            if drawn == CHUNK:
                fill_normal(noises[0], 0.0, plane)
                drawn = 0
            spread = moment_noise if j == k else moment_noise * np.sqrt(0.5)
            for lane in range(LANES):
                at = (j * size + k) * LANES + lane
                value = moments[at] / n + spread * plane[drawn * LANES + lane]
                moments[at] = value
                moments[(k * size + j) * LANES + lane] = value
            drawn += 1
    for j in range(size):
        if drawn == CHUNK:
            fill_normal(noises[0], 0.0, plane)
            drawn = 0
        for lane in range(LANES):
            cross[j * LANES + lane] = cross[j * LANES + lane] / n + cross_noise * plane[drawn * LANES + lane]
        drawn += 1
    for lane in range(LANES):
        # Gaussian elimination with row exchanges, since A may be indefinite.
        for j in range(size):
            best = j
            for k in range(j + 1, size):
                if np.abs(moments[(k * size + j) * LANES + lane]) > np.abs(
                    moments[(best * size + j) * LANES + lane]
                ):
                    best = k
            if best != j:
                for k in range(size):
                    kept = moments[(j * size + k) * LANES + lane]
                    moments[(j * size + k) * LANES + lane] = moments[(best * size + k) * LANES + lane]
                    moments[(best * size + k) * LANES + lane] = kept
                kept = cross[j * LANES + lane]
                cross[j * LANES + lane] = cross[best * LANES + lane]
                cross[best * LANES + lane] = kept
            for k in range(j + 1, size):
                ratio = moments[(k * size + j) * LANES + lane] / moments[(j * size + j) * LANES + lane]
                for m in range(j + 1, size):
                    moments[(k * size + m) * LANES + lane] -= ratio * moments[(j * size + m) * LANES + lane]
                cross[k * LANES + lane] -= ratio * cross[j * LANES + lane]
        for j in range(size - 1, -1, -1):
            value = cross[j * LANES + lane]
            for k in range(j + 1, size):
                value -= moments[(j * size + k) * LANES + lane] * cross[k * LANES + lane]
            cross[j * LANES + lane] = value / moments[(j * size + j) * LANES + lane]
        for j in range(size):
            record.iterates[0, j * LANES + lane] = cross[j * LANES + lane]
            record.prefix_sums[0, j * LANES + lane] = cross[j * LANES + lane] - record.centre[j]
