"""Logistic regression with a non-convex regulariser.

    f(w, (x, y)) = log(1 + exp(-y <w, x>)) + penalty sum_j w_j^2 / (1 + w_j^2)

With the loss l and the regulariser sum_j h(w_j): |l'| <= 1, |l''| <= 1/4, |h'| <= penalty 3 sqrt(3)/8 and
-penalty/2 <= h'' <= 2 penalty.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from ldpflow.components.problems.finite_sum import BinaryProblem
from ldpflow.numerics import exp, log
from ldpflow.settings import Parameters


class NonconvexLogistic(BinaryProblem):
    """Logistic loss plus ``penalty`` sum_j w_j^2 / (1 + w_j^2).

    Parameters
    ----------
    penalty : float
        Factor of the regulariser, >= 0.
    """

    kind: Literal["nonconvex_logistic"] = "nonconvex_logistic"
    penalty: Annotated[float, Field(ge=0, le=1e6)] = 0.05

    def lipschitz_of_loss(self) -> float:
        return self.bound

    def smoothness_of_loss(self) -> float:
        return self.bound**2 / 4.0

    def lipschitz(self) -> float:
        return self.bound + self.penalty * 3.0 * math.sqrt(3.0) / 8.0 * math.sqrt(self.d)

    def smoothness(self) -> float:
        return self.bound**2 / 4.0 + 2.0 * self.penalty

    def gap(self) -> float:
        """log 2, the loss at 0. A loss is at least 0."""
        return math.log(2.0)

    def convex(self) -> bool:
        return self.penalty == 0.0

    def kernel_parameters(self) -> Parameters:
        return {"penalty": self.penalty}


def loss(u, y, problem):  # type: ignore[no-untyped-def]
    """log(1 + exp(-y u)) with u = <w, x>. This form does not overflow."""
    margin = y * u
    return max(-margin, 0.0) + log(1.0 + exp(-np.abs(margin)))


def derivative(u, y, problem):  # type: ignore[no-untyped-def]
    return -y / (1.0 + exp(y * u))


def separable_loss(w, y, problem):  # type: ignore[no-untyped-def]
    square = w * w
    return problem.penalty * square / (1.0 + square)


def separable(w, y, problem):  # type: ignore[no-untyped-def]
    rest = 1.0 + w * w
    return problem.penalty * 2.0 * w / (rest * rest)
