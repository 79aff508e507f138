"""Several quantiles of a law at once.

theta*_q is the tau_q-quantile of X, g_q(x, theta) = -tau_q + 1{x <= theta_q}, G = diag(p(theta*_q)) with p
the density of X, S_SGD has the entries min(tau_q, tau_r) - tau_q tau_r.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from ldpflow.components.problems.problem import Matrix, Problem
from ldpflow.components.problems.quantile import QuantileProblem
from ldpflow.numerics.streams import LANES
from ldpflow.settings import Setting


class SeveralLevels(Problem):
    """Setting of :class:`Quantiles` that comes before those of their law.

    Parameters
    ----------
    taus : tuple of float in (0, 1)
        Levels in increasing order.
    """

    taus: Annotated[
        tuple[Annotated[float, Field(gt=0, lt=1)], ...], Field(min_length=1, max_length=20), Setting("share")
    ] = (0.25, 0.5, 0.75)

    @model_validator(mode="after")
    def check_order(self) -> Self:
        if any(a >= b for a, b in zip(self.taus, self.taus[1:], strict=False)):
            raise ValueError("taus must increase")
        return self


class Quantiles(QuantileProblem, SeveralLevels):
    """The quantiles at several levels of any law of ``quantile``; iterates are kept in order."""

    level_setting: ClassVar[str] = "taus"

    kind: Literal["quantiles"] = "quantiles"

    def levels(self) -> tuple[float, ...]:
        return self.taus

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
        z = (theta[j * LANES + lane] - problem.location) * problem.inverse_scale
        if kernel.SHAPED:
            g[j * LANES + lane] = kernel.cdf(z, problem.shape)
        else:
            g[j * LANES + lane] = kernel.cdf(z)
