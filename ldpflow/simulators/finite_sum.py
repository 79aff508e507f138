"""Simulators of empirical risk minimisation on a fixed data set over many epochs, and their kernels.

Python calls the kernel :func:`run_lanes`. It sets the iterate w to the start and calls the algorithm's
function ``kernel.recursion(keys, order_state, records, problem, settings, w, record)``:

    keys, order_state  for ``kernel.node_noise`` and ``kernel.draw_order``
    records            rows, targets, and the first record of each lane
    problem            parameters of the problem
    settings           kernel_settings of the algorithm
    record             times, and the arrays that ``kernel.keep`` and ``kernel.choose`` fill

Vectors are flat over (coordinate, lane), and the innermost loops run over lanes. Loops over coordinates are
not unrolled, because there may be hundreds of coordinates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ldpflow.components.algorithms.finite_sum import FiniteSumAlgorithm, RunPlan, checkpoint_steps
from ldpflow.components.intervals import IntervalMethod
from ldpflow.components.intervals.record import Array
from ldpflow.components.mechanisms import PrivacyStatement
from ldpflow.components.mechanisms.none import NoMechanism
from ldpflow.components.problems import finite_sum as synthetic
from ldpflow.components.problems.finite_sum import FiniteSumProblem
from ldpflow.errors import InputError
from ldpflow.numerics import draw_order, draw_subset, node_normals, register_array
from ldpflow.numerics.kernels import compile_kernel, flat, layout_of, part_of, size_of
from ldpflow.numerics.specialise import Case, KernelPart
from ldpflow.numerics.streams import LANES, lane_keys, lane_states
from ldpflow.simulators.one_pass import NANOSECONDS_PER_COORDINATE, draw_part
from ldpflow.simulators.rows import run_kernel
from ldpflow.simulators.simulator import Cell, Cost, Request, Simulator
from ldpflow.simulators.trajectories import squared_norms, trajectory_table

if TYPE_CHECKING:
    import pyarrow as pa


MOST_ITERATIONS = 5000


@dataclass(frozen=True)
class Records:
    """Records of LANES replicates: ``rows`` flat over (record, coordinate), and each lane's first record."""

    n: int
    rows: Array
    targets: Array
    base: NDArray[np.int64]


def draw_records(problem: FiniteSumProblem, seed: int, n: int, replicates: Sequence[int]) -> Records:
    """First n records of the data file, or else n synthetic records of each replicate."""
    if problem.file is not None:
        x, y = problem.records
        return Records(n, x[:n].reshape(-1), y[:n].copy(), np.zeros(LANES, np.int64))
    rows = np.empty(LANES * n * problem.dimension)
    targets = np.empty(LANES * n)
    records_kernel(problem)(
        lane_states(seed, "data", problem.data_key(), replicates),
        np.array([v.parameter for v in problem.variates()]),
        flat(problem.data_parameters()),
        n,
        rows,
        targets,
    )
    return Records(n, rows, targets, np.arange(LANES, dtype=np.int64) * n)


def risk(problem: FiniteSumProblem, records: Records, points: Array) -> tuple[Array, Array]:
    """Empirical risk and gradient at K points of R <= LANES replicates: shapes (K, R) and (K, d, R)."""
    count, d, used = points.shape
    lanes = np.concatenate([points, np.repeat(points[..., :1], LANES - used, axis=-1)], axis=-1)
    losses = np.empty((count, LANES))
    gradients = np.empty((count, d * LANES))
    risk_kernel(problem)(
        records.rows,
        records.targets,
        records.base,
        records.n,
        flat(problem.kernel_parameters()),
        np.ascontiguousarray(lanes).reshape(count, d * LANES),
        losses,
        gradients,
    )
    return losses[:, :used], gradients.reshape(count, d, LANES)[..., :used]


