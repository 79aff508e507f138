"""Rows of a plan: predicted lengths and arrival, the method to use, and what a goal takes.

An interval of level p whose standard error is right has length 2 z sqrt(Sigma/steps), z = z_{(1+p)/2}
(Dette and Graw, Theorem 3.1). It is what the oracle's interval has, and what others approach as n
grows. It says nothing about bias: whether a path arrives at all is predicted beside it
(ldpflow.results.arrival), and a path that does not arrive has no length.

A path of a study keeps its steps at every n. One that is planned from a pilot or from bounds has steps and
start for its n, chosen again wherever another n is looked at.

Sentences of a plan: why a row is refused or doubtful, what would do, and which law is the worst.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any

from ldpflow.components.algorithms import Algorithm
from ldpflow.errors import InputError
from ldpflow.numerics import constants
from ldpflow.practice.planning.method import (
    TR_LENGTH,
    UsersWithMethod,
    expected,
    recommended,
    users_with_method,
)
from ldpflow.practice.planning.sources import Guess, Judged, Source, WorstLaw, design
from ldpflow.results.arrival import LATTICE, Arrival, approaches, arrivals, feasible_n, lattice_ratio
from ldpflow.simulators.approach import Approach, LimitLaw, approach, limit_law, with_epsilon
from ldpflow.simulators.simulator import Simulator
from ldpflow.study import Study

EPSILONS = (1e-6, 30.0)  # where budgets are looked for


@dataclass(frozen=True)
class Goal:
    """Targets of a plan; None where a target is not set.

    Parameters
    ----------
    half_width : float > 0
        Of the interval, unit of the data: how many users, which budget.
    response_rate : float in (0, 1]
        Share of invited users who answer: how many invitations.
    difference : float > 0
        Between the quantiles of two independent groups: how many users per group.
    power : float in (0, 1)
        Probability of finding that difference.
    """

    half_width: float | None = None
    response_rate: float | None = None
    difference: float | None = None
    power: float = 0.8

    def __post_init__(self) -> None:
        for name, value in (("half_width", self.half_width), ("difference", self.difference)):
            if value is not None and not 0 < value < math.inf:
                raise InputError(name, value, "a number > 0")
        if self.response_rate is not None and not 0 < self.response_rate <= 1:
            raise InputError("response_rate", self.response_rate, "a share in (0, 1]")
        if not 0 < self.power < 1:
            raise InputError("power", self.power, "a probability in (0, 1)")

    def invitations(self, n: int | None) -> int | None:
        """Invitations for n answers, if non-response has nothing to do with the value."""
        if n is None or self.response_rate is None:
            return None
        return math.ceil(n / self.response_rate * (1 - 1e-12))


@dataclass(frozen=True)
class PlanRow:
    """One row of a plan: a path at n users, a level, a coordinate.

    Parameters
    ----------
    simulator : Simulator
        The path.
    settings : dict
        Columns that say which row it is.
    n : int
        Users.
    level : float
    coordinate : int
    source : Source, optional
        A pilot, or bounds, from which steps and start are chosen; None for a path of a study.
    undeclared : str, optional
        Kind of an algorithm that does not declare its steps as c i^-gamma: nothing is computed from them.
    judged : Judged, optional
        Whether the path arrives; None where nothing is predicted about it.
    n_needed : int, optional
        Fewest users whose predicted length is at most the target. It is None without a target, and where
        the path does not arrive, as what follows.
    arrival_needed : str, optional
        Verdict with ``n_needed`` users.
    epsilon_needed : float, optional
        Smallest budget with which n users reach the target, to three digits upwards; infinite where
        none does, None for a mechanism without a budget.
    with_method : UsersWithMethod, optional
        Fewest users for the target with the method that is recommended there, for refused paths too.
    n_per_group : int, optional
        Users per group that find the difference.
    arrival_per_group : str, optional
        Verdict with as many.
    """

    simulator: Simulator[Any, Any]
    settings: dict[str, Any]
    n: int
    level: float
    coordinate: int = 0
    source: Source | None = field(default=None, repr=False)
    undeclared: str | None = None
    judged: Judged | None = None
    n_needed: int | None = None
    arrival_needed: str | None = None
    epsilon_needed: float | None = None
    with_method: UsersWithMethod | None = None
    n_per_group: int | None = None
    arrival_per_group: str | None = None

    @property
    def arrival(self) -> Arrival | None:
        """Whether the path arrives under the law itself."""
        return None if self.judged is None else self.judged.arrival

    @property
    def verdict(self) -> str | None:
        """The verdict, None where nothing is predicted."""
        return "undeclared_steps" if self.undeclared else None if self.judged is None else self.judged.verdict

    @property
    def refused(self) -> bool:
        """Whether the path does not arrive, so that a length would mislead."""
        return self.judged is not None and self.judged.verdict not in ("arrived", "doubtful")

    @cached_property
    def case(self) -> Approach | None:
        """The path as far as its arrival depends on it, of a quantile."""
        return approach(self.simulator, self.n)

    @property
    def z(self) -> float:
        """Normal quantile of the level."""
        return constants.normal_quantile(0.5 + self.level / 2)

    @cached_property
    def law(self) -> LimitLaw | None:
        """Asymptotic law of the estimate, None where the steps are not declared."""
        return None if self.undeclared else limit_law(self.simulator)

    @cached_property
    def standard_error(self) -> float | None:
        """sqrt(Sigma/steps), unit of theta; None where the path does not arrive."""
        if self.law is None or self.refused:
            return None
        return math.sqrt(self.law.variances[self.coordinate] / self.law.steps(self.n))

    @property
    def half_width(self) -> float | None:
        """Half the length of the oracle's interval."""
        return None if self.standard_error is None else self.z * self.standard_error

    @cached_property
    def method(self) -> str | None:
        """The interval method that the path allows: ``TR``, ``TR3`` or None."""
        if self.arrival is None:
            return None
        if self.source is None or self.case is None:
            return recommended(self.arrival, self.case)
        return self.source.method(self.arrival, self.case)

    @property
    def feasible(self) -> float | None:
        """Users from which on averages can be honest, whatever their steps; None where not known."""
        case = self.case
        if case is None or self.source is not None:
            return None if case is None or self.source is None else self.source.feasible(case)
        return feasible_n(case.law, case.tau, case.noise) * case.records

    def path_at(self, n: int) -> Simulator[Any, Any]:
        """The path with the steps for n users."""
        if self.source is None:
            return self.simulator
        return self.source.path(self.settings["tau"], self.settings["epsilon"], n)

    def values(self, goal: Goal) -> dict[str, Any]:
        """The row as columns: settings, what is predicted, and what the goal takes."""
        found, length = self.arrival, None if self.half_width is None else 2 * self.half_width
        users = None if self.with_method is None else self.with_method.users
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
            "n_needed": self.n_needed,
            "arrival_needed": self.arrival_needed,
            "epsilon_needed": self.epsilon_needed,
            "n_with_method": users,
            "method_needed": None if self.with_method is None else self.with_method.method,
            "relaxation_times_planned": None if found is None else found.relaxation_times,
            "bias_start": None if found is None else found.bias_start,
            "bias_steps": None if found is None else found.bias_steps,
            "sd_ratio": None if found is None else found.sd_ratio,
            "coverage_predicted": None if found is None else found.coverage(self.level),
            "arrival": self.verdict,
            "recommended": self.method,
            "n_feasible": self.feasible,
            "n_per_group": self.n_per_group,
            "arrival_per_group": self.arrival_per_group,
            "invitations": goal.invitations(self.n),
            "invitations_needed": goal.invitations(users),
            **({} if self.source is None else self.ranges(self.source)),
        }

    def ranges(self, source: Source) -> dict[str, Any]:
        """Columns of what a pilot, or bounds, leave open."""
        assert self.case is not None and self.judged is not None
        low, high = known = source.sparsities(self.case)
        sparsity, half, method = self.settings["sparsity"], self.half_width, self.with_method
        users = [None if method is None else math.ceil(method.users * (end / sparsity) ** 2) for end in known]
        worst, worst_law = self.judged.worst, source.worst_law(self.case)
        return {
            "sparsity_low": low,
            "sparsity_high": high,
            "half_width_low": None if half is None else half * low / sparsity,
            "half_width_high": None if half is None else half * high / sparsity,
            "n_with_method_low": users[0],
            "n_with_method_high": users[1],
            "coverage_predicted_worst": None if worst is None else worst.coverage(self.level),
            "worst_law": None if worst_law is None else worst_law.law,
        }


