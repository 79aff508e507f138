"""Problem of audits whose gradient is a given vector."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from ldpflow.components.problems.laws import Variate
from ldpflow.components.problems.problem import Matrix, Problem, nan_matrix
from ldpflow.numerics.streams import LANES
from ldpflow.settings import Parameters, Setting


class Given(Problem):
    """Problem with known gradients and nothing else.

    ``values``: the gradient's coordinates, or the gradient of every user. ``bits``: the two values of a
    gradient that is a bit.
    """

    values: tuple[float, ...]
    bits: tuple[float, float] | None = None

    def truth(self) -> tuple[float, ...]:
        return (0.0,) * len(self.values)

    def variates(self) -> tuple[Variate, ...]:
        return ()

    def kernel_parameters(self) -> Parameters:
        return {"values": self.values}

    def l1_sensitivity(self) -> float:
        return math.inf

    def l2_sensitivity(self) -> float:
        return math.inf

    def gradient_values(self) -> tuple[float, float] | None:
        return self.bits

    def curvature(self) -> Matrix:
        return nan_matrix(self.dimension)

    def gradient_covariance(self) -> Matrix:
        return nan_matrix(self.dimension)


class GivenGradient(Given):
    """A problem whose gradient is a given vector for every theta.

    Parameters
    ----------
    l1, l2 : float
        Sensitivities that are claimed for it.
    taus : tuple of float, optional
        Levels, where the values are the bits 1{X <= theta_q} of a record.
    original : Problem, optional
        The problem whose gradients are audited: a mechanism may read its settings, as in ``problem.tau``.
    """

    kind: Literal["given_gradient"] = "given_gradient"
    l1: float | None = None
    l2: float | None = None
    taus: tuple[float, ...] | None = None
    original: Annotated[Problem | None, Field(exclude=True, repr=False), Setting(stored=False)] = None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            original = self.__dict__.get("original")
            if name.startswith("_") or original is None:
                return super().__getattr__(name)
            return getattr(original, name)

    def levels(self) -> tuple[float, ...] | None:
        return self.taus

    def l1_sensitivity(self) -> float:
        return math.inf if self.l1 is None else self.l1

    def l2_sensitivity(self) -> float:
        return math.inf if self.l2 is None else self.l2


def gradient(kernel, g, theta, data, at, lane, problem):  # type: ignore[no-untyped-def]
    """The given vector."""
    for j in range(kernel.D):
        g[j * LANES + lane] = problem.values[j]
