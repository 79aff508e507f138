"""Rows of a plan: predicted lengths and arrival, the method to use, users and budgets for a goal, and advice.

The oracle's interval of level p has length 2 z sqrt(Sigma/steps), with Sigma the asymptotic variance and z
the normal quantile of (1 + p)/2 (Dette and Graw, Theorem 3.1). Intervals by BB and BM approach this length
as n grows. It allows for no bias. The bias of an average is predicted separately, as the arrival of its path
(ldpflow.results.arrival). A path that does not arrive has no predicted length.
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
    first_of,
    recommend_method,
    users_with_method,
)
from ldpflow.practice.planning.sources import Guess, OwnSteps, Source, design, undeclared_steps
from ldpflow.results.arrival import LATTICE, Arrival, lattice_ratio, predict_arrivals, predict_simulators
from ldpflow.simulators.approach import Approach, LimitLaw, approach, limit_law, with_epsilon
from ldpflow.simulators.simulator import Simulator
from ldpflow.study import Study

EPSILONS = [k / 10.0**digits for digits in range(8, 1, -1) for k in range(100, 1000)]
EPSILONS += [k / 10.0 for k in range(100, 301)]
"""Budgets of a search: all numbers of three digits from 1e-6 to 30."""

NEEDED = ("n_needed", "arrival_needed", "epsilon_needed", "n_with_method", "method_needed")
PER_GROUP = ("n_per_group", "arrival_per_group")


@dataclass(eq=False)
class PlanRow:
    """Path at n users, for a level and a coordinate. ``settings`` has the columns that identify the path.

    ``arrival`` is predicted under the law itself, or None. For a pilot or bounds, ``worst`` is the arrival
    whose verdict the row has. For a study it is None. ``needs`` has the columns below. A column is None
    without the half width or the difference that it is for. If the path does not arrive, only the two columns
    of the recommended method may have a value.

    * n_needed, arrival_needed: fewest users for the half width by the oracle, and the verdict at that n
    * epsilon_needed: smallest budget for the half width by the oracle, to three digits; infinite if no budget
      of the search is enough, None for a mechanism without ``epsilon``
    * n_with_method, method_needed: fewest users for the half width by the method recommended at that n
    * n_per_group, arrival_per_group: users per group that find the difference, and the verdict at that n
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
        """Factor that turns a short length on the scale of theta into one in the unit of the data."""
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
            **{name: self.needs[name] for name in NEEDED},
            "relaxation_times_planned": getattr(found, "relaxation_times", None),
            **{name: getattr(found, name, None) for name in ("bias_start", "bias_steps", "sd_ratio")},
            # Neither is predicted for vectors.
            **(dict.fromkeys(("bias_steps", "sd_ratio")) if self.case is None else {}),
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
        low, high = self.source.sparsities(self.case)
        sparsity, half = self.settings["sparsity"], self.half_width
        return {
            "sparsity_low": low,
            "sparsity_high": high,
            "half_width_low": None if half is None else half * low / sparsity,
            "half_width_high": None if half is None else half * high / sparsity,
            "coverage_predicted_worst": self.worst.coverage(self.level),
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
    """Smallest budget with which the oracle's standard error is at most ``error``."""
    if with_epsilon(row.simulator, EPSILONS[0]) is None:
        return None

    def enough(epsilon: float) -> bool:
        law = limit_law(with_epsilon(row.simulator, epsilon))
        return law is not None and math.sqrt(law.variances[row.coordinate] / law.steps(row.n)) <= error

    found = first_of(EPSILONS, enough)
    return math.inf if found is None else found


def answers_of(simulator: Simulator[Any, Any]) -> int:
    mechanism, algorithm = (simulator.parts().get(name) for name in ("mechanism", "algorithm"))
    paths = algorithm.perturbed_paths() if isinstance(algorithm, Algorithm) else 0
    return int(getattr(mechanism, "answers", 1)) * (1 + paths)


MOST_PATHS = 2000  # studies with more paths get no prediction before a sweep
NAMED = ("problem", "law", "tau", "mechanism", "epsilon", "mu", "gamma", "c", "theta0")
"""Settings that name a path in messages."""

NEAR = 1.1  # largest ratio of the average's spread to its limit at which a length is predicted
GOOD = 2.0  # other steps are advised if c differs by more than this factor from that of ``design``


def cautions_of(rows: Sequence[PlanRow]) -> list[str]:
    found = []
    for row in rows:
        found += row.source.cautions(row.simulator.parts()["problem"])
        found += sentences(row)
    return list(dict.fromkeys([*found, *(line for row in rows for line in coarse(row))]))


def sentences(row: PlanRow) -> list[str]:
    """Sentences on a row that has not clearly arrived, with advice, and on the laws tried for bounds."""
    case, arrival = row.case, row.arrival
    path = describe_simulator(row.simulator, case)
    if isinstance(row.source, OwnSteps):
        path = "tau {tau:g}, epsilon {epsilon:g}".format_map(row.settings)
    head = f"{path}, n {row.n:,}"
    if row.undeclared is not None:
        return [
            f"{head}: {row.undeclared} does not declare that step i has size c i^-gamma. Without this "
            "neither length nor arrival nor method is predicted."
        ]
    if arrival is None or row.verdict is None:
        return []
    if row.level != 0.9:
        head += f", level {row.level:g}"
    found, verdict = [], f"{head}: {row.verdict.replace('_', ' ')} for an average: {arrival.describe()}."
    if case is None:  # a vector, whose slowest direction decides
        if row.refused:
            found.append(f"{verdict} Take a larger n, larger steps (c), or a start nearer to theta*.")
        return [*found, f"{row.settings['problem']}: bias, coverage and verdict count only the start's bias."]
    if row.verdict != "arrived":
        if row.worst is not None:
            p, law = row.worst.coverage(row.level), row.source.judged_by
            verdict += f" The verdict is that of {law}: an interval around the average would cover {p:.2f}."
        found.append(f"{verdict} {advice(row, case)}")
    if isinstance(row.source, Guess):
        found.append(
            f"{head}: the design is a guess from the bounds, tried with normal and skewed laws within them. "
            f"{row.method or 'No method'} covers in all of them."
        )
    return found


def advice(row: PlanRow, case: Approach) -> str:
    text = None if isinstance(row.source, OwnSteps) else better_design(row, case)
    if text is None and row.method is not None:
        assert row.arrival is not None
        text = f"Use {with_length(row, row.arrival, row.method)}."
    text = text or "No interval is recommended: ask more users, or take a larger epsilon."
    fewest = row.source.feasible(case)
    if row.n >= fewest:
        return text
    return (
        f"{text} Below n = {upwards(fewest)} (to first order) no steps give an average both 25 relaxation "
        "times and at most 0.1 oracle SE of bias. SN's interval may still cover."
    )


def better_design(row: PlanRow, case: Approach) -> str | None:
    """Advise steps and start by the rule of ``design``; None if those of the path are as good."""
    rule = design(case.law, case.tau, case.steps, case.gamma)
    if row.method is not None and 1 / GOOD <= case.c / rule.c <= GOOD:
        return None
    better = replace(case, c=rule.c, theta0=rule.theta0)
    (arrival,) = predict_arrivals([better])
    method = recommend_method(arrival, better)
    own_scale = row.simulator.parts()["problem"].own_scale()
    scale = "in the unit of the data" if own_scale is None else "on the scale of theta"
    steps = f"c = {rule.c:.2g}, theta0 = {rule.theta0:.2g}"
    if method is None:
        return (
            f"No steps are good at this n ({steps}: {arrival.describe()}). Ask more users, or take a larger "
            "epsilon."
        )
    return (
        f"Better for {method}, {scale}: {steps}. With them use "
        f"{with_length(row, arrival, method)}. An average would then have {arrival.describe()}, and an "
        f"interval around it would cover {arrival.coverage(row.level):.2f}."
    )


def with_length(row: PlanRow, arrival: Arrival, method: str) -> str:
    """A method, with its expected coverage at level .9 and its expected length if they are known."""
    found, level = expected_interval(arrival, method), row.level
    if found is None:
        return method
    length = found.length * 2 * row.z * arrival.standard_error * row.slope
    facts = [f"coverage {found.coverage:.2f}"] if level == 0.9 else []
    facts += [f"length {length:.2g}"] if arrival.sd_ratio <= NEAR else []
    return f"{method} ({', '.join(facts)})" if facts else method


def upwards(n: float) -> str:
    """n > 0, rounded up to two digits."""
    unit = 10.0 ** (math.floor(math.log10(n)) - 1)
    return f"{math.ceil(n / unit * (1 - 1e-12)) * unit:.1e}".replace("e+0", "e").replace("e+", "e")


def arrival_cautions(study: Study) -> list[tuple[str, str]]:
    """Warn of every path with intervals that does not arrive, or whose values are too coarse.

    Each warning is a verdict and a line. If the path does not arrive, it is about the largest n at which this
    is so, and about the coordinate with the largest bias there.
    """
    plans = [plan for plan in study.plans() if plan.cells]
    if not study.method or len(plans) > MOST_PATHS:
        return []
    lines, level = [], max(study.level)
    for plan in plans:
        simulator, counts = plan.simulator, sorted({cell.n for cell in plan.cells})
        biased = not all(isinstance(cell.method, Regression) for cell in plan.cells)
        lost = [
            (n, abs(arrival.bias), place, arrival)
            for n, found in zip(counts, predict_simulators([(simulator, n) for n in counts]), strict=True)
            for place, arrival in enumerate(found or ())
            if arrival.refused and (biased or arrival.verdict != "steps_too_large")
        ]
        if lost:
            n, _, place, arrival = max(lost, key=lambda each: each[:2])
            verdict = arrival.verdict.replace("_", " ")
            line = (
                f"{describe_simulator(simulator, approach(simulator, n, place))}, n {n:,}: {verdict} for an "
                f"average: {arrival.describe()}. The oracle's interval would cover "
                f"{arrival.coverage(level):.2f} at level {level:g} (ldpflow plan says what to change)"
            )
            lines.append((verdict, line))
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
        f"which is {ratio:.1f} standard deviations of the last iterates at n = {row.n:,}. The plan assumes "
        "a smooth law, but users' values are rounded, and averages settle between two of them. "
        f"jitter = {spacing:g} adds noise of that width to every value"
    ]


def describe_simulator(simulator: Simulator[Any, Any], case: Approach | None = None) -> str:
    columns = simulator.columns()
    if case is not None and simulator.dimension > 1:  # one of several quantiles
        columns = {**columns, "tau": case.tau, "c": case.c, "theta0": case.theta0}
    shown = [(name, columns[name]) for name in NAMED if columns.get(name) is not None]
    return ", ".join(str(v) if isinstance(v, str) else f"{k} {v:g}" for k, v in shown)
