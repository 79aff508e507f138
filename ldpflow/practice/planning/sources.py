"""Sources of a plan: a study, a pilot's column, or public bounds of the data.

For a pilot or bounds, c and theta0 are computed for every tau and n. A pilot is
resampled 200 times, and each resampled law gives a verdict on the path. Sorted from good to bad, the 190th
verdict is that of the plan. If fewer than 50 values lie beyond the quantile, the verdict is not better than
``doubtful``. Bounds have the verdict of the worst of five laws within them.
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
from ldpflow.practice.planning.method import FEWEST_TIMES, fits, recommend_method
from ldpflow.practice.transcripts.reading import arrow_table
from ldpflow.results.arrival import VERDICTS, Arrival, feasible_n, predict_arrivals
from ldpflow.simulators.approach import Approach
from ldpflow.simulators.one_pass import OnePass

Floats = NDArray[np.float64]

RELAXATION_TIMES = 60.0
"""Relaxation times that c is chosen for. If the density is half of the assumed one, 30 are left."""

GAMMA = 0.51
RESAMPLES = 200
EQUAL_PARTS = 64  # bins of histograms with equal shares of a pilot
BLOCKS = 20_000  # blocks of neighbouring values: columns with more values are resampled by block

SURE_BIAS = 0.5
"""Largest predicted bias of the average, in standard errors, at which TR is recommended for a pilot."""

SURE_VALUES = 200
"""Fewest values of a pilot for which TR is recommended."""

FIELDS = ("pilot", "column")  # names of the source and its column in messages
FEWEST_CODES = 3  # fewest records with a value that may be a code for a missing value
LEAST_CODES = 0.001  # smallest share of these records


class StepDesign(NamedTuple):
    """Steps c i^-gamma and a start, on the scale of theta."""

    c: float
    gamma: float
    theta0: float


def design(law: Law, tau: float, steps: int, gamma: float = GAMMA) -> StepDesign:
    """Compute c for 60 relaxation times, and a start from which the iterates move fast to the quantile.

    c = 60 / (G sum_{i <= steps} i^-gamma), with G the density at the quantile. theta0 is the quantile of
    level 1/2 + .8 (tau - 1/2). In the mean, an iterate moves up by at most tau and down by at most 1 - tau
    per unit of step size.
    """
    total = constants.sum_of_powers(1, steps, gamma)
    c = RELAXATION_TIMES / (law.density_at_quantile(tau) * total)
    return StepDesign(c, gamma, law.quantile(0.5 + 0.8 * (tau - 0.5)))


def undeclared_steps(algorithm: Algorithm) -> str | None:
    """Return the kind of an algorithm if it does not declare steps c i^-gamma, otherwise None."""
    declared = algorithm.step_exponent(), algorithm.step_constant()
    return algorithm.kind if any(map(math.isnan, declared)) else None


def badness(arrival: Arrival, level: float) -> tuple[int, float]:
    """Key that sorts arrivals from good to bad: the verdict, then the coverage."""
    return min(VERDICTS.index(arrival.verdict), 2), -arrival.coverage(level)


class Source:
    """Origin of a plan's paths. This class stands for a study, whose steps are the same for every n."""

    judged_by = ""  # words for the law that decides the verdict
    transform: Transform = None  # scale of its laws, steps and starts

    def scales(self, ends: tuple[float, float]) -> Mapping[str, OwnSteps]:
        """The source on further scales for bins of histograms, by name. ``ends`` is the public range."""
        return {}

    def near_atoms(self, tau: float) -> list[tuple[float, Atom]]:
        """Values near the quantile that many records share, as pairs (distance of level from tau, value)."""
        return []

    def spacing(self, law: Law) -> float:
        """Distance between neighbouring values of a rounded column, 0 for values that are not rounded."""
        return law.table.spacing * law.scale if isinstance(law.table, ColumnLaw) else 0.0

    def counted_law(self, law: Law, taus: Sequence[float]) -> Law:
        """Law from which the counts of a histogram are drawn."""
        return law

    def columns(self, tau: float) -> dict[str, Any]:
        return {"pilot": None, "pilot_values": None, "pilot_quantile": None}

    def method(self, arrival: Arrival, case: Approach | None) -> str | None:
        return recommend_method(arrival, case)

    def feasible(self, case: Approach) -> float:
        """Fewest users for which some step sizes let an average arrive with little bias (`feasible_n`)."""
        return feasible_n(case.law, case.tau, case.noise)

    def cautions(self, problem: Quantile) -> list[str]:
        return []


