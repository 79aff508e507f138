"""Advice for a path that does not arrive, and the interval method that suits a path.

The coverages of methods come from a simulation study of ours: normal, exponential and lognormal laws, tau
.5, .9 and .99, eps .5, 1 and 2, n = 1e4 and 1e5, c over a factor of 128: 384 paths of 400 replicates, 90%
intervals (docs/pilot_to_plan.md has the whole table).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ldpflow.intervals.transcript import TranscriptRegression
from ldpflow.planning.expected_fit import ExpectedFit, expected_fit
from ldpflow.planning.pilot import Design, design
from ldpflow.problems.units import Units
from ldpflow.simulators.approach import Approach
from ldpflow.theory.arrival import Arrival, approaches, feasible_n


class Expected(NamedTuple):
    """Median coverage of a 90% interval, and its median length over the oracle's."""

    coverage: float
    length: float


class Row(NamedTuple):
    """Paths with K and |b| up to these, and what TR of degree 2 and of degree 3 have there."""

    k: float
    bias: float
    tr: Expected
    tr3: Expected


TABLE = (
    Row(25.0, 0.5, Expected(0.90, 1.3), Expected(0.91, 2.1)),
    Row(45.0, 0.25, Expected(0.91, 1.18), Expected(0.93, 1.9)),
    Row(45.0, 1.5, Expected(0.90, 1.2), Expected(0.92, 1.8)),
    Row(math.inf, 0.25, Expected(0.91, 1.14), Expected(0.92, 1.3)),
    Row(math.inf, 1.0, Expected(0.91, 1.12), Expected(0.92, 1.35)),
    Row(math.inf, 1.5, Expected(0.88, 1.12), Expected(0.91, 1.28)),
)


RECOMMENDED: dict[str, dict[str, Any]] = {
    "TR": {"degree": 2},
    "TR3": {"degree": 3, "burn_in": "0.01n"},
}
"""Settings of the methods that a plan recommends, all of kind TR."""

FEWEST_TIMES = {"TR": 25.0, "TR3": 45.0}
"""Relaxation times that a run needs for each."""

MOST_BIAS = 0.25
"""SE of TR's own predicted bias up to which it is recommended.

Chosen on 620 random paths (13 laws, tau .1 to .9, eps .5 to 2, n = 1e4 to 1e5, 400 replicates of 90%
intervals) and checked on 300 others: TR covers .87 or more in the 184 of them where it is recommended, TR3
.865 or more in 155. In the paths that this bound alone excludes the least are .66 and .13.
"""


def recommended(arrival: Arrival, case: Approach | None = None) -> str | None:
    """The method that a path allows: ``TR``, ``TR3`` (degree 3, burn_in "0.01n"), or None.

    Averages (BB, BM, SN) are too short for want of relaxation times long before they are biased, and
    below :func:`ldpflow.theory.arrival.feasible_n` no steps make them honest; transcript regression
    does not inherit the average's bias, but has one of its own where its polynomial does not fit the
    law of ``case``.
    """
    k, bias = arrival.relaxation_times, abs(arrival.bias)
    long = k >= FEWEST_TIMES["TR3"]
    if k >= FEWEST_TIMES["TR"] and bias <= (1.0 if long else 0.5) and fits(case, "TR"):
        return "TR"
    return "TR3" if long and bias <= 1.5 and fits(case, "TR3") else None


def own_fit(case: Approach, method: str) -> ExpectedFit:
    """The expected fit of a recommended method on a path."""
    return expected_fit(case, TranscriptRegression(**RECOMMENDED[method]))


def fits(case: Approach | None, method: str) -> bool:
    """Whether a method's polynomial fits the law of a path; it counts as fitting for a path without one."""
    if case is None:
        return True
    found = own_fit(case, method)
    return found.defined and abs(found.bias) <= MOST_BIAS


def expected(arrival: Arrival, method: str) -> Expected | None:
    """Coverage and length of the recommended method's 90% interval in the study, for paths like this one."""
    k, bias = arrival.relaxation_times, abs(arrival.bias)
    if k < 15:
        return None
    for row in TABLE:
        if k < row.k and bias <= row.bias:
            return row.tr if method == "TR" else row.tr3
    return None


