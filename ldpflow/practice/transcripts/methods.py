"""Interval methods that an analysis computes, and their rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from ldpflow.components.intervals import INTERVAL_METHODS, IntervalMethod
from ldpflow.components.intervals.nested import Nested
from ldpflow.components.intervals.record import Record
from ldpflow.components.problems.transform import Transform, inverse, slope
from ldpflow.errors import InputError
from ldpflow.practice.transcripts.collection import BOUNDED, Collection
from ldpflow.practice.transcripts.fold import CollectedPath
from ldpflow.simulators.one_pass import check_budget


class Row(dict[str, Any]):
    """Results of a method at a level, for a coordinate: its settings, estimate, limits and diagnostics.

    ``of`` is the method, ``own`` its settings, ``checks`` its diagnostics.
    """

    of: IntervalMethod
    own: Mapping[str, Any]
    checks: Mapping[str, Any]

    def set_limits(self, lower: float, upper: float, range_end: bool = False) -> None:
        ok = math.isfinite(lower) and math.isfinite(upper)
        self["lower"], self["upper"] = (lower, upper) if ok else (None, None)
        self["status"] = "undefined" if not ok else "range_end" if range_end else "ok"

    def in_unit(self, scale: Transform) -> None:
        """Convert estimate, limits and (by the delta method) SE from a scale to the unit of the values."""
        if self["se"] is not None:
            self["se"] = number(self["se"] * float(slope(scale, self["estimate"])))
        for name in ("estimate", "lower", "upper"):
            self[name] = None if self[name] is None else number(float(inverse(scale, self[name])))
        if None in (self["lower"], self["upper"]):
            self |= {"lower": None, "upper": None, "status": "undefined"}


PLANE_OR_SPACE = 3
"""Most coordinates with a quadratic fit by default. With more coordinates the fit compiles slowly."""

OF_THE_TRUTH = ("joint_covered", "joint_size")
"""Diagnostics that compare an interval with the truth, which no transcript has."""

BEFORE = ("n", "level", "coordinate", "estimate", "se", "lower", "upper")


class Methods:
    """Interval methods of an analysis.

    ``asked``: methods whose rows are printed. ``fits``: regressions that the verdict needs. ``planned``: the
    method that the settings ask to report, or None. ``separate``: whether there are several quantiles, each
    with a regression of its own.
    """

    def __init__(self, source: CollectedPath, collection: Collection) -> None:
        self.source, self.collection = source, collection
        self.separate = source.problem.several and source.dimension > 1
        self.fits = self.available(regressions(source.dimension, self.separate))
        asked = list(collection.methods or self.defaults())
        if collection.planned and self.separate and getattr(asked[0], "separate", False) is None:
            asked = [by_quantile(asked[0])]
        self.asked = self.available(asked)
        self.planned = self.asked[0] if collection.planned else None
        self.all = list(dict.fromkeys([*self.asked, *self.fits]))

    def available(self, methods: Iterable[IntervalMethod]) -> list[IntervalMethod]:
        """The methods, with the residual variance of the fit where the variance of a report is not known.

        ``variance = "known"`` is the variance of a quantile's gradient plus that of randomised response or
        ``cells``. It is not known for other mechanisms.
        """
        if self.source.mechanism.kind not in BOUNDED:
            methods = [
                method.model_copy(update={"variance": "residual"}) if takes_known(method) else method
                for method in methods
            ]
        return list(dict.fromkeys(methods))

    def defaults(self) -> list[IntervalMethod]:
        """Every interval method that needs only a transcript, with its recommended settings.

        Methods whose settings have no default are left out.
        """
        d = self.source.dimension
        found: list[IntervalMethod] = []
        for kind in INTERVAL_METHODS:
            if kind == "TR":
                found += regressions(d, self.separate)
            elif kind == "TR-BM" and self.separate:
                found.append(method_of(kind, separate=True))
            elif kind == "TR-BM" and d > 1:
                found.append(method_of(kind, degree=1, burn_in="0.01n"))
            else:
                try:
                    made = method_of(kind)
                except ValidationError:
                    continue
                if self.unusable(made) is None:
                    found.append(made)
        return found

    def unusable(self, method: IntervalMethod) -> str | None:
        if method.reads_truth():
            return "It needs the truth."
        if not method.applies(self.source):
            return "It needs data that no transcript has."
        if any(method.runs(level) > 1 for level in self.collection.levels):
            return "It needs several runs."
        return method.impossible(self.source.problem)

    def check(self, steps: int) -> None:
        for one in self.asked:
            reason = self.unusable(one)
            if reason is not None:
                raise InputError("method", one.kind, "a method that needs only a transcript", reason)
        check_budget(self.source.algorithm, [(steps, one) for one in self.all], self.source.dimension)

    def notes(self, slopes: Sequence[float], users: int) -> list[str]:
        """Warnings of the methods at n = ``users``, with estimated ``slopes`` of the mean gradient."""
        problem = self.source.problem.model_copy(update={"slopes": tuple(slopes)})
        source = replace(self.source, problem=problem)
        texts = [one.unsuitable(source) for one in self.asked]
        texts += [one.unsuitable_at(source, users) for one in self.asked]
        return [text for text in dict.fromkeys(texts) if text is not None]


def regressions(d: int, separate: bool = False) -> tuple[IntervalMethod, ...]:
    """The recommended regressions for d coordinates, which the verdict needs, the lower degree first."""
    if d == 1 or separate:
        found = (method_of("TR"), method_of("TR", degree=3, burn_in="0.01n"))
        return tuple(map(by_quantile, found)) if separate else found
    degrees = (1, 2) if d <= PLANE_OR_SPACE else (1,)
    return tuple(method_of("TR", degree=degree, burn_in="0.01n", variance="residual") for degree in degrees)


def by_quantile(method: IntervalMethod) -> IntervalMethod:
    """The regression with a fit for each of several quantiles, and the residual variance.

    The known variance of a report that is a cell belongs to all quantiles together.
    """
    known = {"variance": "residual"} if takes_known(method) else {}
    return method.model_copy(update={"separate": True, **known})


def method_of(kind: str, **settings: object) -> IntervalMethod:
    return INTERVAL_METHODS[kind].model_validate({"kind": kind, **settings})


def takes_known(method: IntervalMethod) -> bool:
    base = method.base_method() if isinstance(method, Nested) else method
    return getattr(base, "variance", None) == "known"


def rows_of(record: Record, n: int, methods: Sequence[IntervalMethod], levels: Sequence[float]) -> list[Row]:
    """Rows after n reports, in the order of methods, levels and coordinates."""
    found = []
    for method in methods:
        result = method.intervals(record, n, levels)
        own = method.model_dump(exclude={"kind"})
        for at, level in enumerate(levels):
            for j in range(len(result.estimate)):
                checks = {
                    name: number((values[at] if values.ndim == 3 else values)[j, 0])
                    for name, values in result.diagnosis.items()
                    if name not in OF_THE_TRUTH
                }
                row = Row(
                    method=method.kind,
                    **own,
                    n=n,
                    level=level,
                    coordinate=j,
                    estimate=number(result.estimate[j, 0]),
                    se=None if result.se is None else number(result.se[j, 0]),
                    **checks,
                )
                limits = float(result.lower[at, j, 0]), float(result.upper[at, j, 0])
                row.set_limits(*limits, checks.get("range_end") == 1.0)
                row.of, row.own, row.checks = method, own, checks
                found.append(row)
    return found


def columns_of(rows: Sequence[Row]) -> list[str]:
    """Columns of a table of rows. It has every setting and diagnostic that one of the methods has."""
    settings = dict.fromkeys(name for row in rows for name in row.own)
    diagnostics = dict.fromkeys(name for row in rows for name in row.checks)
    return ["method", *settings, *BEFORE, *diagnostics, "status"]


def number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
