"""Predictions from the asymptotic variance: lengths, and the n or epsilon that a length needs.

An interval of level p whose standard error is right has length 2 z sqrt(Sigma/steps), z = z_{(1+p)/2}
(Dette and Graw, Theorem 3.1). It is what the oracle's interval has, and what others approach as n
grows. It says nothing about bias: whether a path arrives at all is predicted beside it
(ldpflow.theory.arrival), and a path that does not arrive has no length.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ldpflow import constants
from ldpflow.algorithms import Algorithm
from ldpflow.errors import InputError
from ldpflow.planning.advice import Advice, advise, recommended
from ldpflow.planning.with_method import UsersWithMethod, users_with_method
from ldpflow.simulators.approach import LimitLaw, approach, limit_law, with_epsilon
from ldpflow.simulators.simulator import Simulator
from ldpflow.study import Study
from ldpflow.theory.arrival import Arrival, feasible_n
from ldpflow.theory.arrivals import LATTICE, arrivals, lattice_ratio

EPSILONS = (1e-6, 30.0)  # where budgets are looked for
MOST_PATHS = 2000
"""Paths up to which a sweep looks whether they arrive before it runs."""


@dataclass(frozen=True)
class Prediction:
    """One row of a plan.

    Parameters
    ----------
    simulator : Simulator
    columns : dict
        Its parameters, as in a summary.
    n : int
        Users.
    level : float
    coordinate : int
    standard_error : float or None
        sqrt(Sigma/steps), unit of theta; None, as what follows, where the path does not arrive.
    length : float or None
        2 z times that.
    n_needed : int or None
        Fewest users whose predicted length is at most the target; None without a target.
    epsilon_needed : float or None
        Smallest budget with which n users reach the target, to three digits upwards; infinite where
        none does, None without a target or for a mechanism without a budget.
    arrival : Arrival or None
        Whether the path arrives; None where nothing is predicted about it.
    arrival_needed : Arrival or None
        The same with ``n_needed`` users.
    with_method : UsersWithMethod or None
        Fewest users for the target with the method that is recommended there; None without a target, or
        where nothing is recommended.
    undeclared : str or None
        Kind of an algorithm that does not declare its steps as c i^-gamma: nothing is computed from them.
    """

    simulator: Simulator[Any, Any]
    columns: dict[str, Any]
    n: int
    level: float
    coordinate: int
    standard_error: float | None
    length: float | None
    n_needed: int | None = None
    epsilon_needed: float | None = None
    arrival: Arrival | None = None
    arrival_needed: Arrival | None = None
    with_method: UsersWithMethod | None = None
    undeclared: str | None = None

    @property
    def refused(self) -> bool:
        """Whether the path does not arrive, so that a length would mislead."""
        return self.arrival is not None and self.arrival.refused

    @property
    def method(self) -> str | None:
        """The interval method that the path allows: ``TR``, ``TR3`` or None."""
        if self.arrival is None:
            return None
        return recommended(self.arrival, approach(self.simulator, self.n))

    def advice(self) -> Advice | None:
        """Settings that would work, for a path of a quantile problem that has not clearly arrived."""
        case = approach(self.simulator, self.n)
        if case is None or self.arrival is None or self.arrival.verdict == "arrived":
            return None
        return advise(case, self.arrival, self.simulator.units)

    def feasible(self) -> float | None:
        """Users from which on averages can be honest, whatever their steps; None where not known."""
        case = approach(self.simulator, self.n)
        return None if case is None else feasible_n(case.law, case.tau, case.noise) * case.records

    def in_units(self) -> dict[str, float | None]:
        """The length in multiples of the study's unit, where it has one."""
        units = self.simulator.units
        if units is None:
            return {}
        return {"length_in_units": None if self.length is None else self.length / units.scale}

    def values(self) -> dict[str, Any]:
        """The row as columns: parameters, what is predicted, and the arrival."""
        found = self.arrival
        return {
            **self.columns,
            "n": self.n,
            "level": self.level,
            "coordinate": self.coordinate,
            "users": self.n,
            "answers_each": answers_of(self.simulator),
            "epsilon_per_user": self.simulator.privacy().epsilon,
            "standard_error": self.standard_error,
            "half_width": None if self.length is None else self.length / 2,
            "length": self.length,
            **self.in_units(),
            "n_needed": self.n_needed,
            "arrival_needed": None if self.arrival_needed is None else self.arrival_needed.verdict,
            "epsilon_needed": self.epsilon_needed,
            "n_with_method": None if self.with_method is None else self.with_method.users,
            "method_needed": None if self.with_method is None else self.with_method.method,
            "relaxation_times_planned": None if found is None else found.relaxation_times,
            "bias_start": None if found is None else found.bias_start,
            "bias_steps": None if found is None else found.bias_steps,
            "sd_ratio": None if found is None else found.sd_ratio,
            "coverage_predicted": None if found is None else found.coverage(self.level),
            "arrival": "undeclared_steps" if self.undeclared else None if found is None else found.verdict,
            "recommended": self.method,
            "n_feasible": self.feasible(),
        }


