"""Simulators of one-pass algorithms, which use every user once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ldpflow.columns import Column
from ldpflow.components.algorithms import Algorithm
from ldpflow.components.intervals import IntervalMethod
from ldpflow.components.intervals.bootstrap import BlockBootstrap
from ldpflow.components.intervals.record import Array, PathRecord, Record, join_records
from ldpflow.components.intervals.variance import BatchMeans
from ldpflow.components.mechanisms import Mechanism, PrivacyStatement
from ldpflow.components.problems import BaseProblem, Problem
from ldpflow.components.problems.laws import Variate
from ldpflow.components.problems.problem import Units
from ldpflow.errors import InputError
from ldpflow.numerics.kernel_functions import flat
from ldpflow.numerics.running_sums import PERTURBED, RUNNING_SUMS
from ldpflow.numerics.streams import LANES, lane_states
from ldpflow.settings import canonical_json
from ldpflow.simulators import one_pass_kernel
from ldpflow.simulators.one_pass_kernel import drawing_parameters, noise_variates, roles_of
from ldpflow.simulators.rows import run_kernel
from ldpflow.simulators.simulator import Cell, Cost, Request, Simulator, methods_of
from ldpflow.simulators.trajectories import (
    excess_loss,
    excess_loss_seconds,
    log_grid,
    squared_norms,
    trajectory_table,
)

if TYPE_CHECKING:
    import pyarrow as pa


BUDGET = 128 * 2**20
"""Maximum bytes of the record of LANES replicates of one path."""

BYTES_PER_TIME = 16 * LANES
"""Bytes per recorded time and coordinate: a prefix sum and an iterate in every lane."""

NANOSECONDS_PER_COORDINATE = 3.0
"""Initial estimate of the time per step, replicate and coordinate, replaced by measurements."""

SHARE_OF_SUM = 0.25
"""Initial estimate of the relative extra time of a step per running sum."""


def check_budget(total: int, largest: tuple[int, int, IntervalMethod], dimension: int) -> None:
    """Refuse a path whose record is too large, naming the setting of its largest part."""
    fit = BUDGET // (BYTES_PER_TIME * dimension)
    if total <= fit:
        return
    count, steps, method = largest
    value: object = method.kind
    field, hint = "method.kind", "Fewer n or fewer methods would fit."
    if isinstance(method, BlockBootstrap):
        field, value, hint = "method.beta", method.beta, "Fewer values of n or beta in one study would fit."
        least = math.ceil(100 * (1 - math.log(fit) / math.log(steps))) / 100
        if least > method.beta:
            hint = f"At this n, beta >= {least:.2f} would fit."
    elif isinstance(method, BatchMeans):
        field, value, hint = "method.M", repr(method.M), f"M <= {fit - 1:,} would fit."
    allowed = f"at most {fit:,} recorded times ({BUDGET // 2**20} MiB for {LANES} replicates)"
    reason = f"{method.kind} makes {count:,} of the {total:,} times needed with {steps:,} steps."
    raise InputError(field, value, allowed, f"{reason} {hint}")


@dataclass(frozen=True)
class PathRequest(Request):
    """Request for a path. Its times are computed on first use."""

    path: OnePass = field(kw_only=True)

    @cached_property
    def sums(self) -> list[str]:
        d = self.path.dimension
        return sorted({name for (_, method), _ in methods_of(self.cells) for name in method.running_sums(d)})

    @cached_property
    def marked(self) -> list[int]:
        """Times at which running sums are recorded."""
        return list(self.recorded[1])

    @cached_property
    def times(self) -> list[int]:
        """Times at which prefix sums and iterates are recorded, including marked ones."""
        return list(self.recorded[0])

    @property
    def recorded(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return find_recorded_times(self.path, self.cells, self.checkpoints)


@lru_cache(maxsize=8)  # every batch of a path needs equal times
def find_recorded_times(
    path: OnePass, cells: tuple[Cell, ...], checkpoints: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Sorted times for cells and checkpoints, and the marked ones among them."""
    d = path.dimension
    times = {path.steps(n) for n in checkpoints}
    if path.algorithm.averages_tail:
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
    """Problem, mechanism and one-pass algorithm, which determine the iterates of a replicate."""

    family: ClassVar[str] = "one_pass"
    tables: ClassVar[tuple[str, ...]] = ("problem", "mechanism", "algorithm")

    problem: Problem
    mechanism: Mechanism
    algorithm: Algorithm
    horizon: int | None = None
    units: Units | None = None

    def parts(self) -> dict[str, Any]:
        return {"problem": self.problem, "mechanism": self.mechanism, "algorithm": self.algorithm}

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

    @cached_property
    def randomiser(self) -> Mechanism:
        """The mechanism as the algorithm uses it: shared between its paths, or its own."""
        return self.algorithm.randomiser(self.mechanism)

    def measures(self) -> tuple[Column, ...]:
        return (self.randomiser if self.algorithm.counts_in_mechanism else self.algorithm).measures

    def steps(self, n: int) -> int:
        """Number of steps of the first n users on this path."""
        if self.horizon is None or n == self.horizon:
            return self.algorithm.steps(n)
        return self.algorithm.steps(n, self.horizon)

    def data_variates(self) -> tuple[Variate, ...]:
        """Standard variates per record."""
        return () if self.mechanism.replaces_data() else self.problem.variates()

    def public_key(self) -> str:
        """Key of the mechanism's public randomness, shared by paths of all step sizes."""
        key = canonical_json(self.mechanism.key_settings())
        return key if self.horizon is None else f"{key}/n={self.horizon}"

    def data_key(self) -> str:
        """Key of the data streams: the problem's, so that paths are compared on the same users."""
        key = self.problem.data_key()
        return key if self.horizon is None else f"{key}/n={self.horizon}"

    @classmethod
    def of_study(
        cls, parts: dict[str, Any], users: tuple[int, ...], independent_n: bool
    ) -> Iterator[tuple[Self, tuple[int, ...]]]:
        problem, mechanism, algorithm = (parts[table] for table in cls.tables)
        check_suitable(problem, mechanism, algorithm)
        stored = problem.stored_records()
        if 0 < stored < users[-1] and not problem.with_replacement():
            raise InputError("grid.n", users[-1], f"at most {stored:,}, the records of the file")
        problem, units = problem.in_own_unit()
        if units is not None:
            algorithm = algorithm.in_units(units)
        horizons = algorithm.depends_on_horizon()
        least = 1 if horizons else algorithm.records_per_step()
        if users[0] < least:
            hint = f"One step of {algorithm.kind} takes that many users."
            raise InputError("grid.n", users[0], f"at least {least:,}", hint)
        if independent_n or horizons:
            for n in users:
                yield cls(problem, mechanism, algorithm.with_users(n).resolved(problem, n), n, units), (n,)
        else:
            yield cls(problem, mechanism, algorithm.resolved(problem, None), None, units), users

    def checkpoints(self, users: tuple[int, ...], first: int, points: int) -> tuple[int, ...]:
        """Log-spaced numbers of users and every n, unless the algorithm has its own."""
        own = self.algorithm.checkpoints(self.problem, users[-1], points)
        if own is not None:
            return own
        spaced = log_grid(max(first, self.algorithm.records_per_step()), max(users), points)
        return tuple(sorted({*spaced, *users}))

    def interval_record(self) -> type[Record] | None:
        return PathRecord if self.algorithm.has_intervals else None

    def check(self, methods: Sequence[IntervalMethod], cells: tuple[Cell, ...], followed: bool) -> None:
        gamma = self.algorithm.step_exponent()
        # Constant steps have another limit law and warnings of their own.
        if methods and 0.0 < gamma <= 0.5:
            hint = "A study with [trajectory] alone may use all of (0, 1)."
            allowed = "a number in (1/2, 1) where a study has interval methods"
            raise InputError("algorithm.gamma", gamma, allowed, hint)
        if cells:
            check_budget(*recorded_times(self.algorithm, self.computations(cells)), self.dimension)
        elif methods and (self.algorithm.has_intervals or not followed):
            hint = "It makes too few steps for intervals; a study with [trajectory] alone may have it."
            if self.algorithm.has_intervals:
                hint = " ".join(dict.fromkeys(f"{m.kind}: {m.unmet_need(self)}." for m in methods))
            kinds = ", ".join(dict.fromkeys(method.kind for method in methods))
            raise InputError("method.kind", kinds, f"a method for {self.algorithm.kind}", hint)

    def computations(self, cells: Sequence[Cell]) -> list[tuple[int, IntervalMethod]]:
        """Steps and method of each computation for cells."""
        return [(self.steps(n), method) for (n, method), _ in methods_of(cells)]

    def needs(self, cells: Sequence[Cell] = (), checkpoints: Sequence[int] = ()) -> PathRequest:
        return PathRequest(tuple(cells), tuple(checkpoints), path=self)

    def cost(self, request: PathRequest, replicates: int) -> Cost:
        users = max([*(cell.n for cell in request.cells), *request.checkpoints])
        gradients = users * (1 + self.algorithm.perturbed_paths()) * self.dimension * replicates
        slower = 1.0 + SHARE_OF_SUM * len(request.sums)
        seconds = gradients * slower * NANOSECONDS_PER_COORDINATE * 1e-9
        if request.checkpoints:
            curves = 3 if self.algorithm.averages_tail else 2
            losses = curves * len(request.checkpoints) * replicates
            seconds += losses * excess_loss_seconds(self.problem)
        times = recorded_times(self.algorithm, self.computations(request.cells))[0] if request.cells else 0
        size = (times + len(request.checkpoints)) * self.dimension * BYTES_PER_TIME
        return Cost(self.steps(users) * replicates, seconds, size)

    def prepare(self, request: PathRequest) -> None:
        kernel_of(self, tuple(request.sums))

    def run(self, seed: int, replicates: Sequence[int], request: PathRequest) -> PathRecord:
        parts = [replicates[at : at + LANES] for at in range(0, len(replicates), LANES)]
        return join_records(
            [run_path(self, seed, part, request.times, request.marked, request.sums) for part in parts]
        )

    def trajectories(self, record: PathRecord, checkpoints: tuple[int, ...]) -> pa.Table:
        """Distances to theta* and excess losses, and the algorithm's own numbers."""
        steps = np.array([self.steps(at) for at in checkpoints], dtype=np.int64)
        last = record.iterates[np.searchsorted(record.times, steps)]
        counts = steps[:, None, None].astype(float)
        centre = record.origin[None, :, None]
        average = centre + record.sums_at(steps) / counts
        start = np.array(self.algorithm.start(self.dimension))[:, None]
        earlier = average - (last - start) / counts
        finite = np.isfinite(squared_norms(last - centre)) & np.isfinite(squared_norms(average - centre))
        columns: dict[str, Array | None] = {
            "last_sq": squared_norms(last - centre),
            "avg_sq": squared_norms(average - centre),
            "avg_pre_sq": squared_norms(earlier - centre),
            "last_exc": excess_loss(self.problem, last),
            "avg_exc": excess_loss(self.problem, average),
            "tail_exc": tail_excess(self, record, steps) if self.algorithm.averages_tail else None,
        }
        columns |= {name: measure_values(self, record, name, steps) for name in record.extras}
        users = np.array(checkpoints, dtype=np.int64)
        return trajectory_table(record.replicates, users, steps, columns, finite, self.measures())


