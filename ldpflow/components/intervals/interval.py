"""Base classes and common settings of interval methods, which are pure functions of a record."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf, isnan
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PrivateAttr, model_validator

from ldpflow.columns import Column
from ldpflow.components.algorithms import Algorithm
from ldpflow.components.intervals.record import Array, PathRecord, PathSource, Record
from ldpflow.components.problems import Problem
from ldpflow.numerics import constants
from ldpflow.settings import Setting, Settings

BASE = Setting("-", "method whose variance or standard error is used")
BLOCK_C = Setting("1", "factor c of the rule for block lengths", logarithmic=True)
QUANTILE = Setting("-", "law of the critical values: `t` for Student's, `F` for Hotelling's")
Quantile = Annotated[Literal["normal", "t"], QUANTILE]
Batches = Annotated[
    int,
    Field(ge=2, le=10**6),
    Setting("count", "number of batches of BM; null is the default, floor(n^(1/4))", logarithmic=True),
]
BatchRule = Annotated[
    str,
    Field(
        pattern=r"^(half|third|[1-9][0-9]{0,3}n\^0?\.[0-9]{1,6}|n\^0?\.[0-9]{1,6}|[1-9][0-9]{0,11})$",
        description="half, third, a power of n such as n^0.75 or 3n^0.75, or a number of steps",
    ),
    Setting("-", "length of equal batches: `half`, `third`, `3n^0.75` or a number of steps"),
]
BatchFactor = Annotated[float, Field(ge=1e-6, le=1e6), BLOCK_C]
DEGREE = Setting("-", "degree of TR's polynomial")
BurnIn = Annotated[
    str,
    Field(
        pattern=r"^(n\^0?\.[0-9]{1,6}|0?\.[0-9]{1,6}n)$",
        description="steps left out at the start, such as n^0.4 or 0.01n",
    ),
    Setting("-", "steps that TR leaves out: `n^0.4`, `0.01n`"),
]
StepVariance = Annotated[Literal["known", "residual"], Setting("-", "S of TR: `known` or `residual`")]
SmallRun = Annotated[bool, Setting("-", "whether half widths have the factor K/(K - 4) for short runs")]


@dataclass(frozen=True)
class Intervals:
    """Intervals of R replicates in d coordinates at L levels.

    Parameters
    ----------
    estimate : ndarray, shape (d, R) or (L, d, R)
        Centre, in the units of theta; by level if levels have estimates of their own.
    se : ndarray, shape (d, R), or None
        The method's own standard error of the estimate.
    lower, upper : ndarray, shape (L, d, R)
        Limits; NaN where undefined.
    diagnosis : dict of str to ndarray, shape (d, R) or (L, d, R)
        Values of the columns :attr:`IntervalMethod.diagnostics`, by name.
    range_end : ndarray of bool, shape (L, d, R), or None
        Intervals that end at a public range, so that their length measures nothing.
    """

    estimate: Array
    se: Array | None
    lower: Array
    upper: Array
    diagnosis: dict[str, Array] = field(default_factory=dict)
    range_end: NDArray[np.bool_] | None = None


class IntervalMethod(Settings):
    """An interval method and its settings: a pure function of a record.

    Attributes
    ----------
    record : type of Record
        The class of record that the method takes.
    cites : tuple of str
        Keys of the papers that the method follows.
    title : str
        The method in a line of a report; by default the first line of the docstring.
    diagnostics : tuple of Column
        Numbers or truth values about the soundness of a row, and how they are summarised.
    """

    group: ClassVar[str] = "method"

    undefined_where: ClassVar[str] = ""
    """Condition under which a finite replicate has no interval, e.g. ``there are fewer than two blocks``."""

    around_average: ClassVar[bool] = False
    """Whether the estimate is the average of all iterates of one path. ``explain`` then reports its bias if
    the path does not arrive."""

    record: ClassVar[type[Record]]
    title: ClassVar[str] = ""
    diagnostics: ClassVar[tuple[Column, ...]] = ()

    @classmethod
    def columns(cls) -> tuple[Column, ...]:
        """Columns of the method's rows: settings and diagnostics."""
        return (*cls.setting_columns(), *cls.diagnostics)

    @classmethod
    def grid_defaults(cls, users: tuple[int, ...]) -> dict[str, Any]:
        """Settings whose default follows from the numbers of users of a study."""
        return {}

    def applies(self, source: Any) -> bool:
        """Whether a simulator makes the records that this method needs. A study leaves out other cells."""
        return not self.unmet_need(source)

    def unmet_need(self, source: Any) -> str:
        """Reason why a simulator does not make the records that this method needs, or ""."""
        made: type[Record] | None = source.interval_record()
        if made is None:
            return "intervals cannot be made from its results"
        return "" if issubclass(made, self.record) else f"it takes {self.record.words}, not {made.words}"

    def impossible(self, problem: Problem) -> str | None:
        """Reason why the method does not exist for the problem with these settings, or None."""
        return None

    def unsuitable(self, source: Any) -> str | None:
        """A warning about settings of a simulator that break the method's theory, or None."""
        return None

    def unsuitable_at(self, source: Any, n: int) -> str | None:
        """A warning about n users of a simulator, or None."""
        return None

    def reads_truth(self) -> bool:
        """Whether intervals are computed from theta*, or from the asymptotic covariance there.

        Such a method is a yardstick, impossible with real data and never recommended. Other methods get a
        record whose ``truth`` is refused.
        """
        return False

    def runs(self, level: float) -> int:
        """Consecutive replicates that make one row at a level."""
        return 1

    def finite(self, record: Any, n: int, levels: Sequence[float]) -> NDArray[np.bool_]:
        """Mask of the replicates that have not diverged by the last time the method reads, shape (R,)."""
        return np.asarray(record.finite(n))

    @abstractmethod
    def intervals(self, record: Any, n: int, levels: Sequence[float]) -> Intervals:
        """Intervals after n users, for every level in (0, 1).

        The record is of the class :attr:`record` and holds the times and sums that this method declares. If
        a row takes several :meth:`runs`, the record holds the replicates of whole rows, in order.
        """


