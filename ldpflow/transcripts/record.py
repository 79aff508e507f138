"""The path record of a transcript: what interval methods need, without a simulator behind it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from pydantic import ValidationError

from ldpflow.algorithms import Algorithm
from ldpflow.intervals import INTERVAL_METHODS, IntervalMethod
from ldpflow.intervals.interval import PathIntervalMethod
from ldpflow.intervals.record import PathRecord
from ldpflow.intervals.wrapped import Wrapped
from ldpflow.mechanisms import Mechanism
from ldpflow.problems.laws import Variate
from ldpflow.problems.problem import Matrix, Problem, unknown_matrix
from ldpflow.settings import canonical_json

__all__ = ["Collected", "UnknownLaw", "default_methods", "needed", "regressions", "settled", "unusable"]


PLANE_OR_SPACE = 3
"""Coordinates up to which the quadratic fit is made without being asked for: compiling it takes long."""


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
    """

    kind: Literal["unknown_law"] = "unknown_law"
    d: int = 1
    taus: tuple[float, ...] = ()
    several: bool = False

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
        return unknown_matrix(self.d)

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


def regressions(d: int) -> tuple[IntervalMethod, ...]:
    """The regressions that are recommended and that the verdict needs, the lower degree first."""
    if d == 1:
        return (method("TR"), method("TR", degree=3, burn_in="0.01n"))
    degrees = (1, 2) if d <= PLANE_OR_SPACE else (1,)
    return tuple(method("TR", degree=degree, burn_in="0.01n", variance="residual") for degree in degrees)


def default_methods(source: Collected, levels: Sequence[float]) -> tuple[IntervalMethod, ...]:
    """Every interval method that a transcript is enough for, in the settings that are recommended.

    A method without default settings is not among them.
    """
    d = source.problem.dimension
    found: list[IntervalMethod] = []
    for kind in INTERVAL_METHODS:
        if kind == "TR":
            found += regressions(d)
        elif kind == "TR-BM":
            found.append(method(kind) if d == 1 else method(kind, degree=1, burn_in="0.01n"))
        else:
            try:
                made = method(kind)
            except ValidationError:
                continue
            if unusable(made, source, levels) is None:
                found.append(made)
    return tuple(found)


def unusable(method: IntervalMethod, source: Collected, levels: Sequence[float]) -> str | None:
    """Reason why a transcript is not enough for a method, or None."""
    if "oracle" in (method.kind, getattr(method, "base", "")):
        return "It needs the truth."
    missing = [name for name in type(method).grid_defaults((1,)) if getattr(method, name) is None]
    if missing:
        return f"It needs {missing[0]}, which has to be chosen before the reports come."
    if not method.applies(source):
        return "It needs what no transcript has."
    if any(method.runs(level) > 1 for level in levels):
        return "It needs several runs."
    return method.impossible(source.problem)


def method(kind: str, **settings: object) -> IntervalMethod:
    """A method with its settings."""
    return INTERVAL_METHODS[kind].model_validate({"kind": kind, **settings})


def settled(methods: Sequence[IntervalMethod], source: Collected) -> tuple[tuple[IntervalMethod, ...], bool]:
    """The methods with a variance of A that can be known here, and whether one was changed.

    ``variance = "known"`` is that of the gradient of quantiles plus that of randomised response; under
    other mechanisms and for other problems the residual variance of the fit takes its place.
    """
    if source.mechanism.kind in ("randomized_response", "cells"):
        return tuple(methods), False
    result = tuple(
        method.model_copy(update={"variance": "residual"}) if takes_known(method) else method
        for method in methods
    )
    return tuple(dict.fromkeys(result)), result != tuple(methods)


def takes_known(method: IntervalMethod) -> bool:
    """Whether a method takes the known variance, by itself or by the method that it is based on."""
    base = method.base_method() if isinstance(method, Wrapped) else method
    return getattr(base, "variance", None) == "known"


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
