"""Problem of audits whose records are their own gradients."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ldpflow.problems.laws import Variate
from ldpflow.problems.problem import Matrix, Problem, unknown_matrix
from ldpflow.settings import Parameters

Floats = NDArray[np.float64]


class GivenGradients(Problem):
    """Records that are their own gradients, whatever theta is: one number each.

    Parameters
    ----------
    values : tuple of float
        The gradients, in the order of the users.
    bits : tuple of two floats, optional
        The two values of a gradient that is a bit.
    """

    kind: Literal["given_gradients"] = "given_gradients"
    values: tuple[float, ...]
    bits: tuple[float, float] | None = None

    def truth(self) -> tuple[float, ...]:
        return (0.0,)

    def variates(self) -> tuple[Variate, ...]:
        return (Variate("normal"),) * 2  # planes of the stored rows

    def stored_records(self) -> int:
        return len(self.values)

    def table(self) -> Floats:
        return np.array([[value, 0.0] for value in self.values])

    def kernel_parameters(self) -> Parameters:
        return {"unit": 1.0}

    def l1_sensitivity(self) -> float:
        return math.inf if self.bits is None else self.bits[1] - self.bits[0]

    def l2_sensitivity(self) -> float:
        return self.l1_sensitivity()

    def gradient_values(self) -> tuple[float, float] | None:
        return self.bits

    def curvature(self) -> Matrix:
        return unknown_matrix(1)

    def gradient_covariance(self) -> Matrix:
        return unknown_matrix(1)


def gradient(kernel, g, theta, data, at, lane, problem):  # type: ignore[no-untyped-def]
    """The number of the row."""
    g[lane] = problem.unit * data[at]
