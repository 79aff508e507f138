"""Sources of a plan: a study, a pilot's column, or public bounds of the data.

Without a study c and theta0 follow from the law for every tau and n. The verdict of a pilot is the 95%
quantile, from good to bad, of the verdicts under resampled pilots. It is at best ``doubtful`` if fewer than
50 values lie beyond the quantile. The verdict of bounds is that of the worst law of a family.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpflow.components.algorithms import Algorithm
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
from ldpflow.components.problems.quantile import UNKNOWN, MixturePart, Quantile
from ldpflow.components.problems.tables import DataColumn, read_column
from ldpflow.components.problems.transform import Transform, forward, slope
from ldpflow.errors import InputError
from ldpflow.numerics import constants
from ldpflow.numerics.counts import multinomial
from ldpflow.numerics.streams import counter_keys
from ldpflow.options import OF_A_PILOT, PlanOptions, list_of
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

SURE_BIAS = 0.5
"""Largest predicted bias, in standard errors, at which a pilot's steps are used with TR of degree 2."""

SURE_VALUES = 200
"""Fewest values of a pilot whose own law is trusted for this."""

FIELDS = ("pilot", "column")  # names of the source and its column in messages
FEWEST_CODES = 3  # records that share a value before it may be a code for no value
LEAST_CODES = 0.001


class StepDesign(NamedTuple):
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


def undeclared_steps(algorithm: Algorithm) -> str | None:
    """Kind of an algorithm that does not declare steps c i^-gamma (one of a plug-in), or None."""
    declared = algorithm.step_exponent(), algorithm.step_constant()
    return algorithm.kind if any(map(math.isnan, declared)) else None


def badness(arrival: Arrival, level: float) -> tuple[int, float]:
    """Key that sorts arrivals from good to bad: the verdict, then the coverage."""
    return min(VERDICTS.index(arrival.verdict), 2), -arrival.coverage(level)


class Source:
    """Origin of a plan's paths: a study, whose paths keep their steps at every n."""

    judged_by = ""  # law that decides the verdict, in words
    transform: Transform = None  # scale of its laws, steps and starts

    def scales(self, ends: tuple[float, float]) -> Mapping[str, OwnSteps]:
        """The source on further scales for the bins of histograms on a public range, by name."""
        return {}

    def near_atoms(self, tau: float) -> list[tuple[float, Atom]]:
        """Values near the quantile that many records share."""
        return []

    def spacing(self, law: Law) -> float:
        """Distance of the values of a rounded column, 0 without rounding."""
        return law.table.spacing * law.scale if isinstance(law.table, ColumnLaw) else 0.0

    def counted_law(self, law: Law, taus: Sequence[float]) -> Law:
        """Law from which the counts of a histogram are drawn."""
        return law

    def columns(self, tau: float) -> dict[str, Any]:
        return {"pilot": None, "pilot_values": None, "pilot_quantile": None}

    def method(self, arrival: Arrival, case: Approach | None) -> str | None:
        """Interval method to use on a path."""
        return recommend_method(arrival, case)

    def feasible(self, case: Approach) -> float:
        """Users below which no steps give an average what :func:`feasible_n` asks for."""
        return feasible_n(case.law, case.tau, case.noise)

    def others(self, path: Any, case: Approach | None) -> tuple[OnePass, ...]:
        """Path under the other laws of a guess."""
        return ()

    def worst_law(self, case: Approach) -> WorstLaw | None:
        """Law of a guess that is worst for the method."""
        return None

    def cautions(self, problem: Quantile) -> list[str]:
        """Warnings about the values."""
        return []