def study_rows(study: Study) -> list[PlanRow]:
    """A row for every path, n, level and coordinate of a study; nothing is predicted yet.

    Raises
    ------
    InputError
        If there is nothing that an interval could cover.
    """
    rows = []
    for simulator in (plan.simulator for plan in study.plans()):
        undeclared = undeclared_steps(simulator)
        if undeclared is None and limit_law(simulator) is None:
            kind = simulator.parts()["problem"].kind
            allowed = "a study whose estimates have a limit law around a true parameter"
            raise InputError("study", study.name, allowed, f"There is none for {kind}.")
        columns = {name: value for name, value in simulator.columns().items() if name != "horizon"}
        users = study.n if simulator.horizon is None else (simulator.horizon,)
        rows += [
            PlanRow(simulator, columns, n, level, coordinate, undeclared=undeclared)
            for coordinate in range(simulator.dimension)
            for level in study.level
            for n in users
        ]
    return rows


def source_rows(
    source: Source, tau: Sequence[float], epsilon: Sequence[float], n: Sequence[int], level: Sequence[float]
) -> list[PlanRow]:
    """A row for every tau, budget, number of users and level of a pilot, or of bounds.

    Raises
    ------
    InputError
        For a fault of the file, or a level that it says too little about.
    """
    rows = []
    for t, e, users, p in product(tau, epsilon, n, level):
        path = source.path(t, e, users)
        case = approach(path, users)
        assert case is not None
        settings = {
            "quantile": case.law.quantile(t),
            "sparsity": 1.0 / case.law.density_at_quantile(t),
            **source.columns(),
            "tau": t,
            "epsilon": e,
            "c": case.c,
            "gamma": case.gamma,
            "theta0": case.theta0,
        }
        rows.append(PlanRow(path, settings, users, p, source=source))
    return rows


