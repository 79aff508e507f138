"""LDP-SGD in a comparison of protocols: simulated with the interval that a plan recommends for its path."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import get_args

import numpy as np

from ldpflow.algorithms.ldp_sgd import LdpSgd
from ldpflow.algorithms.minibatch_sgd import MinibatchSgd
from ldpflow.intervals.interval import Intervals, PathIntervalMethod
from ldpflow.intervals.transcript import SMALL, TranscriptRegression
from ldpflow.mechanisms import Mechanism
from ldpflow.mechanisms.cells import Cells
from ldpflow.mechanisms.deployed_response import DeployedResponse
from ldpflow.mechanisms.randomized_response import RandomizedResponse
from ldpflow.planning.advice import RECOMMENDED, expected, recommended
from ldpflow.planning.forecast import Forecast, Simulated, Steps, Target
from ldpflow.planning.with_method import users_with_method
from ldpflow.problems import Problem
from ldpflow.problems.laws import Law
from ldpflow.problems.quantile import MixturePart, Quantile
from ldpflow.problems.quantiles import Quantiles
from ldpflow.simulators.approach import Approach
from ldpflow.simulators.cell import Cell
from ldpflow.simulators.one_pass import OnePass
from ldpflow.theory.arrival import Arrival, approaches
from ldpflow.theory.private_quantile import cells_covariance, repeated_bit_variance

MOST_STEPS = 2 * 10**9
"""Steps of a simulation of LDP-SGD, over all replicates: some seconds."""

FEWEST = 100  # replicates that say something about a median length

LAWS_OF_SEVERAL: tuple[str, ...] = get_args(Quantiles.model_fields["law"].annotation)


def problem_of(law: Law, tau: float) -> Quantile:
    """The tau-quantile of a law as a problem."""
    parts = tuple(
        MixturePart(
            weight=part.weight,
            law=part.law.name,
            location=part.law.location,
            scale=part.law.scale,
            df=part.law.df,
            shape=part.law.shape,
        )
        for part in law.components
    )
    return Quantile(
        tau=tau,
        law=law.name,
        location=law.location,
        scale=law.scale,
        df=law.df,
        shape=law.shape if law.own is None else getattr(law.own, "shape", None),
        components=parts or None,
        law_table=None if law.table is None else law.table.text(),
    )


@lru_cache(maxsize=4)  # every quantile of one report asks for the same
def path_intervals(
    path: OnePass, method: PathIntervalMethod, users: int, level: float, replicates: int, seed: int
) -> Intervals:
    """Intervals of replicates of a path."""
    request = path.needs((Cell(users, method, level),), ())
    return method.intervals(path.run(seed, range(replicates), request), users, [level])


class SgdForecast(Forecast):
    """LDP-SGD with randomised response, and the interval that a plan recommends for its path."""

    name = "sgd"
    needs = "start, step"
    batches = 1

    def __init__(self, target: Target, steps: Steps) -> None:
        super().__init__(target)
        self.steps = steps
        self.known: dict[tuple[int, float], tuple[Approach, Arrival, str | None]] = {}

    def rounds(self, n: int) -> int:
        return self.steps.count(n)

    def bits(self, n: int, epsilon: float) -> float:
        return float(self.target.answers)

    def users(self, n: int) -> int:
        return super().users(n) // self.target.quantiles

    def users_to_ask(self, users: int) -> int:
        """Users to ask so that this many answer about the quantile."""
        return math.ceil(users * self.target.quantiles / self.target.answering * (1 - 1e-12))

    def step_variance(self, epsilon: float) -> float:
        """Variance of a private gradient of one user."""
        return repeated_bit_variance(self.target.tau, epsilon, self.target.answers)

    def variance(self, n: int, epsilon: float) -> float:
        split = self.target.answering * n / max(self.users(n), 1)
        return split * self.step_variance(epsilon) / self.target.density**2

    def case(self, users: int, epsilon: float) -> Approach:
        """The path of the users who answer."""
        t, s = self.target, self.steps
        count, batch = max(s.count(users), 1), s.users_per_step(users)
        noise = self.step_variance(epsilon) - t.tau * (1.0 - t.tau)
        return Approach(t.law, t.tau, noise, s.c, s.gamma, s.theta0, count, batch)

    def judgement(self, n: int, epsilon: float) -> tuple[Approach, Arrival, str | None]:
        """The path, its arrival, and the method recommended for it."""
        key = (self.users(n), epsilon)
        if key not in self.known:
            case = self.case(*key)
            (arrival,) = approaches([case])
            self.known[key] = case, arrival, self.method(arrival, case)
        return self.known[key]

    def method(self, arrival: Arrival, case: Approach) -> str | None:
        """The method that a plan recommends for a path."""
        return recommended(arrival, case)

    def interval(self, n: int, epsilon: float) -> str | None:
        _, arrival, method = self.judgement(n, epsilon)
        return None if arrival.refused else method

    def method_at(self, n: int, epsilon: float) -> str | None:
        return self.judgement(n, epsilon)[2]

    def expected_half_width(self, n: int, epsilon: float) -> float:
        """Half width of the recommended method by its length on such paths; infinite without one."""
        _, arrival, method = self.judgement(n, epsilon)
        found = None if method is None else expected(arrival, method)
        return math.inf if found is None else found.length * self.target.z * arrival.standard_error

    def expected_users(self, epsilon: float, half_width: float) -> int | None:
        """Users to ask so that :meth:`expected_half_width` is at most this."""
        error = half_width / self.target.z
        first = math.ceil(self.step_variance(epsilon) / (self.target.density * error) ** 2)
        found = users_with_method(
            lambda users: self.case(users, epsilon), self.method, half_width, self.target.level, first
        )
        return None if found is None else self.users_to_ask(found.users)

    def path(self, users: int, epsilon: float) -> OnePass:
        """The simulator of the path."""
        s = self.steps
        settings = {"c": s.c, "gamma": s.gamma, "theta0": s.theta0}
        batch = s.users_per_step(users)
        algorithm = (
            LdpSgd.model_validate(settings)
            if batch == 1
            else MinibatchSgd.model_validate({**settings, "batch_size": batch})
        )
        return OnePass(*self.problem_and_mechanism(epsilon), algorithm)

    def problem_and_mechanism(self, epsilon: float) -> tuple[Problem, Mechanism]:
        """Problem and mechanism of the path."""
        problem = problem_of(self.target.law, self.target.tau)
        if self.target.answers == 1:
            return problem, RandomizedResponse(epsilon=epsilon)
        return problem, DeployedResponse(epsilon=epsilon, answers=self.target.answers)

    def transcript_regression(self, name: str) -> TranscriptRegression:
        """The recommended method."""
        return TranscriptRegression(**RECOMMENDED[name])

    def coordinate(self) -> int:
        """Of the quantile, in theta."""
        return 0

    def obstacle(self, n: int, epsilon: float) -> str | None:
        """Reason why the path is not simulated although it arrives, or None."""
        problem, mechanism = self.problem_and_mechanism(epsilon)
        if (reason := mechanism.unsuitable(problem)) is not None:
            return reason
        if self.users(n) * FEWEST > MOST_STEPS:
            return f"at most {MOST_STEPS // FEWEST:,} users are simulated"
        return None

    def simulate(self, n: int, epsilon: float, replicates: int, seed: int) -> Simulated | None:
        _, _, name = self.judgement(n, epsilon)
        if name is None or self.obstacle(n, epsilon) is not None:
            return None
        users, at = self.users(n), self.coordinate()
        found = path_intervals(
            self.path(users, epsilon),
            self.transcript_regression(name),
            users,
            self.target.level,
            min(replicates, MOST_STEPS // users),
            seed,
        )
        estimate = found.estimate[at]
        return Simulated(
            estimate, found.lower[0, at], found.upper[0, at], np.zeros(len(estimate), dtype=bool)
        )

    def cautions(self, n: int, epsilon: float) -> list[str]:
        """What keeps the row blank: a path that does not arrive, no method for it, or too many users."""
        _, arrival, method = self.judgement(n, epsilon)
        words = arrival.verdict.replace("_", " ")
        cause = "start" if abs(arrival.bias_start) >= abs(arrival.bias_steps) else "steps"
        if arrival.refused:
            k, bias = arrival.relaxation_times, abs(arrival.bias)
            advice = "" if method is None else f"; plan recommends {method} there"
            return [
                f"{words} ({cause}): {k:.3g} relaxation times, {bias:.2f} SE of bias in the average{advice}"
            ]
        if method is None:
            return [f"{words}, and no interval is recommended for such a path"]
        reason = self.obstacle(n, epsilon)
        return [] if reason is None else [f"not simulated: {reason}"]


class UndeclaredForecast(SgdForecast):
    """An algorithm that does not declare its steps: a row that says so."""

    def interval(self, n: int, epsilon: float) -> str | None:
        return None

    def method_at(self, n: int, epsilon: float) -> str | None:
        return None

    def expected_half_width(self, n: int, epsilon: float) -> float:
        return math.inf

    def expected_users(self, epsilon: float, half_width: float) -> int | None:
        return None

    def cautions(self, n: int, epsilon: float) -> list[str]:
        return [f"{self.steps.undeclared} does not declare steps c i^-gamma: nothing is computed from them"]


class CellsForecast(SgdForecast):
    """LDP-SGD for several quantiles at once: every user reports a cell between the iterates."""

    name = "cells"

    def bits(self, n: int, epsilon: float) -> float:
        return self.target.answers * math.log2(self.target.quantiles + 1)

    def users(self, n: int) -> int:
        return Forecast.users(self, n)

    def users_to_ask(self, users: int) -> int:
        return math.ceil(users / self.target.answering * (1 - 1e-12))

    def step_variance(self, epsilon: float) -> float:
        levels = sorted(self.target.together)
        truth = self.target.tau * (1.0 - self.target.tau)
        once = cells_covariance(levels, epsilon / self.target.answers)[self.coordinate()][self.coordinate()]
        return truth + (once - truth) / self.target.answers

    def method(self, arrival: Arrival, case: Approach) -> str | None:
        found = recommended(arrival, case)
        return None if found == "TR3" else found  # vectors have no degree 3

    def problem_and_mechanism(self, epsilon: float) -> tuple[Problem, Mechanism]:
        law = self.target.law
        problem = Quantiles(
            taus=tuple(sorted(self.target.together)),
            law=law.name,
            location=law.location,
            scale=law.scale,
            df=law.df,
        )
        return problem, Cells(epsilon=epsilon)

    def transcript_regression(self, name: str) -> TranscriptRegression:
        return TranscriptRegression(degree=2 if self.target.quantiles <= SMALL else 1)

    def coordinate(self) -> int:
        return sorted(self.target.together).index(self.target.tau)

    def obstacle(self, n: int, epsilon: float) -> str | None:
        if self.target.answers > 1:
            return "several answers of a user"
        if self.target.law.name not in LAWS_OF_SEVERAL:
            return f"several quantiles of {self.target.law.name}"
        return super().obstacle(n * self.target.quantiles, epsilon)
