"""Rows of a plan: predicted lengths and arrival, the method to use, users and budgets for a goal, and advice.

An interval of level p whose standard error is right has length 2 z sqrt(Sigma/steps), z = z_{(1+p)/2} (Dette
and Graw, Theorem 3.1). The oracle's interval has it, and intervals by BB and BM approach it as n grows. It
leaves out bias: the arrival of a path is predicted separately (ldpflow.results.arrival), and no length is
predicted for a path that does not arrive.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from ldpflow.components.algorithms import Algorithm
from ldpflow.components.intervals.transcript import Regression
from ldpflow.components.problems.transform import inverse, slope
from ldpflow.errors import InputError
from ldpflow.numerics import constants
from ldpflow.options import PlanOptions
from ldpflow.practice.planning.method import (
    TR_LENGTH,
    expected_interval,
    own_fit,
    recommend_method,
    users_with_method,
)
from ldpflow.practice.planning.sources import Guess, OwnSteps, Source, WorstLaw, design, undeclared_steps
from ldpflow.results.arrival import LATTICE, Arrival, lattice_ratio, predict_arrivals, predict_simulators
from ldpflow.simulators.approach import Approach, LimitLaw, approach, limit_law, with_epsilon
from ldpflow.simulators.simulator import Simulator
from ldpflow.study import Study

EPSILONS = (1e-6, 30.0)  # smallest and largest budget of the search

NEEDED = ("n_needed", "arrival_needed", "epsilon_needed", "n_with_method", "method_needed")
PER_GROUP = ("n_per_group", "arrival_per_group")


@dataclass(eq=False)
class PlanRow:
    """Path at n users, a level and a coordinate; ``settings`` are the columns that identify it.

    ``arrival`` is under the law itself, ``worst`` the worst that the source allows for, both None if nothing
    is predicted. ``needs`` has these numbers, None without a target or arrival; those with a method need no
    arrival.

    * n_needed, arrival_needed: fewest users whose predicted length is at most the target, verdict at that n;
    * epsilon_needed: smallest budget with which n users reach it, rounded up to three digits; infinite if
      none does, None for a mechanism without a budget;
    * n_with_method, method_needed: fewest users with the method that is recommended at that n;
    * n_per_group, arrival_per_group: users per group that are needed to find the difference, verdict.
    """

    simulator: Simulator[Any, Any]
    settings: dict[str, Any]
    n: int
    level: float
    coordinate: int = 0
    source: Source = field(default_factory=Source, repr=False)
    arrival: Arrival | None = None
    verdict: str | None = None
    worst: Arrival | None = None
    needs: dict[str, Any] = field(
        init=False, default_factory=lambda: dict[str, Any].fromkeys((*NEEDED, *PER_GROUP))
    )

    @cached_property
    def undeclared(self) -> str | None:
        algorithm = self.simulator.parts().get("algorithm")
        return undeclared_steps(algorithm) if isinstance(algorithm, Algorithm) else None

    @property
    def refused(self) -> bool:
        return self.arrival is not None and self.verdict not in ("arrived", "doubtful")

    @cached_property
    def case(self) -> Approach | None:
        return approach(self.simulator, self.n, self.coordinate)

    @property
    def z(self) -> float:
        return constants.normal_quantile(0.5 + self.level / 2)

    @cached_property
    def slope(self) -> float:
        """Length in the unit of rows of a short one on the scale of the path."""
        problem = self.simulator.parts()["problem"]
        return float(np.ravel(slope(problem.own_scale(), problem.truth()))[self.coordinate])

    @cached_property
    def law(self) -> LimitLaw | None:
        return None if self.undeclared else limit_law(self.simulator)

    @cached_property
    def standard_error(self) -> float | None:
        if self.law is None or self.refused:
            return None
        return math.sqrt(self.law.variances[self.coordinate] / self.law.steps(self.n))

    @property
    def half_width(self) -> float | None:
        return None if self.standard_error is None else self.z * self.standard_error

    @cached_property
    def method(self) -> str | None:
        return None if self.arrival is None else self.source.method(self.arrival, self.case)

    def path_at(self, n: int) -> Simulator[Any, Any]:
        if isinstance(self.source, OwnSteps):
            return self.source.path(self.settings["tau"], self.settings["epsilon"], n)
        return self.simulator

    def values(self, given: PlanOptions) -> dict[str, Any]:
        found, length = self.arrival, None if self.half_width is None else 2 * self.half_width
        units = self.simulator.units
        multiple = None if length is None or units is None else length / units.scale
        return {
            "path": f"p{self.simulator.key}",
            **self.settings,
            "n": self.n,
            "level": self.level,
            "coordinate": self.coordinate,
            "users": self.n,
            "answers_each": answers_of(self.simulator),
            "epsilon_per_user": self.simulator.privacy().epsilon,
            "standard_error": self.standard_error,
            "half_width": self.half_width,
            "length": length,
            **({} if units is None else {"length_in_units": multiple}),
            **{name: self.needs[name] for name in NEEDED},
            "relaxation_times_planned": getattr(found, "relaxation_times", None),
            **{name: getattr(found, name, None) for name in ("bias_start", "bias_steps", "sd_ratio")},
            **(dict.fromkeys(("bias_steps", "sd_ratio")) if self.case is None else {}),  # not predicted
            "coverage_predicted": None if found is None else found.coverage(self.level),
            "arrival": self.verdict,
            "recommended": self.method,
            "n_feasible": None if self.case is None else self.source.feasible(self.case),
            **{name: self.needs[name] for name in PER_GROUP},
            "invitations": given.invitations(self.n),
            "invitations_needed": given.invitations(self.needs["n_with_method"]),
            **self.ranges(),
        }

    def ranges(self) -> dict[str, Any]:
        if not isinstance(self.source, OwnSteps):
            return {}
        assert self.case is not None and self.worst is not None
        low, high = known = self.source.sparsities(self.case)
        sparsity, half, count = self.settings["sparsity"], self.half_width, self.needs["n_with_method"]
        users = [None if count is None else math.ceil(count * (end / sparsity) ** 2) for end in known]
        worst_law = self.source.worst_law(self.case)
        return {
            "sparsity_low": low,
            "sparsity_high": high,
            "half_width_low": None if half is None else half * low / sparsity,
            "half_width_high": None if half is None else half * high / sparsity,
            "n_with_method_low": users[0],
            "n_with_method_high": users[1],
            "coverage_predicted_worst": self.worst.coverage(self.level),
            "worst_law": None if worst_law is None else worst_law.law,
        }


def study_rows(study: Study) -> list[PlanRow]:
    rows = []
    for simulator in study.simulators():
        columns = {name: value for name, value in simulator.columns().items() if name != "horizon"}
        users = study.n if simulator.horizon is None else (simulator.horizon,)
        first = PlanRow(simulator, columns, users[0], study.level[0])
        if first.undeclared is None and first.law is None:
            kind = simulator.parts()["problem"].kind
            allowed = "a study whose estimates have a limit law around a true parameter"
            raise InputError("study", study.name, allowed, f"There is none for {kind}.")
        places = product(range(simulator.dimension), study.level, users)
        rows += [replace(first, n=n, level=level, coordinate=place) for place, level, n in places]
    return rows


def source_rows(source: OwnSteps, axes: Mapping[str, Sequence[Any]]) -> list[PlanRow]:
    rows = []
    for tau, epsilon, n, level in product(*(axes[name] for name in ("tau", "epsilon", "n", "level"))):
        path = source.path(tau, epsilon, n)
        case = approach(path, n)
        assert case is not None
        settings = {
            "quantile": float(inverse(source.transform, case.law.quantile(tau))),
            "sparsity": source.sparsity(case),
            **source.columns(tau),
            "tau": tau,
            "epsilon": epsilon,
            "c": case.c,
            "gamma": case.gamma,
            "theta0": case.theta0,
        }
        rows.append(PlanRow(path, settings, n, level, source=source))
    return rows


def complete(rows: Sequence[PlanRow], given: PlanOptions) -> None:
    judge(rows)
    for row in rows:
        add_needs(row, given)
    for count, verdict in (NEEDED[:2], PER_GROUP):
        asked = [(row, n) for row in rows if (n := row.needs[count]) is not None]
        there = [replace(row, simulator=row.path_at(n), n=n) for row, n in asked]
        judge(there)
        for (row, _), other in zip(asked, there, strict=True):
            row.needs[verdict] = other.verdict


def judge(rows: Sequence[PlanRow]) -> None:
    of_study = [row for row in rows if not isinstance(row.source, OwnSteps)]
    found = predict_simulators([(row.simulator, row.n) for row in of_study])
    for row, each in zip(of_study, found, strict=True):
        row.arrival = None if each is None or row.undeclared else each[row.coordinate]
        own = None if row.arrival is None else row.arrival.verdict
        row.verdict = "undeclared_steps" if row.undeclared else own
    for row in rows:
        if isinstance(row.source, OwnSteps):
            assert row.case is not None
            row.arrival, row.verdict, row.worst = row.source.judge(row.case, row.level)


def add_needs(row: PlanRow, given: PlanOptions) -> None:
    law, half_width = row.law, given.target
    if law is None:
        return
    variance, each = law.variances[row.coordinate], law.users_per_step
    if half_width is not None:
        needed = math.ceil((row.z / half_width) ** 2 * variance) * each
        if row.simulator.horizon is None and row.case is not None:
            on_scale = half_width / row.slope
            path: Any = lambda n: approach(row.path_at(n), n, row.coordinate)  # noqa: E731
            found = users_with_method(path, row.source.method, on_scale, row.level, needed)
            row.needs["n_with_method"], row.needs["method_needed"] = found or (None, None)
        if not row.refused:
            row.needs["n_needed"] = max(needed, each)
            row.needs["epsilon_needed"] = epsilon_for(row, half_width / row.z)
    if given.difference is not None and not row.refused:
        z = row.z + constants.normal_quantile(given.power)
        variance = row.n * variance / law.steps(row.n) * TR_LENGTH**2
        row.needs["n_per_group"] = math.ceil(z * z * 2.0 * variance / given.difference**2)


def epsilon_for(row: PlanRow, error: float) -> float | None:
    """Smallest budget for a predicted standard error."""
    if with_epsilon(row.simulator, EPSILONS[1]) is None:
        return None

    def enough(epsilon: float) -> bool:
        other = with_epsilon(row.simulator, epsilon)
        law = None if other is None else limit_law(other)
        return law is not None and math.sqrt(law.variances[row.coordinate] / law.steps(row.n)) <= error

    low, high = EPSILONS
    if not enough(high) or enough(low):
        return low if enough(low) else math.inf
    while high / low > 1 + 1e-6:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    # Rounded up, so that the printed number reaches the target.
    digits = 2 - math.floor(math.log10(high))
    return float(math.ceil(high * 10.0**digits) / 10.0**digits)


def answers_of(simulator: Simulator[Any, Any]) -> int:
    mechanism, algorithm = (simulator.parts().get(name) for name in ("mechanism", "algorithm"))
    paths = algorithm.perturbed_paths() if isinstance(algorithm, Algorithm) else 0
    return int(getattr(mechanism, "answers", 1)) * (1 + paths)


MOST_PATHS = 2000  # whose arrival a sweep predicts before it runs
NAMED = ("problem", "law", "tau", "mechanism", "epsilon", "mu", "gamma", "c", "theta0")
"""Settings that name a path in messages."""

NEAR = 1.1  # largest spread of the average over its limit at which lengths of the study are used
FACTORS = (1.0, 0.5, 2.0**-0.5, 2.0**0.5, 2.0)  # of the rule's c, tried for a range of good ones


def cautions_of(rows: Sequence[PlanRow]) -> list[str]:
    found = []
    for row in rows:
        found += [] if row.case is None else row.source.cautions(row.simulator)
        found += sentences(row)
    return list(dict.fromkeys([*found, *(line for row in rows for line in coarse(row))]))


def sentences(row: PlanRow) -> list[str]:
    """Sentences on a refused or doubtful row, with advice, and on the laws tried for bounds."""
    own, case, arrival = isinstance(row.source, OwnSteps), row.case, row.arrival
    path = describe_simulator(row.simulator, case)
    if own:
        path = "tau {tau:g}, epsilon {epsilon:g}".format_map(row.settings)
    head = f"{path}, n {row.n:,}"
    if row.undeclared is not None:
        return [
            f"{head}: {row.undeclared} does not declare that step i has size c i^-gamma. Its steps give no "
            "length, no arrival and no method."
        ]
    if arrival is None or row.verdict is None:
        return []
    k, found = arrival.relaxation_times, []
    needs = " of the 25 that it needs" if k < 25 else ""
    verdict = (
        f"{head}: {row.verdict.replace('_', ' ')} for an average. It has "
        f"{k:,.{0 if k >= 10 else 1}f} relaxation times{needs}"
    )
    if case is None:  # a vector, whose slowest direction decides
        remedy = "Take a larger n, larger steps (c), or a start nearer to theta*."
        found = [f"{verdict}. {remedy}"] if row.refused else []
        return [*found, f"{row.settings['problem']}: bias, coverage and verdict are of the start alone."]
    if row.verdict != "arrived":
        start, worst = "", ""
        if not own and arrival.verdict == "not_arrived":
            quantile = case.law.quantile(case.tau)
            start = f" The bias is mostly from the start (theta0 = {case.theta0:g}, quantile {quantile:.3g})."
        if row.worst is not None:
            by = f"Under {row.source.judged_by},"
            if row.verdict == row.worst.verdict:  # or the pilot has few values beyond the quantile
                by = f"The verdict is that of {row.source.judged_by}: under it"
            worst = f" {by} the interval would cover {row.worst.coverage(row.level):.2f}."
        verdict += ", " if arrival.sd_ratio > NEAR else " and "
        found.append(
            f"{verdict}{describe_bias(arrival)}.{start} An interval around it would cover "
            f"{arrival.coverage(row.level):.2f}.{worst} {advice(row, arrival, case)}"
        )
    worst_law = row.source.worst_law(case)
    if worst_law is not None:
        found.append(f"{head}: {describe_worst_law(row, worst_law)}")
    return found


def describe_bias(arrival: Arrival) -> str:
    spread = f" and a spread of {arrival.sd_ratio:.2f} oracle SE" if arrival.sd_ratio > NEAR else ""
    return f"{abs(arrival.bias):.2f} oracle SE of bias{spread}"


def advice(row: PlanRow, arrival: Arrival, case: Approach) -> str:
    text = None if isinstance(row.source, OwnSteps) else better_design(row, case, arrival)
    if text is None and row.method is not None:
        text = f"Use {with_length(row, arrival, case, row.method)}."
    text = text or "No interval is recommended: ask more users, or take a larger epsilon."
    fewest = row.source.feasible(case)
    if row.n >= fewest:
        return text
    return (
        f"{text} Below n = {upwards(fewest)} (to first order) no steps give an average both 25 relaxation "
        "times and at most 0.1 oracle SE of bias. SN's interval may still cover."
    )


def better_design(row: PlanRow, case: Approach, arrival: Arrival) -> str | None:
    """Better steps and start for the recommended method, by the rule; None if the path's are as good."""
    rule = design(case.law, case.tau, case.steps, case.gamma)
    cases = [replace(case, c=rule.c * factor, theta0=rule.theta0) for factor in FACTORS]
    found = predict_arrivals(cases)
    methods = [recommend_method(arrival, one) for arrival, one in zip(found, cases, strict=True)]
    good = [one.c for one, method in zip(cases, methods, strict=True) if method is not None] or [rule.c]
    low, high = min(good), max(good)
    if row.method is not None and 0.99 * low <= case.c <= 1.01 * high:
        return None
    with_it = found[0]
    if methods[0] is None:
        return (
            f"No steps are good at this n: with c = {rule.c:.3g} and theta0 = {rule.theta0:.3g} an average "
            f"has {describe_bias(with_it)}. Ask more users, or take a larger epsilon."
        )
    what = "steps and start" if f"{case.c:.2g}" != f"{rule.c:.2g}" else "start"
    span = f"; c from {low:.2g} to {high:.2g} is good too" if low < high else ""
    units, in_units = row.simulator.units, ""
    if units is not None:
        c, theta0 = rule.c / units.scale, units.back(rule.theta0)
        in_units = f" (in the study's units c = {c:.2g}, theta0 = {theta0:.2g})"
    average, use = with_it.coverage(row.level), with_length(row, with_it, cases[0], methods[0])
    less = ", less than now" if average < arrival.coverage(row.level) else ""
    return (
        f"Better {what} for {methods[0]}, in the unit of the data: c = {rule.c:.2g} "
        f"({with_it.relaxation_times:.0f} relaxation times{span}), theta0 = {rule.theta0:.2g}{in_units}. "
        f"With them use {use}. An interval around an average would then cover {average:.2f}{less}: it has "
        f"{describe_bias(with_it)}."
    )


