"""Simulators of one-pass algorithms: every user is met once."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ldpflow.algorithms import Algorithm
from ldpflow.columns import Column
from ldpflow.errors import InputError
from ldpflow.intervals import IntervalMethod
from ldpflow.intervals.record import PathRecord, Record, joined
from ldpflow.intervals.variance import asymptotic_variances
from ldpflow.mechanisms import Mechanism, PrivacyStatement
from ldpflow.problems import BaseProblem, Problem
from ldpflow.problems.laws import Variate
from ldpflow.problems.units import Units
from ldpflow.random.lockstep import CHUNK, LANES
from ldpflow.settings import Settings, canonical_json
from ldpflow.simulators.approach import Approach, LinearApproach
from ldpflow.simulators.cell import Cell, by_runs, methods_of
from ldpflow.simulators.memory import BYTES_PER_TIME, check_budget, recorded_times
from ldpflow.simulators.run_path import count_of, kernel_digest, kernel_of, run_path
from ldpflow.simulators.simulator import Cost, LimitLaw, Request, Simulator
from ldpflow.simulators.trajectories import excess_loss_seconds, log_spaced, one_pass_trajectories

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["NANOSECONDS_PER_COORDINATE", "OnePass", "PathRequest", "kernel_of", "run_path"]

NANOSECONDS_PER_COORDINATE = 3.0
"""First guess of the time of a step, replicate and coordinate, replaced by what a run measures."""

SHARE_OF_SUM = 0.25
"""First guess of how much longer a step takes for each running sum."""


@dataclass(frozen=True)
class PathRequest(Request):
    """Request for a path; its times are computed on first use."""

    path: OnePass = field(kw_only=True)

    @cached_property
    def sums(self) -> list[str]:
        """Names of the running sums."""
        d = self.path.dimension
        return sorted({name for (_, method), _ in methods_of(self.cells) for name in method.running_sums(d)})

    @cached_property
    def marked(self) -> list[int]:
        """Times at which the running sums are kept."""
        return list(self.recorded[1])

    @cached_property
    def times(self) -> list[int]:
        """Times at which prefix sums and iterates are kept, those marked among them."""
        return list(self.recorded[0])

    @property
    def recorded(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Times, and the marked ones of them, in order: the union over cells and checkpoints."""
        return recorded_by(self.path, self.cells, self.checkpoints)


