"""Simulators of one-pass algorithms, which use each user once, and their kernels.

Python calls the kernel :func:`run_lanes`. It copies parameters to local arrays, makes the record of the path
and calls ``kernel.recursion(users, noises, problem, mechanism, settings, record)``:

    users, noises       stream states, parameters, for ``kernel.draw_data(*users, data)`` and ``draw_noise``
    problem, mechanism  parameters for ``kernel.gradient`` and ``kernel.randomise``
    settings            kernel_parameters of the algorithm
    record              a :class:`KernelRecord`

After step i a recursion calls ``kernel.add_iterate`` for each lane. If i is ``record.times[t]`` for some t,
it calls ``kernel.keep_path``. If interval methods may sum its private gradients, it also calls ``keep_step``,
``end_step`` and ``restart`` of :mod:`ldpflow.numerics.running_sums`. Arrays are flat over (coordinate, lane).
A recursion copies the fields of the record to local names before its loop over lanes: a field that is read in
this loop can double the time. Each function is plain Python in the file of its component.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from mpmath import mpf

from ldpflow.columns import Column
from ldpflow.components.algorithms import Algorithm, budget_split
from ldpflow.components.intervals import IntervalMethod
from ldpflow.components.intervals.record import Array, PathRecord, Record, join_records
from ldpflow.components.mechanisms import Mechanism, PrivacyStatement
from ldpflow.components.problems import BaseProblem, Problem, file_rows, tables
from ldpflow.components.problems.laws import Variate
from ldpflow.errors import InputError
from ldpflow.numerics import draw_order, fill_uniform, private_bit, register_array, running_sums
from ldpflow.numerics.kernels import (
    check_parameters,
    compile_kernel,
    flat,
    layout_of,
    part_of,
    size_of,
)
from ldpflow.numerics.running_sums import PERTURBED, RUNNING_SUMS
from ldpflow.numerics.specialise import Case, KernelPart
from ldpflow.numerics.streams import LANES, PLANE, STRIDE, lane_states
from ldpflow.settings import canonical_json
from ldpflow.simulators.rows import methods_of, run_kernel
from ldpflow.simulators.simulator import Cell, Cost, Request, Simulator
from ldpflow.simulators.trajectories import (
    excess_loss,
    excess_loss_seconds,
    log_grid,
    squared_norms,
    trajectory_table,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray


BUDGET = 128 * 2**20
"""Maximum bytes of the record of LANES replicates of one path."""

BYTES_PER_TIME = 16 * LANES
"""Bytes per recorded time and coordinate, for a prefix sum and an iterate in each lane."""

NANOSECONDS_PER_COORDINATE = 3.0
"""Rough CPU time per step, replicate and coordinate."""

SHARE_OF_SUM = 0.25
"""Rough extra time of a step per running sum, as a share of the time of the step."""


def check_budget(
    algorithm: Algorithm, computations: Iterable[tuple[int, IntervalMethod]], dimension: int
) -> None:
    """Refuse a path whose record is too large."""
    needed, fit = count_recorded(algorithm, computations), BUDGET // (BYTES_PER_TIME * dimension)
    if needed > fit:
        allowed = f"at most {fit:,} recorded times ({BUDGET // 2**20} MiB for {LANES} replicates)"
        hint = "Use fewer values of n, fewer methods or longer blocks."
        raise InputError("method", f"{needed:,} recorded times", allowed, hint)


@dataclass(frozen=True)
class PathRequest(Request):
    """Request for a path. Its times are computed at their first use."""

    path: OnePass = field(kw_only=True)

    @cached_property
    def sums(self) -> list[str]:
        d = self.path.dimension
        return sorted({name for (_, method), _ in methods_of(self.cells) for name in method.running_sums(d)})

    @property
    def marked(self) -> tuple[int, ...]:
        """Steps at which running sums are recorded."""
        return find_recorded_times(self)[1]

    @property
    def times(self) -> tuple[int, ...]:
        """Steps at which prefix sums and iterates are recorded. They include the marked steps."""
        return find_recorded_times(self)[0]


@lru_cache(maxsize=8)  # all batches of a path have equal times
def find_recorded_times(request: PathRequest) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Sorted times for the cells and checkpoints of a request, and the marked times among them."""
    path, d = request.path, request.path.dimension
    times = {path.steps(n) for n in request.checkpoints}
    if path.algorithm.averages_tail:
        times |= {t // 2 for t in times if t > 1}
    marked: set[int] = set()
    for (n, method), group in methods_of(request.cells):
        steps = path.steps(n)
        levels = [cell.level for cell in group]
        times.update(method.level_times(steps, path.algorithm, levels).tolist())
        if method.running_sums(d):
            marked.update(method.marked_times(steps, path.algorithm, d))
    return tuple(sorted(times | marked)), tuple(sorted(marked))


@dataclass(frozen=True)
class OnePass(Simulator[PathRequest, PathRecord]):
    """Simulator of the paths of a problem, mechanism and one-pass algorithm."""

    family: ClassVar[str] = "one_pass"
    tables: ClassVar[tuple[str, ...]] = ("problem", "mechanism", "algorithm")

    problem: Problem
    mechanism: Mechanism
    algorithm: Algorithm
    horizon: int | None = None

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
        # If the mechanism draws private bits from their law, no values of users are drawn.
        return self.key if self.mechanism.replaces_data() else self.data_key()

    @cached_property
    def randomiser(self) -> Mechanism:
        """Mechanism that the algorithm applies, for example with a share of the budget."""
        return self.algorithm.randomiser(self.mechanism)

    def measures(self) -> tuple[Column, ...]:
        return (self.randomiser if self.algorithm.counts_in_mechanism else self.algorithm).measures

    def steps(self, n: int) -> int:
        """Number of steps that the path makes with the first n users."""
        if self.horizon is None or n == self.horizon:
            return self.algorithm.steps(n)
        return self.algorithm.steps(n, self.horizon)

    def data_variates(self) -> tuple[Variate, ...]:
        return () if self.mechanism.replaces_data() else self.problem.variates()

    def public_key(self) -> str:
        """Key of the mechanism's public random streams, equal for all step sizes."""
        key = canonical_json(self.mechanism.key_settings())
        return key if self.horizon is None else f"{key}/n={self.horizon}"

    def data_key(self) -> str:
        """Key of the data streams. It follows from the problem, so paths of a problem have equal users."""
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
            raise InputError("grid.n", users[0], f"at least {least:,}, for a step of {algorithm.kind}")
        if independent_n or horizons:
            for n in users:
                yield cls(problem, mechanism, algorithm.with_users(n).resolved(problem, n), n), (n,)
        else:
            yield cls(problem, mechanism, algorithm.resolved(problem, None), None), users

    def checkpoints(self, users: tuple[int, ...], first: int, points: int) -> tuple[int, ...]:
        """Checkpoints of the algorithm, or else each n and log-spaced numbers of users."""
        own = self.algorithm.checkpoints(users[-1])
        if own is not None:
            return own
        spaced = log_grid(max(first, self.algorithm.records_per_step()), max(users), points)
        return tuple(sorted({*spaced, *users}))

    def interval_record(self) -> type[Record] | None:
        return PathRecord if self.algorithm.has_intervals else None

    def check(self, methods: Sequence[IntervalMethod], cells: tuple[Cell, ...], followed: bool) -> None:
        gamma = self.algorithm.step_exponent()
        # gamma = 0 (constant steps) has another limit law and other warnings.
        if methods and 0.0 < gamma <= 0.5:
            raise InputError("algorithm.gamma", gamma, "a number in (1/2, 1) with interval methods")
        if cells:
            check_budget(self.algorithm, self.computations(cells), self.dimension)
        elif methods and (self.algorithm.has_intervals or not followed):
            hint = "It makes too few steps for intervals. A study with [trajectory] alone may have it."
            if self.algorithm.has_intervals:
                hint = " ".join(dict.fromkeys(f"{m.kind}: {m.unmet_need(self)}." for m in methods))
            kinds = ", ".join(dict.fromkeys(method.kind for method in methods))
            raise InputError("method.kind", kinds, f"a method for {self.algorithm.kind}", hint)

    def computations(self, cells: Sequence[Cell]) -> list[tuple[int, IntervalMethod]]:
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
        kept = count_recorded(self.algorithm, self.computations(request.cells)) + len(request.checkpoints)
        return Cost(self.steps(users) * replicates, seconds, kept * self.dimension * BYTES_PER_TIME)

    def prepare(self, request: PathRequest) -> None:
        one_pass_kernel(self, tuple(request.sums))
        if PERTURBED in request.sums:
            one_pass_kernel(self, (), perturbed=True)

    def run(self, seed: int, replicates: Sequence[int], request: PathRequest) -> PathRecord:
        parts = [replicates[at : at + LANES] for at in range(0, len(replicates), LANES)]
        return join_records(
            [run_path(self, seed, part, request.times, request.marked, request.sums) for part in parts]
        )

    def trajectories(self, record: PathRecord, checkpoints: tuple[int, ...]) -> pa.Table:
        """Squared distances to theta*, excess losses, and the columns of :meth:`measures`."""
        steps = np.array([self.steps(n) for n in checkpoints], dtype=np.int64)
        at = np.searchsorted(record.times, steps)
        last = record.iterates[at]
        counts = steps[:, None, None].astype(float)
        centre = record.origin[None, :, None]
        average = centre + record.sums_at(steps) / counts
        start = np.array(self.algorithm.start(self.dimension))[:, None]
        earlier = average - (last - start) / counts
        last_sq, average_sq = squared_norms(last - centre), squared_norms(average - centre)
        finite = np.isfinite(last_sq) & np.isfinite(average_sq)
        columns: dict[str, Array | None] = {
            "last_sq": last_sq,
            "avg_sq": average_sq,
            "avg_pre_sq": squared_norms(earlier - centre),
            "last_exc": excess_loss(self.problem, last),
            "avg_exc": excess_loss(self.problem, average),
        }
        if self.algorithm.averages_tail:  # theta_i over t/2 < i <= t
            halves = steps // 2
            sums = record.sums_at(steps) - record.sums_at(halves)
            tail = centre + sums / (steps - halves)[:, None, None]
            columns["tail_exc"] = excess_loss(self.problem, tail)
        for measure in self.measures():
            values = record.extras[measure.name][at]
            if measure.running:  # mean per step since the checkpoint before
                values = np.diff(values, axis=0, prepend=0.0) / np.diff(steps, prepend=0)[:, None]
            columns[measure.name] = values
        users = np.array(checkpoints, dtype=np.int64)
        return trajectory_table(record.replicates, users, steps, columns, finite, self.measures())


def check_suitable(problem: BaseProblem, mechanism: Mechanism, algorithm: Algorithm) -> None:
    """Refuse a mechanism or an algorithm that does not fit the problem."""
    reason: str | None = "it visits a record once, and the problem is about one data set"
    if isinstance(problem, Problem):
        reason = algorithm.unsuitable(problem, mechanism)
    if reason is not None or not isinstance(problem, Problem):
        allowed = f"an algorithm for {problem.kind} under {mechanism.kind}"
        raise InputError("algorithm.kind", algorithm.kind, allowed, f"{reason}.")
    reason = mechanism.unsuitable(problem)
    if reason is not None:
        raise InputError("mechanism.kind", mechanism.kind, f"a mechanism for {problem.kind}", f"{reason}.")


def noise_states(path: OnePass, key: str, seed: int, replicates: Sequence[int]) -> NDArray[np.uint64]:
    """States of the random streams of the mechanism, one role after the other."""
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
    """States of the data streams, or the order in which a lane takes stored records without replacement."""
    state = lane_states(seed, "data", path.data_key(), replicates)
    if not path.problem.stored_records() or path.problem.with_replacement():
        return state
    count = path.problem.stored_records()
    order = np.empty(count * LANES, dtype=np.int64)
    draw_order(order, state, 0, count)
    # The number of records used so far, then the random order of the records in each lane.
    return np.concatenate([np.zeros(1, np.uint64), order.astype(np.uint64)])


def data_parameters(path: OnePass) -> NDArray[np.float64]:
    """Parameters of the samplers, or the table of stored records, row by row."""
    if path.problem.stored_records():
        return path.problem.table().reshape(-1)
    return drawing_parameters(path.data_variates())


@lru_cache(maxsize=8)  # all batches of a path have equal arguments
def kernel_parameters(path: OnePass, perturbed: bool) -> tuple[NDArray[np.float64], ...]:
    """Arguments that a kernel does not change: parameters of data, noise and components, and theta*."""
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
) -> PathRecord:
    """Run the paths of up to LANES replicates to the last of sorted ``times``, and return their record.

    ``sums`` has names in RUNNING_SUMS, or PERTURBED. These sums are recorded at the ``marked`` times. With
    ``perturbation`` = k > 0 the path is the k-th perturbed path of a multiplier bootstrap, with equal users
    and other noise. ``users`` replaces the states of the data streams, unless it is None. Prefix sums are
    those of theta_i - theta*.
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
    kernel = one_pass_kernel(path, tuple(sums), perturbed)
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
    *parameters, origin = kernel_parameters(path, perturbed)
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
    # Arrays of shape (numbers per coordinate, marked times, coordinates, replicates), by name.
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


def count_recorded(algorithm: Algorithm, computations: Iterable[tuple[int, Any]]) -> int:
    """Rough number of recorded times.

    Methods of one kind with equal numbers of times, such as BB with several B, count once.
    """
    counts = {(steps, method.kind, method.count_times(steps, algorithm)) for steps, method in computations}
    return sum(count for _, _, count in counts)


SIGNATURE = (
    "void(uint64[::1], uint64[::1], float64[::1], float64[::1], float64[::1], float64[::1], "
    "float64[::1], float64[::1], int64[::1], int64[::1], float64[:, ::1], float64[:, ::1], "
    "float64[:, ::1], float64[:, ::1])"
)


class KernelRecord(NamedTuple):
    """State of a path while it runs, and its record at ``times``.

    prefix_sums[t] = S(times[t]) = sum_{i <= times[t]} (theta_i - centre), and iterates[t] = theta_{times[t]}.
    If marks[t] >= 0, running_sums[marks[t]] has the running sums. extras[t] has the columns ``measures``.
    """

    times: Any
    marks: Any
    centre: Any
    total: Any
    sums: Any
    tile: Any
    counts: Any
    prefix_sums: Any
    iterates: Any
    running_sums: Any
    extras: Any


def run_lanes(  # type: ignore[no-untyped-def]
    kernel,
    data_state,
    noise_state,
    data_parameters,
    noise_parameters,
    problem_parameters,
    mechanism_parameters,
    settings,
    origin,
    times,
    marks,
    prefix_sums,
    iterates,
    running_sums,
    extras,
):
    """Run LANES replicates in lockstep and record them at ``times``."""
    # The compiler keeps local copies in registers. They are not copied as slices: NumPy's copy tests for
    # overlap, so the compiler would assume that other arrays may point into the copies.
    problem = register_array(kernel.PROBLEM_SIZE)
    mechanism = register_array(kernel.MECHANISM_SIZE)
    centre = register_array(kernel.D)
    for s in range(kernel.PROBLEM_SIZE):
        problem[s] = problem_parameters[s]
    for s in range(kernel.MECHANISM_SIZE):
        mechanism[s] = mechanism_parameters[s]
    for j in range(kernel.D):
        centre[j] = origin[j]
    total = register_array(kernel.STATE)
    sums = register_array(kernel.SUMS)
    tile = register_array(kernel.TILE_SIZE)
    counts = register_array(kernel.COUNTS)
    total[:] = 0.0
    sums[:] = 0.0
    counts[:] = 0.0
    users = (data_state, data_parameters)
    noises = (noise_state, noise_parameters)
    record = KernelRecord(
        times, marks, centre, total, sums, tile, counts, prefix_sums, iterates, running_sums, extras
    )
    kernel.recursion(users, noises, problem, mechanism, settings, record)


def add_iterate(kernel, total, centre, sums, theta, step, lane):  # type: ignore[no-untyped-def]
    """S(i) = S(i-1) + theta_i - centre, and the running sums of S. i = ``step`` is a float."""
    for j in range(kernel.D):
        total[j * LANES + lane] += theta[j * LANES + lane] - centre[j]
    kernel.after_step(sums, total, step, lane)


def keep_path(kernel, record, theta, t):  # type: ignore[no-untyped-def]
    """Record the path at the t-th time."""
    for s in range(kernel.STATE):
        record.prefix_sums[t, s] = record.total[s]
        record.iterates[t, s] = theta[s]
    if record.marks[t] >= 0:
        for s in range(kernel.SUMS):
            record.running_sums[record.marks[t], s] = record.sums[s]


def roles_of(variates: Sequence[Variate]) -> list[str | None]:
    """Roles of the streams of variates. The first role, None, stands for the component's own stream."""
    return list(dict.fromkeys([None, *(v.role for v in variates)]))