def minimum(problem: FiniteSumProblem, records: Records, lanes: int) -> Array:
    """Minimum of the risk of a convex problem, shape (lanes,). NaN if MOST_ITERATIONS do not suffice.

    Accelerated gradient descent (Nesterov, 1983) from 0, with a restart of the momentum if it points uphill
    (O'Donoghue and Candes, 2015). The descent ends if the norm of the gradient is below 1e-9.
    """
    point = np.zeros((1, problem.dimension, lanes))
    ahead = point.copy()
    age = np.zeros(lanes)
    best = np.full(lanes, np.nan)
    for _ in range(MOST_ITERATIONS):
        losses, gradients = risk(problem, records, ahead)
        square = squared_norms(gradients)[0]
        # A lane keeps the first loss at which it has converged, so that rows do not depend on other lanes.
        best = np.where(np.isnan(best) & (square < 1e-18), losses[0], best)
        if not np.isnan(best).any():
            break
        after = ahead - gradients / problem.smoothness()
        uphill = np.zeros(lanes)
        for j in range(problem.dimension):
            uphill += gradients[0, j] * (after[0, j] - point[0, j])
        age = np.where(uphill > 0.0, 0.0, age + 1.0)
        ahead = after + age / (age + 3.0) * (after - point)
        point = after
    return best


@dataclass(frozen=True)
class RiskRecord:
    """Record of the paths of R replicates, and their data sets.

    ``iterates``, ``estimates`` and ``momenta`` have the iterate w_t, the private momentum mhat_t and the
    momentum m_t before noise at K times, shape (K, d, R). ``last`` is the iterate after the last step T.
    ``chosen`` is the output w_tau, with tau = ``chosen_times`` uniform on 1..T.
    """

    replicates: NDArray[np.int64]
    data: Records
    times: NDArray[np.int64]
    iterates: Array
    estimates: Array
    momenta: Array
    last: Array
    chosen_times: NDArray[np.int64]
    chosen: Array