def describe_worst_law(row: PlanRow, worst_law: WorstLaw) -> str:
    bias = (
        "too few digits for its fit"
        if math.isinf(worst_law.size)
        else f"{abs(worst_law.bias):.2f} SE of bias in {worst_law.method}'s own root"
    )
    kept = ""
    if row.method is not None:
        assert isinstance(row.source, Guess) and row.case is not None
        low, high = row.source.survives(row.case, worst_law.method)
        kept = f", also where they are {low:.2g} to {high:.2g} times as wide"
        if low == high:
            kept = ", but not where they are half or twice as wide"
    return (
        f"the design is a guess from the bounds, tried with {worst_law.laws} laws within them. "
        f"{row.method or 'No method'} covers in all of them{kept}. The worst is {worst_law.law} "
        f"({worst_law.relaxation_times:.0f} relaxation times, {bias}). A pilot of 200 values says more."
    )


def with_length(row: PlanRow, arrival: Arrival, case: Approach, method: str) -> str:
    """A method, its expected coverage and length: far from the limit TR's is that of its expected fit."""
    found, level = expected_interval(arrival, method), row.level
    if found is None:
        return method
    length = found.length * 2 * constants.normal_quantile(0.5 + level / 2) * arrival.standard_error
    if arrival.sd_ratio > NEAR:
        length = own_fit(case, method, level).length if method == "TR" else math.nan
    facts = [f"coverage {found.coverage:.2f}"] if level == 0.9 else []
    facts += [f"length {length * row.slope:.2g}"] if math.isfinite(length) else []
    return f"{method} ({', '.join(facts)})" if facts else method


