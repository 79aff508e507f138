"""Sources of a plan without a study: a pilot's column, or public bounds of the data.

c and theta0 follow from the pilot's law for every tau and n (ldpflow.planning.pilot); a verdict from a
pilot is the worst but 5% of those under resampled pilots, and at best ``doubtful`` where fewer than 50 of
its values lie beyond the quantile.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpflow.errors import InputError
from ldpflow.planning.advice import FEWEST_TIMES, MOST_BIAS, fits, own_fit, recommended
from ldpflow.planning.pilot import (
    Bounds,
    Design,
    badness,
    design,
    design_within,
    percentile_range,
    resampled_laws,
    worst_arrival,
)
from ldpflow.problems.column_file import Column, table_column
from ldpflow.problems.column_law import SMALLEST, ColumnLaw
from ldpflow.problems.own_column import LAW_FROM, check_level, column_of, law_of_column, values_of
from ldpflow.problems.quantile import Quantile
from ldpflow.problems.tables import digest_of
from ldpflow.simulators.approach import Approach, approach
from ldpflow.simulators.one_pass import OnePass
from ldpflow.theory.arrival import Arrival, approaches

if TYPE_CHECKING:
    import pyarrow as pa


SURVEYED = tuple(2.0**k for k in range(-3, 4))  # scales of the laws that a guess is tried with

SURE_BIAS = 0.5
"""SE of predicted bias up to which TR of degree 2 is good enough with steps from a pilot."""

FIELDS = ("pilot", "column")  # what messages call the source and its column
FEWEST_CODES = 3  # records that share a value before it may be a code for no value
LEAST_CODES = 0.001

SURE_VALUES = 200
"""Values of a pilot from which on its own law is trusted with that."""


class Judged(NamedTuple):
    """An arrival, the verdict that counts, and the worst but 5% of those under resampled pilots."""

    arrival: Arrival
    verdict: str
    worst: Arrival | None = None


@dataclass(frozen=True)
class Pilot:
    """A pilot's column.

    Parameters
    ----------
    source : str, or a data frame
        A file, or a table in memory: of pandas, polars or pyarrow, or columns by name.
    column : str, optional
        May be left out where one column is numeric and no other one mostly numbers.
    drop : bool
        Leave out records without a value.
    missing_values : tuple of float
        Numbers that stand for no value, such as -1 or 9999: their records are left out.
    jitter : float, optional
        Width of the noise that every user adds to the value.
    seed : int
        Of the resampled pilots.
    """

    source: Any
    column: str | None = None
    drop: bool = False
    missing_values: tuple[float, ...] = ()
    jitter: float | None = None
    seed: int = 0

    @cached_property
    def read(self) -> Column:
        """The column without the records that have no value."""
        if isinstance(self.source, str):
            found = column_of(self.source, self.column, self.drop, FIELDS)[0]
        else:
            table = table_of(self.source, self.column)
            found = table_column(table, self.column, drop=self.drop, fields=FIELDS)
        values = found.values
        for missing in self.missing_values:
            if missing not in found.values:
                raise InputError("missing_value", missing, f"a value of the column {found.name!r}")
            values = values[values != missing]
        if len(values) < SMALLEST:
            hint = f"It has {len(values):,}."
            raise InputError("column", found.name, f"at least {SMALLEST} values", hint)
        return Column(found.name, values, found.dropped + len(found.values) - len(values))

    @property
    def name(self) -> str:
        """Column, and file if there is one, in words."""
        return f"column {self.read.name!r}" + (f" of {self.source}" if isinstance(self.source, str) else "")

    def problem(self, tau: float) -> Quantile:
        """The tau-quantile of the column."""
        check_level(self.read, self.jitter, tau)
        whole_file = isinstance(self.source, str) and not self.missing_values
        return Quantile(
            tau=tau,
            law="empirical",
            file=self.source if whole_file else None,
            sha256=digest_of(self.source) if whole_file else None,
            column=self.read.name,
            missing="drop" if self.drop else None,
            jitter=self.jitter,
            law_table=law_of_column(self.read, self.jitter).text(),
        )

    def sentinels(self) -> list[tuple[float, float]]:
        """Values that look like codes for no value, and their shares of the records."""
        return codes_among(self.read.values)

    def design(self, tau: float, n: int) -> Design:
        """Steps and start for n users."""
        return design(self.problem(tau).data_law(), tau, n)

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """The column, jittered if asked for."""
        return values_of(self.read, self.jitter)

    @cached_property
    def resampled(self) -> list[ColumnLaw]:
        """Laws of columns drawn from the column with replacement."""
        return resampled_laws(self.values, self.seed)

    def sparsities(self, tau: float) -> tuple[float, float]:
        """90% range of 1/f(theta*) over resampled pilots."""
        return percentile_range([law.sparsity(tau) for law in self.resampled])

    def arrival(self, simulator: OnePass, n: int, level: float) -> Judged:
        """The arrival under the pilot's law, and the verdict that the pilot vouches for."""
        case = approach(simulator, n)
        assert case is not None
        (found,) = approaches([case])
        worst = worst_arrival(case, self.resampled, level)
        verdict, tau = worst.verdict, case.tau
        if verdict == "arrived" and len(self.values) * min(tau, 1.0 - tau) < LAW_FROM:
            verdict = "doubtful"
        return Judged(found, verdict, worst)

    def method(self, arrival: Arrival, case: Approach) -> str | None:
        """TR where the bias is small, TR3 above that and for small pilots; None where neither does."""
        method = recommended(arrival, case)
        unsure = abs(arrival.bias) > SURE_BIAS or len(self.values) < SURE_VALUES
        if method == "TR" and unsure:
            return "TR3" if arrival.relaxation_times >= 45 and fits(case, "TR3") else None
        return method


