"""A problem for audits, whose gradient is a given vector."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from ldpflow.components.problems.laws import Variate
from ldpflow.components.problems.problem import Matrix, Problem, nan_matrix
from ldpflow.numerics.streams import LANES
from ldpflow.settings import Parameters, Setting


class GivenGradient(Problem):
    """A problem whose gradient is a given vector for every theta.

    Parameters
    ----------
    values : tuple of float
        Coordinates of the gradient.
    l1 : float
        Claimed L1 sensitivity.
    l2 : float
        Claimed L2 sensitivity.
    bits : tuple of float, optional
        The two values of a gradient that is a bit.
    taus : tuple of float, optional
        Levels of quantiles, if ``values`` are the bits 1{X <= theta_j} of a record X.
    original : Problem, optional
        The problem whose gradients are audited. A mechanism may read its settings, such as ``problem.tau``.
    """

    kind: Literal["given_gradient"] = "given_gradient"
    values: tuple[float, ...]
    bits: tuple[float, float] | None = None
    l1: float = math.inf
    l2: float = math.inf
    taus: tuple[float, ...] | None = None
    original: Annotated[Problem | None, Field(exclude=True, repr=False), Setting(stored=False)] = None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            original = self.__dict__.get("original")
            if name.startswith("_") or original is None:
                return super().__getattr__(name)
            return getattr(original, name)

    def truth(self) -> tuple[float, ...]:
        return (0.0,) * len(self.values)

    def variates(self) -> tuple[Variate, ...]:
        return ()

    def kernel_parameters(self) -> Parameters:
        return {"values": self.values}

    def gradient_values(self) -> tuple[float, float] | None:
        return self.bits

    def levels(self) -> tuple[float, ...] | None:
        return self.taus

    def l1_sensitivity(self) -> float:
        return self.l1

    def l2_sensitivity(self) -> float:
        return self.l2

    def curvature(self) -> Matrix:
        return nan_matrix(self.dimension)

    def gradient_covariance(self) -> Matrix:
        return nan_matrix(self.dimension)


def gradient(kernel, g, theta, data, at, lane, problem):  # type: ignore[no-untyped-def]
    for j in range(kernel.D):
        g[j * LANES + lane] = problem.values[j]