class PathIntervalMethod(IntervalMethod):
    """Interval method on path records, with the times at which it reads them.

    A method around others returns them from :meth:`nested` and inherits their needs.
    """

    record: ClassVar[type[Record]] = PathRecord

    def nested(self) -> tuple[PathIntervalMethod, ...]:
        """Methods whose results this one uses."""
        return ()

    def used_components(self) -> tuple[Settings, ...]:
        return self.nested()

    def times(self, steps: int, algorithm: Algorithm) -> NDArray[np.int64]:
        """Increasing step indices in 1, ..., steps at which S is needed (default: the last step)."""
        found = np.array([steps], dtype=np.int64)
        for method in self.nested():
            found = np.union1d(found, method.times(steps, algorithm))
        return found

    def level_times(self, steps: int, algorithm: Algorithm, levels: Sequence[float]) -> NDArray[np.int64]:
        """Times that these levels need."""
        return self.times(steps, algorithm)

    def count_times(self, steps: int, algorithm: Algorithm) -> int:
        """Upper bound of the number of times. A study with too many is refused."""
        return 1 + sum(method.count_times(steps, algorithm) for method in self.nested())

    def running_sums(self, dimension: int) -> tuple[str, ...]:
        """Names of the running sums needed with d = ``dimension`` coordinates."""
        return tuple(dict.fromkeys(name for one in self.nested() for name in one.running_sums(dimension)))

    def marked_times(self, steps: int, algorithm: Algorithm, dimension: int) -> tuple[int, ...]:
        """Step indices at which the running sums are needed."""
        held = [method.marked_times(steps, algorithm, dimension) for method in self.nested()]
        return tuple(dict.fromkeys(time for times in held for time in times)) or (steps,)

    def steps_read(self) -> tuple[str, ...]:
        """Declarations of an algorithm that intervals are computed from: step_exponent, step_constant."""
        return tuple(dict.fromkeys(name for method in self.nested() for name in method.steps_read()))

    def reads_truth(self) -> bool:
        return any(method.reads_truth() for method in self.nested())

    def unmet_need(self, source: PathSource) -> str:
        reasons = [method.unmet_need(source) for method in self.nested()]
        if reason := first_reason(super().unmet_need(source), *reasons):
            return reason
        names = [name for name in self.steps_read() if isnan(getattr(source.algorithm, name)())]
        if not names:
            return ""
        kind, names_text = source.algorithm.kind, ", ".join(names)
        return f"it is computed from step sizes that {kind} does not declare ({names_text})"

    def impossible(self, problem: Problem) -> str | None:
        return first_reason(*(method.impossible(problem) for method in self.nested()))

    def unsuitable(self, source: PathSource) -> str | None:
        reason = first_reason(*(method.unsuitable(source) for method in self.nested()))
        return None if reason is None else f"{self.kind}: {reason}"

    def unsuitable_at(self, source: PathSource, n: int) -> str | None:
        reason = first_reason(*(method.unsuitable_at(source, n) for method in self.nested()))
        return None if reason is None else f"{self.kind}: {reason}"

    def finite(self, record: PathRecord, n: int, levels: Sequence[float]) -> NDArray[np.bool_]:
        times = self.level_times(record.steps(n), record.algorithm, levels)
        return record.finite_at(int(times[-1]))


def methods() -> dict[str, type[Any]]:
    """Interval methods by kind, with those of plug-ins."""
    from ldpflow.components.intervals import INTERVAL_METHODS

    return INTERVAL_METHODS