def draw_part(variates: Sequence[Variate], inlining: str = "called") -> KernelPart:
    """Kernel function that fills a plane for each variate, from the stream of its role.

    A plane has the random numbers of one variate for CHUNK users in each lane.
    """
    roles = roles_of(variates)
    kinds = [(sampler_of(variate), variate.role) for variate in variates]
    # Neighbouring variates without tables and with equal samplers and roles are a group, drawn by one loop.
    firsts = [
        v for v, variate in enumerate(variates) if v == 0 or kinds[v] != kinds[v - 1] or is_tabulated(variate)
    ]
    places = np.cumsum([len(variates), *(len(table_of(variate)) for variate in variates)]).tolist()
    values = {
        "GROUPS": len(firsts),
        "FIRST": tuple(firsts),
        "LAST": (*firsts, len(variates))[1:],
        "ROLES": tuple(roles.index(variates[v].role) for v in firsts),
        "samplers": tuple(kinds[v][0] for v in firsts),
        "TABULATED": tuple(is_tabulated(variates[v]) for v in firsts),
        "STARTS": tuple(places[v] for v in firsts),
        "ENDS": tuple(places[v + 1] for v in firsts),
    }
    return KernelPart(draw, Case(tuple(values.items()), unrolled=frozenset({"GROUPS"})), inlining)


