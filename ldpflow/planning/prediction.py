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
from ldpflow.intervals.asymptotics import asymptotic_variances
from ldpflow.problems.finite_sum import FiniteSumProblem
from ldpflow.results.summary import path_columns
from ldpflow.simulators.path import Path
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
    path : Path
    columns : dict
        The path's parameters, as in a summary.
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

    path: Path
    columns: dict[str, Any]
    n: int
    level: float
    coordinate: int
    standard_error: float
    length: float
    n_needed: int | None = None
    epsilon_needed: float | None = None


def predict(study: Study, length: float | None = None) -> list[Prediction]:
    """Predict the length of every path, n, level and coordinate of a study.

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
    for plan in study.plans():
        if isinstance(plan.path.problem, FiniteSumProblem):
            raise InputError(
                "study",
                study.name,
                "a study whose problems have a true parameter",
                f"{plan.path.problem.kind} has none.",
            )
    return [row for plan in once_per_path(study) for row in predictions(plan, study, length)]


def once_per_path(study: Study) -> list[Path]:
    """The paths, those that differ in their horizon alone together."""
    return list(dict.fromkeys(replace(plan.path, horizon=None) for plan in study.plans()))


def predictions(path: Path, study: Study, length: float | None) -> Iterator[Prediction]:
    """The rows of one path."""
    columns = path_columns(path)
    for coordinate, variance in enumerate(asymptotic_variances(path)):
        for level in study.level:
            z = constants.normal_quantile(0.5 + level / 2)
            for n in study.n:
                se = math.sqrt(variance / path.algorithm.steps(n))
                row = Prediction(path, columns, n, level, coordinate, se, 2 * z * se)
                if length is not None:
                    steps = math.ceil((2 * z / length) ** 2 * variance)
                    row = replace(
                        row,
                        n_needed=max(steps, 1) * path.algorithm.records_per_step(),
                        epsilon_needed=epsilon_for(path, n, coordinate, length / (2 * z)),
                    )
                yield row


def epsilon_for(path: Path, n: int, coordinate: int, se: float) -> float | None:
    """The smallest budget with which the predicted standard error is at most ``se``."""
    if "epsilon" not in type(path.mechanism).model_fields:
        return None

    def enough(epsilon: float) -> bool:
        mechanism = path.mechanism.model_copy(update={"epsilon": epsilon})
        variance = asymptotic_variances(replace(path, mechanism=mechanism))[coordinate]
        return math.sqrt(variance / path.algorithm.steps(n)) <= se

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
    small = replace(study, method=methods, replicates=min(study.replicates, CHECK_REPLICATES))
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