def table_of(source: Any, column: str | None) -> pa.Table:
    """The table of a data frame, an Arrow table or columns by name; of a frame the one column that is named.

    Raises
    ------
    InputError
        If the source is none of them, or lacks the column.
    """
    import pyarrow as pa

    kind = type(source).__name__
    columns = source.keys() if isinstance(source, Mapping) else getattr(source, "columns", None)
    if isinstance(source, pa.Table):
        return source
    if columns is None or not (isinstance(source, Mapping) or hasattr(source, "__arrow_c_stream__")):
        allowed = "a file, a data frame of pandas or polars, an Arrow table, or columns by name"
        raise InputError("pilot", kind, allowed)
    names = [str(name) for name in columns]
    if column is not None and column not in names:
        known = ", ".join(map(repr, names[:20]))
        raise InputError("column", column, "a column of the data frame", f"It has: {known}.")
    try:
        if isinstance(source, Mapping):
            return pa.table({name: source[name] for name in ([column] if column else names)})
        return pa.table(source if column is None else source[[column]])
    except (pa.ArrowException, TypeError, ValueError):
        several = f"Column {column!r} has values of several kinds."
        hint = "Name a column of numbers." if column is None else several
        raise InputError("pilot", kind, "columns that Arrow can read", hint) from None


def codes_among(values: NDArray[np.float64]) -> list[tuple[float, float]]:
    """Values that look like codes for no value, with their shares: the smallest or the largest, repeated, and

    * the only negative one, or written with nines alone (99, 9999, -99), or
    * farther from the next one than that is from the other end.
    """
    found = []
    for value in (float(values.min()), float(values.max())):
        rest = values[values != value]
        share = 1.0 - len(rest) / len(values)
        if len(values) - len(rest) < FEWEST_CODES or share < LEAST_CODES or not len(rest):
            continue
        low, high = float(rest.min()), float(rest.max())
        gap = low - value if value < low else value - high
        nines = len(text := f"{abs(value):.0f}") > 1 and set(text) == {"9"} and abs(value) == float(text)
        if (value < 0.0 <= low) or nines or gap > high - low:
            found.append((value, share))
    return found


class WorstLaw(NamedTuple):
    """Method, and the law of a family that asks most of it.

    Parameters
    ----------
    method : str
    laws : int
        Laws that it was tried with.
    law : str
        Name of the worst one.
    size : float
        At most 1 where the method covers in all laws: the larger of the relaxation times that it needs
        over those of the run, and its predicted bias over the bias allowed.
    relaxation_times, bias : float
        Of the worst law; the bias is the method's own, in its standard errors.
    """

    method: str
    laws: int
    law: str
    size: float
    relaxation_times: float
    bias: float


