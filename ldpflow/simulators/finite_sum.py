"""Running empirical risk minimisation: its records, its risk, its paths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpflow.algorithms.finite_sum import FiniteSumAlgorithm, RunPlan, plan_of
from ldpflow.intervals.record import PathRecord
from ldpflow.kernels import finite_sum
from ldpflow.kernels.parameters import flat
from ldpflow.problems.finite_sum import FiniteSumProblem
from ldpflow.random.lockstep import LANES
from ldpflow.simulators.path import Path

__all__ = [
    "EpochsRecord",
    "ErmRecord",
    "Records",
    "draw_records",
    "minimum",
    "prepare",
    "risk",
    "run_epochs",
    "run_erm",
]

MOST_ITERATIONS = 5000


@dataclass(frozen=True)
class Records:
    """The records of LANES replicates: flat x (record, coordinate) and y, and where a lane's begin."""

    n: int
    rows: NDArray[np.float64]
    targets: NDArray[np.float64]
    base: NDArray[np.int64]


@dataclass(frozen=True)
class ErmRecord:
    """What is kept of the paths of R replicates.

    Parameters
    ----------
    plan : RunPlan
    times : ndarray, shape (K,)
    iterates, estimates, momenta : ndarray, shape (K, d, R)
        w_t, the private momentum mhat_t and the secret m_t.
    last : ndarray, shape (d, R)
        The iterate after the last step.
    chosen_times : ndarray, shape (R,)
        tau, uniform on 1..T.
    chosen : ndarray, shape (d, R)
        The output w_tau.
    """

    plan: RunPlan
    times: NDArray[np.int64]
    iterates: NDArray[np.float64]
    estimates: NDArray[np.float64]
    momenta: NDArray[np.float64]
    last: NDArray[np.float64]
    chosen_times: NDArray[np.int64]
    chosen: NDArray[np.float64]


@dataclass(frozen=True)
class EpochsRecord(PathRecord):
    """The record of an algorithm of many epochs, and the data set that its risk is an average over.

    No prefix sums are kept: they are NaN, like theta*.
    """

    records: Records = field(kw_only=True)
    run: ErmRecord = field(kw_only=True)


def prepare(problem: FiniteSumProblem) -> None:
    """Compile what draws the records and evaluates the risk, or load it from the cache."""
    finite_sum.risk_kernel(problem)
    if problem.file is None:
        finite_sum.records_kernel(problem)


def settings_of(path: Path) -> tuple[str, ...]:
    """Names of the algorithm's settings, in the order in which the kernel has them."""
    problem, algorithm, n = path.problem, path.algorithm, path.horizon
    assert isinstance(problem, FiniteSumProblem) and isinstance(algorithm, FiniteSumAlgorithm)
    assert n is not None
    return tuple(algorithm.kernel_settings(plan_of(problem, algorithm, n)))


def draw_records(problem: FiniteSumProblem, seed: int, n: int, replicates: Sequence[int]) -> Records:
    """The first n records of the file, or n synthetic ones for every replicate.

    A replicate's first n records are the same for every larger n.
    """
    from ldpflow.random.streams import lane_states

    if problem.file is not None:
        x, y = problem.records
        return Records(n, x[:n].reshape(-1), y[:n].copy(), np.zeros(LANES, np.int64))
    rows = np.empty(LANES * n * problem.dimension)
    targets = np.empty(LANES * n)
    finite_sum.records_kernel(problem)(
        lane_states(seed, "data", problem.data_key(), replicates),
        np.array([v.parameter for v in problem.variates()]),
        flat(problem.data_parameters()),
        n,
        rows,
        targets,
    )
    return Records(n, rows, targets, np.arange(LANES, dtype=np.int64) * n)


