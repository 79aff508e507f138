"""Time of parts of a kernel, compared with the kernel without them, or with drawing its variates."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.designs import LEVEL, SEED, cells, huber, kernel, quantile, regression
from benchmarks.effort import Effort
from benchmarks.measurement import Measurement
from benchmarks.timing import Pairs, compare
from ldpflow.components.algorithms.dp_ambssgd import DpAmbssgd
from ldpflow.components.algorithms.dp_nsgd import DpNsgd
from ldpflow.components.intervals import INTERVAL_METHODS
from ldpflow.components.mechanisms.none import NoMechanism
from ldpflow.components.problems.least_squares import LeastSquares
from ldpflow.components.problems.nonconvex_logistic import NonconvexLogistic
from ldpflow.numerics.kernels import compile_kernel
from ldpflow.numerics.streams import CHUNK, LANES, STRIDE, lane_states
from ldpflow.simulators.finite_sum import draw_records, run_erm
from ldpflow.simulators.one_pass import OnePass, kernel_case, run_path
from ldpflow.simulators.rows import Batch, simulate
from ldpflow.simulators.simulator import Cell

SIGNATURE = "void(uint64[::1], uint64[::1], float64[::1], float64[::1], int64, float64[::1])"

ARENA: tuple[tuple[str, dict[str, object]], ...] = (
    ("oracle", {}),
    ("TRC", {}),
    ("NOL", {}),
    ("NOL", {"quantile": "t"}),
    ("OBM", {}),
    ("EBS", {"block_rule": "half"}),
    ("EBS", {"block_rule": "third"}),
    ("EBS", {"block_rule": "3n^0.75", "quantile": "t"}),
    ("LUG", {"block_rule": "half"}),
    ("LUG", {"base": "BM"}),
    ("BM", {"quantile": "t"}),
    ("SUF", {}),
    ("CHB", {}),
    ("ACS", {"t_opt": 10**4}),
    ("TR", {}),
)


def floor(kernel, data_state, noise_state, data_parameters, noise_parameters, chunks, out):
    """Draw the variates of ``chunks`` chunks of steps; the last chunk goes to ``out``."""
    data = np.empty(kernel.DATA_PLANES * STRIDE)
    noise = np.empty(kernel.NOISE_PLANES * STRIDE)
    for _ in range(chunks):
        kernel.draw_data(data_state, data_parameters, data)
        kernel.draw_noise(noise_state, noise_parameters, noise)
    out[: len(data)] = data
    out[len(data) :] = noise


def floor_work(path: OnePass, steps: int) -> tuple[Callable[[], object], int]:
    """Work that draws the variates of a path, and its number of steps times replicates."""
    data = path.problem.variates()
    noise = path.mechanism.variates(path.problem)
    function = compile_kernel(floor, kernel_case(path, ()), SIGNATURE)  # draws as the kernel does
    chunks = -(-steps // CHUNK)
    arguments = (
        lane_states(SEED, "data", path.data_key(), range(LANES)),
        lane_states(SEED, "mechanism", path.key, range(LANES)),
        np.array([v.parameter for v in data]),
        np.array([v.parameter for v in noise]),
        chunks,
        np.empty((len(data) + len(noise)) * STRIDE),
    )
    return lambda: function(*arguments), chunks * CHUNK * LANES


def floor_rows(effort: Effort) -> list[Measurement]:
    """Kernels over their floors: the three of Dette and Graw, and Huber regression."""
    designs = {
        "quantile-rr": ("quantile, randomised response", quantile(), 1, 1.3),
        "quantile-laplace": ("quantile, Laplace", quantile("laplace"), 1, 1.3),
        "regression": ("quantile regression d = 4", regression(), 4, 1.25),
        "huber-gaussian": ("Huber regression d = 20, Gaussian", huber(20), 20, 1.25),
    }
    rows = []
    for name, (what, path, d, target) in designs.items():
        steps = effort.steps // d
        pairs = compare(*kernel(path, cells(steps, "BB", "BM")), *floor_work(path, steps), effort.repetitions)
        what = f"kernel / floor, {what}, data mode"
        labels = ("kernel_ns_per_step", "floor_ns_per_step")
        rows.append(pairs.row(f"floor-{name}", what, "times the floor", target, labels))
    return rows


def clipping_row(effort: Effort) -> list[Measurement]:
    """A pass of DP-AMBSSGD over drawing its records, at d = 10, N = 10^5, T = 20."""
    n, d, steps = 100_000, 10, 20
    problem = LeastSquares(d=d, sigma=0.5)
    path = OnePass(problem, NoMechanism(), DpAmbssgd(iterations=steps).resolved(problem, n), n)
    pairs = compare(
        lambda: run_path(path, SEED, range(LANES), [steps // 2, steps]),
        n * LANES,
        *floor_work(path, n),
        effort.repetitions,
    )
    what = f"DP-AMBSSGD pass over drawing its records, d = {d}"
    labels = ("pass_ns_per_record", "drawing_ns_per_record")
    return [pairs.row("adaptive-clipping", what, "times the time", 2.0, labels)]


def momentum_row(effort: Effort) -> list[Measurement]:
    """Algorithm 1 of Tran and Cutkosky over the algorithm without noise, at d = 20, N = 1000."""
    n, epochs, d = 1000, 20, 20
    problem = NonconvexLogistic(d=d)
    records = draw_records(problem, SEED, n, range(LANES))

    def work(noise: str) -> Callable[[], object]:
        algorithm = DpNsgd.model_validate({"noise": noise, "epochs": epochs})
        plan = algorithm.plan(problem, n)
        lanes = range(LANES)
        return lambda: run_erm(problem, algorithm, plan, records, SEED, "row", lanes, [plan.steps])

    units = float(n * epochs * LANES)
    pairs = compare(work("tree"), units, work("none"), units, effort.repetitions)
    what = f"DP-NSGD step over a non-private NSGD step, d = {d}"
    return [pairs.row("momentum", what, "times the time", 2.5, ("private_ns", "plain_ns"))]


def with_and_without(
    path: OnePass, steps: int, sums: tuple[str, ...], beside: tuple[str, ...], effort: Effort
) -> Pairs:
    """Time the kernel that keeps ``sums`` and ``beside``, and the kernel that keeps ``beside`` alone."""
    first = max(1, steps // 100)

    def work(names: tuple[str, ...]) -> object:
        return run_path(path, SEED, range(LANES), [first, steps], [first, steps], names)

    more = tuple(sorted((*beside, *sums)))
    units = steps * LANES
    return compare(lambda: work(more), units, lambda: work(beside), units, effort.repetitions)


def transcript_row(effort: Effort) -> list[Measurement]:
    """Cost of the running sums of TR: nanoseconds per step for a scalar, ratio of times for vectors."""
    rows = []
    labels = ("with_ns_per_step", "without_ns_per_step")
    cubic, sn = ("transcript_cubic",), ("self_normalization",)
    scalar = {
        "transcript": ("TR, degree 1 or 2", cubic, ()),
        "transcript-sn": ("the same beside SN's sums", cubic, sn),
        "transcript-cubic-fit": ("TR, degree 3", (*cubic, "transcript_quartic"), ()),
    }
    for name, (what, sums, beside) in scalar.items():
        pairs = with_and_without(quantile(), effort.steps, sums, beside, effort)
        added = [1e9 * (a - b) for a, b in zip(pairs.first, pairs.second, strict=True)]
        what = f"quantile, randomised response: sums of {what}, over the kernel without"
        rows.append(pairs.row(name, what, "ns added", 1.0, labels, values=added))
    linear, quadratic = ("transcript_linear",), ("transcript_quadratic",)
    vectors = {
        "transcript-d4": ("quantile regression d = 4, Laplace: sums of degree 1", regression(), linear, 4),
        "transcript-d4-quadratic": ("the same: sums of degree 2", regression(), quadratic, 4),
        "transcript-d10": ("Huber regression d = 10, Gaussian: sums of degree 1", huber(10), linear, 10),
    }
    for name, (what, path, sums, d) in vectors.items():
        pairs = with_and_without(path, effort.steps // (2 * d), sums, (), effort)
        rows.append(pairs.row(name, f"{what}, over the kernel without", "times as long", None, labels))
    return rows


def arena_row(effort: Effort) -> list[Measurement]:
    """A batch at n = 1e6 with the interval methods of the arena, over a batch with BB, BM and SN."""
    path, n = quantile(), 10**6
    few = tuple(cells(n, "BB", "BM", "SN"))
    more = tuple(Cell(n, INTERVAL_METHODS[kind](**given), LEVEL) for kind, given in ARENA)
    whole, paper = Batch(path, SEED, 0, LANES, (*few, *more)), Batch(path, SEED, 0, LANES, few)
    pairs = compare(lambda: simulate(whole), 1, lambda: simulate(paper), 1, effort.sweep_repetitions)
    what = f"n = 1e6: {len(few) + len(more)} methods and settings of one run, over BB, BM and SN"
    labels = ("all_cpu_seconds", "paper_cpu_seconds")
    return [pairs.row("arena", what, "times the time", 1.5, labels, scale=1.0, replicates=LANES)]