def upwards(n: float) -> str:
    """A number of users, rounded up to two digits."""
    if n <= 0:
        return "1"
    unit = 10.0 ** (math.floor(math.log10(n)) - 1)
    return f"{math.ceil(n / unit * (1 - 1e-12)) * unit:.1e}".replace("e+0", "e").replace("e+", "e")


def arrival_cautions(study: Study) -> list[tuple[str, str]]:
    """Verdict and line for every path with intervals that does not arrive, or whose values are too coarse."""
    plans = [plan for plan in study.plans() if plan.cells]
    if not study.method or len(plans) > MOST_PATHS:
        return []
    lines, level = [], max(study.level)
    for plan in plans:
        simulator, counts = plan.simulator, sorted({cell.n for cell in plan.cells})
        biased = not all(isinstance(cell.method, Regression) for cell in plan.cells)
        lost = {
            (n, k): arrival
            for n, found in zip(counts, predict_simulators([(simulator, n) for n in counts]), strict=True)
            for k, arrival in enumerate(found or ())
            if arrival.refused and (biased or arrival.verdict != "steps_too_large")
        }
        if lost:
            n = max(m for m, _ in lost)
            place = max((k for m, k in lost if m == n), key=lambda k: abs(lost[n, k].bias))
            worst, users = lost[n, place], dict[str, list[str]]()
            for (m, k), arrival in lost.items():
                if k == place:
                    users.setdefault(arrival.verdict.replace("_", " "), []).append(f"{m:,}")
            at = ", ".join(f"{verdict} at n = {', '.join(own)}" for verdict, own in users.items())
            at += f". At n = {n:,}" if sum(map(len, users.values())) > 1 else ""
            spread = f", spread {worst.sd_ratio:.2f} oracle SE" if worst.sd_ratio > NEAR else ""
            line = (
                f"{describe_simulator(simulator, approach(simulator, n, place))}: {at}: "
                f"{worst.relaxation_times:,.1f} relaxation times, bias {worst.bias:+z.2f} oracle SE{spread}. "
                f"The oracle's interval would cover {worst.coverage(level):.2f} at level {level:g} "
                "(ldpflow plan says what to change)"
            )
            lines.append((worst.verdict.replace("_", " "), line))
        for place in range(simulator.dimension):
            row = PlanRow(simulator, {}, counts[-1], level, place)
            lines += [("values too coarse", line) for line in coarse(row)]
    return lines


def coarse(row: PlanRow) -> list[str]:
    ratio = 0.0 if row.case is None else lattice_ratio(row.case)
    if row.case is None or row.case.law.table is None or ratio <= LATTICE:
        return []
    spacing = row.case.law.table.spacing
    return [
        f"{describe_simulator(row.simulator, row.case)}: the values of the column lie {spacing:g} apart, "
        f"which is {ratio:.1f} standard deviations of the last iterates at n = {row.n:,}. The plan has a "
        "smooth law, but users have such values, and averages settle between two of them. "
        f"jitter = {spacing:g} adds noise of that width to every value"
    ]


def describe_simulator(simulator: Simulator[Any, Any], case: Approach | None = None) -> str:
    columns = simulator.columns()
    if case is not None and simulator.dimension > 1:  # one of several quantiles
        columns = {**columns, "tau": case.tau, "c": case.c, "theta0": case.theta0}
    shown = [(name, columns[name]) for name in NAMED if columns.get(name) is not None]
    return ", ".join(str(v) if isinstance(v, str) else f"{k} {v:g}" for k, v in shown)