def check_suitable(problem: BaseProblem, mechanism: Mechanism, algorithm: Algorithm) -> None:
    """Refuse a mechanism or an algorithm that does not fit the problem."""
    # The algorithm first: the mechanism does not matter if the algorithm does not fit.
    reason: str | None = "it visits a record once, and the problem is about one data set"
    if isinstance(problem, Problem):
        reason = algorithm.unsuitable(problem, mechanism)
    if reason is not None or not isinstance(problem, Problem):
        allowed = f"an algorithm for {problem.kind} under {mechanism.kind}"
        raise InputError("algorithm.kind", algorithm.kind, allowed, f"{reason}.")
    reason = mechanism.unsuitable(problem)
    if reason is not None:
        raise InputError("mechanism.kind", mechanism.kind, f"a mechanism for {problem.kind}", f"{reason}.")


def kernel_of(path: OnePass, sums: tuple[str, ...], perturbed: bool = False) -> Callable[..., None]:
    """The compiled kernel."""
    if PERTURBED in sums:
        kernel_of(path, (), perturbed=True)
    return one_pass_kernel.one_pass_kernel(path, sums, perturbed)


def noise_states(path: OnePass, key: str, seed: int, replicates: Sequence[int]) -> NDArray[np.uint64]:
    """States of the streams that the mechanism draws from, one role after the other."""
    states = []
    for role in roles_of(path.randomiser.variates(path.problem)):
        if role is None:
            states.append(lane_states(seed, "mechanism", key, replicates))
        elif role == "position":
            states.append(np.zeros(4 * LANES, dtype=np.uint64))
        else:
            states.append(lane_states(seed, role, path.public_key(), replicates))
    return np.concatenate(states)


