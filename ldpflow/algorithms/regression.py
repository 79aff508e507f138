"""Base class of algorithms that make one estimate of a least squares problem from one pass."""

from __future__ import annotations

from typing import ClassVar

from ldpflow.algorithms.algorithm import Algorithm
from ldpflow.columns import Column
from ldpflow.mechanisms import Mechanism
from ldpflow.problems import Problem
from ldpflow.problems.least_squares import LeastSquares

BUDGET = (
    Column("noise_multiplier", "double", "-", "alpha, the noise multiplier"),
    Column("rho", "double", "nats", "zCDP of the whole run"),
)
"""Columns on privacy of an algorithm with a noise multiplier."""


class OnePassRegression(Algorithm):
    """An algorithm for ``least_squares`` that knows n, sees raw records and answers for its privacy."""

    carries_privacy: ClassVar[bool] = True

    def unsuitable(self, problem: Problem, mechanism: Mechanism) -> str | None:
        if mechanism.kind != "none":
            return f"{self.kind} sees raw records; its mechanism is none"
        if not isinstance(problem, LeastSquares):
            return f"{self.kind} is implemented for least_squares"
        return None

    def depends_on_horizon(self) -> bool:
        return True

    def step_exponent(self) -> float:
        return 0.0

    def has_intervals(self) -> bool:
        return False

    def averages_tail(self) -> bool:
        return True
