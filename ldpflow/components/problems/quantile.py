"""One or several quantiles of a law from private bits (Dette and Graw, Section 4.1).

With one level, g(x, theta) = -tau + 1{x <= theta} is the gradient, and theta* is the tau-quantile of X. At
theta* the derivative G of the mean gradient is p(theta*), where p is the density of X, and the covariance
S_SGD of the gradient is tau (1 - tau). With several levels, coordinate q has the level tau_q. Then G is
diagonal with the entries p(theta*_q), and S_SGD has the entries min(tau_q, tau_r) - tau_q tau_r.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, PrivateAttr, ValidationError, model_validator

from ldpflow.components.problems.column_law import (
    LAW_FROM,
    ColumnLaw,
    Records,
    check_level,
    law_of_column,
    load_column,
)
from ldpflow.components.problems.laws import Component, Law, Variate
from ldpflow.components.problems.problem import Matrix, Problem, Units, diagonal
from ldpflow.components.problems.standard_laws import DATA_LAWS, FORMULAS, SHAPES, DataLaw
from ldpflow.components.problems.transform import Transform
from ldpflow.errors import InputError
from ldpflow.numerics.streams import LANES
from ldpflow.settings import InputModel, OneOf, Parameters, Setting, Settings, allowed

Location = Annotated[float, Field(ge=-1e100, le=1e100)]
Scale = Annotated[float, Field(ge=1e-100, le=1e100)]
Freedom = Annotated[float, Field(ge=0.25, le=1e6)]
Shape = Annotated[float, Field(ge=1e-3, le=1e3)]


UNKNOWN = "unknown"  # law in a shared design: it says nothing about the values and cannot be simulated
BUNDLED_LAWS = (*FORMULAS, "mixture", "empirical", UNKNOWN)
CLOSED_FORMS = ("normal", "laplace", "exponential", "uniform", "logistic", "lognormal", "weibull", "pareto")
OF_COLUMN = ("file", "column", "count_column", "missing", "ties", "jitter")  # settings for reading a column


def law_names() -> tuple[str, ...]:
    return (*BUNDLED_LAWS, *DATA_LAWS)


def check_parameter(law: str, df: float | None, shape: float | None) -> None:
    if (law == "student_t") != (df is not None):
        raise ValueError("df must be given with law = 'student_t' and with no other law")
    if (law in SHAPES) != (shape is not None):
        raise ValueError(f"shape must be given with the laws {', '.join(SHAPES)} and with no other")
    if shape is not None and not SHAPES[law][0] <= shape <= SHAPES[law][1]:
        low, high = SHAPES[law]
        raise ValueError(f"the shape of {law} must be in [{low:g}, {high:g}]")


def plugin_law(kind: str, df: float | None, shape: float | None) -> DataLaw:
    cls = DATA_LAWS[kind]
    if df is not None or (shape is not None and "shape" not in cls.model_fields):
        raise ValueError(f"law = {kind!r} has no {'shape' if df is None else 'df'}")
    try:
        return cls.model_validate({} if shape is None else {"shape": shape})
    except ValidationError:
        raise ValueError(f"the shape of {kind} must be {allowed(cls, 'shape')}") from None


class MixturePart(InputModel):
    """Bundled law in a mixture."""

    weight: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    law: Annotated[str, OneOf(lambda: FORMULAS)] = "normal"
    location: Location = 0.0
    scale: Scale = 1.0
    df: Freedom | None = None
    shape: Shape | None = None

    @model_validator(mode="after")
    def check(self) -> Self:
        check_parameter(self.law, self.df, self.shape)
        return self


class QuantileProblem(Problem):
    """Base class of ``quantile`` and ``quantiles``.

    Parameters
    ----------
    law : str
        Law of Z. A user's value is location + scale * Z. ``empirical`` is the law of a column of a file, and
        ``unknown`` says nothing about the values. A law of a plug-in has its kind as name.
    location : float
        Location of a user's value location + scale * Z.
    scale : float
        Scale > 0 of a user's value location + scale * Z.
    df : float, optional
        Degrees of freedom, for ``student_t`` alone.
    shape : float, optional
        Shape of lognormal (log's SD), weibull, pareto, gamma or a plug-in law.
    components : tuple of MixturePart, optional
        Two to eight laws of a ``mixture``, each with weight, law, location, scale, df and shape.
    file : str, optional
        Parquet or CSV file of the data, for ``empirical`` alone.
    column : str, optional
        Column of the file, for ``empirical`` alone.
    count_column : str, optional
        Column with the number of records of each value. Without it each row is a record.
    missing : str, optional
        ``drop`` leaves out records without a value. By default they are an error.
    jitter : float, optional
        Width of the uniform noise that each user adds to the value of the column before comparing it.
    sha256 : str, optional
        Digest of the file. It is filled in when the file is first read, and then checked.
    law_table : str, optional
        Law of the column. It is filled in when the file is read, so that the file need not be read again.
    units : Units, optional
        Unit of c and theta0, in place of the unit of the data.
    transform : str, optional
        Scale T for a column of a file. theta estimates the quantile of T(X), and rows have the quantile of X.
        c, theta0, units and the range of a protocol are on the scale T.
    edges : tuple of float, optional
        Increasing numbers that T maps to 0, 1/k, ..., 1. T is linear between the k + 1 numbers. Give
        ``transform`` or ``edges``, not both.
    ties : str, optional
        ``keep`` draws records of the column with replacement. By default values have a smooth law.
    """

    level_setting: ClassVar[str]  # `tau` or `taus`

    law: Annotated[str, OneOf(law_names)] = "normal"
    location: Location = 0.0
    scale: Scale = 1.0
    df: Freedom | None = None
    shape: Shape | None = None
    components: Annotated[tuple[MixturePart, ...], Field(min_length=2, max_length=8)] | None = None
    file: Annotated[str, Setting(stored=False)] | None = None
    column: str | None = None
    missing: Literal["drop"] | None = None
    jitter: Annotated[float, Field(gt=0, le=1e100), Setting("unit of theta")] | None = None
    sha256: str | None = None
    law_table: Annotated[str, Setting(stored=False)] | None = Field(default=None, repr=False)
    units: Annotated[Units, Setting(stored=False)] | None = None
    transform: Literal["log1p", "log", "sqrt"] | None = None
    edges: Annotated[tuple[float, ...], Field(min_length=2, max_length=4096)] | None = None
    count_column: str | None = None
    ties: Literal["keep"] | None = None
    _column_law: ColumnLaw | Records = PrivateAttr()
    _own_law: DataLaw | None = PrivateAttr(default=None)

    @abstractmethod
    def levels(self) -> tuple[float, ...]: ...

    @model_validator(mode="after")
    def check(self) -> Self:
        if self.law in DATA_LAWS:
            self._own_law = plugin_law(self.law, self.df, self.shape)
        else:
            check_parameter(self.law, self.df, self.shape)
        if (self.law == "mixture") != (self.components is not None):
            raise ValueError("components must be given with law = 'mixture' and with no other law")
        if self.edges is not None and self.transform is not None:
            raise ValueError("give transform or edges, not both")
        if self.edges is not None and not all(a < b for a, b in pairwise(self.edges)):
            raise ValueError("edges must increase")
        if self.own_scale() is not None and self.law not in ("empirical", UNKNOWN):
            raise ValueError("transform and edges go with law = 'empirical'")
        if self.law == "empirical":
            self.check_column()
        elif any(
            getattr(self, name) is not None and (name, self.law) != ("jitter", UNKNOWN)
            for name in (*OF_COLUMN, "sha256", "law_table")
        ):
            raise ValueError(f"{', '.join(OF_COLUMN)} go with law = 'empirical'")
        if self.law == UNKNOWN:
            return self
        law = self.data_law()
        if self.ties is None and not all(law.has_quantile(tau) for tau in self.levels()):
            raise ValueError(f"{self.level_setting} must give a finite quantile with a positive density")
        return self

    def own_scale(self) -> Transform:
        return self.transform if self.edges is None else self.edges

    def check_column(self) -> None:
        if (self.location, self.scale) != (0.0, 1.0):
            raise ValueError("law = 'empirical' has the unit of its column, and no location or scale")
        if self.law_table is not None:
            try:
                if self.ties is None:
                    self._column_law = ColumnLaw.of_text(self.law_table)
                else:
                    self._column_law = Records.of_text(self.law_table, self.jitter, self.own_scale())
            except (ValueError, OverflowError) as error:
                raise ValueError(f"law_table holds no law of a column ({error})") from None
            return
        if self.file is None:
            raise ValueError("law = 'empirical' needs file, a Parquet or CSV file, and column")
        options = {"drop": self.missing == "drop", "count_column": self.count_column}
        found = load_column(self.file, self.column, self.sha256, **options)
        if self.ties is None:
            for tau in self.levels():
                check_level(found, self.jitter, tau, f"problem.{self.level_setting}")
            self._column_law = law_of_column(found, self.jitter, self.own_scale())
        else:
            self._column_law = Records.of_column(found, self.jitter, self.own_scale())
        self.__dict__.update(column=found.name, sha256=found.sha256, law_table=self._column_law.text())

    def key_settings(self) -> dict[str, Any]:
        """Settings of the path key. The digest of the file is among them, its name is not."""
        return {name: value for name, value in super().key_settings().items() if name != "file"}

    @classmethod
    def complete_axes(cls, axes: Mapping[str, tuple[Any, ...]]) -> Mapping[str, tuple[Any, ...]]:
        """Read a column that the axes name, and add its name, its digest and its law to the axes."""
        if axes.get("law") != ("empirical",) or "file" not in axes or "law_table" in axes:
            return axes
        names = (*OF_COLUMN, "transform", "edges")
        several = [name for name in names if len(axes.get(name, ())) > 1]
        if several:
            hint = f"To vary {' or '.join(several)}, write a [[problem]] table for each case."
            raise InputError("problem", several, "one column", hint)
        given = {name: axes[name][0] for name in ("law", *names, "sha256") if name in axes}
        for level in axes[cls.level_setting]:
            problem = cls(**{cls.level_setting: level}, **given)
        return {**axes, **{name: (getattr(problem, name),) for name in ("column", "sha256", "law_table")}}

    def data_law(self) -> Law:
        """Law of T(X) for a record X."""
        if self.law == UNKNOWN:
            hint = "A public design has no law: simulate the design that has one."
            raise InputError("problem.law", self.law, "the law of the values", hint)
        if self.law == "empirical":
            return Law("empirical" if self.ties is None else "records", table=self._column_law)
        parts = tuple(
            Component(part.weight, Law(part.law, part.location, part.scale, part.df, part.shape))
            for part in self.components or ()
        )
        own = self._own_law
        shape = self.shape if own is None else getattr(own, "shape", None)
        return Law(self.law, self.location, self.scale, self.df, shape, parts, own=own)

    def used_components(self) -> tuple[Settings, ...]:
        return () if self._own_law is None else (self._own_law,)

    def caution(self) -> str | None:
        """Warning of few values beyond a quantile, or of records without a value. Refuses an unknown law."""
        if self.law != "empirical":
            self.data_law()
            return None
        law = self._column_law
        found = []
        tau = min(self.levels(), key=lambda tau: min(tau, 1.0 - tau))
        beyond = law.size * min(tau, 1.0 - tau)
        if beyond < LAW_FROM and self.ties is None:
            few = f"{beyond:.0f} of its {law.size:,} values lie beyond the {tau:g} quantile"
            found.append(f"{few}: lengths of intervals are rough")
        if law.dropped:
            records = law.dropped + law.size
            found.append(f"{law.dropped:,} of {records:,} records had no value and were left out")
        return f"column {self.column!r}: {'; '.join(found)}" if found else None

    def kernel_parameters(self) -> Parameters:
        return {
            self.level_setting: getattr(self, self.level_setting),
            "taus": self.levels(),
            "location": self.location,
            "scale": self.scale,
            "inverse_scale": 1.0 / self.scale,
            **({} if self.shape is None else {"shape": self.shape}),
        }

    @property
    def dimension(self) -> int:
        return len(self.levels())

    def truth(self) -> tuple[float, ...]:
        law = self.data_law()
        return tuple(law.quantile(tau) for tau in self.levels())

    def variates(self) -> tuple[Variate, ...]:
        return (self.data_law().variate,)

    def bit_law(self) -> str | None:
        name = self.data_law().name
        return name if name in CLOSED_FORMS else None

    def l2_sensitivity(self) -> float:
        return math.sqrt(self.dimension)

    def l1_sensitivity(self) -> float:
        return float(self.dimension)

    def gradient_values(self) -> tuple[float, float] | None:
        tau, *others = self.levels()
        return None if others else (-tau, 1.0 - tau)

    def quantile_target(self, coordinate: int = 0) -> tuple[float, Law] | None:
        return None if self.ties is not None else (self.levels()[coordinate], self.data_law())

    def curvature(self) -> Matrix:
        law = self.data_law()
        return diagonal([law.density_at_quantile(tau) for tau in self.levels()])


class OneLevel(Problem):
    """Base class of :class:`Quantile`. It puts the setting ``tau`` before the settings of the law.

    Parameters
    ----------
    tau : float in (0, 1)
        Level of the quantile.
    """

    tau: Annotated[float, Field(gt=0, lt=1), Setting("share", symbol="τ")] = 0.5


class Quantile(QuantileProblem, OneLevel):
    """The tau-quantile of ``location + scale * Z``, or of a column of a file."""

    cites: ClassVar = ("dette2024",)
    level_setting: ClassVar[str] = "tau"

    kind: Literal["quantile"] = "quantile"

    def levels(self) -> tuple[float, ...]:
        return (self.tau,)

    def gradient_covariance(self) -> Matrix:
        return [[self.tau * (1.0 - self.tau)]]


class SeveralLevels(Problem):
    """Base class of :class:`Quantiles`. It puts the setting ``taus`` before the settings of the law.

    Parameters
    ----------
    taus : tuple of float in (0, 1)
        Levels in increasing order.
    """

    taus: Annotated[
        tuple[Annotated[float, Field(gt=0, lt=1)], ...], Field(min_length=1, max_length=20), Setting("share")
    ] = (0.25, 0.5, 0.75)

    @model_validator(mode="after")
    def check_order(self) -> Self:
        if any(a >= b for a, b in pairwise(self.taus)):
            raise ValueError("taus must increase")
        return self


class Quantiles(QuantileProblem, SeveralLevels):
    """Quantiles at several levels, for the laws of ``quantile``. Iterates are kept in order."""

    level_setting: ClassVar[str] = "taus"

    kind: Literal["quantiles"] = "quantiles"

    def levels(self) -> tuple[float, ...]:
        return self.taus

    def gradient_covariance(self) -> Matrix:
        return [[min(a, b) - a * b for b in self.taus] for a in self.taus]


def gradient(kernel, g, theta, data, at, lane, problem):  # type: ignore[no-untyped-def]
    """g_q(X, theta) = -tau_q + 1{X <= theta_q} (Dette and Graw, Section 4.1)."""
    x = problem.location + problem.scale * data[at]
    for j in range(kernel.D):
        below = x <= theta[j * LANES + lane]
        g[j * LANES + lane] = 1.0 - problem.taus[j] if below else -problem.taus[j]


def gradient_bit(kernel, g, theta, data, at, lane, problem):  # type: ignore[no-untyped-def]
    """1{X <= theta_q}. These bits say between which iterates X lies."""
    x = problem.location + problem.scale * data[at]
    for j in range(kernel.D):
        g[j * LANES + lane] = 1.0 if x <= theta[j * LANES + lane] else 0.0


def bit_probability(kernel, g, theta, data, at, lane, problem):  # type: ignore[no-untyped-def]
    """P(X <= theta_q) = F((theta_q - location)/scale)."""
    for j in range(kernel.D):
        z = (theta[j * LANES + lane] - problem.location) * problem.inverse_scale
        if kernel.SHAPED:
            g[j * LANES + lane] = kernel.cdf(z, problem.shape)
        else:
            g[j * LANES + lane] = kernel.cdf(z)