class OwnSteps(Source, ABC):
    """A pilot or bounds: c and theta0 are chosen for every n."""

    law: Any  # law of the values, on the source's scale
    share: float  # the verdict is the (1 + share)/2 quantile of those under the laws tried

    @abstractmethod
    def problem(self, tau: float) -> Quantile: ...

    @abstractmethod
    def design(self, tau: float, n: int) -> StepDesign: ...

    @abstractmethod
    def tried(self, case: Approach) -> list[Approach]:
        """The path under every law that is tried: resampled pilots, or laws within the bounds."""

    def sparsities(self, case: Approach) -> tuple[float, float]:
        """Smallest and largest :meth:`sparsity` among the central share of the laws tried."""
        found = list(map(self.sparsity, self.tried(case)))
        low, high = np.quantile(found, [(1 - self.share) / 2, (1 + self.share) / 2])
        return float(low), float(high)

    def sparsity(self, case: Approach) -> float:
        """1/f at the quantile, where f is the density of the values in their unit."""
        scale = float(slope(self.transform, case.law.quantile(case.tau)))
        return scale / case.law.density_at_quantile(case.tau)

    def judge(self, case: Approach, level: float) -> tuple[Arrival, str, Arrival]:
        """Arrival under the law itself, the verdict, and the arrival that the verdict is from."""
        (found,) = predict_arrivals([case])
        worst = worst_arrival(self.tried(case), level, self.share)
        return found, worst.verdict, worst

    def algorithm(self, taus: Sequence[float], n: int) -> LdpSgd:
        """LDP-SGD with steps and starts for n users. Starts of several quantiles do not decrease."""
        found = [self.design(tau, n) for tau in taus]
        if len(found) == 1:
            return LdpSgd(c=found[0].c, gamma=found[0].gamma, theta0=found[0].theta0)
        starts = tuple(accumulate((one.theta0 for one in found), max))
        factors = tuple(one.c for one in found)
        return LdpSgd(gamma=found[0].gamma, c_factors=factors, theta0_offsets=starts)

    def path(self, tau: float, epsilon: float, n: int) -> OnePass:
        return OnePass(self.problem(tau), RandomizedResponse(epsilon=epsilon), self.algorithm([tau], n))


@dataclass(frozen=True)
class Pilot(OwnSteps):
    """A pilot's column, of a file or a table in memory. ``given`` has the options of the plan."""

    judged_by = "number 190 of 200 resampled pilots (the best first)"
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
        # Histograms, which a comparison has, need no density at the quantile.
        shared = self.given.compare and bool(self.near_atoms(tau))
        check_level(self.read, self.given.jitter, tau, atoms=shared)
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
        forward(self.transform, self.values, "transform")  # refuses values outside the scale's domain
        return law_of_column(self.read, self.given.jitter, self.transform)

    @property
    def law(self) -> Law:
        return Law("empirical", table=self.table)

    def scales(self, ends: tuple[float, float]) -> dict[str, Pilot]:
        """Further scales for the bins of histograms.

        ``mass`` has edges at the pilot's quantiles of levels 1/64, ..., 63/64. ``log`` is log1p, for values
        >= 0, unless the plan itself is on this scale.
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
        return law_of_column(self.read, self.given.jitter).spacing  # in the unit of the values

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
        """TR for a small bias and a large pilot, otherwise TR3. None if TR3 cannot be recommended either."""
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
        """Values near the quantile that many records share, as pairs (distance of level from tau, value).

        A value is near if its level is among those over which the law is smoothed. With jitter, a value does
        not count if its records, spread over the width of the jitter, have at most the law's density at the
        quantile.
        """
        *_, reach = share_of_one_value(self.read.values, tau)
        found = [(max(a.below - tau, tau - a.below - a.share, 0.0), a) for a in atoms(self.read)]
        most = 0.0
        if self.given.jitter is not None:
            most = self.given.jitter * replace(self, transform=None).law.density_at_quantile(tau)
        return [(gap, atom) for gap, atom in found if gap < reach and atom.share > most]

    def counted_law(self, law: Law, taus: Sequence[float]) -> Law:
        """The pilot's own records if many share a value near a quantile, since the law smooths it away."""
        if not any(map(self.near_atoms, taus)):
            return law
        values, counts = np.unique(self.read.values, return_counts=True)
        of_column = tuple(values.tolist()), tuple(counts.tolist())
        return Law("records", table=Records(*of_column, jitter=self.given.jitter, transform=self.transform))

    def atom_cautions(self, tau: float) -> list[str]:
        """Warnings about values near the quantile that many records share, and about the jitter."""
        near, w, found = self.near_atoms(tau), self.given.jitter, []
        if w is not None:
            moved = abs(float(np.quantile(self.values, tau) - np.quantile(self.read.values, tau)))
            found.append(
                f"jitter = {w:g} moves the {tau:g}-quantile by at most {w / 2:g}, in this pilot by "
                f"{moved:.3g}: intervals are about the moved quantile"
            )
        if near:
            shares = ", ".join(f"{atom.value:g} ({atom.share:.1%})" for _, atom in near)
            text = (
                f"{self.name}: many records share {shares}, near the {tau:g}-quantile. Intervals of sgd, "
                "cells and rounds may cover far less than the plan says, since the plan has a smooth law for "
                "them. Histograms are simulated on the pilot's records: their outer intervals end at edges"
            )
            if w is not None:
                text += f". jitter = {w:g} is too narrow to spread these records"
            elif width := jitter_width(self.read, min(near, key=lambda pair: pair[0])[1].value):
                text += f". jitter = {width:g} spreads them and moves the quantile by at most {width / 2:g}"
            found.append(text)
        return found


