"""Options of a plan, and its sources: a study, a pilot's column, or public bounds of the data.

Without a study c and theta0 follow from the law for every tau and n. The verdict of a pilot is the 95%
quantile, from good to bad, of those under resampled pilots. It is at best ``doubtful`` if fewer than 50
values lie beyond the quantile. The verdict of bounds is that of the worst law of a family.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ldpflow.components.algorithms.ldp_sgd import LdpSgd
from ldpflow.components.mechanisms.randomized_response import RandomizedResponse
from ldpflow.components.problems.column_law import (
    LAW_FROM,
    SMALLEST,
    Atom,
    ColumnLaw,
    Records,
    atoms,
    check_level,
    column_law,
    jitter_width,
    jittered_values,
    law_of_column,
    load_column,
    share_of_one_value,
)
from ldpflow.components.problems.laws import Law
from ldpflow.components.problems.quantile import MixturePart, Quantile
from ldpflow.components.problems.tables import DataColumn, digest_of, read_column
from ldpflow.components.problems.transform import Transform, forward
from ldpflow.errors import InputError
from ldpflow.numerics import constants
from ldpflow.practice.planning.method import FEWEST_TIMES, MOST_BIAS, fits, own_fit, recommend_method
from ldpflow.practice.transcripts.reading import arrow_table
from ldpflow.results.arrival import VERDICTS, Arrival, feasible_n, predict_arrivals
from ldpflow.simulators.approach import Approach
from ldpflow.simulators.one_pass import OnePass

Floats = NDArray[np.float64]

RELAXATION_TIMES = 60.0
"""Relaxation times that the rule for c aims at. A density that is half of the assumed one leaves 30."""

GAMMA = 0.51
RESAMPLES = 200
EQUAL_PARTS = 64  # of equal mass, for the bins of histograms
BLOCKS = 20_000  # blocks of neighbouring values: columns with more values are resampled by block

SURVEYED = tuple(2.0**k for k in range(-3, 4))  # scales of the laws that a guess is tried with

SURE_BIAS = 0.5
"""Largest predicted bias, in standard errors, at which a pilot's steps are used with TR of degree 2."""

SURE_VALUES = 200
"""Fewest values of a pilot whose own law is trusted for this."""

FIELDS = ("pilot", "column")  # names of the source and its column in messages
FEWEST_CODES = 3  # records that share a value before it may be a code for no value
LEAST_CODES = 0.001


@dataclass(frozen=True)
class StepDesign:
    """Steps c i^-gamma and a start, in the unit of the data."""

    c: float
    gamma: float
    theta0: float


def design(law: Law, tau: float, steps: int, gamma: float = GAMMA) -> StepDesign:
    """c for 60 relaxation times, and a start on the side of the quantile from which travel is fast.

    c = 60 / (G sum_{i <= steps} i^-gamma); theta0 is the quantile of level 1/2 + .8 (tau - 1/2): the
    iterates move up by at most tau per unit of step size and down by at most 1 - tau.
    """
    total = constants.sum_of_powers(1, steps, gamma)
    c = RELAXATION_TIMES / (law.density_at_quantile(tau) * total)
    return StepDesign(c, gamma, law.quantile(0.5 + 0.8 * (tau - 0.5)))


def badness(arrival: Arrival, level: float) -> tuple[int, float]:
    """Key that sorts arrivals from good to bad: the verdict, then the coverage."""
    return min(VERDICTS.index(arrival.verdict), 2), -arrival.coverage(level)


