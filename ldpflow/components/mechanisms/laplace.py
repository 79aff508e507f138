"""The Laplace mechanism adds Lap(0, Delta/eps) to every coordinate of the gradient g. It is eps-LDP.

Here Delta = sup ||g(x, theta) - g(x', theta)||_1. The noise has the covariance S_LDP = 2 (Delta/eps)^2 I.
Simulated noise is seeded and in floating point. It protects no data.
"""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from ldpflow.components.mechanisms.mechanism import EPSILON, Mechanism, PrivacyStatement
from ldpflow.components.problems.laws import Variate
from ldpflow.components.problems.problem import Matrix, Problem, isotropic
from ldpflow.numerics.streams import LANES, STRIDE
from ldpflow.settings import Parameters


class Laplace(Mechanism):
    """Laplace noise calibrated to the L1 sensitivity of the whole gradient.

    Parameters
    ----------
    epsilon : float in [1e-6, 1e6]
        Budget of one record.
    """

    cites: ClassVar = ("dwork2006",)
    kind: Literal["laplace"] = "laplace"
    epsilon: Annotated[float, Field(ge=1e-6, le=1e6), EPSILON] = 1.0

    def unsuitable(self, problem: Problem) -> str | None:
        if math.isinf(problem.l1_sensitivity()):
            return "its gradient is unbounded; clipped_gaussian clips it"
        return None

    def scale(self, problem: Problem) -> float:
        return problem.l1_sensitivity() / self.epsilon

    def variates(self, problem: Problem) -> tuple[Variate, ...]:
        return (Variate("laplace"),) * problem.dimension

    def kernel_parameters(self, problem: Problem) -> Parameters:
        return {"scale": self.scale(problem)}

    def noise_covariance(self, problem: Problem) -> Matrix:
        return isotropic(problem.dimension, 2.0 * self.scale(problem) ** 2)

    def privacy(self) -> PrivacyStatement:
        return PrivacyStatement("eps-LDP", epsilon=self.epsilon)


def randomise(kernel, g, noise, at, lane, mechanism, counts):  # type: ignore[no-untyped-def]
    """Replace g by A(g) = g + (Delta/eps) (L_1, ..., L_d), L_j standard Laplace."""
    for j in range(kernel.D):
        g[j * LANES + lane] += mechanism.scale * noise[j * STRIDE + at]
