"""Base classes of problems."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Annotated, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ldpflow.components.problems.laws import Law, Variate
from ldpflow.components.problems.transform import Transform
from ldpflow.settings import InputModel, Parameters, Settings, canonical_json


class Units(InputModel):
    """Unit in which a study gives its step constant c and its start theta0.

    In the unit of the data the step constant is ``scale`` * c, and the start is ``location`` + ``scale`` *
    theta0. A study with the converted numbers has the same path keys.

    Parameters
    ----------
    location : float
        Zero of the new unit, in the unit of the data.
    scale : float > 0
        Size of the new unit in the unit of the data, for example the interquartile range of a pilot.
    """

    location: Annotated[float, Field(ge=-1e100, le=1e100)] = 0.0
    scale: Annotated[float, Field(ge=1e-100, le=1e100)] = 1.0

    def place(self, value: float) -> float:
        """Convert a location, such as theta0, to the unit of the data."""
        return self.location + self.scale * value

    def size(self, value: float) -> float:
        """Convert a distance or a step constant to the unit of the data."""
        return self.scale * value


Matrix = list[list[float]]


def nan_matrix(dimension: int) -> Matrix:
    return [[math.nan] * dimension for _ in range(dimension)]


def diagonal(values: Sequence[float]) -> Matrix:
    return np.diag(values).tolist()


def isotropic(dimension: int, value: float) -> Matrix:
    return diagonal([value] * dimension)


def scale_matrix(matrix: Matrix, factor: float) -> Matrix:
    return [[factor * value for value in row] for row in matrix]


class BaseProblem(Settings):
    """Base class of all problems: a parameter theta, a law of records, and functions for kernels."""

    group: ClassVar[str] = "problem"

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Number d of coordinates of theta."""

    @abstractmethod
    def variates(self) -> tuple[Variate, ...]:
        """Standard variates from which a record is made.

        The kernel's array ``data`` has a part, called plane, for each variate, in this order.
        """

    @abstractmethod
    def kernel_parameters(self) -> Parameters:
        """Numbers that kernel functions of the problem read by name from their argument ``problem``."""

    def in_own_unit(self) -> tuple[Self, Units | None]:
        """Problem without its setting ``units``, and the value of this setting."""
        units: Units | None = getattr(self, "units", None)
        return (self if units is None else self.model_copy(update={"units": None})), units

    def own_scale(self) -> Transform:
        """Monotone scale T on which theta is estimated (ldpflow.components.problems.transform), or None."""
        return None

    def caution(self) -> str | None:
        """Warning about the settings, or None."""
        return None

    def data_key(self) -> str:
        """Key of the random streams that make users. Paths with equal data keys have the same users."""
        return canonical_json(self.key_settings())


class Problem(BaseProblem):
    """Problem of one-pass algorithms and protocols: theta* is the root of R(theta) = E g(X, theta).

    X is a record and g its gradient. The module of a problem has the kernel function ``gradient(g, theta,
    data, at, lane, problem)``, plain Python that is compiled with an algorithm's recursion
    (ldpflow.simulators.one_pass).
    """

    @property
    def dimension(self) -> int:
        return len(self.truth())

    @abstractmethod
    def truth(self) -> tuple[float, ...]:
        """theta*, of length d. NaN if it is unknown."""

    @abstractmethod
    def l1_sensitivity(self) -> float:
        """sup ||g(x, theta) - g(x', theta)||_1 over records x, x' and theta, or an upper bound of it."""

    @abstractmethod
    def l2_sensitivity(self) -> float:
        """An upper bound of sup ||g(x, theta) - g(x', theta)||_2 over records x, x' and theta."""

    def stored_records(self) -> int:
        """Number of records of a file. 0 if records are simulated."""
        return 0

    def with_replacement(self) -> bool:
        """Whether records of a file are drawn with replacement. Else a replicate uses each at most once."""
        return False

    def table(self) -> NDArray[np.float64]:
        """Records of a file, shape (N, number of variates)."""
        return np.empty((0, len(self.variates())))

    def exact_hessian(self) -> Matrix | None:
        """H, d x d, if the mean loss at theta is that at theta* plus ||theta - theta*||_H^2 / 2, or None."""
        return None

    def gradient_bound(self) -> float | None:
        """C0, half the L2 sensitivity, if ldpflow.results.curves has bounds for the problem, or None."""
        return None

    def smoothness(self) -> float | None:
        """M with ||g(x, theta) - g(x, theta')||_2 <= M ||theta - theta'||_2, or None."""
        return None

    def one_point_convexity(self, distance: float) -> float | None:
        """m with <R(theta), theta - theta*> >= m ||theta - theta*||^2 if ||theta - theta*|| <= ``distance``.

        None if no m is known.
        """
        return None

    def quantile_target(self, coordinate: int = 0) -> tuple[float, Law] | None:
        """Level and law of a record if this coordinate of theta* is a quantile of a smooth law, or None."""
        return None

    def gradient_values(self) -> tuple[float, float] | None:
        """The values low < 0 < high of a scalar gradient that has only these two values, or None."""
        return None

    def levels(self) -> tuple[float, ...] | None:
        """Increasing levels tau_1, ..., tau_Q if coordinate q of theta* is the tau_q-quantile, or None."""
        return None

    def bit_law(self) -> str | None:
        """Name of a law F with P(g(X, theta) > 0) = F((theta - location)/scale), or None.

        ldpflow.numerics.distributions needs a function ``cdf_NAME`` for it, and the problem's module a kernel
        function ``bit_probability``.
        """
        return None

    @abstractmethod
    def curvature(self) -> Matrix:
        """G, the derivative of R at theta*, d x d."""

    @abstractmethod
    def gradient_covariance(self) -> Matrix:
        """S_SGD, the covariance of g(X, theta*), d x d."""