@dataclass(frozen=True)
class Advice:
    """Steps and a start that would do, and what they give.

    Parameters
    ----------
    case : Approach
        The path that was asked for.
    arrival : Arrival
        Its own.
    design : Design
        The rule's steps and start at the same number of users.
    c_range : (float, float)
        Constants between half and twice the rule's with which a method can be recommended.
    with_it : Arrival
        Of the rule's design.
    feasible : float
        Users from which on an average can be honest, whatever its steps.
    units : Units, optional
        What the study gives its steps and start in.
    """

    case: Approach
    arrival: Arrival
    design: Design
    c_range: tuple[float, float]
    with_it: Arrival
    feasible: float
    units: Units | None = None

    @property
    def method(self) -> str | None:
        """The method to use with the advised design."""
        return recommended(self.with_it, replace(self.case, c=self.design.c, theta0=self.design.theta0))

    def sentences(self, level: float) -> list[str]:
        """Sentences on a length that is missing or doubtful, and the advice, in the unit of the data."""
        low, high = self.c_range
        near = 0.99 * low <= self.case.c <= 1.01 * high and recommended(self.arrival, self.case) is not None
        remedy = [self.use(self.arrival, level)] if near else self.remedy(level)
        return [self.refusal(level) if self.arrival.refused else self.doubt(level), *remedy]

    def doubt(self, level: float) -> str:
        """Sentence on why the length of a path is doubtful."""
        found = self.arrival
        return (
            f"doubtful: with c = {self.case.c:g} the run has {found.relaxation_times:.0f} relaxation times, "
            f"{abs(found.bias):.2f} SE of bias and a standard deviation of {found.sd_ratio:.2f} SE. The "
            f"oracle's length would cover {found.coverage(level):.2f}."
        )

    def use(self, arrival: Arrival, level: float) -> str:
        """The method for a path, what it gives, and from which n on averages can be honest."""
        method = with_length(arrival, recommended(arrival, self.case), level)
        return f"use {method}, with the steps as they are.{self.averages(level)}"

    def averages(self, level: float) -> str:
        """A sentence where no steps help an average."""
        return averages_from(self.feasible, self.case.steps * self.case.records, level)

    def refusal(self, level: float) -> str:
        """Sentence on why no length is printed for the path as it is."""
        found, case = self.arrival, self.case
        length = f"{2 * normal_z(level) * found.standard_error:.3g}"
        covers = f"The oracle's length {length} would cover {found.coverage(level):.2f}."
        k = found.relaxation_times
        times = f"{k:.1f}" if k < 100 else f"{k:,.0f}"
        if found.verdict == "not_arrived":
            needs = " of the 25 it needs" if found.relaxation_times < 25 else ""
            return (
                f"not arrived: with c = {case.c:g} the run has {times} relaxation times{needs}, and "
                f"{abs(found.bias_start):.1f} SE of bias are left from the start (theta0 = {case.theta0:g}, "
                f"quantile {case.law.quantile(case.tau):.3g}). {covers}"
            )
        wide = f", and its standard deviation is {found.sd_ratio:.1f} SE" if found.sd_ratio > 1.25 else ""
        return (
            f"steps too large: with c = {case.c:g} the run has {times} relaxation times; the size of its "
            f"steps leaves {abs(found.bias_steps):.1f} SE of bias in the average{wide}. {covers}"
        )

    def in_units(self) -> str:
        """The same steps and start as the study writes them; nothing where that is the unit of the data."""
        if self.units is None:
            return ""
        c, theta0 = self.design.c / self.units.scale, self.units.back(self.design.theta0)
        return f" (in the study's units c = {c:.2g}, theta0 = {theta0:.2g})"

    def remedy(self, level: float) -> list[str]:
        """Settings that would work, in sentences."""
        low, high = self.c_range
        averages = self.averages(level)
        if self.method is None:
            return [
                f"no steps are good at n = {self.case.steps * self.case.records:,}: with c = "
                f"{self.design.c:.3g} and theta0 = {self.design.theta0:.3g}, {abs(self.with_it.bias):.2f} SE "
                f"of bias are left. Ask more users, or take a larger epsilon.{averages}"
            ]
        with_it = self.with_it
        length = 2 * normal_z(level) * with_it.standard_error
        return [
            f"better steps and start, in the unit of the data: c = {self.design.c:.2g} "
            f"({with_it.relaxation_times:.0f} relaxation times; anything in {low:.2g} .. {high:.2g}), "
            f"theta0 = {self.design.theta0:.2g}{self.in_units()}.",
            f"with them: bias {with_it.bias:.2f} SE; use {with_length(with_it, self.method, level)}. The "
            f"oracle's length {length:.3g} would cover {with_it.coverage(level):.2f}.{averages}",
        ]


def averages_from(users: float, n: int, level: float) -> str:
    """A sentence where n users are too few for intervals around an average, whatever the steps."""
    if n >= users:
        return ""
    return f" Below n = {upwards(users)} no interval around an average (BB, BM, SN) can cover {level:.0%}."


def with_length(arrival: Arrival, method: str | None, level: float) -> str:
    """A method with the coverage and the length that it had in the study for paths like this one."""
    found = None if method is None else expected(arrival, method)
    if found is None:
        return f"{method}"
    share = f" {found.coverage:.2f}" if level == 0.9 else ""
    length = found.length * 2 * normal_z(level) * arrival.standard_error
    return f"{method}{share} at length {length:.2g}"


def advise(case: Approach, arrival: Arrival, units: Units | None = None) -> Advice:
    """Steps and start for a path that is refused, from the same law at the same number of users."""
    rule = design(case.law, case.tau, case.steps, case.gamma)
    factors = (1.0, 0.5, 2.0**-0.5, 2.0**0.5, 2.0)
    cases = [replace(case, c=rule.c * f, theta0=rule.theta0) for f in factors]
    found = approaches(cases)
    allowed = [
        f for f, a, path in zip(factors, found, cases, strict=True) if recommended(a, path) is not None
    ]
    low, high = (min(allowed), max(allowed)) if allowed else (1.0, 1.0)
    return Advice(
        case,
        arrival,
        rule,
        (rule.c * low, rule.c * high),
        found[0],
        feasible_n(case.law, case.tau, case.noise),
        units,
    )


def normal_z(level: float) -> float:
    """z_{(1 + level)/2}."""
    from ldpflow import constants

    return constants.normal_quantile(0.5 + level / 2)


def upwards(n: float) -> str:
    """A number of users with two digits, not less than n."""
    if n <= 0:
        return "1"
    unit = 10.0 ** (math.floor(math.log10(n)) - 1)
    return f"{math.ceil(n / unit * (1 - 1e-12)) * unit:.1e}".replace("e+0", "e").replace("e+", "e")
