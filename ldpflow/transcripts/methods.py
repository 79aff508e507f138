"""Interval methods of an analysis: those that are asked for, and those that the verdict needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from pydantic import ValidationError

from ldpflow.algorithms import Algorithm
from ldpflow.errors import InputError
from ldpflow.intervals import INTERVAL_METHODS, IntervalMethod
from ldpflow.intervals.interval import PathIntervalMethod
from ldpflow.intervals.nested import Nested
from ldpflow.simulators.memory import check_budget
from ldpflow.transcripts.collection import Collection
from ldpflow.transcripts.record import Collected, UnknownLaw
from ldpflow.transcripts.verdict import around_average

__all__ = ["Methods", "Wanted", "needed"]

PLANE_OR_SPACE = 3
"""Coordinates up to which the quadratic fit is made without being asked for: compiling it takes long."""


@dataclass(frozen=True)
class Wanted:
    """An interval method to compute.

    Parameters
    ----------
    method : IntervalMethod
    asked : bool
        Whether its rows are part of the result; others serve the verdict.
    alone : bool
        Whether each coordinate is analysed by itself, as a scalar. That is right for several quantiles: the
        mean of a coordinate's report depends on that coordinate of theta.
    """

    method: IntervalMethod
    asked: bool = True
    alone: bool = False

    def dimension(self, d: int) -> int:
        """Coordinates that it takes together."""
        return 1 if self.alone else d


@dataclass(frozen=True)
class Methods:
    """The methods of an analysis.

    Parameters
    ----------
    source : Collected
    collection : Collection
    """

    source: Collected
    collection: Collection

    @property
    def alone(self) -> bool:
        """Whether regressions are made for each coordinate by itself: for several quantiles."""
        return self.source.problem.several and self.source.problem.dimension > 1

    @cached_property
    def fits(self) -> list[Wanted]:
        """The regressions that the verdict needs, the lower degree first."""
        found = regressions(self.source.problem.dimension, self.alone)
        return [settled(Wanted(method, alone=self.alone), self.source) for method in found]

    @cached_property
    def planned(self) -> Wanted | None:
        """The method that the settings want to have reported."""
        method = self.collection.planned
        if method is None:
            return None
        alone = self.alone and not around_average(method.model_dump())
        return settled(Wanted(method, alone=alone), self.source)

    @cached_property
    def asked(self) -> list[Wanted]:
        """The methods whose rows are part of the result."""
        methods = [Wanted(method) for method in self.collection.methods]
        found = methods or default_methods(self.source, self.collection.levels, self.alone)
        planned = [] if self.planned is None else [self.planned]
        return list(dict.fromkeys([*planned, *(settled(one, self.source) for one in found)]))

    @cached_property
    def all(self) -> list[Wanted]:
        """The methods that are asked for, then the others that the verdict needs."""
        return self.asked + [replace(one, asked=False) for one in self.fits if one not in self.asked]

    def check(self, steps: int) -> None:
        """Refuse a method that cannot be had here.

        Raises
        ------
        InputError
            If a transcript is not enough for a method, or it would record too many times.
        """
        for one in self.asked:
            reason = unusable(one, self.source, self.collection.levels)
            if reason is not None:
                allowed = "a method that a transcript is enough for"
                raise InputError("method", one.method.kind, allowed, reason)
        algorithm = self.source.algorithm
        counts = {}
        for one in self.all:
            assert isinstance(one.method, PathIntervalMethod)
            key = one.method.kind, one.method.times_settings()
            counts[key] = one.method.count_times(steps, algorithm), steps, one.method
        largest = max(counts.values(), key=lambda part: part[0])
        check_budget(sum(part[0] for part in counts.values()), largest, self.source.problem.dimension)

    def notes(self) -> list[str]:
        """What was done that was not asked for, and what methods warn of."""
        warnings = [one.method.unsuitable(self.source) for one in self.asked]
        found = [warning for warning in dict.fromkeys(warnings) if warning is not None]
        if self.alone and any(not around_average(m.model_dump()) for m in self.collection.methods):
            found.append(
                "in a list of methods TR and TR-BM are one fit of all quantiles, which is biased if the law "
                "is curved: without a list, and as the method to report, they fit each quantile by itself"
            )
        if not self.alone and not knows_variance(self.source):
            given = self.collection.methods or regressions(self.source.problem.dimension)
            if any(takes_known(method) for method in given):
                found.append(
                    "the regressions take the residual variance: the variance of a report is known for "
                    "randomised response of quantiles alone"
                )
        return found

    def cautions(self, slopes: Sequence[float], users: int) -> list[str]:
        """What methods warn of at so many users, with estimated slopes in the place of the curvature."""
        problem = self.source.problem.model_copy(update={"slopes": tuple(slopes)})
        source = replace(self.source, problem=problem)
        texts = [one.method.unsuitable_at(source, users) for one in self.asked]
        return [text for text in dict.fromkeys(texts) if text is not None]


def regressions(d: int, alone: bool = False) -> tuple[IntervalMethod, ...]:
    """The regressions that are recommended and that the verdict needs, the lower degree first."""
    if d == 1:
        return (method("TR"), method("TR", degree=3, burn_in="0.01n"))
    if alone:
        # S of a report that names a cell belongs to all coordinates together.
        return tuple(found.model_copy(update={"variance": "residual"}) for found in regressions(1))
    degrees = (1, 2) if d <= PLANE_OR_SPACE else (1,)
    return tuple(method("TR", degree=degree, burn_in="0.01n", variance="residual") for degree in degrees)


def default_methods(source: Collected, levels: Sequence[float], alone: bool) -> tuple[Wanted, ...]:
    """Every interval method that a transcript is enough for, in the settings that are recommended.

    A method without default settings is not among them.
    """
    d = source.problem.dimension
    found: list[Wanted] = []
    for kind in INTERVAL_METHODS:
        if kind == "TR":
            found += [Wanted(made, alone=alone) for made in regressions(d, alone)]
        elif kind == "TR-BM":
            scalar = d == 1 or alone
            made = method(kind) if scalar else method(kind, degree=1, burn_in="0.01n")
            found.append(Wanted(made, alone=alone))
        else:
            try:
                made = method(kind)
            except ValidationError:
                continue
            if unusable(Wanted(made), source, levels) is None:
                found.append(Wanted(made))
    return tuple(found)


def unusable(wanted: Wanted, source: Collected, levels: Sequence[float]) -> str | None:
    """Reason why a transcript is not enough for a method, or None."""
    method = wanted.method
    if method.reads_truth():
        return "It needs the truth."
    missing = [name for name in type(method).grid_defaults((1,)) if getattr(method, name) is None]
    if missing:
        return f"It needs {missing[0]}, which has to be chosen before the reports come."
    if not method.applies(source):
        return "It needs what no transcript has."
    if any(method.runs(level) > 1 for level in levels):
        return "It needs several runs."
    return method.impossible(UnknownLaw() if wanted.alone else source.problem)


def method(kind: str, **settings: object) -> IntervalMethod:
    """A method with its settings."""
    return INTERVAL_METHODS[kind].model_validate({"kind": kind, **settings})


def settled(wanted: Wanted, source: Collected) -> Wanted:
    """A method with a variance of A that can be known here.

    ``variance = "known"`` is that of the gradient of quantiles plus that of randomised response; under
    other mechanisms and for other problems the residual variance of the fit takes its place.
    """
    if (knows_variance(source) and not wanted.alone) or not takes_known(wanted.method):
        return wanted
    return replace(wanted, method=wanted.method.model_copy(update={"variance": "residual"}))


def knows_variance(source: Collected) -> bool:
    """Whether the variance of a report at the root follows from problem and mechanism."""
    return source.mechanism.kind in ("randomized_response", "cells")


def takes_known(method: IntervalMethod) -> bool:
    """Whether a method takes the known variance, by itself or by the method that it is based on."""
    base = method.base_method() if isinstance(method, Nested) else method
    return getattr(base, "variance", None) == "known"


def needed(
    methods: Sequence[Wanted], algorithm: Algorithm, d: int, ends: Sequence[int]
) -> tuple[list[int], list[int], list[str]]:
    """Times, marked times and running sums that the methods take at the given numbers of steps."""
    times: set[int] = set(ends)
    marked: set[int] = set()
    sums: set[str] = set()
    for wanted in methods:
        method, together = wanted.method, wanted.dimension(d)
        assert isinstance(method, PathIntervalMethod)
        names = method.running_sums(together)
        sums.update(names)
        for steps in ends:
            times.update(method.times(steps, algorithm).tolist())
            if names:
                marked.update(method.marked_times(steps, algorithm, together))
    return sorted(times | marked), sorted(marked), sorted(sums)
