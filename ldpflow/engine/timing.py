"""CPU time of a simulator's steps and rows on this machine, measured; a family may register functions."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import singledispatch
from typing import Any

import numpy as np

from ldpflow.intervals.record import PathRecord, Record
from ldpflow.kernels import finite_sum
from ldpflow.kernels.assembly import kernel_digest
from ldpflow.random.lockstep import CHUNK, LANES
from ldpflow.simulators.cell import Cell, by_runs
from ldpflow.simulators.counts import Counts
from ldpflow.simulators.empirical_risk import draw_records, risk
from ldpflow.simulators.finite_sum import FiniteSum, run_erm
from ldpflow.simulators.one_pass import OnePass, PathRequest, count_of, run_path
from ldpflow.simulators.rows import rows_of
from ldpflow.simulators.simulator import Request


@singledispatch
def step_kind(simulator: Any, request: Request) -> object:
    """Key of a step's time: requests with equal keys take equally long."""
    return simulator.key


@step_kind.register
def step_kind_of_path(path: OnePass, request: PathRequest) -> object:
    digest = kernel_digest(path, tuple(request.sums))
    if not path.algorithm.depends_on_horizon():
        return digest
    return digest, path.horizon, getattr(path.algorithm, "batch_size", None)


@step_kind.register
def step_kind_of_epochs(simulator: FiniteSum, request: Request) -> object:
    digest = finite_sum.kernel_digest(simulator.problem, simulator.algorithm, simulator.setting_order())
    return digest, simulator.horizon, getattr(simulator.algorithm, "batch_size", None)


@step_kind.register
def step_kind_of_counts(simulator: Counts, request: Request) -> object:
    return simulator.protocol.kind, simulator.counts(), getattr(simulator.protocol, "rounds", None)


@singledispatch
def seconds_per_step(simulator: Any, request: Request, budget: float) -> float:
    """CPU time of a step of LANES replicates, measured in about ``budget`` seconds: from whole replicates."""
    simulator.prepare(request)
    started, done = time.thread_time(), 0
    while not done or time.thread_time() - started < budget / 3.0:
        simulator.run(0, range(LANES), request)
        done += 1
    steps: int = simulator.cost(request, 1).steps
    return (time.thread_time() - started) / (done * steps)


@seconds_per_step.register
def seconds_per_step_of_path(path: OnePass, request: PathRequest, budget: float) -> float:
    path.prepare(request)
    # A path of a given horizon has no further steps; another one may run on.
    most = request.times[-1] if path.algorithm.depends_on_horizon() else 2**62
    return doubled(
        lambda steps: run_path(path, 0, range(LANES), [steps], [steps], request.sums),
        min(16 * CHUNK, most),
        most,
        budget,
    )


@seconds_per_step.register
def seconds_per_step_of_epochs(simulator: FiniteSum, request: Request, budget: float) -> float:
    simulator.prepare(request)
    problem, algorithm, plan = simulator.problem, simulator.algorithm, simulator.plan
    data = draw_records(problem, 0, simulator.horizon, range(LANES))

    def run(steps: int) -> None:
        short = replace(plan, steps=steps)
        run_erm(problem, algorithm, short, data, 0, simulator.key, range(LANES), [steps])

    return doubled(run, min(plan.batches, max(1, plan.steps // 2)), plan.steps, budget)


def doubled(run: Callable[[int], object], steps: int, most: int, budget: float) -> float:
    """Seconds per step of a run that doubles from ``steps`` until it fills a third of the budget."""
    before, shorter = 0.0, 0
    while True:
        started = time.thread_time()
        run(steps)
        seconds = time.thread_time() - started
        if seconds - before > budget / 3.0 or steps == most:
            # Less the run before, so that the start of a run does not count.
            return max(seconds - before, 1e-9) / (steps - shorter)
        before, shorter, steps = seconds, steps, min(2 * steps, most)


@singledispatch
def seconds_per_record(simulator: Any, request: Request) -> float:
    """CPU time to turn a record of LANES replicates into rows, measured."""
    return seconds_of_rows(simulator.run(0, range(LANES), request), request.cells)


@seconds_per_record.register
def seconds_per_record_of_path(path: OnePass, request: PathRequest) -> float:
    """From a made-up record, a random walk: the cost of sorting and summing depends on no more."""
    total = 0.0
    for runs, cells in by_runs(request.cells).items():
        d, replicates = path.dimension, LANES * runs
        asked = path.needs(cells)
        shape = (len(asked.times), d, replicates)
        record = PathRecord(
            source=path,
            seed=0,
            replicates=np.arange(replicates),
            times=np.array(asked.times),
            origin=path.truth(),
            prefix_sums=np.cumsum(np.random.default_rng(0).standard_normal(shape), axis=0),
            iterates=np.zeros(shape),
            running_sums={
                name: np.ones((count_of(path, name), len(asked.marked), d, replicates)) for name in asked.sums
            },
            marked_times=np.array(asked.marked),
        )
        total += seconds_of_rows(record, cells) / runs
    return total


@seconds_per_record.register
def seconds_per_record_of_epochs(simulator: FiniteSum, request: Request) -> float:
    """From the risk at one point: there is one for every checkpoint, and the output."""
    data = draw_records(simulator.problem, 0, simulator.horizon, range(LANES))
    point = np.zeros((1, simulator.problem.dimension, LANES))
    risk(simulator.problem, data, point)
    started = time.thread_time()
    risk(simulator.problem, data, point)
    return (len(request.checkpoints) + 1) * (time.thread_time() - started)


def seconds_of_rows(record: Record, cells: Sequence[Cell]) -> float:
    """CPU time of the rows of a record; the second time, when what they take is loaded."""
    if not cells:
        return 0.0
    with np.errstate(all="ignore"):
        rows_of(record, cells)
        again: Any = replace(record)  # type: ignore[type-var]  # without what the first time computed
        started = time.thread_time()
        rows_of(again, cells)
    return time.thread_time() - started