@dataclass(frozen=True)
class FiniteSum(Simulator[Request, RiskRecord]):
    """Private algorithm over many epochs on n = ``horizon`` records. Checkpoints are steps."""

    family: ClassVar[str] = "finite_sum"
    tables: ClassVar[tuple[str, ...]] = ("problem", "mechanism", "algorithm")
    makes_intervals: ClassVar[bool] = False
    mechanism: ClassVar[NoMechanism] = NoMechanism()

    problem: FiniteSumProblem
    algorithm: FiniteSumAlgorithm
    horizon: int

    @property
    def plan(self) -> RunPlan:
        return self.algorithm.plan(self.problem, self.horizon)

    def truth(self) -> Array:
        return np.full(self.problem.dimension, np.nan)

    def privacy(self) -> PrivacyStatement:
        return self.algorithm.privacy()

    def derived(self) -> dict[str, Any]:
        return self.algorithm.columns(self.problem, self.horizon)

    def users_key(self) -> str:
        return f"{self.problem.data_key()}/n={self.horizon}"

    @classmethod
    def of_study(
        cls, parts: dict[str, Any], users: tuple[int, ...], independent_n: bool
    ) -> Iterator[tuple[Self, tuple[int, ...]]]:
        problem, mechanism, algorithm = (parts[table] for table in cls.tables)
        reason = None
        if not isinstance(problem, FiniteSumProblem):
            reason = f"{algorithm.kind} needs a fixed data set, and {problem.kind} has none"
        elif mechanism.kind != "none":
            reason = f"{algorithm.kind} adds noise itself, with the budget algorithm.epsilon and delta"
        if reason is not None:
            allowed = f"an algorithm for {problem.kind} under {mechanism.kind}"
            raise InputError("algorithm.kind", algorithm.kind, allowed, f"{reason}.")
        if independent_n:
            raise InputError("grid.independent_n", True, f"false for {problem.kind}")
        for n in users:
            algorithm.check(problem, n)
            yield cls(problem, algorithm, n), (n,)

    def checkpoints(self, users: tuple[int, ...], first: int, points: int) -> tuple[int, ...]:
        return checkpoint_steps(self.algorithm.schedule(self.problem, self.horizon).steps, points)

    def check(self, methods: Sequence[IntervalMethod], cells: tuple[Cell, ...], followed: bool) -> None:
        if methods:
            kinds = ", ".join(dict.fromkeys(method.kind for method in methods))
            hint = "It has no true parameter to cover. A study of it needs [trajectory]."
            raise InputError("method.kind", kinds, f"no interval method for {self.problem.kind}", hint)

    def cost(self, request: Request, replicates: int) -> Cost:
        steps = max(request.checkpoints) * replicates
        d = self.problem.dimension
        size = 24 * LANES * d * len(request.checkpoints)  # iterates and both momenta
        size += self.algorithm.memory_of_data(self.problem, self.horizon)
        return Cost(steps, steps * d * NANOSECONDS_PER_COORDINATE * 1e-9, size)

    def kernel(self) -> Callable[..., None]:
        settings = tuple(self.algorithm.kernel_settings(self.plan))
        return finite_sum_kernel(self.problem, self.algorithm, settings)

    def prepare(self, request: Request) -> None:
        risk_kernel(self.problem)
        if self.problem.file is None:
            records_kernel(self.problem)
        self.kernel()

    def run(self, seed: int, replicates: Sequence[int], request: Request) -> RiskRecord:
        data = draw_records(self.problem, seed, self.horizon, replicates)
        return run_erm(
            self.problem, self.algorithm, self.plan, data, seed, self.key, replicates, request.checkpoints
        )

    def trajectories(self, record: RiskRecord, checkpoints: tuple[int, ...]) -> pa.Table:
        """Empirical risk, and norms of its gradient and of error and noise of mhat_t, along a path.

        The last step also has risk and norm of the gradient at the output. A convex problem has excess risks.
        """
        steps = np.array(checkpoints, dtype=np.int64)
        at = np.searchsorted(record.times, steps)
        points = np.concatenate([record.iterates[at], record.chosen[None]])
        losses, gradients = risk(self.problem, record.data, points)
        norms = np.sqrt(squared_norms(gradients))
        noise = np.sqrt(squared_norms(record.estimates[at] - record.momenta[at]))
        output = np.full((2, *noise.shape), np.nan)
        output[:, -1] = losses[-1], norms[-1]
        columns: dict[str, Array | None] = {
            "loss": losses[:-1],
            "gradient_norm": norms[:-1],
            "error_norm": np.sqrt(squared_norms(record.estimates[at] - gradients[:-1])),
            "noise_norm": noise,
            "output_loss": output[0],
            "output_gradient_norm": output[1],
        }
        if self.problem.convex():
            columns["last_exc"] = losses[:-1] - minimum(self.problem, record.data, points.shape[-1])
        finite = np.isfinite(squared_norms(record.iterates[at]))
        return trajectory_table(record.replicates, np.full_like(steps, self.horizon), steps, columns, finite)