def risk(
    problem: FiniteSumProblem, records: Records, points: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """F and its gradient at points of shape (K, d, R): shapes (K, R), (K, d, R); R <= LANES."""
    count, d, used = points.shape
    lanes = np.concatenate([points, np.repeat(points[..., :1], LANES - used, axis=-1)], axis=-1)
    losses = np.empty((count, LANES))
    gradients = np.empty((count, d * LANES))
    finite_sum.risk_kernel(problem)(
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


def minimum(problem: FiniteSumProblem, records: Records, lanes: int) -> NDArray[np.float64]:
    """min F of a convex problem, shape (lanes,); NaN where it is not reached (data without errors).

    Accelerated gradient descent (Nesterov, 1983) from 0, restarted where it turns uphill (O'Donoghue
    and Candes, 2015), until the gradient's norm is below 1e-9: F is then exact to rounding.
    """
    point = np.zeros((1, problem.dimension, lanes))
    ahead = point.copy()
    age = np.zeros(lanes)
    best = np.full(lanes, np.nan)
    for _ in range(MOST_ITERATIONS):
        losses, gradients = risk(problem, records, ahead)
        square = np.zeros(lanes)
        for j in range(problem.dimension):
            square += gradients[0, j] * gradients[0, j]
        # A lane that has arrived keeps what it had then: rows must not depend on the others.
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


def run_epochs(path: Path, seed: int, replicates: Sequence[int], times: Sequence[int]) -> EpochsRecord:
    """Draw the records and run the path of up to LANES replicates (see .kernels.run_path)."""
    problem, algorithm, n = path.problem, path.algorithm, path.horizon
    assert (
        isinstance(problem, FiniteSumProblem) and isinstance(algorithm, FiniteSumAlgorithm) and n is not None
    )
    records = draw_records(problem, seed, n, replicates)
    plan = plan_of(problem, algorithm, n)
    run = run_erm(problem, algorithm, plan, records, seed, path.key, replicates, times)
    return EpochsRecord(
        path=path,
        seed=seed,
        replicates=np.asarray(replicates, dtype=np.int64),
        times=run.times,
        origin=np.array(problem.truth()),
        prefix_sums=np.broadcast_to(np.nan, run.iterates.shape),
        iterates=run.iterates,
        records=records,
        run=run,
    )


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
) -> ErmRecord:
    """Run one algorithm on up to LANES replicates.

    Parameters
    ----------
    problem, algorithm, plan, records
    seed : int
        The study's seed.
    key : str
        The path's key: roles ``tree``, ``order`` and ``output``.
    replicates : sequence of int
    times : sequence of int
        Steps at which to record; T is added where it lacks.
    start : sequence of float, optional
        w_1, where not all its coordinates are the algorithm's ``theta0``.
    **parts
        Other functions for parts of the kernel, see :func:`ldpflow.kernels.finite_sum.finite_sum_kernel`.
    """
    from ldpflow.random.streams import lane_keys, lane_states

    settings = algorithm.kernel_settings(plan)
    kernel = finite_sum.finite_sum_kernel(problem, algorithm, tuple(settings), **parts)
    d = problem.dimension
    grid = np.array(sorted({*times, plan.steps}), dtype=np.int64)
    iterates = np.empty((len(grid) + 1, d * LANES))
    estimates = np.empty((len(grid), d * LANES))
    momenta = np.empty((len(grid), d * LANES))
    chosen = np.empty(d * LANES)
    # tau before the run: the top 53 bits of the lane's first output word, scaled to 1..T.
    words = lane_states(seed, "output", key, replicates)[:LANES]
    tau = 1 + ((words >> np.uint64(11)).astype(np.float64) * 2.0**-53 * plan.steps).astype(np.int64)
    tau = np.minimum(tau, plan.steps)
    lanes = np.argsort(tau, kind="stable")
    kernel(
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

    def shaped(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return values.reshape(*values.shape[:-1], d, LANES)[..., :count]

    return ErmRecord(
        plan, grid, shaped(iterates)[:-1], shaped(estimates), shaped(momenta),
        shaped(iterates)[-1], tau[:count], shaped(chosen),
    )  # fmt: skip
