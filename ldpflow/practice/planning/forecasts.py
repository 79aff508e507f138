"""Accuracy of one protocol for one quantile, by simulation of its default interval.

The asymptotic variance of an estimate says nothing about the bias inside bins, the gain of isotonic
regression, the users that ``rounds`` spends on its search, or the length of the interval. A simulation from
the exact law of the counts includes all of this, and takes half a second. LDP-SGD is simulated user by user,
with the interval that a plan recommends for its path.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpflow.components.algorithms import Algorithm
from ldpflow.components.algorithms.ldp_sgd import LdpSgd
from ldpflow.components.intervals.counts import Fieller, Inversion
from ldpflow.components.intervals.interval import IntervalMethod, Intervals
from ldpflow.components.intervals.transcript import TranscriptRegression
from ldpflow.components.mechanisms import Mechanism
from ldpflow.components.mechanisms.cells import Cells
from ldpflow.components.mechanisms.deployed_response import DeployedResponse
from ldpflow.components.mechanisms.randomized_response import RandomizedResponse
from ldpflow.components.problems.column_law import Records
from ldpflow.components.problems.laws import Law
from ldpflow.components.problems.quantile import QuantileProblem, Quantiles
from ldpflow.components.problems.transform import inverse, slope
from ldpflow.components.protocols import OneShot, Protocol
from ldpflow.components.protocols.collections import (
    Histograms,
    edge_cdf,
    line_quantile,
    run_one_shot,
    run_rounds,
    variance_at,
)
from ldpflow.numerics import constants
from ldpflow.numerics.running_sums import RUNNING_SUMS
from ldpflow.numerics.streams import LANES, address_digests
from ldpflow.practice.planning.designs import Design
from ldpflow.practice.planning.method import RECOMMENDED, expected_interval, own_fit, users_with_method
from ldpflow.practice.planning.sources import OwnSteps, Source, problem_of
from ldpflow.results.arrival import Arrival, predict_arrivals
from ldpflow.results.protocol_curves import bit_variance, level_with_dropout, level_with_liars
from ldpflow.settings import Settings
from ldpflow.simulators.approach import Approach, approach
from ldpflow.simulators.one_pass import OnePass
from ldpflow.simulators.simulator import Cell

Floats = NDArray[np.float64]

DECIDING = 6  # most batches of replicates of a row, after which its coverage may stay undecided
MOST_STEPS = 2 * 10**9  # most steps of a simulation of LDP-SGD, over all replicates; they take seconds
ROUNDS = 5  # rounds of the protocol ``rounds``
FEWEST = 100  # replicates that a median length needs
METHODS: dict[str, IntervalMethod] = {
    "fieller": Fieller(),
    "outer": Inversion(limits="outer"),
    **{name: TranscriptRegression(**settings) for name, settings in RECOMMENDED.items()},
}


@dataclass(frozen=True)
class Target:
    """Quantile to estimate.

    ``together`` has the increasing levels of all quantiles that are wanted from the same users. ``source``
    gives LDP-SGD its steps and its recommended method. ``response`` to ``answers`` are options of a plan.
    """

    law: Law
    tau: float
    level: float
    together: tuple[float, ...]
    response: float = 1.0
    liars: float = 0.0
    answer_below: float = 1.0
    answer_above: float = 1.0
    answers: int = 1
    source: Source = field(default_factory=Source)

    @property
    def z(self) -> float:
        return constants.normal_quantile(0.5 + self.level / 2)

    @property
    def answering(self) -> float:
        return self.response * (self.tau * self.answer_below + (1.0 - self.tau) * self.answer_above)

    @cached_property
    def dropout_bias(self) -> float:
        """Bias of every estimate from drop-out that depends on the value, in the unit of the data."""
        if self.answer_below == self.answer_above:
            return 0.0
        level = level_with_dropout(self.tau, self.answer_below, self.answer_above)
        return self.quantile(level) - self.quantile(self.tau)

    @property
    def quantiles(self) -> int:
        return len(self.together)

    @cached_property
    def grid(self) -> float:
        """Distance between neighbouring values of a rounded column, 0 for values that are not rounded."""
        return self.source.spacing(self.law)

    @cached_property
    def counted_law(self) -> Law:
        return self.source.counted_law(self.law, self.together)

    @cached_property
    def truth(self) -> float:
        return float(inverse(self.source.transform, self.counted_law.quantile(self.tau)))

    @cached_property
    def density(self) -> float:
        return self.law.density_at_quantile(self.tau) / self.slope

    @cached_property
    def slope(self) -> float:
        """Factor that turns a short length on the source's scale into one in the unit of the data."""
        return float(slope(self.source.transform, self.law.quantile(self.tau)))

    def quantile(self, level: float) -> float:
        return float(inverse(self.source.transform, self.law.quantile(level)))


