"""Base classes and common settings of interval methods, which are pure functions of a record."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf, isnan
from typing import Annotated, Any, ClassVar, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from ldpflow.columns import Column
from ldpflow.components.algorithms import Algorithm
from ldpflow.components.intervals.record import Array, PathRecord, PathSource, Record
from ldpflow.components.problems import Problem
from ldpflow.numerics import constants
from ldpflow.settings import Setting, Settings

BASE = Setting("-", "method whose variance or standard error is used")
BLOCK_C = Setting("1", "factor c of the rule for block lengths, 0.1 by default in EBS", logarithmic=True)
QUANTILE = Setting("-", "law of the critical values: `normal`, `t` (Student), `chi2` or `F` (Hotelling)")
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
    Setting("-", "length of equal batches: rule `half` or `third` of EBS, `3n^0.75`, or a number of steps"),
]
BatchFactor = Annotated[float, Field(ge=1e-6, le=1e6), BLOCK_C]
DEGREE = Setting("-", "degree of TR's polynomial")
BurnIn = Annotated[
    str,
    Field(
        pattern=r"^(n\^0?\.[0-9]{1,6}|0?\.[0-9]{1,6}n)$",
        description="steps left out at the start, such as n^0.4 or 0.01n",
    ),
    Setting("-", "number of first steps that TR leaves out, rounded up: `n^0.4` or `0.01n`"),
]
StepVariance = Annotated[
    Literal["known", "residual"],
    Setting("-", "covariance of the private gradient in TR: `known` at theta*, or `residual` from the fit"),
]
SmallRun = Annotated[bool, Setting("-", "whether half widths are multiplied by K/(K - 4), at most 2")]


@dataclass(frozen=True)
class Intervals:
    """Intervals of R replicates in d coordinates at L levels.

    Parameters
    ----------
    estimate : ndarray, shape (d, R) or (L, d, R)
        Estimate, in the unit of theta. The shape (L, d, R) is for estimates that depend on the level.
    se : ndarray, shape (d, R), or None
        Standard error of the estimate. None if the method has none.
    lower, upper : ndarray, shape (L, d, R)
        Limits. NaN means an undefined interval.
    diagnosis : dict of str to ndarray, shape (d, R) or (L, d, R)
        Values of the columns :attr:`IntervalMethod.diagnostics`, by name.
    """

    estimate: Array
    se: Array | None
    lower: Array
    upper: Array
    diagnosis: dict[str, Array] = field(default_factory=dict)


class IntervalMethod(Settings):
    """An interval method and its settings. It computes intervals from a record alone.

    Attributes
    ----------
    record : type of Record
        The class of record that the method takes.
    cites : tuple of str
        Keys of the papers that the method follows, in ``ldpflow/results/references.bib``.
    title : str
        Description of the method in a report. The default is the first line of the docstring.
    diagnostics : tuple of Column
        Columns that show how far a row can be trusted, with their summaries.
    """

    group: ClassVar[str] = "method"

    undefined_where: ClassVar[str] = ""
    """Condition under which a finite replicate has no interval, e.g. ``there are fewer than two blocks``."""

    around_average: ClassVar[bool] = False
    """Whether the estimate is the average of all iterates of one path. ``explain`` reports the bias of such
    an estimate if the path has not arrived."""

    record: ClassVar[type[Record]]
    title: ClassVar[str] = ""
    diagnostics: ClassVar[tuple[Column, ...]] = ()

    @classmethod
    def columns(cls) -> tuple[Column, ...]:
        """Columns of the method's rows: settings and diagnostics."""
        return (*cls.setting_columns(), *cls.diagnostics)

    def applies(self, source: Any) -> bool:
        """Whether a simulator makes the records that this method needs.

        A study has no cells of this method with other simulators.
        """
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
        """A warning that n users of a simulator do not suit the method, or None."""
        return None

    def reads_truth(self) -> bool:
        """Whether the method uses theta*, or the asymptotic covariance at theta*.

        Such a method is a yardstick. It is impossible with real data and never recommended. The record of
        every other method raises :class:`TruthRefused` if its ``truth`` is read.
        """
        return False

    def runs(self, level: float) -> int:
        """Number of consecutive replicates that one row is computed from."""
        return 1

    def finite(self, record: Any, n: int, levels: Sequence[float]) -> NDArray[np.bool_]:
        """Mask of the replicates that have not diverged by the last step that is read, shape (R,)."""
        return np.asarray(record.finite(n))

    @abstractmethod
    def intervals(self, record: Any, n: int, levels: Sequence[float]) -> Intervals:
        """Compute intervals after n users, for every level in (0, 1).

        The record is of the class :attr:`record` and holds the times and sums that this method declares. The
        number of replicates is a multiple of :meth:`runs`.
        """


