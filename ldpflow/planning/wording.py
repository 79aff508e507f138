"""Sentences of a plan: why a row is refused or doubtful, what would do, and which law is the worst."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ldpflow.planning.method import expected, recommended
from ldpflow.planning.rows import PlanRow
from ldpflow.planning.sources import Guess, WorstLaw, design
from ldpflow.simulators.approach import Approach, approach
from ldpflow.simulators.simulator import Simulator
from ldpflow.study import Study
from ldpflow.theory.arrival import LATTICE, Arrival, approaches, arrivals, lattice_ratio

MOST_PATHS = 2000
"""Paths up to which a sweep looks whether they arrive before it runs."""

NAMED = ("problem", "law", "tau", "mechanism", "epsilon", "mu", "gamma", "c", "theta0")
"""Settings that people call a path by."""

FACTORS = (1.0, 0.5, 2.0**-0.5, 2.0**0.5, 2.0)
"""Of the rule's c, between which a range of good ones is looked for."""

WORST = {
    True: "the worst of the laws tried",
    False: "the worst but 5% of resampled pilots",
}
"""By whose verdict a row is judged: from bounds, and from a pilot."""


def cautions_of(rows: Sequence[PlanRow]) -> list[str]:
    """Sentences about the data, and about every row that does not clearly arrive, each once."""
    found: dict[str, None] = {}
    for row in rows:
        if row.source is not None and row.case is not None:
            found |= dict.fromkeys(row.source.cautions(row.simulator, row.case))
        found |= dict.fromkeys(sentences(row))
    for row in rows:
        found |= dict.fromkeys(coarse(row.simulator, row.n) if row.source is None else ())
    return list(found)


def sentences(row: PlanRow) -> list[str]:
    """Why a row is refused or doubtful, and what would do; what bounds were tried with."""
    settings = row.settings
    head = f"tau {settings['tau']:g}, epsilon {settings['epsilon']:g}" if row.source else None
    head = f"{head or described(row.simulator)}, n {row.n:,}"
    if row.undeclared is not None:
        return [
            f"{head}: {row.undeclared} does not declare that step i has size c i^-gamma: no length and no "
            "arrival is computed from its steps, and no method is recommended"
        ]
    if row.judged is None:
        return []
    if row.case is None:  # a vector, whose slowest direction decides
        k = row.judged.arrival.relaxation_times
        remedy = "take a larger n, larger steps (c), or a start nearer to theta*"
        words = f"{row.judged.verdict.replace('_', ' ')}: {k:,.1f} relaxation times of the 25 that it needs"
        return [f"{head}: {words}: {remedy}"] if row.refused else []
    found = []
    if row.judged.verdict != "arrived":
        arrival, worst = row.judged.arrival, row.judged.worst
        k, bias = arrival.relaxation_times, abs(arrival.bias)
        needs = " of the 25 that it needs" if k < 25 else ""
        covers = f"{arrival.coverage(row.level):.2f}"
        if worst is not None:
            which = WORST[isinstance(row.source, Guess)]
            covers += f" ({worst.coverage(row.level):.2f} with {which}, by which the row is judged)"
        found.append(
            f"{head}: {row.judged.verdict.replace('_', ' ')} for an average: "
            f"{k:,.{0 if k >= 10 else 1}f} relaxation times{needs}, {bias:.2f} SE of bias"
            f"{from_start(row, arrival)}, an interval around it would cover {covers}; "
            f"{advice(row, arrival, row.case)}"
        )
    worst_law = None if row.source is None else row.source.worst_law(row.case)
    if worst_law is not None:
        found.append(f"{head}: {tried(row, worst_law)}")
    return found


def from_start(row: PlanRow, arrival: Arrival) -> str:
    """Words on a bias that is mostly the start's, of a path whose start was chosen by the user."""
    case = row.case
    if row.source is not None or case is None or arrival.verdict != "not_arrived":
        return ""
    return f", mostly from the start (theta0 = {case.theta0:g}, quantile {case.law.quantile(case.tau):.3g})"


def advice(row: PlanRow, arrival: Arrival, case: Approach) -> str:
    """What would do for a path that does not clearly arrive, and from which n on averages can be honest."""
    better = better_design(row, case) if row.source is None else None
    if better is None and row.method is None:
        better = "no interval is recommended: ask more users, or take a larger epsilon"
    elif better is None and row.method is not None:
        better = f"use {with_length(arrival, row.method, row.level)}"
    return f"{better}.{averages_from(row.feasible or 0.0, row.n, row.level)}"


def better_design(row: PlanRow, case: Approach) -> str | None:
    """Steps and a start that would do, by the rule for the law and n; None where the path's are as good."""
    rule = design(case.law, case.tau, case.steps, case.gamma)
    cases = [replace(case, c=rule.c * factor, theta0=rule.theta0) for factor in FACTORS]
    found = approaches(cases)
    methods = [recommended(arrival, one) for arrival, one in zip(found, cases, strict=True)]
    good = [factor for factor, method in zip(FACTORS, methods, strict=True) if method is not None] or [1.0]
    low, high = min(good) * rule.c, max(good) * rule.c
    if row.method is not None and 0.99 * low <= case.c <= 1.01 * high:
        return None
    with_it, bias = found[0], f"{abs(found[0].bias):.2f} SE"
    if methods[0] is None:
        return (
            f"no steps are good at this n (with c = {rule.c:.3g} and theta0 = {rule.theta0:.3g}, {bias} of "
            "bias are left): ask more users, or take a larger epsilon"
        )
    units, in_units = row.simulator.units, ""
    if units is not None:
        c, theta0 = rule.c / units.scale, units.back(rule.theta0)
        in_units = f" (in the study's units c = {c:.2g}, theta0 = {theta0:.2g})"
    return (
        f"better steps and start, in the unit of the data: c = {rule.c:.2g} "
        f"({with_it.relaxation_times:.0f} relaxation times; anything in {low:.2g} .. {high:.2g}), theta0 = "
        f"{rule.theta0:.2g}{in_units}; with them {bias} of bias, use "
        f"{with_length(with_it, methods[0], row.level)}"
    )