def drawing_parameters(variates: Sequence[Variate]) -> Array:
    """Argument ``parameters`` of :func:`draw`: one number per variate, then their tables."""
    tables = map(table_of, variates)
    return np.concatenate([[v.parameter for v in variates], *tables], dtype=np.float64)


def draw(kernel, state, parameters, planes):  # type: ignore[no-untyped-def]
    """Fill the planes of all variates. ``state`` has 4 * LANES words per role."""
    for g in range(kernel.GROUPS):
        states = state[kernel.ROLES[g] * 4 * LANES : (kernel.ROLES[g] + 1) * 4 * LANES]
        for v in range(kernel.FIRST[g], kernel.LAST[g]):
            plane = planes[v * STRIDE : (v + 1) * STRIDE]
            if kernel.TABULATED[g]:
                kernel.samplers[g](states, parameters[kernel.STARTS[g] : kernel.ENDS[g]], plane)
            else:
                kernel.samplers[g](states, parameters[v], plane)


def is_tabulated(variate: Variate) -> bool:
    return variate.name in ("gamma", "empirical", "records", "mixture")


def sampler_of(variate: Variate) -> object:
    """Kernel function that fills a plane with draws of a variate."""
    from ldpflow.numerics.distributions import TABLE_SAMPLERS
    from ldpflow.numerics.samplers import SAMPLERS

    law, known = variate.law, SAMPLERS | TABLE_SAMPLERS
    if variate.name in known:
        return known[variate.name]
    assert law is not None
    if law.own is not None:
        values = {"fill_base": SAMPLERS[law.own.base], "sample": part_of(law.own, "sample")}
        return KernelPart(fill_own, Case(tuple(values.items())))
    parts = [part.law.variate for part in law.components]
    starts = np.cumsum([0, *(3 + len(numbers_of(part)) for part in parts)]).tolist()
    values = {
        "COMPONENTS": len(parts),
        "samplers": tuple(sampler_of(part) for part in parts),
        "TABULATED": tuple(is_tabulated(part) for part in parts),
        "STARTS": tuple(starts[:-1]),
        "ENDS": tuple(starts[1:]),
    }
    return KernelPart(draw_mixture, Case(tuple(values.items()), unrolled=frozenset({"COMPONENTS"})))