def data_states(path: OnePass, seed: int, replicates: Sequence[int]) -> NDArray[np.uint64]:
    """States of the data streams; for stored records every lane's random order of them (a shuffle)."""
    state = lane_states(seed, "data", path.data_key(), replicates)
    if not path.problem.stored_records() or path.problem.with_replacement():
        return state
    from ldpflow.numerics.noise_nodes import draw_order

    count = path.problem.stored_records()
    order = np.empty(count * LANES, dtype=np.int64)
    draw_order(order, state, 0, count)
    # The number of records taken so far, then the order.
    return np.concatenate([np.zeros(1, np.uint64), order.astype(np.uint64)])


def data_parameters(path: OnePass) -> NDArray[np.float64]:
    """Parameters of the samplers; for stored records their table, row by row."""
    if path.problem.stored_records():
        return path.problem.table().reshape(-1)
    return drawing_parameters(path.data_variates())


@lru_cache(maxsize=8)  # shared by the batches of a path
def kernel_parameters(path: OnePass, perturbed: bool) -> tuple[NDArray[np.float64], ...]:
    """Read-only arguments of a kernel: parameters of data, noise and components, and theta*."""
    return (
        data_parameters(path),
        drawing_parameters(noise_variates(path, perturbed)),
        flat(path.problem.kernel_parameters()),
        flat(path.randomiser.kernel_parameters(path.problem)),
        flat(path.algorithm.kernel_parameters(path.horizon)),
        path.truth(),
    )