@dataclass(frozen=True)
class Guess:
    """Public bounds in the place of a pilot: a family of laws within them, skewed ones among them.

    Numbers are those of the normal law; verdict and method are those of the worst law.
    """

    bounds: Bounds

    def problem(self, tau: float) -> Quantile:
        """The tau-quantile of the normal law that the bounds suggest."""
        law = self.bounds.law()
        return Quantile(tau=tau, law="normal", location=law.location, scale=law.scale)

    def design(self, tau: float, n: int) -> Design:
        """Steps and start for n users."""
        return design_within(self.bounds, tau, n)

    def cases(self, case: Approach, factor: float = 1.0) -> dict[str, Approach]:
        """The path under every law of the family, its scale times ``factor``."""
        found = {}
        for name, (law, mirrored) in self.bounds.family().items():
            found[name] = replace(case, law=replace(law, scale=law.scale * factor))
            if mirrored:
                start = self.bounds.lower + self.bounds.upper - case.theta0
                found[name] = replace(found[name], tau=mirror(case.tau), theta0=start)
        return found

    def simulators(self, simulator: OnePass) -> list[OnePass]:
        """Simulators of the path under every law of the family, equal ones once."""
        target, algorithm = simulator.problem.quantile_target(), simulator.algorithm
        assert target is not None
        tau = target[0]
        found = []
        for law, mirrored in self.bounds.family().values():
            start = self.bounds.lower + self.bounds.upper - algorithm.theta0 if mirrored else algorithm.theta0
            problem = Quantile(
                tau=mirror(tau) if mirrored else tau,
                law=law.name,
                location=law.location,
                scale=law.scale,
                shape=law.shape,
            )
            changed = algorithm.model_copy(update={"theta0": start})
            found.append(replace(simulator, problem=problem, algorithm=changed))
        return list({path.key: path for path in found}.values())

    def sparsities(self, case: Approach) -> tuple[float, float]:
        """Range of 1/f(theta*) over the family."""
        found = [1.0 / path.law.density_at_quantile(path.tau) for path in self.cases(case).values()]
        return min(found), max(found)

    def arrival(self, simulator: OnePass, n: int, level: float) -> Judged:
        """The arrival under the normal law, and the verdict under the law of the family that is worst."""
        case = approach(simulator, n)
        assert case is not None
        found = approaches(list(self.cases(case).values()))
        worst = max(found, key=lambda arrival: badness(arrival, level))
        return Judged(found[0], worst.verdict, worst)

    def worst_for(self, case: Approach, method: str, factor: float = 1.0) -> WorstLaw:
        """The law of the family that asks most of a method."""
        cases = self.cases(case, factor)
        found = []
        for (name, path), arrival in zip(cases.items(), approaches(list(cases.values())), strict=True):
            k, fit = arrival.relaxation_times, own_fit(path, method)
            size = max(FEWEST_TIMES[method] / k, abs(fit.bias) / MOST_BIAS) if fit.defined else math.inf
            found.append(WorstLaw(method, len(cases), name, size, k, fit.bias))
        return max(found, key=lambda worst_law: worst_law.size)

    def worst_law(self, case: Approach) -> WorstLaw:
        """The worst law of TR, or of TR3 where that one covers in more of the family."""
        first = self.worst_for(case, "TR")
        if first.size <= 1.0:
            return first
        return min(first, self.worst_for(case, "TR3"), key=lambda worst_law: worst_law.size)

    def method(self, arrival: Arrival, case: Approach) -> str | None:
        """The method that covers in all laws of the family; None where there is none."""
        found = self.worst_law(case)
        return found.method if found.size <= 1.0 else None

    def survives(self, case: Approach, method: str) -> tuple[float, float] | None:
        """Factors by which the laws may be narrower or wider while a method covers in all of them."""
        fine = [self.worst_for(case, method, factor).size <= 1.0 for factor in SURVEYED]
        middle = SURVEYED.index(1.0)
        if not fine[middle]:
            return None
        low = next((k for k in range(middle, -1, -1) if not fine[k]), -1) + 1
        high = next((k for k in range(middle, len(fine)) if not fine[k]), len(fine)) - 1
        return SURVEYED[low], SURVEYED[high]


def mirror(tau: float) -> float:
    """Level of a quantile among values that are counted from the other end."""
    return round(1.0 - tau, 12)
