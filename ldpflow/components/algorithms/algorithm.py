"""Base classes of algorithms, which compute iterates by a recursion."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from ldpflow.columns import Column
from ldpflow.components.mechanisms.mechanism import DELTA, EPSILON, Mechanism, PrivacyStatement
from ldpflow.components.problems.problem import Matrix, Problem, Units
from ldpflow.errors import InputError
from ldpflow.settings import Parameters, Setting, Settings

Exponent = Annotated[float, Field(gt=0, lt=1), Setting("1", symbol="γ", title="step-size exponent")]  # noqa: RUF001
StepConstant = Annotated[float, Field(gt=0), Setting(title="step-size constant", logarithmic=True)]
StepLength = Annotated[float, Field(gt=0, le=1e6)]
BatchSize = Annotated[int, Field(ge=1, le=10**9), Setting("records", logarithmic=True)]
Epsilon = Annotated[float, Field(gt=0, le=1e6), EPSILON]
Delta = Annotated[float, Field(ge=1e-300, lt=1), DELTA]


class BaseAlgorithm(Settings):
    """Base class of all algorithms.

    The argument ``horizon`` of its methods is the number of users n, or None if one path serves every n.

    Parameters
    ----------
    theta0 : float
        Start, equal in all coordinates.
    """

    group: ClassVar[str] = "algorithm"

    family: ClassVar[str]
    """Simulator: ``one_pass`` uses each user once, and ``finite_sum`` visits a data set many times."""

    carries_privacy: ClassVar[bool] = False
    """Whether the algorithm makes the privacy statement and takes no mechanism."""

    measures: ClassVar[tuple[Column, ...]] = ()
    """Columns of trajectories that the kernel records in PathRecord.extras."""

    derived: ClassVar[tuple[Column, ...]] = ()
    """Columns whose values :meth:`columns` computes from the settings."""

    theta0: float = 0.0

    def cautions(self, problem: Any, horizon: int | None) -> list[str]:
        """List warnings about settings that the theory does not cover."""
        return []

    @classmethod
    def missing_settings(cls, given: Mapping[str, object]) -> list[str]:
        """A study needs no budget if it has no noise or gives a noise multiplier."""
        if given.get("noise") == ("none",) or "noise_multiplier" in given:
            return []
        return super().missing_settings(given)


class Algorithm(BaseAlgorithm):
    """A one-pass recursion theta_i = theta_{i-1} - eta_i (private gradient).

    :meth:`step_exponent` and :meth:`step_constant` declare the step sizes eta_i. The module of an algorithm
    also has the kernel function ``recursion`` (see ldpflow.simulators.one_pass).
    """

    family: ClassVar[str] = "one_pass"

    has_intervals: ClassVar[bool] = True
    """Whether a path has enough steps for interval methods."""

    averages_tail: ClassVar[bool] = False
    """Whether the estimate is the average of the second half of the iterates."""

    counts_in_mechanism: ClassVar[bool] = False
    """Whether the kernel records ``Mechanism.measures`` in place of :attr:`measures`."""

    def step_exponent(self) -> float:
        """gamma, if step i has a size proportional to i^(-gamma) for large i. NaN if unknown."""
        return math.nan

    def in_units(self, units: Units) -> Self:
        """Convert steps and start from ``units`` to the unit of the data, or refuse units."""
        hint = "Give its steps and start in the unit of the data."
        raise InputError("problem.units", units.model_dump(), f"cannot be used with {self.kind}", hint)

    def step_constant(self) -> float:
        """c, if step i has the size c i^(-gamma). NaN otherwise.

        Interval methods that need c, such as TR, are left out if it is NaN.
        """
        return math.nan

    def by_coordinate(self) -> bool:
        """Whether steps or starts differ between coordinates (``kernel.BY_COORDINATE``)."""
        return False

    def step_factors(self) -> tuple[float, ...]:
        """Factor of c for each coordinate. Empty for equal steps."""
        return ()

    def start(self, dimension: int) -> tuple[float, ...]:
        """theta_0, one number for each coordinate."""
        return (self.theta0,) * dimension

    def depends_on_horizon(self) -> bool:
        """Whether steps depend on n, so that each n has a path of its own."""
        return False

    def with_users(self, horizon: int | None) -> Self:
        """Fill in settings that follow from n alone and are in no path key. Refuse too few users."""
        return self

    def resolved(self, problem: Problem, horizon: int | None) -> Self:
        """Fill in settings that follow from problem and n and are in the path key. Refuse impossible ones."""
        return self

    def unsuitable(self, problem: Problem, mechanism: Mechanism) -> str | None:
        """Why the algorithm cannot run the problem with the mechanism. None if it can."""
        return None

    def projects(self) -> bool:
        """Whether iterates are projected onto a ball (``kernel.PROJECTED``)."""
        return False

    def perturbed_paths(self) -> int:
        """Number of further paths on the same records, with random weights of the gradients."""
        return 0

    def randomiser(self, mechanism: Mechanism) -> Mechanism:
        """The mechanism that the algorithm applies to a gradient, by default the given one."""
        return mechanism

    def records_per_step(self) -> int:
        """Records (users) of one step."""
        return 1

    def steps(self, n: int, horizon: int | None = None) -> int:
        """Number of steps that the first n users make."""
        return n // self.records_per_step()

    def checkpoints(self, n: int) -> tuple[int, ...] | None:
        """Numbers of users at which a trajectory is recorded. None for numbers at equal distances in log."""
        return None

    def columns(self, problem: Problem, n: int) -> dict[str, Any]:
        """Values of the columns :attr:`derived` for a path of n users."""
        return {}

    @abstractmethod
    def kernel_parameters(self, horizon: int | None) -> Parameters:
        """Numbers that the function ``recursion`` reads by name from its argument ``settings``."""

    @abstractmethod
    def step_covariance(self, problem: Problem, mechanism: Mechanism) -> Matrix:
        """Covariance of the private gradient of a step at theta*, d x d.

        ``mechanism`` is the result of :meth:`randomiser`.
        """

    @abstractmethod
    def privacy(self, mechanism: Mechanism) -> PrivacyStatement:
        """The guarantee for the whole transcript."""


class DecayingSteps(Algorithm):
    """An algorithm with step sizes eta_i = c i^(-gamma).

    A subclass with other step sizes returns NaN from :meth:`step_constant`. It also returns NaN from
    :meth:`step_exponent` if its step sizes are not proportional to i^(-gamma) for large i.

    Parameters
    ----------
    gamma : float in (0, 1)
        Step-size exponent. The central limit theorem of the average needs gamma > 1/2.
    c : float > 0
        Step-size constant.
    """

    gamma: Exponent = 0.51
    c: StepConstant = 1.0

    def in_units(self, units: Units) -> Self:
        changed = {"c": units.size(self.c), "theta0": units.place(self.theta0)}
        if not 0.0 < changed["c"] < math.inf:
            raise InputError("algorithm.c", self.c, "a c that stays finite and > 0 in the unit of the data")
        return self.model_copy(update=changed)

    def step_exponent(self) -> float:
        return self.gamma

    def step_constant(self) -> float:
        return self.c


VECTORS = {"c": "c_factors", "theta0": "theta0_offsets"}
"""Settings that a study may give for each quantile, with the names of the settings that hold such values."""


class CoordinateSteps(DecayingSteps):
    """An algorithm whose step constants and starts may differ between coordinates.

    A study of several quantiles needs such steps if the scales of the quantiles differ. A study file gives
    the values as a list in a list, ``c = [[0.5, 1.0, 2.0]]`` or ``theta0 = [[-1.0, 0.0, 1.0]]``. Python takes
    a tuple. A plain list is an axis of the design.

    Parameters
    ----------
    c_factors : tuple of float > 0, optional
        Factor of c for each coordinate of theta.
    theta0_offsets : tuple of float, optional
        Start minus theta0 for each coordinate.
    """

    c_factors: (
        Annotated[tuple[Annotated[float, Field(gt=0, le=1e9)], ...], Field(min_length=2, max_length=20)]
        | None
    ) = None
    theta0_offsets: Annotated[tuple[float, ...], Field(min_length=2, max_length=20)] | None = None

    @model_validator(mode="before")
    @classmethod
    def read_vectors(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        return {
            VECTORS[name] if isinstance(value, tuple) and name in VECTORS else name: value
            for name, value in given.items()
        }

    @model_validator(mode="after")
    def check_starts(self) -> Self:
        starts = self.theta0_offsets or ()
        if any(a > b for a, b in pairwise(starts)):
            raise ValueError("the starts of several quantiles must not decrease")
        return self

    @classmethod
    def name_of_setting(cls, name: str, values: object) -> str:
        vectors = isinstance(values, list) and values and all(isinstance(value, list) for value in values)
        return VECTORS.get(name, name) if vectors else name

    def unsuitable(self, problem: Problem, mechanism: Mechanism) -> str | None:
        for name, setting in VECTORS.items():
            values = getattr(self, setting)
            if values is not None and (problem.levels() is None or len(values) != problem.dimension):
                return f"{name} has {len(values)} values, but the problem does not have as many quantiles"
        return super().unsuitable(problem, mechanism)

    def in_units(self, units: Units) -> Self:
        found = super().in_units(units)
        if self.theta0_offsets is None:
            return found
        starts = [units.place(value) for value in self.start(len(self.theta0_offsets))]
        offsets = tuple(value - found.theta0 for value in starts)
        return found.model_copy(update={"theta0_offsets": offsets})

    def by_coordinate(self) -> bool:
        return self.c_factors is not None or self.theta0_offsets is not None

    def step_factors(self) -> tuple[float, ...]:
        return self.c_factors or ()

    def start(self, dimension: int) -> tuple[float, ...]:
        return tuple(self.theta0 + offset for offset in self.theta0_offsets or (0.0,) * dimension)

    def coordinate_parameters(self) -> Parameters:
        d = len(self.c_factors or self.theta0_offsets or ())
        return {"factors": self.c_factors or (1.0,) * d, "offsets": self.theta0_offsets or (0.0,) * d}


def add_matrices(first: Matrix, second: Matrix, weight1: float = 1.0, weight2: float = 1.0) -> Matrix:
    result: Matrix = (weight1 * np.array(first) + weight2 * np.array(second)).tolist()
    return result