class OwnSteps(Source, ABC):
    """A source without steps, which are chosen for every n."""

    law: Any  # of the values, on the source's scale
    share: float  # of the laws tried, for which a range and a verdict hold

    @abstractmethod
    def problem(self, tau: float) -> Quantile: ...

    @abstractmethod
    def design(self, tau: float, n: int) -> StepDesign: ...

    @abstractmethod
    def tried(self, case: Approach) -> list[Approach]:
        """Path under every law that the source allows for."""

    def sparsities(self, case: Approach) -> tuple[float, float]:
        return percentile_range(list(map(self.sparsity, self.tried(case))), self.share)

    def sparsity(self, case: Approach) -> float:
        """1/f in the unit of the values."""
        scale = float(slope(self.transform, case.law.quantile(case.tau)))
        return scale / case.law.density_at_quantile(case.tau)

    def judge(self, case: Approach, level: float) -> tuple[Arrival, str, Arrival]:
        """Arrival under the law itself, the verdict, and the worst arrival allowed for."""
        (found,) = predict_arrivals([case])
        worst = worst_arrival(self.tried(case), level, self.share)
        return found, worst.verdict, worst

    def algorithm(self, taus: Sequence[float], n: int) -> LdpSgd:
        """LDP-SGD with steps and start for n users; starts of several quantiles do not decrease."""
        found = [self.design(tau, n) for tau in taus]
        if len(found) == 1:
            return LdpSgd(c=found[0].c, gamma=found[0].gamma, theta0=found[0].theta0)
        starts = tuple(accumulate((one.theta0 for one in found), max))
        factors = tuple(one.c for one in found)
        return LdpSgd(gamma=found[0].gamma, c_factors=factors, theta0_offsets=starts)

    def path(self, tau: float, epsilon: float, n: int) -> OnePass:
        """LDP-SGD with randomised response."""
        return OnePass(self.problem(tau), RandomizedResponse(epsilon=epsilon), self.algorithm([tau], n))