def run_erm(
    problem: FiniteSumProblem,
    algorithm: FiniteSumAlgorithm,
    plan: RunPlan,
    records: Records,
    seed: int,
    key: str,
    replicates: Sequence[int],
    times: Sequence[int],
    start: Sequence[float] | None = None,
    **parts: Any,
) -> RiskRecord:
    """Run up to LANES replicates and record them at ``times`` and at the last step T.

    ``start`` is w_1, by default theta0 in each coordinate. ``parts`` replace functions of the kernel.
    """
    settings = algorithm.kernel_settings(plan)
    kernel = finite_sum_kernel(problem, algorithm, tuple(settings), **parts)
    d = problem.dimension
    grid = np.array(sorted({*times, plan.steps}), dtype=np.int64)
    iterates = np.empty((len(grid) + 1, d * LANES))
    estimates, momenta = np.empty((2, len(grid), d * LANES))
    chosen = np.empty(d * LANES)
    # The step tau of the output: the top 53 bits of the first word of the lane's stream, scaled to 1..T.
    words = lane_states(seed, "output", key, replicates)[:LANES]
    tau = 1 + ((words >> np.uint64(11)).astype(np.float64) * 2.0**-53 * plan.steps).astype(np.int64)
    tau = np.minimum(tau, plan.steps)
    lanes = np.argsort(tau, kind="stable")
    run_kernel(
        kernel,
        lane_keys(seed, "tree", key, replicates),
        lane_states(seed, "order", key, replicates),
        records.rows,
        records.targets,
        records.base,
        flat(problem.kernel_parameters()),
        flat(settings),
        np.full(d, algorithm.theta0) if start is None else np.array(start, dtype=np.float64),
        grid,
        tau[lanes],
        lanes.astype(np.int64),
        iterates,
        estimates,
        momenta,
        chosen,
    )
    count = len(replicates)

    def shaped(values: Array) -> Array:
        return values.reshape(*values.shape[:-1], d, LANES)[..., :count]

    return RiskRecord(
        replicates=np.asarray(replicates, dtype=np.int64),
        data=records,
        times=grid,
        iterates=shaped(iterates)[:-1],
        estimates=shaped(estimates),
        momenta=shaped(momenta),
        last=shaped(iterates)[-1],
        chosen_times=tau[:count],
        chosen=shaped(chosen),
    )


STEPS = (
    "void(uint64[::1], uint64[::1], float64[::1], float64[::1], int64[::1], float64[::1], "
    "float64[::1], float64[::1], int64[::1], int64[::1], int64[::1], float64[:, ::1], "
    "float64[:, ::1], float64[:, ::1], float64[::1])"
)
RISK = (
    "void(float64[::1], float64[::1], int64[::1], int64, float64[::1], float64[:, ::1], "
    "float64[:, ::1], float64[:, ::1])"
)
DATA = "void(uint64[::1], float64[::1], float64[::1], int64, float64[::1], float64[::1])"

LOSS = ("loss", "derivative", "separable_loss", "separable")


