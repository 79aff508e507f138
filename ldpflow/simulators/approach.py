"""Limit law of the estimate of a simulator, and the settings of its path that decide on arrival."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any

import numpy as np

from ldpflow.components.intervals.variance import asymptotic_variances
from ldpflow.components.problems import Problem
from ldpflow.components.problems.laws import Law
from ldpflow.components.problems.transform import slope
from ldpflow.components.protocols import OneShot
from ldpflow.simulators.counts import Counts
from ldpflow.simulators.one_pass import OnePass


@dataclass(frozen=True)
class LimitLaw:
    """sqrt(T) (estimate - theta*) -> N(0, Sigma) in law, with T = min(floor(n / users_per_step), most_steps).

    ``variances`` is the diagonal of Sigma in the unit of rows, NaN if unknown. ``most_steps`` is None if n
    alone limits the steps.
    """

    variances: tuple[float, ...]
    users_per_step: int = 1
    most_steps: int | None = None

    def steps(self, n: int) -> int:
        steps = n // self.users_per_step
        return steps if self.most_steps is None else min(steps, self.most_steps)


@dataclass(frozen=True)
class Approach:
    """Path of a quantile problem from theta0. Step i has size c i^-gamma and uses ``records`` records.

    ``law`` is the law of a record X. ``noise`` is the variance that the mechanism adds to the gradient
    -tau + 1{X <= theta} of one record. c and theta0 are on the scale of the problem. If the problem has no
    scale, they are in the unit of the data.
    """

    law: Law
    tau: float
    noise: float
    c: float
    gamma: float
    theta0: float
    steps: int
    records: int = 1

    def variance(self) -> float:
        """Variance of the private gradient of a step at theta*."""
        return (self.tau * (1.0 - self.tau) + self.noise) / self.records


@singledispatch
def limit_law(simulator: Any) -> LimitLaw | None:
    """Limit law of the estimate, or None. Each family with a limit law registers a function."""
    return None


@limit_law.register
def limit_law_of_path(path: OnePass) -> LimitLaw | None:
    """Limit law of the average of all iterates. None if the algorithm has no interval methods."""
    if not path.algorithm.has_intervals:
        return None
    records, made = path.algorithm.records_per_step(), path.steps(path.horizon or 0)
    fewer = path.horizon is not None and made < path.horizon // records
    variances = in_unit_of_rows(path.problem, asymptotic_variances(path))
    return LimitLaw(variances, records, made if fewer else None)


def in_unit_of_rows(problem: Problem, variances: Sequence[float]) -> tuple[float, ...]:
    """Convert variances from the scale of a problem to the unit of rows, by the delta method."""
    scale = problem.own_scale()
    factor = 1.0 if scale is None else slope(scale, problem.truth()) ** 2
    return tuple((np.array(variances) * factor).tolist())


@limit_law.register
def limit_law_of_counts(simulator: Counts) -> LimitLaw | None:
    """Limit law of the estimate of a one-shot protocol, unless it has liars or unequal response rates."""
    protocol, tau = simulator.protocol, simulator.problem.tau
    if not isinstance(protocol, OneShot) or protocol.liars or protocol.answer_below != protocol.answer_above:
        return None
    from ldpflow.components.protocols.collections import variance_at

    variance = variance_at(protocol, simulator.law, tau, protocol.bins(simulator.horizon))
    variance /= protocol.answer_below * simulator.law.density_at_quantile(tau) ** 2
    return LimitLaw(in_unit_of_rows(simulator.problem, [variance]))


def approach(simulator: Any, n: int, coordinate: int = 0) -> Approach | None:
    """Path of n users in one coordinate of theta. None if it is no quantile or steps are not c i^-gamma."""
    if not isinstance(simulator, OnePass) or not declares_decay(simulator):
        return None
    algorithm, problem = simulator.algorithm, simulator.problem
    # ``quantile_target`` of a plug-in's problem may have no parameter for the coordinate.
    target = problem.quantile_target(coordinate) if coordinate else problem.quantile_target()
    if target is None:
        return None
    tau, law = target
    records, c, gamma = algorithm.records_per_step(), algorithm.step_constant(), algorithm.step_exponent()
    if factors := algorithm.step_factors():
        c *= factors[coordinate]
    covariance = algorithm.step_covariance(problem, simulator.randomiser)
    noise = records * covariance[coordinate][coordinate] - tau * (1.0 - tau)
    theta0 = algorithm.start(simulator.dimension)[coordinate]
    return Approach(law, tau, noise, c, gamma, theta0, simulator.steps(n), records)


def declares_decay(path: OnePass) -> bool:
    """Whether the algorithm of a path has step sizes c i^-gamma with 0 < gamma < 1, and no projection."""
    algorithm = path.algorithm
    decays = 0.0 < algorithm.step_exponent() < 1.0 and not math.isnan(algorithm.step_constant())
    return decays and not algorithm.projects()


def with_epsilon(simulator: Any, epsilon: float) -> Any:
    """Copy of the simulator with another epsilon, or None if its budget is not one epsilon."""
    for table, part in simulator.parts().items():
        if table in ("mechanism", "protocol") and "epsilon" in type(part).model_fields:
            return replace(simulator, **{table: part.model_copy(update={"epsilon": epsilon})})
    return None
