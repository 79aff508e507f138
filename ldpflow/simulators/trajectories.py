"""Trajectories: squared distances to theta* and excess losses F(theta) - F(theta*) at checkpoints.

For a problem with an exact Hessian the excess loss is exact. For other problems the expectation over y given
x is exact, and the expectation over x is the mean over a fixed evaluation set. This set is equal for all
paths, seeds and replicates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from mpmath import mp, mpf
from numpy.typing import NDArray

from ldpflow.columns import Column
from ldpflow.components.intervals.record import Array
from ldpflow.components.problems import Problem
from ldpflow.numerics import constants, fill_normal, register_array
from ldpflow.numerics.kernels import compile_kernel, flat, layout_of, part_of
from ldpflow.numerics.specialise import Case
from ldpflow.numerics.streams import LANES, PLANE, lane_states
from ldpflow.simulators.rows import run_kernel

if TYPE_CHECKING:
    import pyarrow as pa


EVALUATION = 20_000
"""Number of covariates x in the evaluation set."""

NANOSECONDS_PER_LOSS = 45.0
"""Rough CPU time of the loss at one x (measured: 35 to 53)."""

SIGNATURE = "void(float64[:, ::1], float64[:, ::1], float64[::1], float64[::1], float64[:, ::1])"


@lru_cache(maxsize=8)
def evaluation_set(problem: Problem) -> Array:
    """Covariates of shape (E, d), from N(0, I). E = 1 if the problem has a fixed x."""
    if getattr(problem, "covariates", "normal") == "one":
        return np.ones((1, 1))
    d = problem.dimension
    state = lane_states(0, "evaluation", f"normal/{d}", range(LANES))
    planes = np.empty((-(-EVALUATION * d // PLANE), PLANE))
    for plane in planes:
        fill_normal(state, 0.0, plane)
    return planes.reshape(-1)[: EVALUATION * d].reshape(EVALUATION, d)


def excess_loss(problem: Problem, theta: Array) -> Array | None:
    """F(theta) - F(theta*) of shape (points, R), for theta of shape (points, d, R).

    None if the problem has neither an exact Hessian nor a function ``loss_gap``.
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
    if loss_gap_of(problem) is None:
        return None
    lanes = np.zeros((points, d, LANES))
    lanes[..., :count] = theta
    out = np.empty((points, LANES))
    points_of_lanes, truth = lanes.reshape(points, d * LANES), np.array(problem.truth())
    parameters = flat(problem.kernel_parameters())
    run_kernel(loss_gap_kernel(problem), points_of_lanes, evaluation_set(problem), truth, parameters, out)
    return out[:, :count]


def loss_gap_of(problem: Problem) -> Callable[..., float] | None:
    """Kernel function ``loss_gap`` of a problem, or None. None also for a problem with stored records."""
    return None if problem.stored_records() else part_of(problem, "loss_gap", required=False)


@lru_cache(maxsize=256)
def loss_gap_kernel(problem: Problem) -> Callable[..., None]:
    values = (("D", problem.dimension), ("loss_gap", loss_gap_of(problem)))
    layouts = (("problem", layout_of(problem.kernel_parameters())),)
    return compile_kernel(mean_gap, Case(values, layouts), SIGNATURE)


def mean_gap(kernel, theta, covariates, truth, problem, out):  # type: ignore[no-untyped-def]
    """Mean of ``loss_gap`` over the evaluation set, for each point and lane."""
    z = register_array(LANES)
    total = register_array(LANES)
    for p in range(theta.shape[0]):
        for lane in range(LANES):
            total[lane] = 0.0
        for e in range(covariates.shape[0]):
            square = 0.0
            best = 0.0
            for j in range(kernel.D):
                x = covariates[e, j]
                square += x * x
                best += x * truth[j]
            for lane in range(LANES):
                z[lane] = 0.0
            for j in range(kernel.D):
                x = covariates[e, j]
                for lane in range(LANES):
                    z[lane] += x * theta[p, j * LANES + lane]
            for lane in range(LANES):
                total[lane] += kernel.loss_gap(z[lane], best, square, problem)
        for lane in range(LANES):
            out[p, lane] = total[lane] / covariates.shape[0]


def excess_loss_seconds(problem: Problem) -> float:
    """Rough CPU time of the excess loss at one theta, in seconds. 0 if it needs no evaluation set."""
    if problem.exact_hessian() is not None or loss_gap_of(problem) is None:
        return 0.0
    fixed = getattr(problem, "covariates", "normal") == "one"
    return (1 if fixed else EVALUATION) * NANOSECONDS_PER_LOSS * 1e-9


def trajectory_table(
    replicates: NDArray[np.int64],
    users: NDArray[np.int64],
    steps: NDArray[np.int64],
    columns: Mapping[str, Array | None],
    finite: NDArray[np.bool_],
    measures: Sequence[Column] = (),
) -> pa.Table:
    """Make a table of trajectories, with a row per replicate and checkpoint, in this order.

    ``users`` and ``steps`` have an entry per checkpoint. ``columns`` has arrays of shape (checkpoints, R), or
    None for null. If all values of a column at a checkpoint are NaN, they become null. ``finite`` has the
    same shape and is False if the replicate has diverged before the checkpoint. ``measures`` are columns
    that only some algorithms have.
    """
    import pyarrow as pa

    from ldpflow.store.schema import MEASURED, schema_of

    count = len(replicates)
    data: dict[str, Any] = {
        "replicate": np.repeat(replicates, len(steps)),
        "n": np.tile(users, count),
        "step": np.tile(steps, count),
        "status": np.where(finite, "ok", "diverged").T.reshape(-1),
    }
    for name, values in columns.items():
        if values is not None:
            unknown = np.broadcast_to(np.isnan(values).all(axis=1, keepdims=True), values.shape)
            column = np.where(finite, values, np.nan).T.reshape(-1)
            data[name] = pa.array(column, mask=unknown.T.reshape(-1))
    schema = schema_of(measures, MEASURED)
    nothing = pa.nulls(len(steps) * count, pa.float64())
    return pa.table({name: data.get(name, nothing) for name in schema.names}, schema=schema)


def squared_norms(distance: Array) -> Array:
    """Squared norms over the second axis. Adds in the order of the coordinates."""
    total = np.zeros((distance.shape[0], distance.shape[2]))
    for j in range(distance.shape[1]):
        total += distance[:, j] ** 2
    return total


def log_grid(first: int, last: int, points: int) -> tuple[int, ...]:
    """About ``points`` distinct integers from ``first`` to ``last``, at equal distances in log."""
    if last <= first:
        return (last,)
    with constants.workdps(30):
        ratio = mp.log(mpf(last) / first) / (points - 1)
        found = {int(mp.nint(first * mp.exp(ratio * i))) for i in range(points)}
    return tuple(sorted(found | {last}))