def completed(rows: Sequence[PlanRow], goal: Goal) -> list[PlanRow]:
    """The rows with their arrivals and what the goal takes."""
    found = [replace(row, judged=one) for row, one in zip(rows, judged(rows), strict=True)]
    found = [with_goal(row, goal) for row in found]
    for count, verdict in (("n_needed", "arrival_needed"), ("n_per_group", "arrival_per_group")):
        asked = [row for row in found if getattr(row, count) is not None]
        places = {id(row): place for place, row in enumerate(found)}
        users = [int(getattr(row, count)) for row in asked]
        there = [replace(row, simulator=row.path_at(n), n=n) for row, n in zip(asked, users, strict=True)]
        for row, one in zip(asked, judged(there), strict=True):
            known: dict[str, Any] = {verdict: None if one is None else one.verdict}
            found[places[id(row)]] = replace(row, **known)
    return found


def judged(rows: Sequence[PlanRow]) -> list[Judged | None]:
    """The arrival of every row; those of a study at once."""
    of_study = [row for row in rows if row.source is None]
    pairs = arrivals([(row.simulator, row.n) for row in of_study])
    known = dict(zip(map(id, of_study), pairs, strict=True))
    found: list[Judged | None] = []
    for row in rows:
        if row.source is not None:
            assert row.case is not None
            found.append(row.source.judged(row.case, row.level))
            continue
        each = None if row.undeclared else known[id(row)]
        one = None if each is None else each[row.coordinate]
        found.append(None if one is None else Judged(one, one.verdict))
    return found


def with_goal(row: PlanRow, goal: Goal) -> PlanRow:
    """The row with what its goal takes, verdicts aside."""
    law = row.law
    if law is None:
        return row
    variance, each = law.variances[row.coordinate], law.users_per_step
    if goal.half_width is not None:
        needed = math.ceil((row.z / goal.half_width) ** 2 * variance) * each
        row = replace(row, with_method=users_for(row, goal.half_width, needed))
        if not row.refused:
            budget = epsilon_for(row, goal.half_width / row.z)
            row = replace(row, n_needed=max(needed, each), epsilon_needed=budget)
    if goal.difference is not None and not row.refused:
        z = row.z + constants.normal_quantile(goal.power)
        variance = row.n * variance / law.steps(row.n) * TR_LENGTH**2
        row = replace(row, n_per_group=math.ceil(z * z * 2.0 * variance / goal.difference**2))
    return row


def users_for(row: PlanRow, half_width: float, needed: int) -> UsersWithMethod | None:
    """Users for a half width with the method that is recommended there."""
    if row.simulator.horizon is not None or row.case is None:
        return None
    method = recommended if row.source is None else row.source.method
    return users_with_method(lambda n: approach(row.path_at(n), n), method, half_width, row.level, needed)


def epsilon_for(row: PlanRow, error: float) -> float | None:
    """The smallest budget with which the predicted standard error is at most this."""
    if with_epsilon(row.simulator, EPSILONS[1]) is None:
        return None

    def enough(epsilon: float) -> bool:
        other = with_epsilon(row.simulator, epsilon)
        law = None if other is None else limit_law(other)
        return law is not None and math.sqrt(law.variances[row.coordinate] / law.steps(row.n)) <= error

    low, high = EPSILONS
    if not enough(high):
        return math.inf
    if enough(low):
        return low
    while high / low > 1 + 1e-6:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    # Upwards, so that the number printed does reach the target.
    digits = 2 - math.floor(math.log10(high))
    return float(math.ceil(high * 10.0**digits) / 10.0**digits)


def undeclared_steps(simulator: Simulator[Any, Any]) -> str | None:
    """Kind of an algorithm whose steps are not declared, of a plug-in; None for others."""
    algorithm = simulator.parts().get("algorithm")
    if not isinstance(algorithm, Algorithm):
        return None
    declared = (algorithm.step_exponent(), algorithm.step_constant())
    return algorithm.kind if any(map(math.isnan, declared)) else None


def answers_of(simulator: Simulator[Any, Any]) -> int:
    """Answers of every user."""
    mechanism, algorithm = (simulator.parts().get(name) for name in ("mechanism", "algorithm"))
    paths = algorithm.perturbed_paths() if isinstance(algorithm, Algorithm) else 0
    return int(getattr(mechanism, "answers", 1)) * (1 + paths)


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
    from ldpflow.numerics import constants

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
