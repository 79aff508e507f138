"""Empirical risk of a data set: its records, F and its gradient, and the minimum of a convex F."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldpflow.kernels import finite_sum
from ldpflow.kernels.functions import flat
from ldpflow.problems.finite_sum import FiniteSumProblem
from ldpflow.random.lockstep import LANES
from ldpflow.random.streams import lane_states

MOST_ITERATIONS = 5000


@dataclass(frozen=True)
class Records:
    """The records of LANES replicates: flat x (record, coordinate) and y, and where a lane's begin."""

    n: int
    rows: NDArray[np.float64]
    targets: NDArray[np.float64]
    base: NDArray[np.int64]


def prepare(problem: FiniteSumProblem) -> None:
    """Compile what draws the records and evaluates the risk, or load it from the cache."""
    finite_sum.risk_kernel(problem)
    if problem.file is None:
        finite_sum.records_kernel(problem)


def draw_records(problem: FiniteSumProblem, seed: int, n: int, replicates: Sequence[int]) -> Records:
    """The first n records of the file, or n synthetic ones for every replicate.

    A replicate's first n records are the same for every larger n.
    """
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