def fill_own(kernel, state, parameter, out):  # type: ignore[no-untyped-def]
    """Draw from a law of a plug-in. ``kernel.sample`` maps a draw of the base law to one of this law."""
    kernel.fill_base(state, 0.0, out)
    for i in range(PLANE):
        out[i] = kernel.sample(out[i], parameter)


def table_of(variate: Variate) -> Array:
    """Table of the sampler of a variate. Empty if the sampler needs one number alone."""
    law = variate.law
    if variate.name == "gamma":
        from ldpflow.numerics.distributions import gamma_table

        return gamma_table(variate.parameter)
    if law is None or not is_tabulated(variate):
        return np.empty(0)
    if law.table is not None:
        return law.table.sampling_table()
    total = sum(mpf(part.weight) for part in law.components)
    parts: list[Any] = []
    below = mpf(0)
    for part in law.components:
        below += mpf(part.weight)
        parts.append([float(below / total), part.law.location, part.law.scale])
        parts.append(numbers_of(part.law.variate))
    return np.concatenate(parts)


def numbers_of(variate: Variate) -> Array:
    return table_of(variate) if is_tabulated(variate) else np.array([variate.parameter])


def draw_mixture(kernel, state, table, out):  # type: ignore[no-untyped-def]
    """Draw from a mixture. A uniform number selects the component.

    All components are drawn, so that draws have fixed positions in the stream. ``table`` has for each
    component the sum of the weights up to it, its location, its scale, and the numbers of its sampler.
    """
    which = np.empty(PLANE)
    drawn = np.empty(PLANE)
    fill_uniform(state, 0.0, which)
    below = 0.0
    for k in range(kernel.COMPONENTS):
        start = kernel.STARTS[k]
        if kernel.TABULATED[k]:
            kernel.samplers[k](state, table[kernel.STARTS[k] + 3 : kernel.ENDS[k]], drawn)
        else:
            kernel.samplers[k](state, table[kernel.STARTS[k] + 3], drawn)
        upto = table[start]
        location = table[start + 1]
        scale = table[start + 2]
        for i in range(PLANE):
            x = location + scale * drawn[i]
            out[i] = x if (which[i] >= below) & (which[i] < upto) else out[i]
        below = upto


