"""The path record of a transcript: what interval methods need, without a simulator behind it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from ldpflow.algorithms import Algorithm
from ldpflow.intervals import INTERVAL_METHODS, IntervalMethod
from ldpflow.intervals.interval import PathIntervalMethod
from ldpflow.intervals.record import PathRecord
from ldpflow.mechanisms import Mechanism
from ldpflow.problems.laws import Variate
from ldpflow.problems.problem import Matrix, Problem, unknown_matrix
from ldpflow.settings import canonical_json

__all__ = ["Collected", "UnknownLaw", "default_methods", "needed", "settled"]


PLANE_OR_SPACE = 3
"""Coordinates up to which the quadratic fit is made without being asked for: compiling it takes long."""


class UnknownLaw(Problem):
    """A problem of which the gradient's range may be known, and neither the law nor the truth.

    Parameters
    ----------
    d : int
        Coordinates of theta.
    tau : float, optional
        Level, where it is a quantile.
    """

    kind: Literal["unknown_law"] = "unknown_law"
    d: int = 1
    tau: float | None = None

    @property
    def dimension(self) -> int:
        return self.d

    def truth(self) -> tuple[float, ...]:
        return (math.nan,) * self.d

    def variates(self) -> tuple[Variate, ...]:
        return ()

    def kernel_parameters(self) -> dict[str, float]:
        return {}

    def l1_sensitivity(self) -> float:
        return math.nan if self.tau is None else 1.0

    def l2_sensitivity(self) -> float:
        return math.nan if self.tau is None else 1.0

    def gradient_values(self) -> tuple[float, float] | None:
        return None if self.tau is None else (-self.tau, 1.0 - self.tau)

    def curvature(self) -> Matrix:
        return unknown_matrix(self.d)

    def gradient_covariance(self) -> Matrix:
        return unknown_matrix(self.d) if self.tau is None else [[self.tau * (1.0 - self.tau)]]


@dataclass(frozen=True)
class Collected:
    """What made the path: in the place of a simulator, for interval methods.

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


def default_methods(d: int) -> tuple[IntervalMethod, ...]:
    """Every interval method that a transcript is enough for, in the settings that are recommended."""
    averages = (method("BB"), method("BM"), method("SN"))
    if d == 1:
        later = method("TR", degree=3, burn_in="0.01n")
        return (*averages, method("TR"), later, method("TR-BM"))
    degrees = (1, 2) if d <= PLANE_OR_SPACE else (1,)
    regressions = [method("TR", degree=degree, burn_in="0.01n", variance="residual") for degree in degrees]
    return (*averages, *regressions, method("TR-BM", degree=1, burn_in="0.01n"))


def method(kind: str, **settings: object) -> IntervalMethod:
    """A method with its settings."""
    return INTERVAL_METHODS[kind].model_validate({"kind": kind, **settings})


def settled(methods: Sequence[IntervalMethod], source: Collected) -> tuple[tuple[IntervalMethod, ...], bool]:
    """The methods with a variance of A that can be known here, and whether one was changed.

    ``variance = "known"`` is tau (1 - tau) plus that of randomised response; under other mechanisms and
    for other problems the residual variance of the fit takes its place.
    """
    known = source.problem.tau is not None and source.mechanism.kind == "randomized_response"
    if known:
        return tuple(methods), False
    result = tuple(
        method.model_copy(update={"variance": "residual"})
        if getattr(method, "variance", None) == "known"
        else method
        for method in methods
    )
    return tuple(dict.fromkeys(result)), result != tuple(methods)


def needed(
    methods: Sequence[IntervalMethod], algorithm: Algorithm, d: int, ends: Sequence[int]
) -> tuple[list[int], list[int], list[str]]:
    """Times, marked times and running sums that the methods take at the given numbers of steps."""
    times: set[int] = set(ends)
    marked: set[int] = set()
    sums: set[str] = set()
    for method in methods:
        assert isinstance(method, PathIntervalMethod)
        names = method.running_sums(d)
        sums.update(names)
        for steps in ends:
            times.update(method.times(steps, algorithm).tolist())
            if names:
                marked.update(method.marked_times(steps, algorithm, d))
    return sorted(times | marked), sorted(marked), sorted(sums)