class Source:
    """Origin of a plan's paths: a study, whose paths keep their steps at every n."""

    transform: Transform = None
    """Scale of its laws, steps and starts."""

    def scales(self, ends: tuple[float, float]) -> dict[str, Self]:
        """The source on further scales for the bins of histograms on a public range, by name."""
        return {}

    def near_atoms(self, tau: float) -> list[tuple[float, Atom]]:
        """Values near the quantile that many records share."""
        return []

    def counted_law(self, law: Law, taus: Sequence[float]) -> Law:
        """Law from which the counts of a histogram are drawn."""
        return law

    def columns(self) -> dict[str, Any]:
        return {"pilot": None, "pilot_values": None}

    def method(self, arrival: Arrival, case: Approach | None) -> str | None:
        """The interval method to use on a path, or None."""
        return recommend_method(arrival, case)

    def feasible(self, case: Approach) -> float:
        """Users below which no interval around an average covers, for any steps."""
        return feasible_n(case.law, case.tau, case.noise) * case.records

    def others(self, path: Any, case: Approach | None) -> tuple[OnePass, ...]:
        """The path under the other laws of a guess."""
        return ()

    def worst_law(self, case: Approach) -> WorstLaw | None:
        """The law of a guess that is worst for the method."""
        return None

    def cautions(self, path: Any) -> list[str]:
        """Warnings about the values."""
        return []


class OwnSteps(Source, ABC):
    """A source without steps, which are chosen for every n."""

    judged_by: str
    law: Any
    """Law of the values, on the source's scale."""
    share: float  # share of the laws tried for which a range and a verdict hold

    @abstractmethod
    def problem(self, tau: float) -> Quantile:
        """The tau-quantile of the law."""

    @abstractmethod
    def design(self, tau: float, n: int) -> StepDesign:
        """Steps and start for n users."""

    @abstractmethod
    def tried(self, case: Approach) -> list[Approach]:
        """The path under every law that the source allows for."""

    def sparsities(self, case: Approach) -> tuple[float, float]:
        """Range of 1/f(theta*)."""
        found = [1.0 / path.law.density_at_quantile(path.tau) for path in self.tried(case)]
        return percentile_range(found, self.share)

    def judge(self, case: Approach, level: float) -> tuple[Arrival, str, Arrival]:
        """The arrival of a path under the law itself, the verdict, and the worst arrival allowed for."""
        (found,) = predict_arrivals([case])
        worst = worst_arrival(self.tried(case), level, self.share)
        return found, worst.verdict, worst

    @property
    def ends(self) -> tuple[float, float] | None:
        """Public range of the values, if it is known."""
        return None

    def path(self, tau: float, epsilon: float, n: int) -> OnePass:
        """LDP-SGD with randomised response, with steps and start for n users."""
        found = self.design(tau, n)
        algorithm = LdpSgd(c=found.c, gamma=found.gamma, theta0=found.theta0)
        return OnePass(self.problem(tau), RandomizedResponse(epsilon=epsilon), algorithm)


