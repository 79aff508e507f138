"""Quantile regression with bounded covariates (Dette and Graw, Section 4.2).

y = x' beta_tau + e with P(e <= 0) = tau, x = (1, X_1, ..., X_{d-1}) and |X_j| <= bound. The gradient is
g((x, y), theta) = (-tau + 1{y - x' theta <= 0}) x. Let Sigma_X be E x x', and p_e the density of e. At
theta* the derivative of the mean gradient is G = p_e(0) Sigma_X, and the covariance of the gradient is
S_SGD = tau (1 - tau) Sigma_X.

The paper prints the L1 sensitivity 2 max(tau, 1 - tau) bound d. But the covariate of the intercept is 1, so
the supremum of ||x||_1 is 1 + (d - 1) bound, not bound d. Both are equal for bound = 1. For a smaller bound
the printed noise is too small for the guarantee. For a larger bound it is larger than needed.
"""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal, Self

from mpmath import mp, mpf
from pydantic import Field, model_validator

from ldpflow.components.problems.laws import Law, Variate
from ldpflow.components.problems.problem import Matrix, Problem, diagonal, scale_matrix
from ldpflow.components.problems.quantile import Freedom, Scale
from ldpflow.numerics import constants
from ldpflow.numerics.streams import LANES, STRIDE
from ldpflow.settings import Parameters, Setting


class QuantileRegression(Problem):
    """Linear tau-quantile regression with an intercept.

    Parameters
    ----------
    tau : float in (0, 1)
        Level of the conditional quantile.
    coefficients : tuple of float
        beta_tau, with the intercept first. Its length d >= 2 is the dimension.
    covariates : str
        Law of the independent X_j. ``truncated_normal``: ``bound`` times a standard normal truncated to
        [-1, 1]. ``uniform``: uniform on [-bound, bound].
    bound : float
        Publicly known bound of the absolute value of every covariate.
    errors : str
        Law of the errors e. It is shifted so that P(e <= 0) = tau.
    error_scale : float
        Scale of the law of e.
    df : float, optional
        Degrees of freedom of ``student_t`` errors.
    """

    cites: ClassVar = ("dette2024",)
    kind: Literal["quantile_regression"] = "quantile_regression"
    tau: Annotated[float, Field(gt=0, lt=1), Setting("share", symbol="τ")] = 0.5
    coefficients: Annotated[tuple[float, ...], Field(min_length=2, max_length=64)] = (0.0, 0.0, 1.0, -1.0)
    covariates: Literal["truncated_normal", "uniform"] = "truncated_normal"
    bound: Scale = 1.0
    errors: Literal["normal", "laplace", "student_t"] = "normal"
    error_scale: Scale = 1.0
    df: Freedom | None = None

    @model_validator(mode="after")
    def check_df(self) -> Self:
        if (self.errors == "student_t") != (self.df is not None):
            raise ValueError("df must be given with errors = 'student_t' and with no other law")
        if not Law(self.errors, 0.0, self.error_scale, self.df).has_quantile(self.tau):
            raise ValueError("tau must give a finite quantile at which the density is not 0")
        return self

    def error_law(self) -> Law:
        standard = Law(self.errors, 0.0, self.error_scale, self.df)
        return Law(self.errors, -standard.quantile(self.tau), self.error_scale, self.df)

    def truth(self) -> tuple[float, ...]:
        return self.coefficients

    def variates(self) -> tuple[Variate, ...]:
        name = "truncated_normal" if self.covariates == "truncated_normal" else "symmetric_uniform"
        return (*(Variate(name) for _ in self.coefficients[1:]), self.error_law().variate)

    def kernel_parameters(self) -> Parameters:
        law = self.error_law()
        return {
            "tau": self.tau,
            "bound": self.bound,
            "error_location": law.location,
            "error_scale": law.scale,
            "coefficients": self.coefficients,
        }

    def l1_sensitivity(self) -> float:
        return 2.0 * max(self.tau, 1.0 - self.tau) * (1.0 + (self.dimension - 1) * self.bound)

    def l2_sensitivity(self) -> float:
        longest = math.sqrt(1.0 + (self.dimension - 1) * self.bound**2)
        return 2.0 * max(self.tau, 1.0 - self.tau) * longest

    def second_moment(self) -> Matrix:
        """Sigma_X = E x x'. It is diagonal, since covariates are centred and independent."""
        with constants.workdps(40):
            if self.covariates == "uniform":
                variance = mpf(self.bound) ** 2 / 3
            else:
                # The variance of N(0, 1) truncated to [-1, 1] is 1 - 2 phi(1)/(2 Phi(1) - 1).
                variance = mpf(self.bound) ** 2 * (1 - 2 * mp.npdf(1) / (2 * mp.ncdf(1) - 1))
            return diagonal([1.0] + [float(variance)] * (self.dimension - 1))

    def curvature(self) -> Matrix:
        density = self.error_law().density_at_quantile(self.tau)
        return scale_matrix(self.second_moment(), density)

    def gradient_covariance(self) -> Matrix:
        return scale_matrix(self.second_moment(), self.tau * (1.0 - self.tau))


def gradient(kernel, g, theta, data, at, lane, problem):  # type: ignore[no-untyped-def]
    """g((x, y), theta) = (-tau + 1{y - x' theta <= 0}) x. The last variate is e."""
    tau = problem.tau
    bound = problem.bound
    e = problem.error_location + problem.error_scale * data[(kernel.D - 1) * STRIDE + at]
    residual = e + (problem.coefficients[0] - theta[lane])
    for j in range(1, kernel.D):
        x = bound * data[(j - 1) * STRIDE + at]
        residual += x * (problem.coefficients[j] - theta[j * LANES + lane])
    sign = 1.0 - tau if residual <= 0.0 else -tau
    g[lane] = sign
    for j in range(1, kernel.D):
        g[j * LANES + lane] = sign * (bound * data[(j - 1) * STRIDE + at])
