"""What every algorithm (a recursion that makes iterates) offers to the rest of the house."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any, ClassVar

from pydantic import Field

from ldpflow.mechanisms import Mechanism, PrivacyStatement
from ldpflow.problems import Problem
from ldpflow.problems.problem import Matrix
from ldpflow.settings import Settings

__all__ = ["Algorithm"]

Exponent = Annotated[float, Field(gt=0, lt=1)]
StepConstant = Annotated[float, Field(gt=0)]


class Algorithm(Settings):
    """A recursion theta_i = theta_{i-1} - eta_i (private gradient), eta_i = c i^(-gamma).

    The module that defines an algorithm also holds its kernel function, named like the kind (see
    ldpflow.algorithms.kernels).

    Parameters
    ----------
    gamma : float in (0, 1)
        Step-size exponent; the central limit theorem of the average needs gamma > 1/2.
    c : float > 0
        Step-size constant.
    theta0 : float
        Start, the same in every coordinate.
    """

    carries_privacy: ClassVar[bool] = False
    """Whether the algorithm itself is private, and the mechanism is ``none``."""

    gamma: Exponent = 0.51
    c: StepConstant = 1.0
    theta0: float = 0.0

    def depends_on_horizon(self) -> bool:
        """Whether the settings of a step depend on n; then paths of different n differ."""
        return False

    def unsuitable(self, problem: Problem, mechanism: Mechanism) -> str | None:
        """Why this algorithm cannot run the problem under the mechanism, or None."""
        return None

    def projects(self) -> bool:
        """Whether iterates are projected, by the module's kernel function ``project``."""
        return False

    def perturbed_paths(self) -> int:
        """Perturbed paths that run beside the path itself, on the same records."""
        return 0

    def share(self, mechanism: Mechanism) -> Mechanism:
        """The mechanism as one path uses it: with its share of a record's budget."""
        return mechanism

    def records_per_step(self) -> int:
        """Records (users) that one step consumes."""
        return 1

    def steps(self, n: int) -> int:
        """Steps made by checkpoint n: those of n users, or n itself where checkpoints count steps."""
        return n // self.records_per_step()

    def check_horizon(self, problem: Problem, n: int) -> None:
        """Refuse an n that does not go with the settings (where they depend on it).

        Raises
        ------
        InputError
        """

    def checkpoints(self, problem: Problem, n: int, points: int) -> tuple[int, ...] | None:
        """Where a trajectory of n users is kept, or None for log-spaced numbers of users."""
        return None

    def columns(self, problem: Problem, n: int) -> dict[str, Any]:
        """What is reported with every result beside the settings, for a path of n users."""
        return {}

    @abstractmethod
    def kernel_parameters(self) -> tuple[float, ...]:
        """What the recursion gets as ``settings``."""

    @abstractmethod
    def step_covariance(self, problem: Problem, mechanism: Mechanism) -> Matrix:
        """Covariance of one step's private gradient at theta*, d x d."""

    @abstractmethod
    def privacy(self, mechanism: Mechanism) -> PrivacyStatement:
        """The guarantee of the whole transcript theta_1, ..., theta_n."""


def combined(first: Matrix, second: Matrix, weight1: float, weight2: float) -> Matrix:
    """weight1 * first + weight2 * second."""
    return [
        [weight1 * a + weight2 * b for a, b in zip(row1, row2, strict=True)]
        for row1, row2 in zip(first, second, strict=True)
    ]