class Simulated(NamedTuple):
    """Estimates and intervals of replicates, shape (replicates,). An undefined interval has limits NaN.

    ``range_end`` says whether an interval ends at the public range.
    """

    estimate: Floats
    lower: Floats
    upper: Floats
    range_end: NDArray[np.bool_]

    def coverage(self, truth: float) -> float:
        """Share of the intervals that hold the truth; an undefined one is a miss."""
        return float(np.mean((self.lower <= truth) & (truth <= self.upper)))

    def half_width(self) -> float:
        """Median of half the lengths; an undefined interval is infinitely long."""
        lengths = self.upper - self.lower
        return float(np.median(np.where(np.isfinite(lengths), lengths, np.inf)) / 2)


class Forecast(ABC):
    """One protocol for one target. n counts the users asked."""

    name: str
    needs = "range"  # what must be known before the reports
    default = "outer"  # name of the interval
    splits_users = False  # whether each quantile has users of its own
    of_pilot: tuple[str, ...] = ()  # settings of its design that are functions of a pilot
    serves_all = False  # whether one collection with the problem ``quantile`` serves all quantiles
    batches = 4  # fewest batches of replicates of a row
    searched = 200  # replicates in a search, which needs the median length alone

    def __init__(self, target: Target) -> None:
        self.target = target

    @abstractmethod
    def rounds(self, n: int) -> int:
        """Rounds of interaction."""

    def messages(self) -> int:
        """Reports that a user sends."""
        return self.target.answers

    def bits(self, n: int, epsilon: float) -> float:
        return float(self.messages())

    @abstractmethod
    def state(self, n: int, epsilon: float) -> int:
        """Bytes that a collector keeps for the intervals of all quantiles."""

    def bins(self, n: int, epsilon: float) -> int | None:
        return None

    @abstractmethod
    def standard_error(self, n: int, epsilon: float) -> float:
        """Asymptotic standard error in the unit of the data."""

    @abstractmethod
    def simulate(self, n: int, epsilon: float, replicates: int, seed: int) -> Simulated | None:
        """Simulate replicates. None if there is no interval or it cannot be simulated: a caution says why."""

    def interval(self, n: int, epsilon: float) -> str | None:
        """Name of the interval of the row, or None if no interval is recommended."""
        return self.default

    def users(self, n: int) -> int:
        answering = int(self.target.answering * n)
        return answering // self.target.quantiles if self.splits_users else answering

    @abstractmethod
    def parts(self, n: int, epsilon: float) -> dict[str, Settings]:
        """Components of the collection by table, without the problem."""

    def method(self, name: str) -> IntervalMethod:
        """Method of an interval that :meth:`interval` names."""
        return METHODS[name]

    @cached_property
    def problem(self) -> QuantileProblem:
        t = self.target
        return t.source.problem(t.tau) if isinstance(t.source, OwnSteps) else problem_of(t.law, t.tau)

    def design(self, n: int, epsilon: float) -> Design | None:
        """Collection of the row, or None if no interval is recommended."""
        name, t = self.interval(n, epsilon), self.target
        if name is None:
            return None
        parts = {"problem": self.problem, **self.parts(n, epsilon), "method": self.method(name)}
        taus = t.together if self.serves_all else ()
        return Design(parts, self.users(n), t.level, self.messages(), self.of_pilot, taus)

    @abstractmethod
    def cautions(self, n: int, epsilon: float) -> list[str]:
        """Warnings about the design at n users."""

    def liars_level(self, epsilon: float, push: str) -> float:
        """Level of the quantile that is estimated if liars push the estimate "up" or "down"."""
        return level_with_liars(self.target.tau, epsilon / self.messages(), self.target.liars, push)

    def liars_shift(self, n: int, epsilon: float, seed: int) -> float:
        """Largest bias that liars cause, in the unit of the data. Infinite if they decide the estimate."""
        t, levels = self.target, [self.liars_level(epsilon, push) for push in ("down", "up")]
        if not all(0.0 < level < 1.0 for level in levels):
            return math.inf
        return max(abs(t.quantile(level) - t.quantile(t.tau)) for level in levels)


