"""Predicted time of a study on this machine, and the choice of an engine."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ldpflow.components.intervals.record import PathRecord, Record
from ldpflow.errors import address_limit
from ldpflow.numerics.streams import CHUNK, LANES
from ldpflow.simulators.counts import Counts
from ldpflow.simulators.finite_sum import FiniteSum, draw_records, risk, run_erm
from ldpflow.simulators.one_pass import OnePass, count_of, one_pass_kernel, run_path
from ldpflow.simulators.rows import Batch, rows_of
from ldpflow.simulators.simulator import Cell, PathPlan, Request, Simulator, by_runs


def step_kind(simulator: Any, request: Any) -> object:
    """Key of the time of a step. Simulators with equal keys have equal times of a step."""
    if isinstance(simulator, Counts):
        return simulator.protocol.kind, simulator.counts(), getattr(simulator.protocol, "rounds", None)
    if isinstance(simulator, FiniteSum):
        kernel = simulator.kernel()
    else:
        kernel = one_pass_kernel(simulator, tuple(request.sums))
        if not simulator.algorithm.depends_on_horizon():
            return kernel
    return kernel, simulator.horizon, getattr(simulator.algorithm, "batch_size", None)


def seconds_per_step(simulator: Simulator[Any, Any], request: Any, budget: float) -> float:
    """CPU time of a step of LANES replicates, measured in about ``budget`` seconds."""
    simulator.prepare(request)
    if isinstance(simulator, OnePass):
        # A path whose algorithm depends on n cannot make more steps than n allows.
        most = request.times[-1] if simulator.algorithm.depends_on_horizon() else 2**62

        def run_steps(steps: int) -> None:
            run_path(simulator, 0, range(LANES), [steps], [steps], request.sums)

        return seconds_by_doubling(run_steps, min(16 * CHUNK, most), most, budget)
    if isinstance(simulator, FiniteSum):
        problem, algorithm, plan = simulator.problem, simulator.algorithm, simulator.plan
        data = draw_records(problem, 0, simulator.horizon, range(LANES))

        def run_epochs(steps: int) -> None:
            short = replace(plan, steps=steps)
            run_erm(problem, algorithm, short, data, 0, simulator.key, range(LANES), [steps])

        return seconds_by_doubling(run_epochs, min(plan.batches, max(1, plan.steps // 2)), plan.steps, budget)
    started, done = time.thread_time(), 0
    while not done or time.thread_time() - started < budget / 3.0:
        simulator.run(0, range(LANES), request)
        done += 1
    return (time.thread_time() - started) / (done * simulator.cost(request, 1).steps)


def seconds_by_doubling(run: Callable[[int], object], steps: int, most: int, budget: float) -> float:
    """Seconds per step. Doubles the ``steps`` of a run until it takes a third of ``budget`` seconds."""
    before, shorter = 0.0, 0
    while True:
        started = time.thread_time()
        run(steps)
        seconds = time.thread_time() - started
        if seconds - before > budget / 3.0 or steps == most:
            # The difference of two runs does not contain the time of a start.
            return max(seconds - before, 1e-9) / (steps - shorter)
        before, shorter, steps = seconds, steps, min(2 * steps, most)


def seconds_per_record(simulator: Simulator[Any, Any], request: Request) -> float:
    if isinstance(simulator, OnePass):
        groups = by_runs(request.cells).items()
        return sum(seconds_of_rows(random_record(simulator, c, runs), c) / runs for runs, c in groups)
    if isinstance(simulator, FiniteSum):
        # Time of the risk at one point. A replicate computes it at each checkpoint and at its output.
        data = draw_records(simulator.problem, 0, simulator.horizon, range(LANES))
        point = np.zeros((1, simulator.problem.dimension, LANES))
        risk(simulator.problem, data, point)
        started = time.thread_time()
        risk(simulator.problem, data, point)
        return (time.thread_time() - started) * (len(request.checkpoints) + 1)
    return seconds_of_rows(simulator.run(0, range(LANES), request), request.cells)


def random_record(path: OnePass, cells: tuple[Cell, ...], runs: int) -> PathRecord:
    """Record of a random walk. Interval methods take the same time for it as for the record of the path."""
    asked = path.needs(cells)
    d, replicates = path.dimension, LANES * runs
    shape = (len(asked.times), d, replicates)
    return PathRecord(
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


def seconds_of_rows(record: Record, cells: Sequence[Cell]) -> float:
    """CPU time of the rows of a record. Measured at the second call, when all modules are loaded."""
    if not cells:
        return 0.0
    with np.errstate(all="ignore"):
        rows_of(record, cells)
        again: Any = replace(record)  # type: ignore[type-var]  # a copy without cached results
        started = time.thread_time()
        rows_of(again, cells)
    return time.thread_time() - started


RAY_NICENESS = 15  # of Ray's workers by default
RAY_FROM_SECONDS = 60.0  # least wall time of a sweep for which a local Ray is worth its start
RAY_SECONDS = 8.0  # a local Ray takes 6 s to start, 0.5 s to the first batch and 1.5 s to stop
ROW_SECONDS = 15e-6  # CPU time of Python code per row of a coordinate or checkpoint (measured: 5e-6 to 40e-6)


def cores_of(engine: str, num_cpus: int | None) -> int:
    if engine == "serial":
        return 1
    if num_cpus is not None:
        return num_cpus
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def seconds_of(missing: Sequence[Batch]) -> float:
    return sum(m.cost.seconds * (m.last - m.first) for m in missing)


def choose_engine(seconds: float, cores: int, python_seconds: float) -> tuple[str, str]:
    """Choose threads or Ray. Returns the engine and a line with the reason.

    ``seconds`` is the CPU time of the sweep, ``python_seconds`` the part of it in Python code, which only one
    thread at a time runs.
    """
    wall = seconds / cores
    waiting = max(python_seconds - wall, 0.0)
    work = "less than a second" if seconds < 1 else f"about {seconds:,.0f} s"
    here = f"{work} of computing on {cores} {'core' if cores == 1 else 'cores'}, compilation not counted"
    if wall < RAY_FROM_SECONDS and waiting < RAY_SECONDS:
        return "threads", f"engine threads: {here}; starting Ray would take longer than it saves"
    if address_limit() < ray_addresses():
        why = f"engine threads: {here}; Ray cannot be started with a limit of addresses (ulimit -v)"
        return "threads", why
    return "ray", f"engine ray: {here}, in processes of their own"


def ray_addresses() -> float:
    """Bytes of address space that a local Ray needs. With less, Ray crashes or hangs at its start.

    Ray maps its store of objects, 30% of the memory and at most 200 GB, into each process. On a machine with
    23 GiB of memory Ray started with a limit of 9.5 GiB, but not with 7.6 GiB.
    """
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return 3 * 2**30 + min(0.3 * memory, 200e9)


def busy_machine(nice: int | None) -> str | None:
    """Warning that other programs slow down the workers of a local Ray, or None."""
    cores, level = cores_of("ray", None), RAY_NICENESS if nice is None else nice
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if load < 1.5 * cores or level < 5:
        return None
    return (
        f"this machine is busy (load {load:.0f} on {cores} cores), and Ray's workers let other programs go "
        f"first (nice {level}); with `nice` = 0 or `engine` = threads the sweep gets an equal share"
    )


CALIBRATION_SECONDS = 1.0
START_SECONDS = {"serial": 0.5, "threads": 0.5, "ray": 6.0}  # to the first batch, with compiled kernels


@dataclass(frozen=True)
class Prediction:
    """Expected cost of a sweep.

    ``kernel_seconds`` and ``interval_seconds`` are CPU time on one core of this machine. ``nanoseconds`` has
    the time per step and replicate of each simulator, in the order of the plans.
    """

    steps: int
    kernel_seconds: float
    interval_seconds: float
    wall_seconds: float
    engine: str
    nanoseconds: tuple[float, ...]


def predict(plans: Sequence[PathPlan], replicates: int, cores: int, engine: str) -> Prediction:
    """Predict the time of a sweep of ``plans`` with so many ``replicates`` on ``cores`` cores of this kind.

    Measures CPU time, so other programs on this machine change the result little. Other programs would slow
    down the sweep itself. CALIBRATION_SECONDS are divided equally among the kinds of steps. The time of
    intervals and trajectories is measured for LANES replicates, once for each kind of step and set of cells.
    """
    groups = -(-replicates // LANES)
    requests = [plan.request() for plan in plans]
    kinds = [step_kind(plan.simulator, request) for plan, request in zip(plans, requests, strict=True)]
    share = CALIBRATION_SECONDS / max(1, len(set(kinds)))
    per_step: dict[object, float] = {}
    per_record: dict[object, float] = {}
    kernel_seconds = interval_seconds = 0.0
    steps = 0
    for plan, request, kind in zip(plans, requests, kinds, strict=True):
        cells = kind, plan.cells, plan.checkpoints
        if kind not in per_step:
            per_step[kind] = seconds_per_step(plan.simulator, request, share)
        if cells not in per_record:
            per_record[cells] = seconds_per_record(plan.simulator, request)
        longest = plan.simulator.cost(request, 1).steps
        steps += longest * replicates
        kernel_seconds += groups * longest * per_step[kind]
        interval_seconds += groups * per_record[cells]
    if engine == "auto":
        sizes = (plan.simulator.dimension * len(plan.cells) + len(plan.checkpoints) for plan in plans)
        python_seconds = ROW_SECONDS * replicates * sum(sizes)
        engine, _ = choose_engine(kernel_seconds + interval_seconds, cores, python_seconds)
    wall = (kernel_seconds + interval_seconds) / max(1, min(cores, groups * len(plans)))
    return Prediction(
        steps=steps,
        kernel_seconds=kernel_seconds,
        interval_seconds=interval_seconds,
        wall_seconds=wall + START_SECONDS[engine],
        engine=engine,
        nanoseconds=tuple(1e9 * per_step[kind] / LANES for kind in kinds),
    )