class MethodAround(PathIntervalMethod):
    """Base class of methods around a base method of the kind ``base``.

    The settings ``PASSED_ON`` are those of the base (default: the base's defaults).
    """

    PASSED_ON: ClassVar[tuple[str, ...]]

    base: Annotated[str, BASE]

    _base: PathIntervalMethod = PrivateAttr()

    @model_validator(mode="after")
    def settings_of_the_base(self) -> Self:
        kind = methods()[self.base]
        for name in self.base_settings():
            if name not in kind.model_fields:
                raise ValueError(f"{self.base} has no setting {name}")
        self._base = kind.model_validate({"kind": self.base, **self.base_settings()})
        if self._base.runs(0.9) > 1:
            raise ValueError(f"{self.base} makes a row of several replicates, so it cannot be a base")
        return self

    def base_settings(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.PASSED_ON if getattr(self, name) is not None}

    def base_method(self) -> PathIntervalMethod:
        """Method whose variance or standard error is used."""
        return self._base.model_copy(update=self.base_settings())

    def nested(self) -> tuple[PathIntervalMethod, ...]:
        return (self.base_method(),)


def first_reason(*reasons: str | None) -> str | None:
    return next(filter(None, reasons), None)


@dataclass(frozen=True)
class Variance:
    """Estimate V of Sigma in sqrt(steps) (average - theta*) -> N(0, Sigma)."""

    value: Array  # diagonal of V, shape (d, R), without an interval if not positive
    degrees: float = inf  # of Student's t, infinite for the normal quantile
    factor: float | Array = 1.0  # of the standard error sqrt(V/steps), shape (d, R), NaN for no interval
    diagnosis: dict[str, Array] = field(default_factory=dict)  # as of Intervals


class VarianceMethod(PathIntervalMethod):
    """Base class of intervals around the average that differ in how its variance is estimated."""

    around_average: ClassVar[bool] = True

    @abstractmethod
    def estimate_variance(self, record: PathRecord, steps: int) -> Variance | None:
        """Estimate V after ``steps`` steps, or None, for example with too few batches."""

    def intervals(self, record: PathRecord, n: int, levels: Sequence[float]) -> Intervals:
        steps = record.steps(n)
        estimate = average(record, steps)
        found = self.estimate_variance(record, steps)
        if found is None:
            return undefined_intervals(estimate, levels)
        se = np.sqrt(positive_or_nan(found.value) / steps) * found.factor
        return normal_intervals(estimate, se, levels, found.degrees, found.diagnosis)


def columns_of(methods: Iterable[IntervalMethod]) -> tuple[Column, ...]:
    """Columns of the rows of several methods: diagnostics, and settings that are not None in one of them."""
    different = dict.fromkeys(methods)
    values = [method.setting_values().items() for method in different]
    given = {name for items in values for name, value in items if value is not None}
    columns = dict.fromkeys(column for method in different for column in method.columns())
    return tuple(column for column in columns if column.name in given or not column.identifies)


def average(record: PathRecord, steps: int) -> Array:
    """thetabar = origin + S(steps)/steps, shape (d, R)."""
    return np.asarray(record.origin[:, None] + record.sum_at(steps) / steps)


def symmetric_limits(estimate: Array, factors: Sequence[float] | Array, se: Array) -> tuple[Array, Array]:
    """Limits estimate -+ factor se, one pair per level, shapes (L, d, R)."""
    half_widths = np.asarray(factors)[:, None, None] * se
    return estimate - half_widths, estimate + half_widths


def undefined_intervals(estimate: Array, levels: Sequence[float]) -> Intervals:
    """Intervals whose se and limits are NaN."""
    nothing = np.full((len(levels), *estimate.shape), np.nan)
    return Intervals(estimate, np.full_like(estimate, np.nan), nothing, nothing)


def positive_or_nan(variance: Array) -> Array:
    """Variance if positive and finite, else NaN: a replicate without an interval has no se."""
    return np.where((variance > 0.0) & (variance < np.inf), variance, np.nan)


def normal_intervals(
    estimate: Array,
    se: Array,
    levels: Sequence[float],
    degrees: float = inf,
    diagnosis: dict[str, Array] | None = None,
) -> Intervals:
    """estimate -+ z se, z of the normal law or of Student's with finite degrees of freedom."""

    def z(p: float) -> float:
        return constants.normal_quantile(p) if degrees == inf else constants.student_quantile(p, degrees)

    limits = symmetric_limits(estimate, [z(0.5 + level / 2.0) for level in levels], se)
    return Intervals(estimate, se, *limits, diagnosis or {})


def normal_quantiles(levels: Sequence[float]) -> Array:
    """z of two-sided intervals, by level."""
    return np.array([constants.normal_quantile(0.5 + level / 2.0) for level in levels])


def in_order(terms: Array) -> Array:
    """Sum sequentially along the first axis: numpy.sum adds rows in order, but single numbers in pairs."""
    if terms[0].size == 1:
        return np.asarray(np.add.accumulate(terms, axis=0)[-1])
    return np.asarray(np.add.reduce(np.ascontiguousarray(terms), axis=0))