def predict(study: Study, length: float | None = None) -> list[Prediction]:
    """Predict the length of every simulator, n, level and coordinate of a study, and its arrival.

    Parameters
    ----------
    study : Study
        Its methods and replicates do not matter.
    length : float > 0, optional
        Target for the length of the interval, unit of theta.

    Raises
    ------
    InputError
        If the target is not a positive number, or there is nothing that an interval could cover.
    """
    if length is not None and not 0 < length < math.inf:
        raise InputError("length", length, "a number > 0")
    rows: list[Prediction] = []
    for plan in study.plans():
        undeclared = undeclared_steps(plan.simulator)
        if undeclared is not None:
            rows += blank_rows(plan.simulator, undeclared, study)
            continue
        law = limit_law(plan.simulator)
        if law is None:
            kind = plan.simulator.parts()["problem"].kind
            allowed = "a study whose estimates have a limit law around a true parameter"
            raise InputError("study", study.name, allowed, f"There is none for {kind}.")
        rows += predictions(plan.simulator, law, study, length)
    return judged(rows)


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


def blank_rows(simulator: Simulator[Any, Any], undeclared: str, study: Study) -> list[Prediction]:
    """Rows that say that nothing is predicted."""
    columns = {name: value for name, value in simulator.columns().items() if name != "horizon"}
    users = study.n if simulator.horizon is None else (simulator.horizon,)
    return [
        Prediction(simulator, columns, n, level, coordinate, None, None, undeclared=undeclared)
        for coordinate in range(simulator.dimension)
        for level in study.level
        for n in users
    ]


def predictions(
    simulator: Simulator[Any, Any], law: LimitLaw, study: Study, length: float | None
) -> list[Prediction]:
    """The rows of one simulator, before their arrival is looked at."""
    columns = {name: value for name, value in simulator.columns().items() if name != "horizon"}
    users = study.n if simulator.horizon is None else (simulator.horizon,)
    rows = []
    for coordinate, variance in enumerate(law.variances):
        for level in study.level:
            z = constants.normal_quantile(0.5 + level / 2)
            for n in users:
                se = math.sqrt(variance / law.steps(n))
                row = Prediction(simulator, columns, n, level, coordinate, se, 2 * z * se)
                if length is not None:
                    steps = math.ceil((2 * z / length) ** 2 * variance)
                    row = replace(
                        row,
                        n_needed=max(steps, 1) * law.users_per_step,
                        epsilon_needed=epsilon_for(simulator, n, coordinate, length / (2 * z)),
                        with_method=users_for(simulator, length / 2, level, steps * law.users_per_step),
                    )
                rows.append(row)
    return rows


def users_for(
    simulator: Simulator[Any, Any], half_width: float, level: float, needed: int
) -> UsersWithMethod | None:
    """Users for a half width with the recommended method, the steps as they are."""
    if simulator.horizon is not None or approach(simulator, needed) is None:
        return None
    return users_with_method(lambda users: approach(simulator, users), recommended, half_width, level, needed)


def judged(rows: Sequence[Prediction]) -> list[Prediction]:
    """The rows with their arrivals; those that do not arrive lose every number that a reader would use."""
    here = arrivals([(row.simulator, row.n) for row in rows])
    asked = [row for row in rows if row.n_needed is not None]
    there = dict(
        zip(
            map(id, asked),
            arrivals([(row.simulator, row.n_needed or row.n) for row in asked]),
            strict=True,
        )
    )
    result = []
    for row, found in zip(rows, here, strict=True):
        needed = there.get(id(row))
        row = replace(
            row,
            arrival=None if found is None else found[row.coordinate],
            arrival_needed=None if needed is None else needed[row.coordinate],
        )
        if row.refused:
            row = replace(
                row,
                standard_error=None,
                length=None,
                n_needed=None,
                epsilon_needed=None,
                arrival_needed=None,
            )
        result.append(row)
    return result


def epsilon_for(simulator: Simulator[Any, Any], n: int, coordinate: int, se: float) -> float | None:
    """The smallest budget with which the predicted standard error is at most ``se``."""
    if with_epsilon(simulator, EPSILONS[1]) is None:
        return None

    def enough(epsilon: float) -> bool:
        other = with_epsilon(simulator, epsilon)
        law = None if other is None else limit_law(other)
        return law is not None and math.sqrt(law.variances[coordinate] / law.steps(n)) <= se

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
    names = ("problem", "law", "tau", "mechanism", "epsilon", "mu", "gamma", "c", "theta0")
    shown = [(name, columns[name]) for name in names if columns.get(name) is not None]
    return ", ".join(str(v) if isinstance(v, str) else f"{k} {v:g}" for k, v in shown)