@dataclass(frozen=True)
class Pilot(OwnSteps):
    """A pilot's column, of a file or of a table in memory; the options are those of :class:`PlanOptions`."""

    judged_by = "the worst but 5% of resampled pilots"
    share = 0.9

    source: Any
    column: str | None = None
    drop: bool = False
    missing_values: tuple[float, ...] = ()
    jitter: float | None = None
    seed: int = 0
    count_column: str | None = None
    transform: Transform = None
    compared: bool = False
    """Whether protocols are compared, of which histograms need no density at the quantile."""

    @cached_property
    def read(self) -> DataColumn:
        options: dict[str, Any] = {"drop": self.drop, "fields": FIELDS, "count_column": self.count_column}
        if isinstance(self.source, str):
            found = load_column(self.source, self.column, **options)
        else:
            table = arrow_table(self.source, "pilot", None if self.count_column else self.column)
            found = read_column(table, self.column, **options)
        values = found.values
        for missing in self.missing_values:
            if missing not in found.values:
                raise InputError("missing_value", missing, f"a value of the column {found.name!r}")
            values = values[values != missing]
        if len(values) < SMALLEST:
            hint = f"It has {len(values):,}."
            raise InputError("column", found.name, f"at least {SMALLEST} values", hint)
        return DataColumn(found.name, values, found.dropped + len(found.values) - len(values))

    @property
    def name(self) -> str:
        """Column, and file if there is one, in words."""
        return f"column {self.read.name!r}" + (f" of {self.source}" if isinstance(self.source, str) else "")

    def columns(self) -> dict[str, Any]:
        return {"pilot": self.name, "pilot_values": len(self.values)}

    def problem(self, tau: float) -> Quantile:
        check_level(self.read, self.jitter, tau, atoms=self.compared and bool(self.near_atoms(tau)))
        whole_file = isinstance(self.source, str) and not self.missing_values
        return Quantile(
            tau=tau,
            law="empirical",
            file=self.source if whole_file else None,
            sha256=digest_of(self.source) if whole_file else None,
            column=self.read.name,
            count_column=self.count_column,
            missing="drop" if self.drop else None,
            jitter=self.jitter,
            law_table=self.table.text(),
            transform=self.transform if isinstance(self.transform, str) else None,  # type: ignore[arg-type]
            edges=self.transform if isinstance(self.transform, tuple) else None,
        )

    @cached_property
    def table(self) -> ColumnLaw:
        return law_of_column(self.read, self.jitter, self.transform)

    @property
    def law(self) -> Law:
        return Law("empirical", table=self.table)

    def scales(self, ends: tuple[float, float]) -> dict[str, Pilot]:
        """The pilot on further scales for the bins of histograms, by name.

        ``mass``: edges at the pilot's quantiles of levels 1/64, .., 63/64. ``log``: log1p, for values >= 0.
        """
        inner = np.quantile(self.values, np.arange(1, EQUAL_PARTS) / EQUAL_PARTS)
        edges = np.unique([*ends, *inner[(ends[0] < inner) & (inner < ends[1])]])
        found: dict[str, Transform] = {"mass": tuple(edges.tolist())}
        if min(*ends, *self.values) >= 0.0:
            found["log"] = "log1p"
        return {name: replace(self, transform=transform) for name, transform in found.items()}

    def design(self, tau: float, n: int) -> StepDesign:
        return design(self.law, tau, n)

    @cached_property
    def values(self) -> Floats:
        return jittered_values(self.read, self.jitter)

    @cached_property
    def resampled(self) -> list[ColumnLaw]:
        return resampled_laws(forward(self.transform, self.values), self.seed)

    def tried(self, case: Approach) -> list[Approach]:
        return [replace(case, law=replace(case.law, table=table)) for table in self.resampled]

    def judge(self, case: Approach, level: float) -> tuple[Arrival, str, Arrival]:
        found, verdict, worst = super().judge(case, level)
        if verdict == "arrived" and len(self.values) * min(case.tau, 1.0 - case.tau) < LAW_FROM:
            verdict = "doubtful"
        return found, verdict, worst

    def method(self, arrival: Arrival, case: Approach | None) -> str | None:
        """TR if the bias is small, TR3 if it is larger or the pilot small; None if neither suffices."""
        method = recommend_method(arrival, case)
        unsure = abs(arrival.bias) > SURE_BIAS or len(self.values) < SURE_VALUES
        if method == "TR" and unsure:
            return "TR3" if arrival.relaxation_times >= 45 and fits(case, "TR3") else None
        return method

    def cautions(self, path: Any) -> list[str]:
        found = [text for text in (path.problem.caution(),) if text is not None]
        for value, share in codes_among(self.read.values):
            found.append(
                f"{self.name}: {share:.1%} of its values are {value:g}, which looks like a code for no "
                f"value; missing_value = {value:g} leaves them out"
            )
        return found + [text for tau in path.problem.levels() for text in self.atom_cautions(tau)]

    def near_atoms(self, tau: float) -> list[tuple[float, Atom]]:
        """Values that many records share, and the distances of their levels from tau.

        Near: within the levels over which the law smooths. Jitter spreads such a value over its width. It is
        wide enough if the density of the spread records is at most that of the law at the quantile.
        """
        reach = share_of_one_value(self.read.values, tau)[1]
        found = [(max(a.below - tau, tau - a.below - a.share, 0.0), a) for a in atoms(self.read)]
        most = 0.0
        if self.jitter is not None:
            most = self.jitter * replace(self, transform=None).law.density_at_quantile(tau)
        return [(gap, atom) for gap, atom in found if gap < reach and atom.share > most]

    def counted_law(self, law: Law, taus: Sequence[float]) -> Law:
        """The pilot's records themselves near a value that many of them share, which the law smooths away."""
        if not any(map(self.near_atoms, taus)):
            return law
        values, counts = np.unique(self.read.values, return_counts=True)
        of_column = tuple(values.tolist()), tuple(counts.tolist())
        return Law("records", table=Records(*of_column, jitter=self.jitter, transform=self.transform))

    def atom_cautions(self, tau: float) -> list[str]:
        """Warning about values that many records share, or how far jitter moves the quantile."""
        near = self.near_atoms(tau)
        if (w := self.jitter) is not None:
            moved = abs(float(np.quantile(self.values, tau) - np.quantile(self.read.values, tau)))
            most = f"by at most {w / 2:g}, in this pilot by {moved:.3g}"
            cautions = [
                f"jitter = {w:g} moves the {tau:g}-quantile {most}: intervals are about the moved one"
            ]
            if near:
                shares = ", ".join(f"{atom.value:g} ({atom.share:.1%})" for _, atom in near)
                cautions.append(
                    f"jitter = {w:g} is too narrow near the {tau:g}-quantile: it spreads the many records at "
                    f"{shares} to a density above that of the plan's law. Intervals of sgd, cells and rounds "
                    "may cover far less than the plan says"
                )
            return cautions
        if not near:
            return []
        gap, nearest = min(near, key=lambda pair: pair[0])
        shares = ", ".join(f"{atom.value:g} ({atom.share:.1%})" for _, atom in near)
        text = (
            f"{self.name}: many records share {shares}, and the {tau:g}-quantile "
            f"{'is near' if gap else 'is'} such a value. It has no density. Rows of sgd, cells and rounds "
            "are simulated on a smooth law, and their intervals may cover far less than the plan says. Rows "
            "of histograms are simulated on the pilot's records: the outer interval ends at edges of bins"
        )
        if width := jitter_width(self.read, nearest.value):
            text += (
                f". jitter = {width:g} spreads it and moves the quantile by at most {width / 2:g}; the plan "
                "says whether that is wide enough"
            )
        text += '. ties = "keep" in the file of a design makes sweep draw the records themselves too'
        return [text]