def tried(row: PlanRow, worst_law: WorstLaw) -> str:
    """What a design from bounds was tried with, and which law is the worst for its method."""
    bias = (
        "too few digits for its fit"
        if math.isinf(worst_law.size)
        else f"{abs(worst_law.bias):.2f} SE of bias in {worst_law.method}'s own root"
    )
    worst = f"the worst is {worst_law.law} ({worst_law.relaxation_times:.0f} relaxation times, {bias})"
    text = f"the design is a guess from the bounds, tried with {worst_law.laws} laws within them"
    if row.method is None:
        return f"{text}: no method covers in all, {worst}. A pilot of 200 values says more."
    assert isinstance(row.source, Guess) and row.case is not None
    low, high = row.source.survives(row.case, worst_law.method) or (1.0, 1.0)
    kept = f", also where they are {low:.2g} to {high:.2g} times as wide"
    if low == high:
        kept = ", but not where they are half or twice as wide"
    return f"{text}: {row.method} covers in all{kept}; {worst}. A pilot of 200 values says more."


def averages_from(users: float, n: int, level: float) -> str:
    """A sentence where n users are too few for intervals around an average, whatever the steps."""
    if n >= users:
        return ""
    return f" Below n = {upwards(users)} no interval around an average (BB, BM, SN) can cover {level:.0%}."


def with_length(arrival: Arrival, method: str, level: float) -> str:
    """A method with the coverage and the length that it had in the study for paths like this one."""
    found = expected(arrival, method)
    if found is None:
        return method
    from ldpflow import constants

    share = f" {found.coverage:.2f}" if level == 0.9 else ""
    z = constants.normal_quantile(0.5 + level / 2)
    return f"{method}{share} at length {found.length * 2 * z * arrival.standard_error:.2g}"


def upwards(n: float) -> str:
    """A number of users with two digits, not less than n."""
    if n <= 0:
        return "1"
    unit = 10.0 ** (math.floor(math.log10(n)) - 1)
    return f"{math.ceil(n / unit * (1 - 1e-12)) * unit:.1e}".replace("e+0", "e").replace("e+", "e")


def arrival_cautions(study: Study) -> list[str]:
    """A line for every path of a study with intervals that does not arrive, or whose values are too coarse.

    Nothing is said, and nothing computed, for more than :data:`MOST_PATHS` paths.
    """
    plans = [plan for plan in study.plans() if plan.cells]
    if not study.method or len(plans) > MOST_PATHS:
        return []
    wanted = [(plan.simulator, n) for plan in plans for n in sorted({cell.n for cell in plan.cells})]
    refused: dict[int, list[tuple[int, Arrival]]] = {}
    for (simulator, n), found in zip(wanted, arrivals(wanted), strict=True):
        worst = max(found or (), key=lambda arrival: (arrival.refused, abs(arrival.bias)), default=None)
        if worst is not None and worst.refused:
            refused.setdefault(id(simulator), []).append((n, worst))
    lines = []
    for plan in plans:
        simulator = plan.simulator
        lost = refused.get(id(simulator), [])
        if lost:
            n, worst = lost[-1]
            words, users = worst.verdict.replace("_", " "), ", ".join(f"{m:,}" for m, _ in lost)
            at = f"{users}; at n = {n:,}" if len(lost) > 1 else f"{users}:"
            lines.append(
                f"{described(simulator)}: {words} at n = {at} "
                f"{worst.relaxation_times:,.1f} relaxation times, bias {worst.bias:+.2f} SE, predicted "
                f"coverage of the oracle {worst.coverage(max(study.level)):.2f} at level "
                f"{max(study.level):g} (ldpflow plan says what to change)"
            )
        lines += coarse(simulator, max(cell.n for cell in plan.cells))
    return lines


def coarse(simulator: Simulator[Any, Any], n: int) -> list[str]:
    """A line where the values of a column lie on a lattice that the iterates feel."""
    case = approach(simulator, n)
    ratio = 0.0 if case is None else lattice_ratio(case)
    if case is None or case.law.table is None or ratio <= LATTICE:
        return []
    spacing = case.law.table.spacing
    return [
        f"{described(simulator)}: the values of the column lie {spacing:g} apart, {ratio:.1f} standard "
        f"deviations of the last iterates at n = {n:,}; the law smooths them, real users send them, and "
        f"averages settle between two values: jitter = {spacing:g} adds noise of that width to every value"
    ]


def described(simulator: Simulator[Any, Any]) -> str:
    """The settings of a simulator that people call it by."""
    columns = simulator.columns()
    shown = [(name, columns[name]) for name in NAMED if columns.get(name) is not None]
    return ", ".join(str(v) if isinstance(v, str) else f"{k} {v:g}" for k, v in shown)
