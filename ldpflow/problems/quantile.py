"""Quantile of a law from private bits (Dette and Graw, Section 4.1).

theta* is the tau-quantile of X, g(x, theta) = -tau + 1{x <= theta}, G = p(theta*) with p the
density of X, S_SGD = tau (1 - tau).
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from ldpflow.problems.laws import Law, Variate
from ldpflow.problems.problem import Matrix, Problem
from ldpflow.settings import Parameters, Setting

__all__ = ["Quantile", "bit_probability", "gradient"]


class Quantile(Problem):
    """The tau-quantile of ``location + scale * Z``.

    Parameters
    ----------
    tau : float in (0, 1)
        Level of the quantile.
    law : str
        Law of Z (:class:`ldpflow.problems.laws.Law`).
    location, scale : float
        Unit of the data; scale > 0.
    df : float, optional
        Degrees of freedom, for ``student_t`` alone.
    """

    kind: Literal["quantile"] = "quantile"
    tau: Annotated[float, Field(gt=0, lt=1), Setting("share", symbol="τ")] = 0.5
    law: Literal["normal", "laplace", "exponential", "uniform", "logistic", "student_t", "bimodal"] = "normal"
    location: Annotated[float, Field(ge=-1e100, le=1e100)] = 0.0
    scale: Annotated[float, Field(ge=1e-100, le=1e100)] = 1.0
    df: Annotated[float, Field(ge=0.25, le=1e6)] | None = None

    @model_validator(mode="after")
    def check_df(self) -> Self:
        if (self.law == "student_t") != (self.df is not None):
            raise ValueError("df must be given with law = 'student_t' and with no other law")
        if not self.data_law().has_quantile(self.tau):
            raise ValueError("tau must leave the quantile finite, where the density is not 0")
        return self

    def data_law(self) -> Law:
        """The law of a record."""
        return Law(self.law, self.location, self.scale, self.df)

    @property
    def dimension(self) -> int:
        return 1

    def truth(self) -> tuple[float, ...]:
        return (self.data_law().quantile(self.tau),)

    def variates(self) -> tuple[Variate, ...]:
        return (self.data_law().variate,)

    def kernel_parameters(self) -> Parameters:
        return {
            "tau": self.tau,
            "location": self.location,
            "scale": self.scale,
            "inverse_scale": 1.0 / self.scale,
        }

    def bit_law(self) -> str | None:
        return None if self.law in ("student_t", "bimodal") else self.law

    def l2_sensitivity(self) -> float:
        return 1.0

    def l1_sensitivity(self) -> float:
        return 1.0

    def gradient_values(self) -> tuple[float, float]:
        return (-self.tau, 1.0 - self.tau)

    def curvature(self) -> Matrix:
        return [[self.data_law().density_at_quantile(self.tau)]]

    def gradient_covariance(self) -> Matrix:
        return [[self.tau * (1.0 - self.tau)]]


def gradient(g, theta, data, at, lane, problem):  # type: ignore[no-untyped-def]
    """g(X, theta) = -tau + 1{X <= theta} (Dette and Graw, Section 4.1)."""
    x = problem.location + problem.scale * data[at]
    g[lane] = 1.0 - problem.tau if x <= theta[lane] else -problem.tau


def gradient_bit(g, theta, data, at, lane, problem):  # type: ignore[no-untyped-def]
    """1{X <= theta}, the bit b that says which of its two values the gradient takes."""
    x = problem.location + problem.scale * data[at]
    g[lane] = 1.0 if x <= theta[lane] else 0.0


def bit_probability(kernel, g, theta, data, at, lane, problem):  # type: ignore[no-untyped-def]
    """P(X <= theta) = F((theta - location)/scale), in the place of the gradient."""
    g[lane] = kernel.cdf((theta[lane] - problem.location) * problem.inverse_scale)
