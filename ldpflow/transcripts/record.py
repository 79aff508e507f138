"""The path record of a transcript: what interval methods need, without a simulator behind it."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from ldpflow.algorithms import Algorithm
from ldpflow.intervals.record import PathRecord
from ldpflow.mechanisms import Mechanism
from ldpflow.problems.laws import Variate
from ldpflow.problems.problem import Matrix, Problem, unknown_matrix
from ldpflow.settings import canonical_json


class UnknownLaw(Problem):
    """A problem of which the gradient's range may be known, and neither the law nor the truth.

    Parameters
    ----------
    d : int
        Coordinates of theta.
    taus : tuple of float
        Levels, where the coordinates are quantiles of one value.
    several : bool
        Whether the problem is ``quantiles``, of however many levels.
    slopes : tuple of float
        Slope of the mean report in each coordinate, as estimated; empty where it is not known.
    """

    kind: Literal["unknown_law"] = "unknown_law"
    d: int = 1
    taus: tuple[float, ...] = ()
    several: bool = False
    slopes: tuple[float, ...] = ()

    @property
    def dimension(self) -> int:
        return self.d

    def truth(self) -> tuple[float, ...]:
        return (math.nan,) * self.d

    def levels(self) -> tuple[float, ...] | None:
        return self.taus or None

    def variates(self) -> tuple[Variate, ...]:
        return ()

    def kernel_parameters(self) -> dict[str, float]:
        return {}

    def l1_sensitivity(self) -> float:
        return float(self.d) if self.taus else math.nan

    def l2_sensitivity(self) -> float:
        return math.sqrt(self.d) if self.taus else math.nan

    def gradient_values(self) -> tuple[float, float] | None:
        return (-self.taus[0], 1.0 - self.taus[0]) if len(self.taus) == 1 else None

    def curvature(self) -> Matrix:
        if not self.slopes:
            return unknown_matrix(self.d)
        return [[s if j == k else 0.0 for k in range(self.d)] for j, s in enumerate(self.slopes)]

    def gradient_covariance(self) -> Matrix:
        if not self.taus:
            return unknown_matrix(self.d)
        if not self.several:  # the same number, rounded as in a study of one quantile
            return [[self.taus[0] * (1.0 - self.taus[0])]]
        return [[min(a, b) - a * b for b in self.taus] for a in self.taus]


@dataclass(frozen=True)
class Collected:
    """Description of the path for interval methods, in the place of a simulator.

    Parameters
    ----------
    problem : Problem
    mechanism : Mechanism
    algorithm : Algorithm
    name : str or None
        Key of the simulated path that the transcript was written from.
    """

    problem: UnknownLaw
    mechanism: Mechanism
    algorithm: Algorithm
    name: str | None = None

    @property
    def randomiser(self) -> Mechanism:
        """The users' mechanism."""
        return self.mechanism

    @cached_property
    def key(self) -> str:
        """Key of the multipliers of BB: the simulated path's, or one of the collection's settings."""
        if self.name is not None:
            return self.name
        settings = {
            "problem": self.problem.key_settings(),
            "mechanism": self.mechanism.key_settings(),
            "algorithm": self.algorithm.key_settings(),
        }
        return hashlib.sha256(canonical_json(settings).encode()).hexdigest()[:16]

    def steps(self, n: int) -> int:
        """Steps that n reports make."""
        return self.algorithm.steps(n)

    def interval_record(self) -> type[PathRecord]:
        """Class of the record that is made."""
        return PathRecord