@dataclass(frozen=True)
class Pilot(OwnSteps):
    """A pilot's column, of a file or of a table in memory; ``given`` are the options of the plan."""

    judged_by = f"number 190 of {RESAMPLES} resampled pilots (the best first)"
    share = 0.9

    given: PlanOptions
    transform: Transform = None

    @property
    def file(self) -> str | None:
        pilot = self.given.pilot
        return os.fspath(pilot) if isinstance(pilot, (str, os.PathLike)) else None

    @cached_property
    def read(self) -> DataColumn:
        column, count_column = self.given.column, self.given.count_column
        drop = self.given.missing == "drop"
        options: dict[str, Any] = {"drop": drop, "fields": FIELDS, "count_column": count_column}
        if self.file is not None:
            found = load_column(self.file, column, **options)
        else:
            table = arrow_table(self.given.pilot, "pilot", None if count_column else column)
            found = read_column(table, column, **options)
        values = found.values
        for missing in numbers_of(self.given.missing_value):
            if missing not in found.values:
                raise InputError("missing_value", missing, f"a value of the column {found.name!r}")
            values = values[values != missing]
        if len(values) < SMALLEST:
            hint = f"It has {len(values):,}."
            raise InputError("column", found.name, f"at least {SMALLEST} values", hint)
        return replace(found, values=values, dropped=found.dropped + len(found.values) - len(values))

    @property
    def name(self) -> str:
        return f"column {self.read.name!r}" + (f" of {self.file}" if self.file is not None else "")

    def columns(self, tau: float) -> dict[str, Any]:
        sample = float(np.quantile(self.read.values, tau))
        return {"pilot": self.name, "pilot_values": len(self.values), "pilot_quantile": sample}

    def problem(self, tau: float) -> Quantile:
        # Histograms need no density at the quantile.
        check_level(
            self.read, self.given.jitter, tau, atoms=self.given.compare and bool(self.near_atoms(tau))
        )
        whole_file = not numbers_of(self.given.missing_value)
        return Quantile(
            tau=tau,
            law="empirical",
            file=self.file if whole_file else None,
            sha256=self.read.sha256 if whole_file else None,
            column=self.read.name,
            count_column=self.given.count_column,
            missing=self.given.missing,  # type: ignore[arg-type]
            jitter=self.given.jitter,
            law_table=self.table.text(),
            transform=self.transform if isinstance(self.transform, str) else None,  # type: ignore[arg-type]
            edges=self.transform if isinstance(self.transform, tuple) else None,
        )

    @cached_property
    def table(self) -> ColumnLaw:
        forward(self.transform, self.values, "transform")  # refused as an option of a plan
        return law_of_column(self.read, self.given.jitter, self.transform)

    @property
    def law(self) -> Law:
        return Law("empirical", table=self.table)

    def scales(self, ends: tuple[float, float]) -> dict[str, Pilot]:
        """Further scales for the bins of histograms.

        ``mass``: edges at the pilot's quantiles of levels 1/64, .., 63/64. ``log``: log1p, for values >= 0
        that are not on this scale.
        """
        inner = np.quantile(self.values, np.arange(1, EQUAL_PARTS) / EQUAL_PARTS)
        edges = np.unique([*ends, *inner[(ends[0] < inner) & (inner < ends[1])]])
        found: dict[str, Transform] = {"mass": tuple(edges.tolist())}
        if min(*ends, *self.values) >= 0.0 and self.transform != "log1p":
            found["log"] = "log1p"
        return {name: replace(self, transform=transform) for name, transform in found.items()}

    def design(self, tau: float, n: int) -> StepDesign:
        return design(self.law, tau, n)

    @cached_property
    def values(self) -> Floats:
        return jittered_values(self.read, self.given.jitter)

    def spacing(self, law: Law) -> float:
        return law_of_column(self.read, self.given.jitter).spacing  # in the unit of the values on every scale

    @cached_property
    def resampled(self) -> list[ColumnLaw]:
        return resampled_laws(forward(self.transform, self.values), self.given.seed, RESAMPLES)

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

    def cautions(self, problem: Quantile) -> list[str]:
        found = [text for text in (problem.caution(),) if text is not None]
        for value, share in codes_among(self.read.values):
            found.append(
                f"{self.name}: {share:.1%} of its values are {value:g}, which looks like a code for no "
                f"value. missing_value = {value:g} leaves them out"
            )
        return found + self.atom_cautions(problem.tau)

    def near_atoms(self, tau: float) -> list[tuple[float, Atom]]:
        """Values that many records share, and the distances of their levels from tau.

        Near: within the levels over which the law smooths. Jitter spreads such a value over its width. It is
        wide enough if the density of the spread records is at most that of the law at the quantile.
        """
        *_, reach = share_of_one_value(self.read.values, tau)
        found = [(max(a.below - tau, tau - a.below - a.share, 0.0), a) for a in atoms(self.read)]
        most = 0.0
        if self.given.jitter is not None:
            most = self.given.jitter * replace(self, transform=None).law.density_at_quantile(tau)
        return [(gap, atom) for gap, atom in found if gap < reach and atom.share > most]

    def counted_law(self, law: Law, taus: Sequence[float]) -> Law:
        """The pilot's records themselves near a value that many of them share, which the law smooths away."""
        if not any(map(self.near_atoms, taus)):
            return law
        values, counts = np.unique(self.read.values, return_counts=True)
        of_column = tuple(values.tolist()), tuple(counts.tolist())
        return Law("records", table=Records(*of_column, jitter=self.given.jitter, transform=self.transform))

    def atom_cautions(self, tau: float) -> list[str]:
        """Warning about values that many records share, and how far jitter moves the quantile."""
        near, w, found = self.near_atoms(tau), self.given.jitter, []
        shares = ", ".join(f"{atom.value:g} ({atom.share:.1%})" for _, atom in near)
        risk = "Intervals of sgd, cells and rounds may cover far less than the plan says"
        if w is not None:
            moved = abs(float(np.quantile(self.values, tau) - np.quantile(self.read.values, tau)))
            found.append(
                f"jitter = {w:g} moves the {tau:g}-quantile by at most {w / 2:g}, in this pilot by "
                f"{moved:.3g}: intervals are about the moved one"
            )
        if near and w is not None:
            found.append(
                f"jitter = {w:g} is too narrow near the {tau:g}-quantile: it spreads the many records at "
                f"{shares} to a density above that of the plan's law. {risk}"
            )
        elif near:
            gap, nearest = min(near, key=lambda pair: pair[0])
            text = (
                f"{self.name}: many records share {shares}, and the {tau:g}-quantile "
                f"{'is near' if gap else 'is'} such a value, without a density. {risk}: they are simulated "
                "on a smooth law, histograms on the pilot's records, whose outer intervals end at edges"
            )
            if width := jitter_width(self.read, nearest.value):
                text += f". jitter = {width:g} spreads it and moves the quantile by at most {width / 2:g}"
            found.append(text)
        return found


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