@lru_cache(maxsize=256)
def problem_case(problem: FiniteSumProblem) -> Case:
    layout = layout_of(problem.kernel_parameters())
    values: dict[str, Any] = {
        "D": problem.dimension,
        "STATE": problem.dimension * LANES,
        "BLOCKS": -(-problem.dimension // 4) * 4 * LANES,
        "PROBLEM_SIZE": size_of(layout),
        "fetch": fetch,
        **{name: part_of(problem, name) for name in LOSS},
    }
    # Inlined, because loops over lanes must not contain a call.
    return Case(tuple(values.items()), (("problem", layout),), frozenset(), "inlined")


def steps_case(
    problem: FiniteSumProblem,
    algorithm: FiniteSumAlgorithm,
    settings: tuple[str, ...],
    others: dict[str, Any],
) -> Case:
    values: dict[str, Any] = {
        "NOISE": algorithm.noise_kind(),
        "add_gradient": add_gradient,
        "add_scaled": add_scaled,
        "copy": copy,
        "move": move,
        "halvings": halvings,
        "prefix_noise": prefix_noise,
        "keep": keep,
        "choose": choose,
        "node_noise": node_normals,
        "draw_order": draw_order,
        "draw_subset": draw_subset,
        "recursion": part_of(algorithm, "recursion"),
        **others,
    }
    # These are written into `run_lanes`, where LLVM knows that no two of their arrays overlap.
    for name in ("recursion", "add_gradient"):
        values[name] = KernelPart(values[name], inlining="written")
    case = problem_case(problem).with_values(values)
    return case.with_layout("settings", layout_of(dict.fromkeys(settings, 0.0)))


@lru_cache(maxsize=256)
def finite_sum_kernel(
    problem: FiniteSumProblem, algorithm: FiniteSumAlgorithm, settings: tuple[str, ...], **others: Any
) -> Callable[..., None]:
    """Compiled kernel of an algorithm. ``settings`` are names. ``others`` replace kernel functions."""
    return compile_kernel(run_lanes, steps_case(problem, algorithm, settings, others), STEPS)


@lru_cache(maxsize=256)
def risk_kernel(problem: FiniteSumProblem) -> Callable[..., None]:
    return compile_kernel(evaluate_risk, problem_case(problem), RISK)


@lru_cache(maxsize=256)
def records_kernel(problem: FiniteSumProblem) -> Callable[..., None]:
    variates = problem.variates()
    values: dict[str, Any] = {
        "D": problem.dimension,
        "DATA_PLANES": len(variates),
        "draw_data": draw_part(variates),
        "record": getattr(synthetic, f"{problem.labels}_record"),
    }
    case = Case(tuple(values.items()), (("law", layout_of(problem.data_parameters())),))
    return compile_kernel(synthetic.all_records, case, DATA)


def run_lanes(  # type: ignore[no-untyped-def]
    kernel,
    keys,
    order_state,
    rows,
    targets,
    base,
    problem_parameters,
    settings,
    start,
    times,
    chosen_times,
    chosen_lanes,
    iterates,
    estimates,
    momenta,
    chosen,
):
    """Run LANES replicates in lockstep and record w_t, mhat_t and m_t at ``times``.

    ``iterates`` has one more row for the iterate after the last step. ``chosen`` receives the iterate of lane
    chosen_lanes[i] at time chosen_times[i], for each i. These times do not decrease.
    """
    problem = register_array(kernel.PROBLEM_SIZE)
    for at in range(kernel.PROBLEM_SIZE):
        problem[at] = problem_parameters[at]
    w = register_array(kernel.STATE)
    for j in range(kernel.D):
        for lane in range(LANES):
            w[j * LANES + lane] = start[j]
    records = (rows, targets, base)
    record = (times, chosen_times, chosen_lanes, iterates, estimates, momenta, chosen)
    kernel.recursion(keys, order_state, records, problem, settings, w, record)
    copy(kernel, iterates[times.shape[0]], w)


def copy(kernel, into, values):  # type: ignore[no-untyped-def]
    for i in range(kernel.STATE):
        into[i] = values[i]


def add_scaled(kernel, total, factor, values):  # type: ignore[no-untyped-def]
    """total += factor values."""
    for i in range(kernel.STATE):
        total[i] += factor * values[i]


def multiply(kernel, u, w, x):  # type: ignore[no-untyped-def]
    """u = <w, x>."""
    u[:] = 0.0
    for j in range(kernel.D):
        for lane in range(LANES):
            u[lane] += w[j * LANES + lane] * x[j * LANES + lane]


def fetch(kernel, x, y, rows, targets, places):  # type: ignore[no-untyped-def]
    """Copy the record at place ``places[lane]`` of each lane. Coordinates of a record are contiguous."""
    for lane in range(LANES):
        place = places[lane]
        y[lane] = targets[place]
        row = rows[place * kernel.D : (place + 1) * kernel.D]
        for j in range(kernel.D):
            x[j * LANES + lane] = row[j]


def add_gradient(kernel, g, w, x, y, problem):  # type: ignore[no-untyped-def]
    """g += l'(<w, x>, y) x + h'(w), the gradient of the loss l(<w, x>, y) + h(w) of a record."""
    u = register_array(LANES)
    multiply(kernel, u, w, x)
    for lane in range(LANES):
        u[lane] = kernel.derivative(u[lane], y[lane], problem)
    for j in range(kernel.D):
        for lane in range(LANES):
            slope = kernel.separable(w[j * LANES + lane], y[lane], problem)
            g[j * LANES + lane] += u[lane] * x[j * LANES + lane] + slope


def move(kernel, w, direction, eta):  # type: ignore[no-untyped-def]
    """w -= eta direction / ||direction||. w does not change if the direction is 0."""
    size = register_array(LANES)
    multiply(kernel, size, direction, direction)
    for lane in range(LANES):
        size[lane] = eta / np.sqrt(size[lane]) if size[lane] > 0.0 else 0.0
    for j in range(kernel.D):
        for lane in range(LANES):
            w[j * LANES + lane] -= size[lane] * direction[j * LANES + lane]


def halvings(doubled, alpha):  # type: ignore[no-untyped-def]
    """doubled[level] = (1 - alpha)^(2^level)."""
    doubled[0] = 1.0 - alpha
    for level in range(doubled.shape[0] - 1):
        doubled[level + 1] = doubled[level] * doubled[level]


def prefix_noise(kernel, zeta, prefixes, doubled, keys, tree, t, deviation):  # type: ignore[no-untyped-def]
    """Make in ``zeta`` the noise of steps 1 to t: that of the node ending at t, plus damped earlier noise.

    Row k of ``prefixes`` is the noise of the latest prefix [1, s] with 2^k as the lowest set bit of s. Row 63
    is 0, the noise of the empty prefix.
    """
    level = 0
    while (t >> level) & 1 == 0:
        level += 1
    rest = (t >> level) - 1  # (t - 2^level) / 2^level, 2^level the lowest set bit of t
    before = 63
    if rest > 0:
        before = level
        while (rest >> (before - level)) & 1 == 0:
            before += 1
    kernel.node_noise(zeta, keys, tree, level, rest, deviation)
    add_scaled(kernel, zeta, doubled[level], prefixes[before])
    if level > 0:
        # Later steps do not read a prefix of odd length.
        copy(kernel, prefixes[level], zeta)


def keep(kernel, k, t, times, w, mhat, m, iterates, estimates, momenta):  # type: ignore[no-untyped-def]
    """Record w_t, mhat_t and m_t if t is times[k]. Returns the number of recorded times."""
    if t == times[k]:
        copy(kernel, iterates[k], w)
        copy(kernel, estimates[k], mhat)
        copy(kernel, momenta[k], m)
        return k + 1
    return k


def choose(kernel, c, t, chosen_times, chosen_lanes, w, chosen):  # type: ignore[no-untyped-def]
    """Copy w_t of the lanes whose output is at step t. Returns the number of lanes that have their output."""
    while c < LANES and chosen_times[c] == t:
        lane = chosen_lanes[c]
        for j in range(kernel.D):
            chosen[j * LANES + lane] = w[j * LANES + lane]
        c += 1
    return c


def evaluate_risk(kernel, rows, targets, base, count, problem, points, losses, gradients):  # type: ignore[no-untyped-def]
    """Empirical risk F of each lane and its gradient, at ``points`` of shape (K, d * LANES)."""
    x = register_array(kernel.STATE)
    y = register_array(LANES)
    w = register_array(kernel.STATE)
    g = register_array(kernel.STATE)
    u = register_array(LANES)
    total = register_array(LANES)
    places = np.empty(LANES, np.int64)
    for k in range(points.shape[0]):
        for at in range(kernel.STATE):
            w[at] = points[k, at]
            g[at] = 0.0
        total[:] = 0.0
        for i in range(count):
            for lane in range(LANES):
                places[lane] = base[lane] + i
            kernel.fetch(x, y, rows, targets, places)
            multiply(kernel, u, w, x)
            for lane in range(LANES):
                total[lane] += kernel.loss(u[lane], y[lane], problem)
                u[lane] = kernel.derivative(u[lane], y[lane], problem)
            for j in range(kernel.D):
                for lane in range(LANES):
                    g[j * LANES + lane] += u[lane] * x[j * LANES + lane]
        for lane in range(LANES):
            total[lane] /= count
        for j in range(kernel.D):
            for lane in range(LANES):
                v = w[j * LANES + lane]
                total[lane] += kernel.separable_loss(v, 0.0, problem)
                g[j * LANES + lane] = g[j * LANES + lane] / count + kernel.separable(v, 0.0, problem)
        for lane in range(LANES):
            losses[k, lane] = total[lane]
        for at in range(kernel.STATE):
            gradients[k, at] = g[at]