INLINED_FROM = 5
"""From this number of coordinates on, LLVM inlines functions only on demand. Without inlining it would not
vectorise the loop over the lanes."""

PROBLEM_PARTS = ("gradient", "residual", "feature", "square_norm")
"""Kernel functions that a problem may have for recursions."""


def private_gradient(path: Any, perturbed: bool) -> dict[str, Any]:
    """Kernel functions that compute the private gradient at theta_{i-1}, or draw it from its law."""
    problem, mechanism = path.problem, path.randomiser
    if not path.mechanism.replaces_data():
        parts = {name: part_of(problem, name, False) for name in PROBLEM_PARTS}
        if path.mechanism.reads_bit():
            parts["gradient"] = part_of(problem, "gradient_bit", False) or parts["gradient"]
        parts["randomise"] = part_of(mechanism, "randomise")
        check_parameters(parts["randomise"], "randomise")
        if parts["gradient"] is not None:
            check_parameters(parts["gradient"], "gradient")
        if perturbed:
            parts |= {"answer": parts["randomise"], "randomise": budget_split.randomise}
        return {name: part for name, part in parts.items() if part is not None}
    from ldpflow.numerics import distributions

    law = problem.bit_law()
    shaped = "shape" in problem.kernel_parameters()
    parts = {"cdf": getattr(distributions, f"cdf_{law}"), "SHAPED": shaped}
    third = getattr(sys.modules[type(mechanism).__module__], "THIRD_DERIVATIVES", {}).get(law)
    # The expansion of the CDF is for LDP-SGD without projection.
    if third is None or path.algorithm.kind != "ldp_sgd" or path.algorithm.projects():
        return parts | {
            "gradient": part_of(problem, "bit_probability"),
            "randomise": part_of(mechanism, "randomise_probability"),
        }
    (variate,) = mechanism.variates(problem)
    return parts | {
        "HALVES": variate.name == "uniform_32",
        "THIRD_DERIVATIVE": third,
        "expansion": getattr(distributions, f"expansion_{law}"),
        "recursion": KernelPart(private_bit.recursion, inlining="written"),
        # Inlined with its callees: a step takes so little time that calls would slow it down.
        "walk": KernelPart(private_bit.walk, inlining="inlined"),
        "anchor": private_bit.anchor,
        "stride": private_bit.stride,
        "judge": private_bit.judge,
    }


