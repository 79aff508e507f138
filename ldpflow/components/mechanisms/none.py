"""No randomiser: the non-private baseline (epsilon infinite)."""

from __future__ import annotations

from typing import Literal

from ldpflow.components.mechanisms.mechanism import Mechanism, PrivacyStatement
from ldpflow.components.problems.laws import Variate
from ldpflow.components.problems.problem import Matrix, Problem, isotropic
from ldpflow.settings import Parameters


class NoMechanism(Mechanism):
    """A(g) = g."""

    kind: Literal["none"] = "none"

    def variates(self, problem: Problem) -> tuple[Variate, ...]:
        return ()

    def kernel_parameters(self, problem: Problem) -> Parameters:
        return {}

    def noise_covariance(self, problem: Problem) -> Matrix:
        return isotropic(problem.dimension, 0.0)

    def privacy(self) -> PrivacyStatement:
        return PrivacyStatement("none")


def randomise(g, noise, at, lane, mechanism, counts):  # type: ignore[no-untyped-def]
    """A(g) = g."""
