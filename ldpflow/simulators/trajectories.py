"""Error trajectories: how far theta is from theta* along a path, at a list of checkpoints.

Every statistic is a function of the path record at a time. One pass: squared distances of the last
iterate and of the averages, and their excess loss F(theta) - F(theta*). The expectation over y given x
is exact, that over x a mean over a fixed evaluation set of covariates, the same for every path, seed and
replicate. Many epochs: the empirical risk and its gradient over the replicate's own data set.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldpflow.columns import Column
from ldpflow.intervals.record import PathRecord
from ldpflow.kernels.excess_loss import loss_gap_kernel
from ldpflow.kernels.parameters import flat
from ldpflow.problems import Problem
from ldpflow.problems.finite_sum import FiniteSumProblem
from ldpflow.random.lockstep import LANES, PLANE
from ldpflow.simulators.finite_sum import EpochsRecord, minimum, risk
from ldpflow.simulators.path import Path
from ldpflow.store.schema import MEASURED, schema_of

__all__ = ["EVALUATION", "excess_loss", "trajectories_of"]

EVALUATION = 20_000
"""Covariates of the evaluation set."""

Array = NDArray[np.float64]


@lru_cache(maxsize=8)
def evaluation_set(problem: Problem) -> Array:
    """Covariates, shape (E, d): N(0, I), or the one record where x is fixed."""
    if getattr(problem, "covariates", "normal") == "one":
        return np.ones((1, 1))
    from ldpflow.random.samplers import fill_normal
    from ldpflow.random.streams import lane_states

    d = problem.dimension
    state = lane_states(0, "evaluation", f"normal/{d}", range(LANES))
    planes = []
    for _ in range(-(-EVALUATION * d // PLANE)):
        plane = np.empty(PLANE)
        fill_normal(state, 0.0, plane)
        planes.append(plane)
    return np.concatenate(planes)[: EVALUATION * d].reshape(EVALUATION, d)


def excess_loss(problem: Problem, theta: Array) -> Array | None:
    """F(theta) - F(theta*), or None for a problem whose loss is not implemented.

    Parameters
    ----------
    problem : Problem
    theta : ndarray, shape (points, d, R), R <= LANES

    Returns
    -------
    ndarray, shape (points, R), or None
    """
    points, d, count = theta.shape
    hessian = problem.exact_hessian()
    if hessian is not None:
        result = np.zeros((points, count))
        distance = theta - np.array(problem.truth())[None, :, None]
        for j, row in enumerate(hessian):
            for k, h in enumerate(row):
                if h != 0.0:
                    result += 0.5 * h * (distance[:, j] * distance[:, k])
        return result
    kernel = loss_gap_kernel(problem)
    if kernel is None:
        return None
    lanes = np.zeros((points, d, LANES))
    lanes[..., :count] = theta
    out = np.empty((points, LANES))
    kernel(
        lanes.reshape(points, d * LANES),
        evaluation_set(problem),
        np.array(problem.truth()),
        flat(problem.kernel_parameters()),
        out,
    )
    return out[:, :count]


def trajectories_of(record: PathRecord, checkpoints: tuple[int, ...]) -> pa.Table:
    """One row per replicate and checkpoint, in the schema TRAJECTORIES, by replicate and then n."""
    path: Path = record.path
    steps = np.array([path.steps(at) for at in checkpoints], dtype=np.int64)
    last = record.iterates[np.searchsorted(record.times, steps)]
    if isinstance(record, EpochsRecord):
        columns = statistics_of_risk(record, steps)
        finite = np.isfinite(squared(last))
        users = np.full(len(steps), path.horizon, dtype=np.int64)
    else:
        columns, finite = statistics_of_distance(record, steps, last)
        users = np.array(checkpoints, dtype=np.int64)
    columns |= {name: own_number(record, name, steps) for name in record.extras}
    count = len(record.replicates)
    data = {
        "replicate": pa.array(np.repeat(record.replicates, len(steps))),
        "n": pa.array(np.tile(users, count)),
        "step": pa.array(np.tile(steps, count)),
        "status": pa.array(["ok" if f else "diverged" for f in finite.T.reshape(-1)]),
    }
    schema = schema_of(measures_of(path), MEASURED)
    for name in schema.names:
        if name in data:
            continue
        values = columns.get(name)
        if values is None:
            data[name] = pa.nulls(len(steps) * count, pa.float64())
        else:
            known = np.broadcast_to(~np.isnan(values).all(axis=1, keepdims=True), values.shape)
            column = np.where(finite, values, np.nan).T.reshape(-1)
            data[name] = pa.array(column, mask=~known.T.reshape(-1))
    return pa.Table.from_arrays([data[name] for name in schema.names], schema=schema)


def measures_of(path: Path) -> tuple[Column, ...]:
    """What the kernel of a path records beside the iterates."""
    return (path.randomiser if path.algorithm.counts_in_mechanism() else path.algorithm).measures


def statistics_of_distance(
    record: PathRecord, steps: NDArray[np.int64], last: Array
) -> tuple[dict[str, Array | None], NDArray[np.bool_]]:
    """Distances to theta* and excess losses, and where they are finite."""
    path = record.path
    counts = steps[:, None, None].astype(float)
    centre = record.origin[None, :, None]
    average = centre + record.sums_at(steps) / counts
    earlier = average - (last - path.algorithm.theta0) / counts
    finite = np.isfinite(squared(last - centre)) & np.isfinite(squared(average - centre))
    return {
        "last_sq": squared(last - centre),
        "avg_sq": squared(average - centre),
        "avg_pre_sq": squared(earlier - centre),
        "last_exc": excess_loss(path.problem, last),
        "avg_exc": excess_loss(path.problem, average),
        "tail_exc": tail_excess(record, steps) if path.algorithm.averages_tail() else None,
    }, finite


def statistics_of_risk(record: EpochsRecord, steps: NDArray[np.int64]) -> dict[str, Array | None]:
    """The empirical risk and its gradient along a path and at its output; NaN where there is none.

    The output w_tau, one a replicate, stands at the last step. The excess risk needs the minimum, which
    is computed where the risk is convex.
    """
    problem, run = record.path.problem, record.run
    assert isinstance(problem, FiniteSumProblem)
    at = np.searchsorted(record.times, steps)
    points = np.concatenate([run.iterates[at], run.chosen[None]])
    losses, gradients = risk(problem, record.records, points)
    norms = np.sqrt(squared(gradients))
    noise = np.sqrt(squared(run.estimates[at] - run.momenta[at]))
    output = np.full((2, *noise.shape), np.nan)
    output[:, -1] = losses[-1], norms[-1]
    columns: dict[str, Array | None] = {
        "loss": losses[:-1],
        "gradient_norm": norms[:-1],
        "error_norm": np.sqrt(squared(run.estimates[at] - gradients[:-1])),
        "noise_norm": noise,
        "output_loss": output[0],
        "output_gradient_norm": output[1],
    }
    if problem.convex():
        columns["last_exc"] = losses[:-1] - minimum(problem, record.records, points.shape[-1])
    return columns


def tail_excess(record: PathRecord, steps: NDArray[np.int64]) -> Array | None:
    """Excess loss of the average of theta_i over t/2 < i <= t (floor(t/2), as for odd t)."""
    halves = steps // 2
    sums = record.sums_at(steps) - record.sums_at(halves)
    average = record.origin[None, :, None] + sums / (steps - halves)[:, None, None]
    return excess_loss(record.path.problem, average)


def own_number(record: PathRecord, name: str, steps: NDArray[np.int64]) -> Array:
    """An algorithm's number at the checkpoints; of a running sum the mean per step since the last one."""
    values: Array = record.extras[name][np.searchsorted(record.times, steps)]
    if not next(column for column in measures_of(record.path) if column.name == name).running:
        return values
    before = np.concatenate([np.zeros((1, values.shape[1])), values[:-1]])
    lengths = np.diff(steps, prepend=0)
    return np.asarray((values - before) / lengths[:, None])


def squared(distance: Array) -> Array:
    """Squared norms over the second axis, summed in order."""
    total = np.zeros((distance.shape[0], distance.shape[2]))
    for j in range(distance.shape[1]):
        total += distance[:, j] ** 2
    return total