def resampled_laws(values: Floats, seed: int, count: int) -> list[ColumnLaw]:
    """Laws of columns drawn with replacement from a column (its bootstrap); role ``pilot``."""
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
    """Method, and the law that is worst for it.

    ``size``: the larger of two ratios, relaxation times that the method needs over those of the run, and its
    bias over the largest allowed. If it is at most 1, the method covers in all laws.
    """

    method: str
    law: str
    size: float


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

    @property
    def law(self) -> Law:
        return Law("normal", (self.lower + self.upper) / 2, (self.upper - self.lower) / 8)

    def problem(self, tau: float) -> Quantile:
        return problem_of(self.law, tau)

    def design(self, tau: float, n: int) -> StepDesign:
        """The rule's c for the normal law, and a start that does not depend on it.

        theta0 is the middle of the range for tau in [.25, .75]. Otherwise it is a quarter of the range away
        from the end from which iterates travel fast (the lower one for a high quantile).
        """
        share = 0.5 if 0.25 <= tau <= 0.75 else 0.25 if tau > 0.75 else 0.75
        theta0 = self.lower + (self.upper - self.lower) * share
        return design(self.law, tau, n)._replace(theta0=theta0)

    def laws(self) -> dict[str, tuple[Law, bool]]:
        """A normal law and skewed ones that start at a bound. True: the upper bound, by mirroring."""
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

    def cases(self, case: Approach) -> dict[str, Approach]:
        """The path under every law; in the place of a mirrored law the level and the start are mirrored."""
        theta0 = self.lower + self.upper - case.theta0
        mirror = replace(case, tau=round(1.0 - case.tau, 12), theta0=theta0)
        return {
            name: replace(mirror if upper else case, law=law) for name, (law, upper) in self.laws().items()
        }

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
        return max(map(super().feasible, self.tried(case)))

    def worst_for(self, case: Approach, method: str) -> WorstLaw:
        cases = self.cases(case)
        found = []
        for (name, path), arrival in zip(cases.items(), predict_arrivals(list(cases.values())), strict=True):
            short, fit = FEWEST_TIMES[method] / arrival.relaxation_times, own_fit(path, method)
            size = max(short, abs(fit.bias) / MOST_BIAS) if fit.defined else math.inf
            found.append(WorstLaw(method, name, size))
        return max(found, key=lambda worst_law: worst_law.size)

    def worst_law(self, case: Approach) -> WorstLaw:
        """Worst law for TR. If TR does not cover in it: worst law for TR3, unless TR3 fares worse still."""
        first = self.worst_for(case, "TR")
        if first.size <= 1.0:
            return first
        return min(first, self.worst_for(case, "TR3"), key=lambda worst_law: worst_law.size)

    def method(self, arrival: Arrival, case: Approach | None) -> str | None:
        assert case is not None
        found = self.worst_law(case)
        return found.method if found.size <= 1.0 else None


def problem_of(law: Law, tau: float) -> Quantile:
    def settings_of(law: Law) -> dict[str, Any]:
        names = ("location", "scale", "df", "shape")
        return {"law": law.name, **{name: getattr(law, name) for name in names}}

    parts = [MixturePart(weight=part.weight, **settings_of(part.law)) for part in law.components]
    table = None if law.table is None else law.table.text()
    return Quantile(tau=tau, **settings_of(law), components=tuple(parts) or None, law_table=table)


def source_of(given: PlanOptions) -> OwnSteps | None:
    """Pilot or bounds of a plan; None for a study."""
    if given.pilot is None:
        given.refuse(OF_A_PILOT, "nothing without `pilot`")
    if given.pilot is None and given.bounds is None:
        return None
    for name in ("tau", "epsilon", "n"):
        if not given.axes.get(name):
            raise InputError(name, None, "a number, or several: a pilot says nothing about it")
    if given.pilot is None:
        assert given.bounds is not None
        return Guess(*map(float, given.bounds))
    edges = None if given.edges is None else numbers_of(given.edges)
    if edges is not None and (given.transform or len(edges) < 2 or list(edges) != sorted(set(edges))):
        raise InputError("edges", list(edges), "two or more increasing numbers, without `transform`")
    scale: Any = {"transform": given.transform}
    Quantile(law=UNKNOWN, **scale)  # refuses a transform that is none
    return Pilot(given, edges or given.transform)


def numbers_of(value: Any) -> tuple[float, ...]:
    """Numbers of an option that may have one, several or none."""
    return () if value is None else tuple(map(float, list_of(value)))
