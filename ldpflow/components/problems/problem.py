"""Base classes of problems: an estimand, its data law and its gradient."""

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
    """Location and scale in which a study gives its steps and its start.

    A step constant c means c ``scale``, a start theta0 means ``location`` + ``scale`` theta0, in the unit of
    the data. Path and key equal those of a study with the converted numbers.

    Parameters
    ----------
    location : float
        Unit of the data.
    scale : float > 0
        Unit of the data, for example the interquartile range of a pilot.
    """

    location: Annotated[float, Field(ge=-1e100, le=1e100)] = 0.0
    scale: Annotated[float, Field(ge=1e-100, le=1e100)] = 1.0

    def place(self, value: float) -> float:
        """Location such as theta0 in the unit of the data."""
        return self.location + self.scale * value

    def size(self, value: float) -> float:
        """Distance or step constant in the unit of the data."""
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
    """Base class of the problems of every family of simulators."""

    group: ClassVar[str] = "problem"

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Number d of coordinates of theta."""

    @abstractmethod
    def variates(self) -> tuple[Variate, ...]:
        """Standard variates that one record takes, in the order of their planes."""

    @abstractmethod
    def kernel_parameters(self) -> Parameters:
        """Numbers that the problem's kernel functions read by name from their argument ``problem``."""

    def in_own_unit(self) -> tuple[Self, Units | None]:
        """Problem without its setting ``units``, and these units or None."""
        units: Units | None = getattr(self, "units", None)
        return (self if units is None else self.model_copy(update={"units": None})), units

    def own_scale(self) -> Transform:
        """Monotone scale T on which theta is estimated (ldpflow.components.problems.transform), or None."""
        return None

    def caution(self) -> str | None:
        """A warning about settings that change the estimand, or None."""
        return None

    def data_key(self) -> str:
        """Key of the ``data`` streams: all mechanisms and step sizes share the users of a problem."""
        return canonical_json(self.key_settings())


class Problem(BaseProblem):
    """An estimand theta* with R(theta*) = 0, a data law and a gradient g, R(theta) = E g(X, theta).

    One-pass algorithms and protocols are about such a problem.

    The module that defines a problem also holds its kernel function ``gradient(g, theta, data, at, lane,
    problem)``, plain Python that is compiled with an algorithm's recursion (see
    ldpflow.simulators.one_pass).
    """

    @property
    def dimension(self) -> int:
        return len(self.truth())

    @abstractmethod
    def truth(self) -> tuple[float, ...]:
        """theta*, length d, NaN if unknown."""

    @abstractmethod
    def l1_sensitivity(self) -> float:
        """sup ||g(x, theta) - g(x', theta)||_1 over records x, x' and theta, possibly infinite."""

    @abstractmethod
    def l2_sensitivity(self) -> float:
        """An upper bound of sup ||g(x, theta) - g(x', theta)||_2 over records x, x' and theta."""

    def stored_records(self) -> int:
        """Number of records of a file, 0 for simulated ones."""
        return 0

    def with_replacement(self) -> bool:
        """Whether stored records are drawn with replacement, not each at most once in a random order."""
        return False

    def table(self) -> NDArray[np.float64]:
        """The stored records, one column per variate, shape (N, len(variates()))."""
        return np.empty((0, len(self.variates())))

    def exact_hessian(self) -> Matrix | None:
        """H, d x d, if F(theta) - F(theta*) = ||theta - theta*||_H^2 / 2 exactly."""
        return None

    def gradient_bound(self) -> float | None:
        """C0 of the bounds of ldpflow.results.curves: half the L2 sensitivity, or None."""
        return None

    def smoothness(self) -> float | None:
        """M with ||g(x, theta) - g(x, theta')||_2 <= M ||theta - theta'||_2, if there is one."""
        return None

    def one_point_convexity(self, distance: float) -> float | None:
        """m with <grad F(theta), theta - theta*> >= m ||theta - theta*||^2 within ``distance``, if known."""
        return None

    def quantile_target(self, coordinate: int = 0) -> tuple[float, Law] | None:
        """Level and law of a record, if this coordinate of theta* is its quantile."""
        return None

    def gradient_values(self) -> tuple[float, float] | None:
        """Both values (low < 0 < high) of a scalar gradient that takes only two, or None."""
        return None

    def levels(self) -> tuple[float, ...] | None:
        """tau_1 < .. < tau_Q, if theta* are these quantiles of one value (iterates stay sorted), or None."""
        return None

    def bit_law(self) -> str | None:
        """Name of a law F with P(g(X, theta) > 0) = F((theta - location)/scale), if there is one.

        ldpflow.numerics.distributions must have its ``cdf_<law>``, the problem's module a kernel function
        ``bit_probability``.
        """
        return None

    @abstractmethod
    def curvature(self) -> Matrix:
        """G, the derivative of R at theta*, d x d."""

    @abstractmethod
    def gradient_covariance(self) -> Matrix:
        """S_SGD, the covariance of g(X, theta*), d x d."""