def kernel_case(path: Any, sums: tuple[str, ...], perturbed: bool = False) -> Case:
    d = path.problem.dimension
    inlining = "inlined" if d >= INLINED_FROM else "called"
    sums = tuple(name for name in sums if name != PERTURBED)  # perturbed paths make this sum
    recursion = part_of(path.algorithm, "recursion")
    check_parameters(recursion, "recursion")
    data = path.data_variates()
    noise = noise_variates(path, perturbed)
    draw_data: Any = file_rows.draw_rows if path.problem.with_replacement() else tables.draw_data
    if not path.problem.stored_records():
        draw_data = draw_part(data, inlining)
    layouts = {
        "problem": layout_of(path.problem.kernel_parameters()),
        "mechanism": layout_of(path.randomiser.kernel_parameters(path.problem)),
        "settings": layout_of(path.algorithm.kernel_parameters(path.horizon)),
    }
    values: dict[str, Any] = {
        "D": d,
        "STATE": d * LANES,
        "EXTRAS": len(path.measures()) * LANES,
        "COUNTS": len(path.randomiser.measures) * LANES,
        "PROBLEM_SIZE": size_of(layouts["problem"]),
        "MECHANISM_SIZE": size_of(layouts["mechanism"]),
        "PROJECTED": path.algorithm.projects(),
        "BY_COORDINATE": path.algorithm.by_coordinate(),
        "ORDERED": d > 1 and path.problem.levels() is not None,
        "DATA_PLANES": len(data),
        "NOISE_PLANES": len(noise),
        "draw_data": draw_data,
        "draw_noise": draw_part(noise, inlining),
        # These are written into one function, which compiles sooner and is optimised as a whole.
        "add_iterate": KernelPart(add_iterate, inlining="written"),
        "keep_path": KernelPart(keep_path, inlining="written"),
        "recursion": KernelPart(recursion, inlining="written"),
        **running_sums.parts(sums, d),
        **private_gradient(path, perturbed),
    }
    unrolled = frozenset({"D"}) | running_sums.UNROLLED
    return Case(tuple(values.items()), tuple(layouts.items()), unrolled, inlining)


@lru_cache(maxsize=1024)
def one_pass_kernel(path: Any, sums: tuple[str, ...], perturbed: bool = False) -> Callable[..., None]:
    return compile_kernel(run_lanes, kernel_case(path, sums, perturbed), SIGNATURE)


def noise_variates(path: Any, perturbed: bool) -> tuple[Variate, ...]:
    variates = path.randomiser.variates(path.problem)
    return (*variates, budget_split.WEIGHT) if perturbed else variates