def count_of(path: OnePass, name: str) -> int:
    """Number of values per coordinate of a running sum on a path."""
    if name == PERTURBED:
        return path.algorithm.perturbed_paths()
    return RUNNING_SUMS[name].count(path.problem.dimension)


def run_path(
    path: OnePass,
    seed: int,
    replicates: Sequence[int],
    times: Sequence[int],
    marked: Sequence[int] = (),
    sums: Sequence[str] = (),
    perturbation: int = 0,
    users: NDArray[np.uint64] | None = None,
    origin: NDArray[np.float64] | None = None,
) -> PathRecord:
    """Run the path of up to LANES replicates to the last of sorted ``times``, and keep its record.

    ``sums``, names in RUNNING_SUMS or PERTURBED, are recorded at the ``marked`` times. ``perturbation`` is k
    for the k-th perturbed path, with equal users and its own stream. ``users`` replaces the state of the data
    streams, ``origin`` the centre of the sums, which is theta*.
    """
    if PERTURBED in sums:
        own = [name for name in sums if name != PERTURBED]
        record = run_path(path, seed, replicates, times, marked, own)
        numbers = range(1, path.algorithm.perturbed_paths() + 1)
        others = [run_path(path, seed, replicates, marked, perturbation=k).prefix_sums for k in numbers]
        marks = np.asarray(marked, dtype=np.int64)
        running_sums = record.running_sums | {PERTURBED: np.stack(others)}
        return replace(record, running_sums=running_sums, marked_times=marks)
    perturbed = perturbation > 0
    kernel = kernel_of(path, tuple(sums), perturbed)
    mechanism_key = f"{path.key}/perturbed={perturbation}" if perturbed else path.key
    d = path.problem.dimension
    counts = [RUNNING_SUMS[name].count(d) for name in sums]
    grid = np.asarray(times, dtype=np.int64)
    rows = np.full(len(grid), -1, dtype=np.int64)
    marks = np.asarray(marked if sums else (), dtype=np.int64)
    rows[np.searchsorted(grid, marks)] = np.arange(len(marks))
    prefix_sums = np.empty((len(grid), d * LANES))
    iterates = np.empty((len(grid), d * LANES))
    extras = np.full((len(grid), len(path.measures()) * LANES), np.nan)
    kept = np.empty((len(marks), sum(counts) * d * LANES))
    *parameters, truth = kernel_parameters(path, perturbed)
    origin = truth if origin is None else origin
    run_kernel(
        kernel,
        data_states(path, seed, replicates) if users is None else users.copy(),
        noise_states(path, mechanism_key, seed, replicates),
        *parameters,
        origin,
        grid,
        rows,
        prefix_sums,
        iterates,
        kept,
        extras,
    )
    lanes = len(replicates)
    # By name, shaped (numbers per coordinate, marked times, coordinates, replicates).
    shaped = kept.reshape(len(marks), sum(counts), d, LANES)[..., :lanes].transpose(1, 0, 2, 3)
    running_sums = dict(zip(sums, np.split(shaped, np.cumsum(counts)[:-1]), strict=True)) if sums else {}
    return PathRecord(
        seed=seed,
        replicates=np.asarray(replicates, dtype=np.int64),
        source=path,
        times=grid,
        origin=origin,
        prefix_sums=prefix_sums.reshape(len(grid), d, LANES)[..., :lanes],
        iterates=iterates.reshape(len(grid), d, LANES)[..., :lanes],
        running_sums=running_sums,
        marked_times=marks,
        extras={m.name: extras[:, k * LANES : k * LANES + lanes] for k, m in enumerate(path.measures())},
    )


