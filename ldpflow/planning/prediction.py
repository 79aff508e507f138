"""What the asymptotic variance says about a study: lengths, and the n or epsilon that they take.

An interval of level p whose standard error is right has length 2 z sqrt(Sigma/steps), z = z_{(1+p)/2}
(Dette and Graw, Theorem 3.1). It is what the oracle's interval has, and what others approach as n
grows; it says nothing about bias.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from ldpflow import constants
from ldpflow.engine import run_study
from ldpflow.errors import InputError
from ldpflow.simulators.simulator import LimitLaw, Simulator
from ldpflow.store import RunStore
from ldpflow.study import Entry, Study

__all__ = ["Prediction", "check_predictions", "predict"]

EPSILONS = (1e-6, 30.0)  # where budgets are looked for
CHECK_REPLICATES = 256


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
    standard_error : float
        sqrt(Sigma/steps), unit of theta.
    length : float
        2 z times that.
    n_needed : int or None
        Fewest users whose predicted length is at most the target; None without a target.
    epsilon_needed : float or None
        Smallest budget with which n users reach the target, to three digits upwards; infinite where
        none does, None without a target or for a mechanism without a budget.
    """

    simulator: Simulator[Any, Any]
    columns: dict[str, Any]
    n: int
    level: float
    coordinate: int
    standard_error: float
    length: float
    n_needed: int | None = None
    epsilon_needed: float | None = None


def predict(study: Study, length: float | None = None) -> list[Prediction]:
    """Predict the length of every simulator, n, level and coordinate of a study.

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
        law = plan.simulator.limit_law()
        if law is None:
            kind = plan.simulator.parts()["problem"].kind
            allowed = "a study whose estimates have a limit law around a true parameter"
            raise InputError("study", study.name, allowed, f"There is none for {kind}.")
        rows += predictions(plan.simulator, law, study, length)
    return rows


def predictions(
    simulator: Simulator[Any, Any], law: LimitLaw, study: Study, length: float | None
) -> Iterator[Prediction]:
    """The rows of one simulator."""
    columns = {name: value for name, value in simulator.columns().items() if name != "horizon"}
    users = study.n if simulator.horizon is None else (simulator.horizon,)
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
                    )
                yield row


def epsilon_for(simulator: Simulator[Any, Any], n: int, coordinate: int, se: float) -> float | None:
    """The smallest budget with which the predicted standard error is at most ``se``."""
    if simulator.with_epsilon(EPSILONS[1]) is None:
        return None

    def enough(epsilon: float) -> bool:
        other = simulator.with_epsilon(epsilon)
        law = None if other is None else other.limit_law()
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


def check_predictions(study: Study, engine: str = "serial", **options: Any) -> list[dict[str, Any]]:
    """Run a small sweep of the study and set its predictions beside what comes out.

    Parameters
    ----------
    study : Study
        Run with CHECK_REPLICATES replicates at most and the oracle added to its methods.
    engine : str
    options
        Further arguments of :func:`ldpflow.engine.run_study`.

    Returns
    -------
    list of dict
        Rows of the summary with ``predicted_se`` and ``predicted_length``.
    """
    methods = study.method
    if not any(entry.kind == "oracle" for entry in methods):
        methods = (*methods, Entry.of("method", "oracle", {}))
    small = study.with_fields(method=methods, replicates=min(study.replicates, CHECK_REPLICATES))
    with tempfile.TemporaryDirectory(prefix="ldpflow-plan-") as folder:
        run_study(small, folder, engine=engine, **options)
        summary = RunStore(folder).read_summary()
    assert summary is not None
    rows: list[dict[str, Any]] = summary.to_pylist()
    for row in rows:
        z = constants.normal_quantile(0.5 + row["level"] / 2)
        row["predicted_length"] = row["oracle_length"]
        row["predicted_se"] = row["oracle_length"] / (2 * z)
    return rows
