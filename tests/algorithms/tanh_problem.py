"""grad f(w, s) = a_s tanh(w) + c_s, the gradient oracle of the golden vectors: x = c_s, y = a_s."""

from typing import ClassVar, Literal

import numpy as np

from ldpflow.components.problems.finite_sum import FiniteSumProblem


class Tanh(FiniteSumProblem):
    kind: Literal["tanh"] = "tanh"
    labels: ClassVar = "real"
    d: int = 2

    def lipschitz_of_loss(self):
        return 4.0

    def smoothness_of_loss(self):
        return 2.0

    def data_parameters(self):
        return (1.0, 1.0, 1.0)


def loss(u, y, problem):
    return u


def derivative(u, y, problem):
    return 1.0


def separable_loss(w, y, problem):
    return 0.0


def separable(w, y, problem):
    rest = np.exp(-2.0 * np.abs(w))
    size = (1.0 - rest) / (1.0 + rest)
    return y * (size if w > 0.0 else -size)