def tail_excess(path: OnePass, record: PathRecord, steps: NDArray[np.int64]) -> Array | None:
    """Excess loss of the average of theta_i over t/2 < i <= t (floor(t/2), as for odd t)."""
    halves = steps // 2
    sums = record.sums_at(steps) - record.sums_at(halves)
    average = record.origin[None, :, None] + sums / (steps - halves)[:, None, None]
    return excess_loss(path.problem, average)


def measure_values(path: OnePass, record: PathRecord, name: str, steps: NDArray[np.int64]) -> Array:
    """Measure at the checkpoints. A running sum becomes a mean per step since the last checkpoint."""
    values: Array = record.extras[name][np.searchsorted(record.times, steps)]
    if not next(column for column in path.measures() if column.name == name).running:
        return values
    before = np.concatenate([np.zeros((1, values.shape[1])), values[:-1]])
    lengths = np.diff(steps, prepend=0)
    return np.asarray((values - before) / lengths[:, None])


def recorded_times(
    algorithm: Algorithm, computations: Iterable[tuple[int, Any]]
) -> tuple[int, tuple[int, int, IntervalMethod]]:
    """About the number of recorded times, and times, steps and method of its largest part.

    Times that two methods share count twice, but those of methods of one kind with as many times.
    """
    counts: dict[object, tuple[int, int, IntervalMethod]] = {}
    for steps, method in computations:
        count = method.count_times(steps, algorithm)
        counts.setdefault((steps, method.kind, count), (count, steps, method))  # BB has its times for every B
    parts = counts.values()
    return sum(count for count, _, _ in parts), max(parts, key=lambda part: part[0])
