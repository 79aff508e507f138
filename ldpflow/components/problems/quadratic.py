"""Quadratic loss with known moments, a model for tests.

f(theta, x) = (theta - theta*)' H (theta - theta*)/2 - x' (theta - theta*) with a diagonal H. The coordinates
of x are independent and uniform on [-b, b]. So the gradient H (theta - theta*) - x has the covariance
b^2/3 I. The gradient is unbounded. Its sensitivity is finite, since H (theta - theta*) does not depend on x.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from ldpflow.components.problems.laws import Variate
from ldpflow.components.problems.problem import Matrix, Problem, diagonal, isotropic
from ldpflow.numerics.streams import LANES, STRIDE
from ldpflow.settings import Parameters


class Quadratic(Problem):
    """Quadratic loss with bounded noise.

    Parameters
    ----------
    curvatures : tuple of float > 0
        Curvatures: the diagonal of the matrix H. Its length d is the dimension.
    minimiser : tuple of float, optional
        theta*, 0 by default.
    bound : float > 0
        b, the bound of the absolute value of every coordinate of x.
    """

    kind: Literal["quadratic"] = "quadratic"
    curvatures: Annotated[
        tuple[Annotated[float, Field(ge=1e-6, le=1e6)], ...], Field(min_length=1, max_length=64)
    ] = (1.0,)
    minimiser: Annotated[tuple[float, ...], Field(min_length=1, max_length=64)] | None = None
    bound: Annotated[float, Field(ge=1e-6, le=1e6)] = 1.0

    @model_validator(mode="after")
    def check_length(self) -> Self:
        if self.minimiser is not None and len(self.minimiser) != len(self.curvatures):
            raise ValueError("minimiser must have as many values as curvatures")
        return self

    def truth(self) -> tuple[float, ...]:
        return (0.0,) * len(self.curvatures) if self.minimiser is None else self.minimiser

    def variates(self) -> tuple[Variate, ...]:
        return (Variate("symmetric_uniform"),) * self.dimension

    def kernel_parameters(self) -> Parameters:
        return {"bound": self.bound, "curvatures": self.curvatures, "minimiser": self.truth()}

    def gradient_bound(self) -> float:
        """C0, the supremum of ||x||_2. The gradient itself is unbounded."""
        return self.bound * math.sqrt(self.dimension)

    def l1_sensitivity(self) -> float:
        return 2.0 * self.bound * self.dimension

    def l2_sensitivity(self) -> float:
        return 2.0 * self.gradient_bound()

    def smoothness(self) -> float | None:
        return max(self.curvatures)

    def curvature(self) -> Matrix:
        return diagonal(self.curvatures)

    def exact_hessian(self) -> Matrix | None:
        return self.curvature()

    def gradient_covariance(self) -> Matrix:
        return isotropic(self.dimension, self.bound**2 / 3.0)


def gradient(kernel, g, theta, data, at, lane, problem):  # type: ignore[no-untyped-def]
    for j in range(kernel.D):
        distance = theta[j * LANES + lane] - problem.minimiser[j]
        g[j * LANES + lane] = problem.curvatures[j] * distance - problem.bound * data[j * STRIDE + at]
