"""Sigmoid loss, a smooth and non-convex substitute for the misclassification rate.

    f(w, (x, y)) = 1 / (1 + exp(y <w, x>)),   |l'| <= 1/4, |l''| <= 1/(6 sqrt(3))

The minimiser may lie at infinity.
"""

from __future__ import annotations

import math
from typing import Literal

from ldpflow.components.problems.finite_sum import BinaryProblem
from ldpflow.numerics import exp


class SigmoidLoss(BinaryProblem):
    """1 / (1 + exp(margin))."""

    kind: Literal["sigmoid_loss"] = "sigmoid_loss"

    def lipschitz_of_loss(self) -> float:
        return self.bound / 4.0

    def smoothness_of_loss(self) -> float:
        return self.bound**2 / (6.0 * math.sqrt(3.0))

    def gap(self) -> float:
        """1/2, the loss at 0. A loss is at least 0."""
        return 0.5


def loss(u, y, problem):  # type: ignore[no-untyped-def]
    return 1.0 / (1.0 + exp(y * u))


def derivative(u, y, problem):  # type: ignore[no-untyped-def]
    """-y s (1 - s) with s the loss."""
    s = 1.0 / (1.0 + exp(y * u))
    return -y * s * (1.0 - s)
