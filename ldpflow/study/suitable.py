"""What goes with what in a study: refusals of combinations, in words."""

from __future__ import annotations

from typing import Any

from ldpflow.algorithms import Algorithm
from ldpflow.errors import InputError
from ldpflow.intervals import IntervalMethod
from ldpflow.mechanisms import Mechanism
from ldpflow.problems import Problem
from ldpflow.problems.finite_sum import FiniteSumProblem
from ldpflow.simulators.cell import Cell

__all__ = ["check_applies", "check_epochs", "check_possible", "check_records", "check_suitable"]


def check_applies(algorithm: Algorithm, cells: tuple[Cell, ...], methods: list[Any]) -> None:
    """Refuse an algorithm that makes nothing of what the study's methods need."""
    if methods and not cells:
        kinds = ", ".join(dict.fromkeys(method.kind for method in methods))
        raise InputError(
            "method.kind",
            kinds,
            f"a method for {algorithm.kind}",
            "It takes the perturbed paths of budget_split."
            if algorithm.has_intervals()
            else "It makes too few steps for intervals; a study with [trajectory] alone may have it.",
        )


def check_suitable(problem: Problem, mechanism: Mechanism, algorithm: Algorithm) -> None:
    """Refuse a mechanism or algorithm that does not fit the problem."""
    # The algorithm first: what a mechanism lacks does not matter where no algorithm could use it.
    reason = algorithm.unsuitable(problem, mechanism)
    if isinstance(problem, FiniteSumProblem) and not algorithm.depends_on_horizon():
        reason = "it visits a record once, and the problem is about one data set"
    if reason is not None:
        raise InputError(
            "algorithm.kind",
            algorithm.kind,
            f"an algorithm for {problem.kind} under {mechanism.kind}",
            f"{reason}.",
        )
    reason = mechanism.unsuitable(problem)
    if reason is not None:
        raise InputError(
            "mechanism.kind",
            mechanism.kind,
            f"a mechanism for {problem.kind}",
            f"{reason}.",
        )


def check_records(problem: Problem, n: int) -> None:
    """A file has so many records and no more."""
    stored = problem.stored_records()
    if 0 < stored < n:
        raise InputError("grid.n", n, f"at most {stored:,}, the records of the file")


def check_possible(method: IntervalMethod, problem: Problem) -> None:
    """Refuse a method that does not exist for the problem."""
    reason = method.impossible(problem)
    if reason is not None:
        raise InputError("method", method.model_dump(), f"a method for {problem.kind}", f"{reason}.")


def check_epochs(problem: Problem, methods: list[Any], independent_n: bool) -> None:
    """Refuse what makes no sense for a problem that is about one data set."""
    if not isinstance(problem, FiniteSumProblem):
        return
    if methods:
        raise InputError(
            "method.kind",
            ", ".join(dict.fromkeys(method.kind for method in methods)),
            f"no interval method for {problem.kind}",
            "It has no true parameter to cover; a study of it has [trajectory] alone.",
        )
    if independent_n:
        raise InputError(
            "grid.independent_n",
            True,
            f"false for {problem.kind}",
            "A data set's first records are those of every larger one.",
        )