@lru_cache(maxsize=8)  # every batch of a path asks for the same
def recorded_by(
    path: OnePass, cells: tuple[Cell, ...], checkpoints: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Times that cells and checkpoints need, and the marked ones of them, in order."""
    d = path.dimension
    times = {path.steps(n) for n in checkpoints}
    if path.algorithm.averages_tail():
        times |= {t // 2 for t in times if t > 1}
    marked: set[int] = set()
    for (n, method), group in methods_of(cells):
        steps = path.steps(n)
        levels = [cell.level for cell in group]
        times.update(method.level_times(steps, path.algorithm, levels).tolist())
        if method.running_sums(d):
            marked.update(method.marked_times(steps, path.algorithm, d))
    return tuple(sorted(times | marked)), tuple(sorted(marked))


@dataclass(frozen=True)
class OnePass(Simulator[PathRequest, PathRecord]):
    """Problem, mechanism and one-pass algorithm: what determines the iterates of a replicate.

    Parameters
    ----------
    problem, mechanism, algorithm : Problem, Mechanism, Algorithm
    horizon : int, optional
        n, where paths of different n are meant to differ (``independent_n``, or an algorithm whose
        settings depend on the horizon); None where one path serves every n.
    units : Units, optional
        What the study gives steps and start in. They are in the unit of the data here.
    """

    family: ClassVar[str] = "one_pass"
    tables: ClassVar[tuple[str, ...]] = ("problem", "mechanism", "algorithm")

    problem: Problem
    mechanism: Mechanism
    algorithm: Algorithm
    horizon: int | None = None
    units: Units | None = None

    def parts(self) -> dict[str, Settings]:
        return {"problem": self.problem, "mechanism": self.mechanism, "algorithm": self.algorithm}

    def settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = {table: part.key_settings() for table, part in self.parts().items()}
        if self.algorithm.carries_privacy:
            del settings["mechanism"]  # there is none
        if self.horizon is not None:
            settings["n"] = self.horizon
        return settings

    @classmethod
    def from_settings(cls, parts: Mapping[str, Any], horizon: int | None) -> Self:
        return cls(parts["problem"], parts["mechanism"], parts["algorithm"].with_users(horizon), horizon)

    def truth(self) -> NDArray[np.float64]:
        return np.array(self.problem.truth())

    @property
    def dimension(self) -> int:
        return self.problem.dimension

    def privacy(self) -> PrivacyStatement:
        return self.algorithm.privacy(self.mechanism)

    def derived(self) -> dict[str, Any]:
        return {} if self.horizon is None else self.algorithm.columns(self.problem, self.horizon)

    def users_key(self) -> str:
        # A mechanism that draws private bits directly draws no users at all.
        return self.key if self.mechanism.replaces_data() else self.data_key()

    def least_users(self) -> int:
        return self.algorithm.records_per_step()

    def warnings(self) -> list[str]:
        return self.algorithm.cautions(self.problem, self.horizon)

    def limit_law(self) -> LimitLaw | None:
        if not self.algorithm.has_intervals():
            return None
        records, made = self.algorithm.records_per_step(), self.steps(self.horizon or 0)
        fewer = self.horizon is not None and made < self.horizon // records
        return LimitLaw(asymptotic_variances(self), records, made if fewer else None)

    def declares_decay(self) -> bool:
        """Whether the algorithm declares that step i has size c i^(-gamma)."""
        return 0.0 < self.algorithm.step_exponent() < 1.0 and not math.isnan(self.algorithm.step_constant())

    def approach(self, n: int) -> Approach | None:
        target, gamma = self.problem.quantile_target(), self.algorithm.step_exponent()
        if target is None or not self.declares_decay() or self.algorithm.projects():
            return None
        tau, law = target
        records = self.algorithm.records_per_step()
        ((variance,),) = self.algorithm.step_covariance(self.problem, self.randomiser)
        return Approach(
            law,
            tau,
            records * variance - tau * (1.0 - tau),
            self.algorithm.step_constant(),
            gamma,
            self.algorithm.theta0,
            self.steps(n),
            records,
        )

    def linear_approach(self, n: int) -> LinearApproach | None:
        gamma, curvature = self.algorithm.step_exponent(), self.problem.curvature()
        known = all(math.isfinite(value) for row in curvature for value in row)
        law = self.limit_law()
        if not known or law is None or not self.declares_decay() or self.algorithm.projects():
            return None
        if factors := self.algorithm.step_factors():  # of several quantiles, whose curvature is diagonal
            curvature = [[f * value for value in row] for f, row in zip(factors, curvature, strict=True)]
        start, truth = self.algorithm.start(self.dimension), self.problem.truth()
        return LinearApproach(
            tuple(map(tuple, curvature)),
            tuple(a - b for a, b in zip(start, truth, strict=True)),
            law.variances,
            self.algorithm.step_constant(),
            gamma,
            self.steps(n),
        )

    def with_epsilon(self, epsilon: float) -> Self | None:
        if "epsilon" not in type(self.mechanism).model_fields:
            return None
        return replace(self, mechanism=self.mechanism.model_copy(update={"epsilon": epsilon}))

    @cached_property
    def randomiser(self) -> Mechanism:
        """The mechanism as the algorithm uses it: shared between its paths, or brought by itself."""
        return self.algorithm.randomiser(self.mechanism)

    def measures(self) -> tuple[Column, ...]:
        return (self.randomiser if self.algorithm.counts_in_mechanism() else self.algorithm).measures

    def measured(self) -> tuple[str, ...]:
        """Names of what the kernel records beside the iterates."""
        return tuple(column.name for column in self.measures())

    def steps(self, n: int) -> int:
        """Steps that the first n users make on this path."""
        if self.horizon is None or n == self.horizon:
            return self.algorithm.steps(n)
        return self.algorithm.steps_within(n, self.horizon)

    def data_variates(self) -> tuple[Variate, ...]:
        """Standard variates that one record takes; none where no record is drawn."""
        return () if self.mechanism.replaces_data() else self.problem.variates()

    def public_key(self) -> str:
        """Key of the public randomness of the mechanism: every step size meets the same budgets."""
        key = canonical_json(self.mechanism.key_settings())
        return key if self.horizon is None else f"{key}/n={self.horizon}"

    def data_key(self) -> str:
        """Key of the data streams: the problem's, so that paths are compared on the same users."""
        key = self.problem.data_key()
        return key if self.horizon is None else f"{key}/n={self.horizon}"

    @classmethod
    def of_study(
        cls, parts: Mapping[str, Any], users: tuple[int, ...], independent_n: bool
    ) -> Iterator[tuple[Self, tuple[int, ...]]]:
        problem, mechanism, algorithm = (parts[table] for table in cls.tables)
        check_suitable(problem, mechanism, algorithm)
        stored = problem.stored_records()
        if 0 < stored < users[-1] and not problem.with_replacement():
            raise InputError("grid.n", users[-1], f"at most {stored:,}, the records of the file")
        problem, units = problem.in_own_unit()
        if units is not None:
            algorithm = algorithm.in_units(units)
        least = 1 if algorithm.depends_on_horizon() else algorithm.records_per_step()
        if users[0] < least:
            hint = f"One step of {algorithm.kind} takes that many users."
            raise InputError("grid.n", users[0], f"at least {least:,}", hint)
        if independent_n or algorithm.depends_on_horizon():
            for n in users:
                yield cls(problem, mechanism, algorithm.with_users(n).resolved(problem, n), n, units), (n,)
        else:
            yield cls(problem, mechanism, algorithm.resolved(problem, None), None, units), users

    def checkpoints(self, users: tuple[int, ...], first: int, points: int) -> tuple[int, ...]:
        """Log-spaced numbers of users and every n, unless the algorithm has its own."""
        own = self.algorithm.checkpoints(self.problem, users[-1], points)
        if own is not None:
            return own
        spaced = log_spaced(max(first, self.least_users()), max(users), points)
        return tuple(sorted({*spaced, *users}))

    def interval_record(self) -> type[Record] | None:
        return PathRecord if self.algorithm.has_intervals() else None

    def check_methods(self, methods: Sequence[IntervalMethod], followed: bool) -> None:
        gamma = self.algorithm.step_exponent()
        # Constant steps have a limit law of their own, and it is theirs to warn of.
        if methods and 0.0 < gamma <= 0.5:
            raise InputError(
                "algorithm.gamma",
                gamma,
                "a number in (1/2, 1) where a study has interval methods",
                "A study with [trajectory] alone may use all of (0, 1).",
            )
        asked = self.algorithm.has_intervals() or not followed
        if methods and asked and not any(method.applies(self) for method in methods):
            reasons = dict.fromkeys(f"{method.kind}: {method.lacking(self)}." for method in methods)
            raise InputError(
                "method.kind",
                ", ".join(dict.fromkeys(method.kind for method in methods)),
                f"a method for {self.algorithm.kind}",
                " ".join(reasons)
                if self.algorithm.has_intervals()
                else "It makes too few steps for intervals; a study with [trajectory] alone may have it.",
            )

    def check_cost(self, cells: tuple[Cell, ...]) -> None:
        check_budget(*recorded_times(self, cells), self.dimension)

    def needs(self, cells: Sequence[Cell] = (), checkpoints: Sequence[int] = ()) -> PathRequest:
        return PathRequest(tuple(cells), tuple(checkpoints), path=self)

    def cost(self, request: PathRequest, replicates: int) -> Cost:
        users = max([*(cell.n for cell in request.cells), *request.checkpoints])
        gradients = users * (1 + self.algorithm.perturbed_paths()) * self.dimension * replicates
        slower = 1.0 + SHARE_OF_SUM * len(request.sums)
        seconds = gradients * slower * NANOSECONDS_PER_COORDINATE * 1e-9
        if request.checkpoints:
            curves = 3 if self.algorithm.averages_tail() else 2
            losses = curves * len(request.checkpoints) * replicates
            seconds += losses * excess_loss_seconds(self.problem)
        return Cost(self.steps(users) * replicates, seconds)

    def memory(self, request: PathRequest) -> int:
        times = recorded_times(self, request.cells)[0] if request.cells else 0
        return (times + len(request.checkpoints)) * self.dimension * BYTES_PER_TIME

    def prepare(self, request: PathRequest) -> None:
        kernel_of(self, tuple(request.sums))

    def run(self, seed: int, replicates: Sequence[int], request: PathRequest) -> PathRecord:
        parts = [replicates[at : at + LANES] for at in range(0, len(replicates), LANES)]
        return joined(
            [run_path(self, seed, part, request.times, request.marked, request.sums) for part in parts]
        )

    def trajectories(self, record: PathRecord, checkpoints: tuple[int, ...]) -> pa.Table:
        return one_pass_trajectories(self, record, checkpoints)

    def alike(self, request: PathRequest) -> object:
        digest = kernel_digest(self, tuple(request.sums))
        if not self.algorithm.depends_on_horizon():
            return digest
        return digest, self.horizon, getattr(self.algorithm, "batch_size", None)

    def seconds_per_step(self, request: PathRequest, budget: float) -> float:
        """From a run that doubles until it fills half of the budget."""
        self.prepare(request)
        longest = request.times[-1]
        fixed = self.algorithm.depends_on_horizon()  # then a path has no further steps
        steps = min(16 * CHUNK, longest) if fixed else 16 * CHUNK
        while True:
            started = time.thread_time()
            run_path(self, 0, range(LANES), [steps], [steps], request.sums)
            seconds = time.thread_time() - started
            if seconds > budget / 3.0 or (fixed and steps == longest):
                return seconds / steps
            steps = min(2 * steps, longest) if fixed else 2 * steps

    def seconds_per_record(self, request: PathRequest) -> float:
        """From a made-up record, a random walk: the cost of sorting and summing depends on no more."""
        from ldpflow.simulators.rows import seconds_of_rows

        total = 0.0
        for runs, cells in by_runs(request.cells).items():
            d, replicates = self.dimension, LANES * runs
            asked = self.needs(cells)
            shape = (len(asked.times), d, replicates)
            sums = {
                name: np.ones((count_of(self, name), len(asked.marked), d, replicates)) for name in asked.sums
            }
            record = PathRecord(
                source=self,
                seed=0,
                replicates=np.arange(replicates),
                times=np.array(asked.times),
                origin=self.truth(),
                prefix_sums=np.cumsum(np.random.default_rng(0).standard_normal(shape), axis=0),
                iterates=np.zeros(shape),
                running_sums=sums,
                marked_times=np.array(asked.marked),
            )
            total += seconds_of_rows(record, cells) / runs
        return total


def check_suitable(problem: BaseProblem, mechanism: Mechanism, algorithm: Algorithm) -> None:
    """Refuse a mechanism or an algorithm that does not fit the problem."""
    # The algorithm first: what a mechanism lacks does not matter where no algorithm could use it.
    reason: str | None = "it visits a record once, and the problem is about one data set"
    if isinstance(problem, Problem):
        reason = algorithm.unsuitable(problem, mechanism)
    if reason is not None or not isinstance(problem, Problem):
        allowed = f"an algorithm for {problem.kind} under {mechanism.kind}"
        raise InputError("algorithm.kind", algorithm.kind, allowed, f"{reason}.")
    reason = mechanism.unsuitable(problem)
    if reason is not None:
        raise InputError("mechanism.kind", mechanism.kind, f"a mechanism for {problem.kind}", f"{reason}.")