def codes_among(values: Floats) -> list[tuple[float, float]]:
    """Values that look like codes for missing values, with their shares.

    The smallest or the largest value looks like a code if several records share it and one of these holds:
    it is the only negative value, it is written with nines alone (99, 9999, -99), or its distance to the next
    value exceeds the range of the other values.
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
    """Laws of columns drawn with replacement from a column, with random numbers of role ``pilot``."""
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


def worst_arrival(cases: list[Approach], level: float, share: float) -> Arrival:
    """The (1 + share)/2 quantile of arrivals, sorted from good to bad by verdict, then by coverage."""
    found = sorted(predict_arrivals(cases), key=lambda arrival: badness(arrival, level))
    return found[math.ceil((1 + share) / 2 * len(found)) - 1]


@dataclass(frozen=True)
class Guess(OwnSteps):
    """Public bounds in place of a pilot. Five laws within them are tried, four of them skewed.

    The numbers of a plan are those of the normal law, whose deviation is an eighth of the range. Verdict and
    method are those of the worst law.
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
        """c by :func:`design` for the normal law, and a start that depends on the bounds alone.

        theta0 is the middle of the range for tau in [.25, .75]. For a higher quantile it is a quarter of the
        range above the lower bound, for a lower one a quarter below the upper bound.
        """
        share = 0.5 if 0.25 <= tau <= 0.75 else 0.25 if tau > 0.75 else 0.75
        theta0 = self.lower + (self.upper - self.lower) * share
        return design(self.law, tau, n)._replace(theta0=theta0)

    def tried(self, case: Approach) -> list[Approach]:
        """The path under five laws: the normal law, and skewed laws that start at the lower or upper bound.

        For a law that starts at the upper bound, level and start are mirrored in place of the law.
        """
        width, theta0 = self.upper - self.lower, self.lower + self.upper - case.theta0
        mirror = replace(case, tau=round(1.0 - case.tau, 12), theta0=theta0)
        exponential = Law("exponential", self.lower, width / 8)
        lognormal = Law("lognormal", self.lower, width / 20, shape=1.0)
        skewed = (replace(one, law=law) for law in (exponential, lognormal) for one in (case, mirror))
        return [replace(case, law=self.law), *skewed]

    def feasible(self, case: Approach) -> float:
        return max(map(super().feasible, self.tried(case)))

    def method(self, arrival: Arrival, case: Approach | None) -> str | None:
        """TR or TR3 if it covers under all laws that are tried, else None."""
        assert case is not None
        cases = self.tried(case)
        paths = list(zip(cases, predict_arrivals(cases), strict=True))
        for name, fewest in FEWEST_TIMES.items():
            if all(found.relaxation_times >= fewest and fits(one, name) for one, found in paths):
                return name
        return None


def problem_of(law: Law, tau: float) -> Quantile:
    def settings_of(law: Law) -> dict[str, Any]:
        names = ("location", "scale", "df", "shape")
        return {"law": law.name, **{name: getattr(law, name) for name in names}}

    parts = [MixturePart(weight=part.weight, **settings_of(part.law)) for part in law.components]
    table = None if law.table is None else law.table.text()
    return Quantile(tau=tau, **settings_of(law), components=tuple(parts) or None, law_table=table)


def source_of(given: PlanOptions) -> OwnSteps | None:
    if given.pilot is None:
        given.refuse(OF_A_PILOT, "needs `pilot`")
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
    Quantile(law=UNKNOWN, **scale)  # refuses an unknown transform
    return Pilot(given, edges or given.transform)


def numbers_of(value: Any) -> tuple[float, ...]:
    """The numbers of an option, a tuple of any length."""
    return () if value is None else tuple(map(float, list_of(value)))