def codes_among(values: Floats) -> list[tuple[float, float]]:
    """Values that look like codes for no value, with their shares.

    A repeated smallest or largest value looks like one if it is the only negative value, is written with
    nines alone (99, 9999, -99), or is farther from the next value than that is from the other end.
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


def resampled_laws(values: Floats, seed: int, count: int = RESAMPLES) -> list[ColumnLaw]:
    """Laws of columns drawn with replacement from a column (its bootstrap); role ``pilot``."""
    from ldpflow.numerics.counts import multinomial
    from ldpflow.numerics.streams import counter_keys

    x = np.sort(values)
    blocks = np.array_split(x, min(len(x), BLOCKS))
    sizes = np.array([len(block) for block in blocks], dtype=np.float64)
    means = x if len(blocks) == len(x) else np.array([block.mean() for block in blocks])
    laws = []
    counts = np.empty(len(blocks))
    for replicate in range(count):
        first, second = (np.uint64(word) for word in counter_keys(seed, "pilot", "", replicate))
        multinomial(counts, first, second, 0, 0, float(len(x)), sizes)
        laws.append(column_law(means, counts.astype(np.int64)))
    return laws


def percentile_range(values: list[float], share: float) -> tuple[float, float]:
    low, high = np.quantile(values, [(1 - share) / 2, (1 + share) / 2])
    return float(low), float(high)


def worst_arrival(cases: list[Approach], level: float, share: float) -> Arrival:
    """The (1 + share)/2 quantile of the arrivals of paths, from good to bad by verdict, then by coverage."""
    found = sorted(predict_arrivals(cases), key=lambda arrival: badness(arrival, level))
    return found[math.ceil((1 + share) / 2 * len(found)) - 1]


class WorstLaw(NamedTuple):
    """Method, number of laws tried, and the law that is worst for it.

    ``size`` is the larger of two ratios: relaxation times that the method needs over those of the run, and
    its predicted bias over the largest allowed. At most 1: the method covers in all laws. ``bias`` is the
    method's own, in its standard errors.
    """

    method: str
    laws: int
    law: str
    size: float
    relaxation_times: float
    bias: float


@dataclass(frozen=True)
class Guess(OwnSteps):
    """Public bounds in the place of a pilot: a family of laws within them, skewed ones among them.

    Numbers are those of the normal law, whose deviation is an eighth of the range; verdict and method are
    those of the worst law.
    """

    judged_by = "the worst of the laws tried"
    share = 1.0

    lower: float
    upper: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.upper - self.lower) and self.lower < self.upper):
            raise InputError("bounds", [self.lower, self.upper], "two finite numbers, the lower first")

    @property
    def ends(self) -> tuple[float, float] | None:
        return self.lower, self.upper

    @property
    def law(self) -> Law:
        return Law("normal", (self.lower + self.upper) / 2, (self.upper - self.lower) / 8)

    def family(self) -> dict[str, tuple[Law, bool]]:
        """Laws that values within the bounds may have, by name, and whether they are to be mirrored.

        The normal one, and skewed ones that start at a bound: most values near it, few at the other end.
        One from the upper bound is the mirror image of one from the lower.
        """
        width = self.upper - self.lower
        skewed = {
            "exponential": Law("exponential", self.lower, width / 8),
            "lognormal": Law("lognormal", self.lower, width / 20, shape=1.0),
        }
        found = {"normal": (self.law, False)}
        for name, law in skewed.items():
            found[f"{name} from the lower bound"] = law, False
            found[f"{name} from the upper bound"] = law, True
        return found

    def problem(self, tau: float) -> Quantile:
        return problem_of(self.law, tau)

    def design(self, tau: float, n: int) -> StepDesign:
        """The rule's c for the normal law, and a start that does not depend on it.

        theta0 is the middle of the range for tau in [.25, .75]. Otherwise it is a quarter of the range away
        from the end from which iterates travel fast (the lower one for a high quantile).
        """
        share = 0.5 if 0.25 <= tau <= 0.75 else 0.25 if tau > 0.75 else 0.75
        theta0 = self.lower + (self.upper - self.lower) * share
        return replace(design(self.law, tau, n), theta0=theta0)

    def cases(self, case: Approach, factor: float = 1.0) -> dict[str, Approach]:
        found = {}
        for name, (law, mirrored) in self.family().items():
            found[name] = replace(case, law=replace(law, scale=law.scale * factor))
            if mirrored:
                tau, theta0 = round(1.0 - case.tau, 12), self.lower + self.upper - case.theta0
                found[name] = replace(found[name], tau=tau, theta0=theta0)
        return found

    def others(self, path: Any, case: Approach | None) -> tuple[OnePass, ...]:
        assert case is not None
        found = {}
        for one in self.tried(case):
            algorithm = path.algorithm.model_copy(update={"theta0": one.theta0})
            other = replace(path, problem=problem_of(one.law, one.tau), algorithm=algorithm)
            found[other.key] = other
        return tuple(found.values())[1:]

    def tried(self, case: Approach) -> list[Approach]:
        return list(self.cases(case).values())

    def feasible(self, case: Approach) -> float:
        return max(feasible_n(one.law, one.tau, one.noise) for one in self.tried(case))

    def worst_for(self, case: Approach, method: str, factor: float = 1.0) -> WorstLaw:
        cases = self.cases(case, factor)
        found = []
        for (name, path), arrival in zip(cases.items(), predict_arrivals(list(cases.values())), strict=True):
            k, fit = arrival.relaxation_times, own_fit(path, method)
            size = max(FEWEST_TIMES[method] / k, abs(fit.bias) / MOST_BIAS) if fit.defined else math.inf
            found.append(WorstLaw(method, len(cases), name, size, k, fit.bias))
        return max(found, key=lambda worst_law: worst_law.size)

    def worst_law(self, case: Approach) -> WorstLaw:
        """The worst law for TR. If TR does not cover in it, that for TR3, unless it is worse still."""
        first = self.worst_for(case, "TR")
        if first.size <= 1.0:
            return first
        return min(first, self.worst_for(case, "TR3"), key=lambda worst_law: worst_law.size)

    def method(self, arrival: Arrival, case: Approach | None) -> str | None:
        assert case is not None
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


def settings_of(law: Law) -> dict[str, Any]:
    return {"law": law.name, **{name: getattr(law, name) for name in ("location", "scale", "df", "shape")}}


def problem_settings(law: Law) -> dict[str, Any]:
    """Settings of a problem ``quantile`` or ``quantiles`` with this law."""
    parts = [MixturePart(weight=part.weight, **settings_of(part.law)) for part in law.components]
    table = None if law.table is None else law.table.text()
    return {**settings_of(law), "components": tuple(parts) or None, "law_table": table}


def problem_of(law: Law, tau: float) -> Quantile:
    return Quantile(tau=tau, **problem_settings(law))


OF_A_PILOT = ("column", "count_column", "missing", "missing_value", "jitter")
OF_A_COMPARISON = (
    "range", "scale_guess", "rounds_max", "bits_max", "liars", "answer_below", "answer_above", "answers",
    "replicates",
)  # fmt: skip


@dataclass(frozen=True)
class PlanOptions:
    """Options of :func:`plan`. None: not given.

    Parameters
    ----------
    pilot : path, data frame, pyarrow.Table or mapping of columns
        A pilot's values: a Parquet or CSV file, or a table of pandas, polars or pyarrow.
    column : str
        Its column. Not needed if one column is numeric and no other one consists mostly of numbers.
    count_column : str
        Column with the number of records that have the value of a row, one by default.
    missing : str
        ``drop`` leaves out records without a value, which are an error otherwise.
    missing_value : number or sequence of numbers
        Numbers that stand for no value, such as -1 or 9999; their records are left out.
    jitter : float
        Width of the noise that users add to their value.
    bounds : (float, float)
        Public bounds of the data.
    tau, epsilon, n, level : number or sequence of numbers
        Replace the study's; all but the level (.9) are needed with a pilot or bounds.
    length, half_width : float
        Wanted length, or half of it, of the interval in the unit of the data. Give at most one of them. With
        ``compare``, half_width may be one for each quantile.
    response_rate : float
        Share of invited users who answer.
    difference, power : float
        Difference between two groups that is to be found, and the probability of finding it.
    seed : int
        Seed of the resampled pilots.
    compare : bool
        Compare protocols for all quantiles of a study, a pilot or bounds, from one group of users. Needed by
        all options below.
    range : (float, float)
        Public range of the values. Default: that of the study's protocols, or the bounds.
    scale_guess : float
        Public guess of the law's scale, for the number of bins.
    rounds_max, bits_max
        Protocols beyond them carry a caution.
    liars : float in [0, 1)
        Share of liars among those who answer. They send the worst report. .01 by default with a pilot or
        bounds.
    answer_below, answer_above : float in (0, 1]
        Probability that an invited user whose value is at most the quantile, or above it, answers. It is
        multiplied by the response rate.
    answers : int in [1, 64]
        Answers of every user, each with epsilon/answers.
    replicates : int
        Replicates of every simulation of a comparison.
    """

    pilot: Any = None
    column: str | None = None
    count_column: str | None = None
    missing: str | None = None
    missing_value: float | Sequence[float] | None = None
    jitter: float | None = None
    bounds: Sequence[float] | None = None
    tau: float | Sequence[float] | None = None
    epsilon: float | Sequence[float] | None = None
    n: float | Sequence[float] | None = None
    level: float | Sequence[float] | None = None
    length: float | None = None
    half_width: float | Sequence[float] | None = None
    response_rate: float | None = None
    difference: float | None = None
    power: float = 0.8
    seed: int = 0
    compare: bool = False
    range: tuple[float, float] | None = None
    scale_guess: float | None = None
    rounds_max: int | None = None
    bits_max: float | None = None
    liars: float | None = None
    answer_below: float | None = None
    answer_above: float | None = None
    answers: int | None = None
    replicates: int | None = None

    def __post_init__(self) -> None:
        if self.length is not None and self.half_width is not None:
            raise InputError("half_width", self.half_width, "nothing where `length` is given")
        given = [("half_width", value) for value in list_of(self.target)] + [("difference", self.difference)]
        for name, value in given:
            if value is not None and not (isinstance(value, (int, float)) and 0 < value < math.inf):
                raise InputError(name, value, "a number > 0")
        if len(list_of(self.half_width)) > 1 and not self.compare:
            raise InputError("half_width", self.half_width, "one number without `compare`")
        if self.response_rate is not None and not 0 < self.response_rate <= 1:
            raise InputError("response_rate", self.response_rate, "a share in (0, 1]")
        if not 0 < self.power < 1:
            raise InputError("power", self.power, "a probability in (0, 1)")
        if not self.compare:
            self.refuse(OF_A_COMPARISON, "nothing without `compare`")
        else:
            self.refuse(("difference",), "nothing with `compare`")

    def refuse(self, names: Sequence[str], allowed: str, hint: str = "") -> None:
        for name in names:
            if getattr(self, name) is not None:
                raise InputError(name, getattr(self, name), allowed, hint)

    @property
    def target(self) -> Any:
        """Wanted half width, or a list of one for each quantile."""
        wanted = list_of(self.half_width)
        return (wanted[0] if len(wanted) == 1 else wanted) if self.length is None else self.length / 2

    def invitations(self, n: int | None) -> int | None:
        """Invitations for n answers, if non-response has nothing to do with the value."""
        if n is None or self.response_rate is None:
            return None
        return math.ceil(n / self.response_rate * (1 - 1e-12))

    @property
    def axes(self) -> dict[str, list[Any]]:
        found = {name: getattr(self, name) for name in ("tau", "epsilon", "n", "level")}
        return {name: list_of(value) for name, value in found.items() if value is not None}

    @property
    def comparison(self) -> dict[str, Any]:
        found = {name: value for name in OF_A_COMPARISON if (value := getattr(self, name)) is not None}
        return found | {"half_width": self.target, "response": self.response_rate or 1.0}

    def source(self) -> OwnSteps | None:
        if self.pilot is None:
            self.refuse(OF_A_PILOT, "nothing without `pilot`")
        if self.pilot is None and self.bounds is None:
            return None
        for name in ("tau", "epsilon", "n"):
            if name not in self.axes:
                raise InputError(name, None, "a number, or several: a pilot says nothing about it")
        if self.pilot is None:
            assert self.bounds is not None
            if len(self.bounds) != 2:
                raise InputError("bounds", list(self.bounds), "two numbers")
            return Guess(*map(float, self.bounds))
        if self.missing not in (None, "drop"):
            raise InputError("missing", self.missing, "drop, or nothing")
        codes = () if self.missing_value is None else tuple(map(float, list_of(self.missing_value)))
        values = os.fspath(self.pilot) if isinstance(self.pilot, os.PathLike) else self.pilot
        drop = self.missing == "drop"
        given = values, self.column, drop, codes, self.jitter, self.seed, self.count_column
        return Pilot(*given, compared=self.compare)


OPTIONS = tuple(option.name for option in fields(PlanOptions))
"""Names of the options of a plan."""


def list_of(value: Any) -> list[Any]:
    if hasattr(value, "tolist"):
        value = value.tolist()
    return list(value) if isinstance(value, (list, tuple, range)) else [value]


def read_whole(value: Any) -> int:
    if not (isinstance(value, (int, float)) and value >= 1 and float(value).is_integer()):
        raise InputError("n", value, "an integer >= 1")
    return int(value)