class SgdForecast(Forecast):
    """LDP-SGD with randomised response, and the interval that a plan recommends for its path."""

    name = "sgd"
    needs = "start, step"
    of_pilot = ("c", "theta0")
    splits_users = True
    batches = 1
    searched = 300
    dimension = 1
    coordinate = 0  # of the quantile, in theta

    def __init__(self, target: Target, steps: Algorithm | None = None) -> None:
        """Take start and steps from ``steps``, or from LDP-SGD's defaults, unless the source chooses them."""
        super().__init__(target)
        self.steps = steps or LdpSgd()

    def rounds(self, n: int) -> int:
        return n

    def algorithm(self, users: int) -> LdpSgd:
        """LDP-SGD with the steps and starts of a path of so many users."""
        t, given = self.target, self.steps
        if isinstance(t.source, OwnSteps):
            return t.source.algorithm(t.together if self.dimension > 1 else (t.tau,), users)
        return LdpSgd(c=given.step_constant(), gamma=given.step_exponent(), theta0=given.theta0)

    def state(self, n: int, epsilon: float) -> int:
        """Bytes of a path's record: iterates, their sums, and the running sums of the interval method."""
        users, method = self.users(n), self.method(self.interval(n, epsilon) or "TR")
        request = self.path(users, epsilon).needs((Cell(users, method, self.target.level),))
        sums = sum(RUNNING_SUMS[name].count(self.dimension) for name in request.sums)
        size = 8 * self.dimension * (2 * len(request.times) + sums * len(request.marked))
        return size * self.target.quantiles // self.dimension

    def mechanism(self, epsilon: float) -> Mechanism:
        if self.target.answers > 1:
            return DeployedResponse(epsilon=epsilon, answers=self.target.answers)
        return RandomizedResponse(epsilon=epsilon)

    def step_variance(self, epsilon: float) -> float:
        covariance = LdpSgd().step_covariance(self.problem, self.mechanism(epsilon))
        return covariance[self.coordinate][self.coordinate]

    def standard_error(self, n: int, epsilon: float) -> float:
        return math.sqrt(self.step_variance(epsilon) / self.users(n)) / self.target.density

    def case(self, users: int, epsilon: float) -> Approach:
        found = approach(self.path(users, epsilon), users, self.coordinate)
        assert found is not None
        return found

    def judge(self, n: int, epsilon: float) -> tuple[Arrival, str | None]:
        case = self.case(self.users(n), epsilon)
        (arrival,) = predict_arrivals([case])
        return arrival, self.recommend(arrival, case)

    def recommend(self, arrival: Arrival, case: Approach) -> str | None:
        return self.target.source.method(arrival, case)

    def interval(self, n: int, epsilon: float) -> str | None:
        return self.judge(n, epsilon)[1]

    def expected_half_width(self, n: int, epsilon: float) -> float:
        arrival, method = self.judge(n, epsilon)
        found = None if method is None else expected_interval(arrival, method)
        error = arrival.standard_error * self.target.slope
        return math.inf if found is None else found.length * self.target.z * error

    def expected_users(self, epsilon: float, half_width: float) -> int | None:
        error = half_width / self.target.z
        first = math.ceil(self.step_variance(epsilon) / (self.target.density * error) ** 2)
        found = users_with_method(
            lambda users: self.case(users, epsilon),
            self.recommend,
            half_width / self.target.slope,
            self.target.level,
            first,
        )
        share = self.target.answering / (self.target.quantiles if self.splits_users else 1)
        return None if found is None else math.ceil(found[0] / share * (1 - 1e-12))

    def path(self, users: int, epsilon: float) -> OnePass:
        return OnePass(self.problem, self.mechanism(epsilon), self.algorithm(users))

    def parts(self, n: int, epsilon: float) -> dict[str, Settings]:
        path = self.path(self.users(n), epsilon)
        return {"mechanism": path.mechanism, "algorithm": path.algorithm}

    def obstacle(self, n: int, epsilon: float) -> str | None:
        path = self.path(self.users(n), epsilon)
        if (reason := path.mechanism.unsuitable(path.problem)) is not None:
            return reason
        if self.users(n) * self.dimension * FEWEST > MOST_STEPS:
            return f"at most {MOST_STEPS // FEWEST:,} users are simulated"
        return None

    def simulate(self, n: int, epsilon: float, replicates: int, seed: int) -> Simulated | None:
        name, users, at = self.interval(n, epsilon), self.users(n), self.coordinate
        if name is None or self.obstacle(n, epsilon) is not None:
            return None
        path, count = self.path(users, epsilon), min(replicates, MOST_STEPS // users)
        found = path_intervals(path, self.method(name), users, self.target.level, count, seed)
        estimate, lower, upper = inverse(self.target.source.transform, found[:, at])
        return Simulated(estimate, lower, upper, np.zeros(count, dtype=bool))

    def cautions(self, n: int, epsilon: float) -> list[str]:
        arrival, method = self.judge(n, epsilon)
        words, found = arrival.verdict.replace("_", " "), []
        if arrival.refused:
            found.append(f"{words} for an average: {arrival.describe()}")
        if method is None:
            return [*found, f"{words}, and no interval is recommended for such a path"]
        if arrival.refused:
            own = own_fit(self.case(self.users(n), epsilon), method).bias
            found.append(f"{method} is no average: its own bias is predicted as {own:+.2f} SE")
        reason = self.obstacle(n, epsilon)
        return found if reason is None else [*found, f"not simulated: {reason}"]


class SplitBudgetForecast(SgdForecast):
    """LDP-SGD for Q quantiles: every user answers about each, with epsilon/Q."""

    name = "sgd_epsilon"
    splits_users = False

    def messages(self) -> int:
        return self.target.answers * self.target.quantiles

    def mechanism(self, epsilon: float) -> Mechanism:
        return super().mechanism(epsilon / self.target.quantiles)


class CellsForecast(SgdForecast):
    """LDP-SGD for several quantiles at once: every user reports once, a cell between the iterates."""

    name = "cells"
    splits_users = False

    def __init__(self, target: Target, steps: Algorithm | None = None) -> None:
        super().__init__(target, steps)
        self.dimension, self.coordinate = target.quantiles, target.together.index(target.tau)

    def bits(self, n: int, epsilon: float) -> float:
        return math.log2(self.target.quantiles + 1)

    def mechanism(self, epsilon: float) -> Mechanism:
        return Cells(epsilon=epsilon)

    def recommend(self, arrival: Arrival, case: Approach) -> str | None:
        # All quantiles get TR of degree 2. The simulated coverage shows whether it is enough.
        return None if super().recommend(arrival, case) is None else "TR"

    @cached_property
    def problem(self) -> QuantileProblem:
        law = super().problem.model_dump(exclude={"kind", "tau"})
        return Quantiles(taus=self.target.together, **law)

    def liars_level(self, epsilon: float, push: str) -> float:
        t = self.target
        return level_with_liars(t.tau, epsilon, t.liars, push, self.coordinate + 1, t.quantiles)

    def method(self, name: str) -> IntervalMethod:
        return TranscriptRegression(degree=2, separate=True, variance="residual")  # as ldpflow analyse has it


class CountsForecast(Forecast):
    """A protocol without a path. ``template`` lacks the budget and the settings of the users who answer."""

    def __init__(self, target: Target, template: Any, scale: str = "") -> None:
        super().__init__(target)
        self.template = template
        self.name = f"{template.kind}_{scale}" if scale else template.kind
        self.of_pilot = ("edges",) if scale == "mass" else ()

    def protocol(self, epsilon: float, **settings: Any) -> Any:
        t = self.target
        answering = {"answer_below": t.answering, "answer_above": t.answering, "answers": t.answers}
        return self.template.model_copy(update={"epsilon": float(epsilon), **answering, **settings})

    def parts(self, n: int, epsilon: float) -> dict[str, Settings]:
        return {"protocol": self.template.model_copy(update={"epsilon": float(epsilon)})}

    def rounds(self, n: int) -> int:
        return int(self.template.interaction_rounds())

    def cautions(self, n: int, epsilon: float) -> list[str]:
        """Warnings if the quantile is outside the range, or if noise dominates the counts of its tail."""
        t = self.target
        low, high = self.template.range
        tail = min(t.tau, 1.0 - t.tau)
        found = [] if low < t.law.quantile(t.tau) < high else ["outside range"]
        asked = n // t.quantiles if self.splits_users else n
        if 9.0 * bit_variance(t.tau, epsilon, t.answers) / tail**2 > t.answering * asked / 6.0:
            found.append("n too small")
        return found


class RoundsForecast(CountsForecast):
    default = "fieller"
    splits_users = True
    batches = 2

    def state(self, n: int, epsilon: float) -> int:  # counts of answers and of ones at every threshold
        return 16 * int(sum(self.template.thresholds())) * self.target.quantiles

    def standard_error(self, n: int, epsilon: float) -> float:
        """Standard error of an estimate with the least possible variance."""
        t = self.target
        variance = t.quantiles * bit_variance(t.tau, epsilon, t.answers)
        return math.sqrt(variance / (t.answering * n)) / t.density

    def simulate(self, n: int, epsilon: float, replicates: int, seed: int) -> Simulated | None:
        t, users, protocol = self.target, n // self.target.quantiles, self.protocol(epsilon)
        if users < protocol.least_users():
            return None
        run = run_rounds(protocol, t.law, t.tau, users, keys_of(protocol, users, replicates, seed))
        return take_limits(t, run.intervals([t.z]))


class OneShotForecast(CountsForecast):
    """A protocol of one round. Its number of bins is chosen by its rule for every n and epsilon."""

    serves_all = True

    @cached_property
    def problem(self) -> QuantileProblem:
        """The problem of the design. A sweep draws the pilot's own records if the plan does."""
        found, drawn = super().problem, self.target.counted_law.table
        if not isinstance(drawn, Records):
            return found
        return found.model_copy(update={"ties": "keep", "law_table": drawn.text()})

    def parts(self, n: int, epsilon: float) -> dict[str, Settings]:
        update = {"epsilon": float(epsilon), "k": self.bins(n, epsilon), "scale_guess": None}
        return {"protocol": self.template.model_copy(update=update)}

    def bits(self, n: int, epsilon: float) -> float:
        return float(self.protocol(epsilon).bits(n))

    def state(self, n: int, epsilon: float) -> int:  # counts of answers and of reports for every question
        return 16 * int(self.template.questions(self.bins(n, epsilon)))

    def bins(self, n: int, epsilon: float) -> int:
        return int(self.protocol(epsilon).bins(n))

    def standard_error(self, n: int, epsilon: float) -> float:
        t, protocol = self.target, self.protocol(epsilon)
        variance = float(variance_at(protocol, t.law, t.tau, protocol.bins(n)))
        return math.sqrt(variance / (t.answering * n)) / t.density

    def simulate(self, n: int, epsilon: float, replicates: int, seed: int) -> Simulated | None:
        t, protocol = self.target, self.protocol(epsilon)
        run = shared_run(protocol, t.counted_law, t.together[0], n, replicates, seed)
        return take_limits(t, run.intervals([t.tau], [t.z], "outer"))

    def liars_shift(self, n: int, epsilon: float, seed: int) -> float:
        """Simulate a large n, at which noise is small."""
        t, k, many = self.target, self.bins(n, epsilon), max(n, 10**10)

        def median(share: float, push: str) -> float:
            protocol = self.protocol(epsilon, k=k, liars=share, liars_push=push)
            run = run_one_shot(protocol, t.counted_law, t.tau, many, keys_of(protocol, many, 20, seed))
            estimate = run.intervals([t.tau], [], "outer").estimate
            return float(np.median(inverse(t.source.transform, estimate)))

        return max(abs(median(t.liars, push) - median(0.0, push)) for push in ("down", "up"))

    def cautions(self, n: int, epsilon: float) -> list[str]:
        found = super().cautions(n, epsilon)
        edges = self.template.edges(self.bins(n, epsilon))
        # The quantile of the law that is uniform within each bin.
        drawn = line_quantile(edge_cdf(self.target.law, edges), edges, self.target.tau)
        bias = self.target.slope * abs(drawn - self.target.law.quantile(self.target.tau))
        ratio = bias / self.standard_error(n, epsilon)
        if ratio > 0.5 and "outside range" not in found:
            found.insert(0, f"bin bias {ratio:.1f} SE: no line interval")
        return found


@lru_cache(maxsize=32)  # the quantiles of a comparison share their intervals
def path_intervals(
    path: OnePass, method: IntervalMethod, users: int, level: float, replicates: int, seed: int
) -> Floats:
    """Estimates, lower and upper limits, shape (3, coordinates, replicates), computed by threads."""
    request = path.needs((Cell(users, method, level),), ())

    def compute(part: range) -> Floats:
        with np.errstate(all="ignore"):  # undefined intervals, as in ldpflow.simulators.rows
            found = method.intervals(path.run(seed, part, request), users, [level])
        return np.stack([found.estimate, found.lower[0], found.upper[0]])

    first, *others = (range(replicates)[at : at + LANES] for at in range(0, replicates, LANES))
    found = [compute(first)]  # compiles the kernel once for all threads
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return np.concatenate([*found, *pool.map(compute, others)], axis=2)


@lru_cache(maxsize=DECIDING)  # the quantiles of a design share its batches
def shared_run(protocol: OneShot, law: Law, tau: float, n: int, replicates: int, seed: int) -> Histograms:
    """Simulate a protocol without liars. Its result does not depend on ``tau``."""
    return run_one_shot(protocol, law, tau, n, keys_of(protocol, n, replicates, seed))


def keys_of(protocol: Protocol, n: int, replicates: int, seed: int) -> NDArray[np.uint64]:
    key = f"forecast/{protocol.model_dump_json()}/n={n}"
    digests = b"".join(address_digests(seed, "reports", key, range(replicates)))
    return np.frombuffer(digests, dtype="<u4").reshape(-1, 8)[:, :2].astype(np.uint64)


def take_limits(target: Target, limits: Intervals) -> Simulated:
    found = np.stack([limits.estimate[0], limits.lower[0, 0], limits.upper[0, 0]])
    estimate, lower, upper = inverse(target.source.transform, found)
    return Simulated(estimate, lower, upper, limits.diagnosis["range_end"][0, 0] > 0.0)