class PathIntervalMethod(IntervalMethod):
    """Interval method that reads records of paths.

    If the method uses other methods, :meth:`nested` returns them. The default functions below declare what
    these other methods need.
    """

    record: ClassVar[type[Record]] = PathRecord

    def nested(self) -> tuple[PathIntervalMethod, ...]:
        """Methods whose results this method uses."""
        return ()

    def used_components(self) -> tuple[Settings, ...]:
        return self.nested()

    def times(self, steps: int, algorithm: Algorithm) -> NDArray[np.int64]:
        """Increasing step indices in 1, ..., steps at which the prefix sums S are needed.

        The default is the last step, with the times of :meth:`nested`.
        """
        needed = [method.times(steps, algorithm) for method in self.nested()]
        return np.unique(np.concatenate([np.array([steps], dtype=np.int64), *needed]))

    def level_times(self, steps: int, algorithm: Algorithm, levels: Sequence[float]) -> NDArray[np.int64]:
        """Times that are needed for these levels alone."""
        return self.times(steps, algorithm)

    def count_times(self, steps: int, algorithm: Algorithm) -> int:
        """Upper bound of the number of times. A study with too many times is refused."""
        return 1 + sum(method.count_times(steps, algorithm) for method in self.nested())

    def running_sums(self, dimension: int) -> tuple[str, ...]:
        """Names of the running sums needed with d = ``dimension`` coordinates."""
        return tuple(dict.fromkeys(name for one in self.nested() for name in one.running_sums(dimension)))

    def marked_times(self, steps: int, algorithm: Algorithm, dimension: int) -> tuple[int, ...]:
        """Step indices at which the running sums are needed."""
        held = [method.marked_times(steps, algorithm, dimension) for method in self.nested()]
        return tuple(dict.fromkeys(time for times in held for time in times)) or (steps,)

    def steps_read(self) -> tuple[str, ...]:
        """Names of the algorithm's functions that the method needs: step_exponent, step_constant."""
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


class MethodAround(PathIntervalMethod):
    """Base class of methods that use another method, of the kind ``base``.

    The settings ``PASSED_ON`` are settings of the base. None means the default of the base.
    """

    PASSED_ON: ClassVar[tuple[str, ...]]

    base: Annotated[str, BASE]

    @model_validator(mode="after")
    def check_base(self) -> Self:
        self.base_method()
        return self

    def base_method(self) -> PathIntervalMethod:
        """The method whose variance or standard error is used."""
        from ldpflow.components.intervals import INTERVAL_METHODS

        kind: Any = INTERVAL_METHODS[self.base]
        given = {name: getattr(self, name) for name in self.PASSED_ON if getattr(self, name) is not None}
        for name in given:
            if name not in kind.model_fields:
                raise ValueError(f"{self.base} has no setting {name}")
        return cast("PathIntervalMethod", kind.model_validate({"kind": self.base, **given}))

    def nested(self) -> tuple[PathIntervalMethod, ...]:
        return (self.base_method(),)


def first_reason(*reasons: str | None) -> str | None:
    return next(filter(None, reasons), None)


@dataclass(frozen=True)
class Variance:
    """Estimate V of Sigma in sqrt(steps) (average - theta*) -> N(0, Sigma)."""

    value: Array  # diagonal of V, shape (d, R); the interval is undefined if it is not positive
    degrees: float = inf  # degrees of freedom of Student's t; infinite means the normal law
    factor: float | Array = 1.0  # multiplies sqrt(V/steps); shape (d, R); NaN makes the interval undefined
    diagnosis: dict[str, Array] = field(default_factory=dict)  # see Intervals


class VarianceMethod(PathIntervalMethod):
    """Base class of intervals around the average, with an estimate of the variance of the average."""

    around_average: ClassVar[bool] = True

    @abstractmethod
    def estimate_variance(self, record: PathRecord, steps: int) -> Variance | None:
        """Estimate V after ``steps`` steps. None means that V is undefined, as with too few batches."""

    def intervals(self, record: PathRecord, n: int, levels: Sequence[float]) -> Intervals:
        steps = record.steps(n)
        estimate = average(record, steps)
        found = self.estimate_variance(record, steps)
        if found is None:
            return undefined_intervals(estimate, levels)
        se = np.sqrt(positive_or_nan(found.value) / steps) * found.factor
        return normal_intervals(estimate, se, levels, found.degrees, found.diagnosis)


def columns_of(methods: Iterable[IntervalMethod]) -> tuple[Column, ...]:
    """Columns of the rows of several methods: diagnostics, and settings that some method has."""
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
    """Variance if positive and finite, else NaN."""
    return np.where((variance > 0.0) & (variance < np.inf), variance, np.nan)


def normal_intervals(
    estimate: Array,
    se: Array,
    levels: Sequence[float],
    degrees: float = inf,
    diagnosis: dict[str, Array] | None = None,
) -> Intervals:
    """estimate -+ z se with z of Student's law, or of the normal law if ``degrees`` is infinite."""
    z = normal_quantiles(levels)
    if degrees != inf:
        z = np.array([constants.student_quantile(0.5 + level / 2.0, degrees) for level in levels])
    return Intervals(estimate, se, *symmetric_limits(estimate, z, se), diagnosis or {})


def normal_quantiles(levels: Sequence[float]) -> Array:
    """z of two-sided intervals, one for each level."""
    return np.array([constants.normal_quantile(0.5 + level / 2.0) for level in levels])


def in_order(terms: Array) -> Array:
    """Sum along the first axis, one term after the other."""
    if terms[0].size == 1:  # numpy.add.reduce would add single numbers in pairs
        return np.asarray(np.add.accumulate(terms, axis=0)[-1])
    return np.asarray(np.add.reduce(np.ascontiguousarray(terms), axis=0))
