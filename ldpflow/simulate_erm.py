"""Trajectories of private empirical risk minimisation: one batch of replicates, from seed to rows.

Every row says what it is private against, with what budget, and how the noise was set.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ldpflow.algorithms.erm import ErmAlgorithm, RunPlan
from ldpflow.algorithms.erm_kernels import check_memory, draw_records, risk, run_erm
from ldpflow.problems.erm import ErmProblem
from ldpflow.random.lockstep import LANES
from ldpflow.settings import canonical_json

__all__ = ["erm_path_key", "simulate_erm", "trajectory_times"]


def erm_path_key(problem: ErmProblem, algorithm: ErmAlgorithm, n: int) -> str:
    """Key of the streams ``tree``, ``order`` and ``output``: 16 hex digits, as of every path."""
    settings = {
        "problem": problem.key_settings(),
        "algorithm": algorithm.key_settings(),
        "n": n,
    }
    return hashlib.sha256(canonical_json(settings).encode()).hexdigest()[:16]


def trajectory_times(steps: int, points: int) -> list[int]:
    """The middles of ``points`` equal parts of 1..T: their mean estimates that over all steps."""
    return sorted({max(1, (2 * i + 1) * steps // (2 * points)) for i in range(points)} | {steps})


def simulate_erm(
    problem: ErmProblem,
    algorithm: ErmAlgorithm,
    n: int,
    *,
    seed: int,
    replicates: Sequence[int],
    points: int = 64,
) -> tuple[RunPlan, pa.Table]:
    """Run an algorithm and evaluate the risk along its path and at its output.

    Parameters
    ----------
    problem, algorithm
    n : int
        Records N.
    seed : int
    replicates : sequence of int
        At most LANES indices. A replicate has data, order and noise of its own (a file's records
        are shared).
    points : int
        Steps at which F and its gradient are evaluated, N gradients each.

    Returns
    -------
    plan : RunPlan
    rows : pyarrow.Table
        Per replicate and step, sorted so: path, algorithm, the plan's columns, replicate, step,
        output (true for the random output iterate w_tau, false along the way), loss F(w_t),
        gradient_norm ||grad F(w_t)||, error_norm ||mhat_t - grad F(w_t)||, noise_norm
        ||mhat_t - m_t|| (the two null at w_tau).
    """
    if not 1 <= len(replicates) <= LANES:
        raise ValueError(f"1 to {LANES} replicates at a time")
    check_memory(problem, algorithm, n)
    plan = algorithm.plan(problem, n)
    key = erm_path_key(problem, algorithm, n)
    records = draw_records(problem, seed, n, replicates)
    times = trajectory_times(plan.steps, points)
    record = run_erm(problem, algorithm, plan, records, seed, key, replicates, times)
    visited = np.concatenate([record.iterates, record.chosen[None]])
    losses, gradients = evaluated(problem, records, visited)
    norms = norm(gradients)
    errors = norm(record.estimates - gradients[:-1])
    noise = norm(record.estimates - record.momenta)
    count = len(replicates)
    steps = np.concatenate([np.tile(record.times[:, None], (1, count)), record.chosen_times[None]])
    missing = np.full((1, count), np.nan)

    def flat(values: np.ndarray) -> pa.Array:
        column = np.ascontiguousarray(values.T).reshape(-1)
        return pa.array(column, mask=np.isnan(column))

    shape = (len(steps), count)
    described = {
        "path": f"p{key}",
        "problem": problem.kind,
        "d": problem.dimension,
        "algorithm": algorithm.kind,
        **{
            name: getattr(algorithm, name)
            for name in ("noise", "order", "calibration")
            if hasattr(algorithm, name)
        },
        **algorithm.columns(plan),
    }
    table = {
        # A column of nulls has no type of its own.
        name: pa.repeat(pa.scalar(value, type=pa.float64() if value is None else None), len(steps) * count)
        for name, value in described.items()
    }
    output = np.zeros(shape, dtype=bool)
    output[-1] = True
    table |= {
        "replicate": flat(np.broadcast_to(np.asarray(replicates, dtype=np.int64), shape)),
        "step": flat(steps),
        "output": pa.array(np.ascontiguousarray(output.T).reshape(-1)),
        "loss": flat(losses),
        "gradient_norm": flat(norms),
        "error_norm": flat(np.concatenate([errors, missing])),
        "noise_norm": flat(np.concatenate([noise, missing])),
    }
    return plan, pa.table(table)


def evaluated(problem: ErmProblem, records, points):  # type: ignore[no-untyped-def]
    """F and its gradient at points of shape (K, d, R), R at most LANES."""
    count = points.shape[-1]
    padded = np.concatenate(
        [points, np.repeat(points[..., :1], LANES - count, axis=-1)], axis=-1
    )
    losses, gradients = risk(problem, records, padded)
    return losses[:, :count], gradients[..., :count]


def norm(vectors: np.ndarray) -> np.ndarray:
    """Euclidean norm over the middle axis, in the coordinates' order."""
    total = np.zeros((vectors.shape[0], vectors.shape[2]))
    for j in range(vectors.shape[1]):
        total += vectors[:, j] * vectors[:, j]
    result: np.ndarray = np.sqrt(total)
    return result
