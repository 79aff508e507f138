"""A plan from a pilot's column or from public bounds: steps, start, lengths and the method to use.

For a quantile under randomised response, by LDP-SGD.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ldpflow import constants
from ldpflow.algorithms.ldp_sgd import LdpSgd
from ldpflow.errors import InputError
from ldpflow.mechanisms.randomized_response import RandomizedResponse
from ldpflow.planning.pilot import Design
from ldpflow.planning.sources import Guess, Pilot, WorstLaw
from ldpflow.planning.with_method import UsersWithMethod, users_with_method
from ldpflow.problems.laws import Law
from ldpflow.simulators.approach import Approach, approach
from ldpflow.simulators.one_pass import OnePass
from ldpflow.theory.arrival import Arrival, feasible_n
from ldpflow.theory.arrivals import LATTICE, lattice_ratio

EPSILONS = (1e-6, 30.0)
TR_LENGTH = 1.12
"""Length of TR's intervals over the oracle's, of long runs (ldpflow.planning.advice)."""


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
        return (
            None
            if n is None or self.response_rate is None
            else math.ceil(n / self.response_rate * (1 - 1e-12))
        )


@dataclass(frozen=True)
class PracticeRow:
    """One row of a practitioner's plan.

    Parameters
    ----------
    tau, epsilon, level : float
    n : int
    design : Design
    simulator : OnePass
        The path of the design.
    arrival : Arrival
        Under the pilot's own law, or the guessed one.
    verdict : str
    standard_error, half_width : float or None
        Unit of the data; None where the path is refused.
    half_width_range : (float, float) or None
        90% range over resampled pilots, or range over the laws of a guess.
    quantile, sparsity : float
        theta* and 1/f(theta*) of the law.
    sparsity_range : (float, float)
        Of 1/f, in the same way.
    method : str or None
        Recommended; None where nothing is.
    feasible : float
        Users from which on averages can be honest.
    n_needed, epsilon_needed, n_per_group : optional
        For the goal, of the oracle.
    with_method : UsersWithMethod, optional
        For the goal, of the method that is recommended there, steps chosen again.
    needed_verdict, group_verdict : str or None
        Verdict with that many users, steps chosen again.
    worst : Arrival or None
        The worst but 5% of the arrivals under resampled pilots.
    survives : (float, float) or None
        Of a guess: factors of the scale of its laws.
    worst_law : WorstLaw or None
        Of a guess: the law that is worst for the method.
    others : tuple of OnePass
        The path under the other laws of a guess.
    """

    tau: float
    epsilon: float
    level: float
    n: int
    design: Design
    simulator: OnePass
    arrival: Arrival
    verdict: str
    standard_error: float | None
    half_width: float | None
    half_width_range: tuple[float, float] | None
    quantile: float
    sparsity: float
    sparsity_range: tuple[float, float]
    method: str | None
    feasible: float
    n_needed: int | None = None
    needed_verdict: str | None = None
    epsilon_needed: float | None = None
    n_per_group: int | None = None
    group_verdict: str | None = None
    worst: Arrival | None = None
    survives: tuple[float, float] | None = None
    worst_law: WorstLaw | None = None
    others: tuple[OnePass, ...] = ()
    cautions: tuple[str, ...] = ()
    with_method: UsersWithMethod | None = None

    @property
    def refused(self) -> bool:
        """Whether the path does not arrive."""
        return self.verdict not in ("arrived", "doubtful")

    @property
    def users_range(self) -> tuple[int, int] | None:
        """Range of ``with_method`` over pilots or laws: users grow with the square of 1/f."""
        if self.with_method is None:
            return None
        low, high = (
            math.ceil(self.with_method.users * (end / self.sparsity) ** 2) for end in self.sparsity_range
        )
        return low, high

    def values(self, goal: Goal) -> dict[str, Any]:
        """The row as columns."""
        low, high = self.half_width_range or (None, None)
        fewest, most = self.users_range or (None, None)
        return {
            "tau": self.tau,
            "epsilon": self.epsilon,
            "level": self.level,
            "n": self.n,
            "c": self.design.c,
            "gamma": self.design.gamma,
            "theta0": self.design.theta0,
            "users": self.n,
            "answers_each": 1,
            "epsilon_per_user": self.epsilon,
            "standard_error": self.standard_error,
            "half_width": self.half_width,
            "half_width_low": low,
            "half_width_high": high,
            "length": None if self.half_width is None else 2 * self.half_width,
            "sparsity_low": self.sparsity_range[0],
            "sparsity_high": self.sparsity_range[1],
            "relaxation_times_planned": self.arrival.relaxation_times,
            "bias_start": self.arrival.bias_start,
            "bias_steps": self.arrival.bias_steps,
            "sd_ratio": self.arrival.sd_ratio,
            "coverage_predicted": self.arrival.coverage(self.level),
            "coverage_predicted_worst": None if self.worst is None else self.worst.coverage(self.level),
            "worst_law": None if self.worst_law is None else self.worst_law.law,
            "arrival": self.verdict,
            "recommended": self.method,
            "n_feasible": self.feasible,
            "n_needed": self.n_needed,
            "arrival_needed": self.needed_verdict,
            "epsilon_needed": self.epsilon_needed,
            "n_with_method": None if self.with_method is None else self.with_method.users,
            "n_with_method_low": fewest,
            "n_with_method_high": most,
            "method_needed": None if self.with_method is None else self.with_method.method,
            "n_per_group": self.n_per_group,
            "arrival_per_group": self.group_verdict,
            "invitations": goal.invitations(self.n),
            "invitations_needed": goal.invitations(self.with_method and self.with_method.users),
        }


def practice_rows(
    source: Pilot | Guess,
    tau: Sequence[float],
    epsilon: Sequence[float],
    n: Sequence[int],
    level: Sequence[float],
    goal: Goal,
) -> list[PracticeRow]:
    """Rows for every tau, budget, number of users and level.

    Raises
    ------
    InputError
        For a fault of the file, or a level that it says too little about.
    """
    return [row_of(source, t, e, count, p, goal) for t in tau for e in epsilon for count in n for p in level]


def path_of(source: Pilot | Guess, tau: float, epsilon: float, n: int) -> tuple[OnePass, Design]:
    """The path with steps and start for n users."""
    chosen = source.design(tau, n)
    algorithm = LdpSgd(c=chosen.c, gamma=chosen.gamma, theta0=chosen.theta0)
    return OnePass(source.problem(tau), RandomizedResponse(epsilon=epsilon), algorithm), chosen


def row_of(
    source: Pilot | Guess, tau: float, epsilon: float, n: int, level: float, goal: Goal
) -> PracticeRow:
    """One row."""
    simulator, chosen = path_of(source, tau, epsilon, n)
    case = approach(simulator, n)
    assert case is not None
    law = case.law
    arrival, verdict, worst = source.arrival(simulator, n, level)
    refused = verdict not in ("arrived", "doubtful")
    z = constants.normal_quantile(0.5 + level / 2)
    error = arrival.standard_error
    sparsity = 1.0 / law.density_at_quantile(tau)
    known = source.sparsities(tau) if isinstance(source, Pilot) else source.sparsities(case)
    half = None if refused else z * error
    row = PracticeRow(
        tau,
        epsilon,
        level,
        n,
        chosen,
        simulator,
        arrival,
        verdict,
        standard_error=None if refused else error,
        half_width=half,
        half_width_range=None if half is None else (half * known[0] / sparsity, half * known[1] / sparsity),
        quantile=law.quantile(tau),
        sparsity=sparsity,
        sparsity_range=known,
        method=source.method(arrival, case) if isinstance(source, Pilot) else None,
        feasible=feasible_n(law, tau, case.noise),
        worst=worst,
        cautions=cautions_of(source, simulator, n, law, tau),
    )
    if isinstance(source, Guess):
        worst_law = source.worst_law(case)
        row = replace(
            row,
            method=worst_law.method if worst_law.size <= 1.0 else None,
            feasible=max(feasible_n(one.law, one.tau, one.noise) for one in source.cases(case).values()),
            worst_law=worst_law,
            survives=source.survives(case, worst_law.method),
            others=tuple(source.simulators(simulator)[1:]),
        )
    return with_goal(source, row, goal, case.variance() * sparsity**2, z)


def cautions_of(source: Pilot | Guess, simulator: OnePass, n: int, law: Law, tau: float) -> tuple[str, ...]:
    """Warnings about the column, such as a lattice that is coarse for the iterates."""
    if isinstance(source, Guess):
        return ()
    found = [text for text in (simulator.problem.caution(),) if text is not None]
    for value, share in source.sentinels():
        found.append(
            f"{source.name}: {share:.1%} of its values are {value:g}, which looks like a code for no value; "
            f"missing_value = {value:g} leaves them out"
        )
    case = approach(simulator, n)
    assert case is not None and law.table is not None
    ratio = lattice_ratio(case)
    if ratio > LATTICE:
        spacing = law.table.spacing
        found.append(
            f"values lie {spacing:g} apart, {ratio:.1f} standard deviations of the last iterates: averages "
            f"settle between two values; jitter = {spacing:g} adds noise of that width to every value"
        )
    return tuple(found)


def with_goal(source: Pilot | Guess, row: PracticeRow, goal: Goal, variance: float, z: float) -> PracticeRow:
    """The row with what its goal takes; ``variance`` is that of the average times n."""
    needed = 1 if goal.half_width is None else max(math.ceil(z * z * variance / goal.half_width**2), 1)
    if goal.half_width is not None:
        row = replace(row, with_method=users_for(source, row, goal.half_width, needed))
    if goal.half_width is not None and not row.refused:
        row = replace(
            row,
            n_needed=needed,
            needed_verdict=verdict_at(source, row, needed),
            epsilon_needed=budget_for(row, goal.half_width / z),
        )
    if goal.difference is not None and not row.refused:
        power = constants.normal_quantile(goal.power)
        inflated = 2.0 * variance * TR_LENGTH**2
        per_group = math.ceil((z + power) ** 2 * inflated / goal.difference**2)
        row = replace(row, n_per_group=per_group, group_verdict=verdict_at(source, row, per_group))
    return row


def users_for(
    source: Pilot | Guess, row: PracticeRow, half_width: float, needed: int
) -> UsersWithMethod | None:
    """Users for the half width with the method that is recommended there, steps chosen for them."""

    def path(n: int) -> Approach | None:
        return approach(path_of(source, row.tau, row.epsilon, n)[0], n)

    return users_with_method(path, source.method, half_width, row.level, needed)


def verdict_at(source: Pilot | Guess, row: PracticeRow, n: int) -> str:
    """The verdict with n users, steps chosen for them."""
    simulator, _ = path_of(source, row.tau, row.epsilon, n)
    return source.arrival(simulator, n, row.level).verdict


def budget_for(row: PracticeRow, error: float) -> float:
    """Smallest budget with which the row's users have this standard error; infinite where none has."""
    s = (error / row.sparsity) ** 2 * row.n - row.tau * (1.0 - row.tau)
    # e^eps/(e^eps - 1)^2 = s: with x = e^eps, s x^2 - (2 s + 1) x + s = 0, the root above 1.
    if s <= math.exp(EPSILONS[1]) / math.expm1(EPSILONS[1]) ** 2:
        return math.inf
    epsilon = 2.0 * math.asinh(0.5 / math.sqrt(s))
    digits = 2 - math.floor(math.log10(max(epsilon, EPSILONS[0])))
    return math.ceil(epsilon * 10.0**digits * (1 - 1e-12)) / 10.0**digits
