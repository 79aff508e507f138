"""Robust linear regression with Cauchy's loss.

    f(w, (x, y)) = l(r) = log(1 + r^2 / 2),   r = <w, x> - y,   |l'| <= 1/sqrt(2), -1/8 <= l'' <= 1

The synthetic errors have infinite variance.
"""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from ldpflow.components.problems.finite_sum import FiniteSumProblem
from ldpflow.numerics import log
from ldpflow.settings import Parameters


class RobustRegression(FiniteSumProblem):
    """Linear regression with Cauchy's loss.

    Parameters
    ----------
    signal : float
        Absolute value of every synthetic coefficient, times ``bound``.
    error_scale : float
        Scale of the synthetic errors, which have Student's t law with 2 degrees of freedom.
    """

    kind: Literal["robust_regression"] = "robust_regression"
    labels: ClassVar = "real"
    signal: Annotated[float, Field(ge=0, le=1e6)] = 2.0
    error_scale: Annotated[float, Field(ge=0, le=1e6)] = 0.5

    def lipschitz_of_loss(self) -> float:
        return self.bound / math.sqrt(2.0)

    def smoothness_of_loss(self) -> float:
        return self.bound**2

    def data_parameters(self) -> Parameters:
        return {"bound": self.bound, "signal": self.signal / self.bound, "error_scale": self.error_scale}


def loss(u, y, problem):  # type: ignore[no-untyped-def]
    r = u - y
    return log(1.0 + 0.5 * r * r)


def derivative(u, y, problem):  # type: ignore[no-untyped-def]
    r = u - y
    return r / (1.0 + 0.5 * r * r)
