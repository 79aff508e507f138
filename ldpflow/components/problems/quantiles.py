"""Several quantiles of a law at once.

theta*_q is the tau_q-quantile of X, g_q(x, theta) = -tau_q + 1{x <= theta_q}, G = diag(p(theta*_q)) with p
the density of X, S_SGD has the entries min(tau_q, tau_r) - tau_q tau_r.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from ldpflow.components.problems.laws import Law
from ldpflow.components.problems.problem import Matrix, Units
from ldpflow.components.problems.quantile import Freedom, Location, Quantile, QuantileProblem, Scale
from ldpflow.numerics.streams import LANES
from ldpflow.settings import Parameters, Setting


class Quantiles(QuantileProblem):
    """The quantiles of ``location + scale * Z`` at several levels; iterates are kept in order.

    Parameters
    ----------
    taus : tuple of float in (0, 1)
        Levels in increasing order.
    law : str
        Law of Z.
    location, scale : float
        Unit of the data; scale > 0.
    df : float, optional
        Degrees of freedom, for ``student_t`` alone.
    units : Units, optional
        What 0 and 1 stand for in the steps and the start of the study, the unit of the data by default.
    """

    kind: Literal["quantiles"] = "quantiles"
    taus: Annotated[
        tuple[Annotated[float, Field(gt=0, lt=1)], ...], Field(min_length=1, max_length=20), Setting("share")
    ] = (0.25, 0.5, 0.75)
    law: Literal["normal", "laplace", "exponential", "uniform", "logistic", "student_t", "bimodal"] = "normal"
    location: Location = 0.0
    scale: Scale = 1.0
    df: Freedom | None = None
    units: Annotated[Units, Setting(stored=False)] | None = None

    @model_validator(mode="after")
    def check_levels(self) -> Self:
        if any(a >= b for a, b in zip(self.taus, self.taus[1:], strict=False)):
            raise ValueError("taus must increase")
        for tau in self.taus:
            self.single(tau)
        return self

    def single(self, tau: float) -> Quantile:
        return Quantile(tau=tau, law=self.law, location=self.location, scale=self.scale, df=self.df)

    def data_law(self) -> Law:
        return Law(self.law, self.location, self.scale, self.df)

    def levels(self) -> tuple[float, ...]:
        return self.taus

    def kernel_parameters(self) -> Parameters:
        return {
            "taus": self.taus,
            "location": self.location,
            "scale": self.scale,
            "inverse_scale": 1.0 / self.scale,
        }

    def gradient_covariance(self) -> Matrix:
        return [[min(a, b) - a * b for b in self.taus] for a in self.taus]


def gradient(kernel, g, theta, data, at, lane, problem):  # type: ignore[no-untyped-def]
    """g_q(X, theta) = -tau_q + 1{X <= theta_q}."""
    x = problem.location + problem.scale * data[at]
    for j in range(kernel.D):
        below = x <= theta[j * LANES + lane]
        g[j * LANES + lane] = 1.0 - problem.taus[j] if below else -problem.taus[j]


def gradient_bit(kernel, g, theta, data, at, lane, problem):  # type: ignore[no-untyped-def]
    """1{X <= theta_q}, the bits that determine the cell of X between the iterates."""
    x = problem.location + problem.scale * data[at]
    for j in range(kernel.D):
        g[j * LANES + lane] = 1.0 if x <= theta[j * LANES + lane] else 0.0


def bit_probability(kernel, g, theta, data, at, lane, problem):  # type: ignore[no-untyped-def]
    """P(X <= theta_q) = F((theta_q - location)/scale), instead of the gradient."""
    for j in range(kernel.D):
        g[j * LANES + lane] = kernel.cdf((theta[j * LANES + lane] - problem.location) * problem.inverse_scale)
