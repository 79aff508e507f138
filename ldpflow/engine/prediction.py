"""How long a study will take on this machine, from about a second of calibration."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ldpflow.algorithms.finite_sum import FiniteSumAlgorithm, plan_of
from ldpflow.intervals.record import PathRecord
from ldpflow.problems.finite_sum import FiniteSumProblem
from ldpflow.random.lockstep import CHUNK, LANES
from ldpflow.simulators.batch import Recording, rows_of
from ldpflow.simulators.cell import PathPlan
from ldpflow.simulators.finite_sum import draw_records, risk, run_erm
from ldpflow.simulators.one_pass import count_of, kernel_digest, kernel_of, run_path
from ldpflow.simulators.path import Path

__all__ = ["Prediction", "predict"]

CALIBRATION_SECONDS = 1.0
START_SECONDS = {"serial": 0.5, "ray": 6.0}  # until the first batch runs, compile cache warm


@dataclass(frozen=True)
class Prediction:
    """What a sweep is expected to cost.

    ``kernel_seconds`` and ``interval_seconds`` are CPU time on one core of this machine,
    ``nanoseconds`` the time per step and replicate of every path, in the order of the plans.
    """

    steps: int
    kernel_seconds: float
    interval_seconds: float
    wall_seconds: float
    cores: int
    nanoseconds: tuple[float, ...]


def predict(plans: Sequence[PathPlan], replicates: int, cores: int, engine: str = "ray") -> Prediction:
    """Predict a sweep of ``replicates`` over ``plans`` on ``cores`` cores like this one.

    CPU time is measured, so that other work on this machine does not count; the sweep itself will
    have to share with it. Every kernel runs for its share of CALIBRATION_SECONDS on the study's own
    settings; the intervals are computed once for a row of lanes from a made-up record at the
    study's own times.
    """
    groups = -(-replicates // LANES)
    kernels: dict[object, float] = {}
    sources = [what_runs(plan) for plan in plans]
    share = CALIBRATION_SECONDS / max(1, len(set(sources)))
    kernel_seconds = interval_seconds = 0.0
    steps = 0
    per_path = []
    for plan, source in zip(plans, sources, strict=True):
        recording = Recording.of(plan.path, plan.cells, plan.checkpoints)
        longest = recording.times[-1]
        # What a step costs may depend on n.
        kernel = (source, plan.path.horizon if plan.path.algorithm.depends_on_horizon() else None)
        if kernel not in kernels:
            kernels[kernel] = seconds_per_step(plan.path, tuple(recording.sums), share, longest)
        per_step = kernels[kernel]
        steps += longest * replicates
        kernel_seconds += groups * longest * per_step
        interval_seconds += groups * seconds_of_intervals(plan, recording)
        interval_seconds += groups * seconds_of_risk(plan)
        per_path.append(1e9 * per_step / LANES)
    wall = (kernel_seconds + interval_seconds) / max(1, min(cores, groups * len(plans)))
    return Prediction(
        steps=steps,
        kernel_seconds=kernel_seconds,
        interval_seconds=interval_seconds,
        wall_seconds=wall + START_SECONDS[engine],
        cores=cores,
        nanoseconds=tuple(per_path),
    )


def what_runs(plan: PathPlan) -> object:
    """What the time of a path's step depends on: its kernel, and n where it settles what a step is."""
    sums = tuple(Recording.of(plan.path, plan.cells, plan.checkpoints).sums)
    source = kernel_digest(plan.path, sums)
    if not plan.path.algorithm.depends_on_horizon():
        return source
    return source, plan.path.horizon, getattr(plan.path.algorithm, "batch_size", None)


def seconds_per_step(path: Path, sums: tuple[str, ...], budget: float, longest: int) -> float:
    """Time of a step of LANES replicates; doubles the run until it fills half of the budget."""
    kernel_of(path, sums)
    if isinstance(path.algorithm, FiniteSumAlgorithm):
        return seconds_of_epochs(path, budget)
    fixed = path.algorithm.depends_on_horizon()  # then a path has no further steps
    steps = min(16 * CHUNK, longest) if fixed else 16 * CHUNK
    while True:
        started = time.thread_time()
        run_path(path, 0, range(LANES), [steps], [steps], sums)
        seconds = time.thread_time() - started
        if seconds > budget / 3.0 or (fixed and steps == longest):
            return seconds / steps
        steps = min(2 * steps, longest) if fixed else 2 * steps


def seconds_of_epochs(path: Path, budget: float) -> float:
    """The same for an algorithm of many epochs: two runs cut short, so that the start does not count."""
    problem, algorithm, n = path.problem, path.algorithm, path.horizon
    assert (
        isinstance(problem, FiniteSumProblem) and isinstance(algorithm, FiniteSumAlgorithm) and n is not None
    )
    plan = plan_of(problem, algorithm, n)
    records = draw_records(problem, 0, n, range(LANES))

    def seconds(steps: int) -> float:
        short = replace(plan, steps=steps)
        started = time.thread_time()
        run_erm(problem, algorithm, short, records, 0, path.key, range(LANES), [steps])
        return time.thread_time() - started

    steps = min(plan.batches, max(1, plan.steps // 2))
    before = seconds(steps)
    if plan.steps < 2:
        return before
    while True:
        longer = min(2 * steps, plan.steps)
        after = seconds(longer)
        if after - before > budget / 3.0 or longer == plan.steps:
            return max(after - before, 1e-9) / (longer - steps)
        steps, before = longer, after


def seconds_of_risk(plan: PathPlan) -> float:
    """Time to evaluate the risk of LANES replicates at the checkpoints of a path of many epochs."""
    problem, n = plan.path.problem, plan.path.horizon
    if not isinstance(problem, FiniteSumProblem) or n is None:
        return 0.0
    records = draw_records(problem, 0, n, range(LANES))
    point = np.zeros((1, problem.dimension, LANES))
    risk(problem, records, point)
    started = time.thread_time()
    risk(problem, records, point)
    return (len(plan.checkpoints) + 1) * (time.thread_time() - started)


def seconds_of_intervals(plan: PathPlan, recording: Recording) -> float:
    """Time to turn one record of LANES replicates into rows."""
    if not plan.cells:
        return 0.0
    d = plan.path.problem.dimension
    rng = np.random.default_rng(0)
    shape = (len(recording.times), d, LANES)
    # A random walk: the cost of sorting and summing does not depend on more than that.
    record = PathRecord(
        path=plan.path,
        seed=0,
        replicates=np.arange(LANES),
        times=np.array(recording.times),
        origin=np.array(plan.path.problem.truth()),
        prefix_sums=np.cumsum(rng.standard_normal(shape), axis=0),
        iterates=np.zeros(shape),
        running_sums={
            name: np.ones((count_of(plan.path, name), len(recording.marked), d, LANES))
            for name in recording.sums
        },
        marked_times=np.array(recording.marked),
    )
    with np.errstate(all="ignore"):
        rows_of(record, plan.cells)
        started = time.thread_time()
        rows_of(record, plan.cells)
    return time.thread_time() - started
