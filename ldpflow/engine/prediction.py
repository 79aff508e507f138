"""Predicted time of a study on this machine, from about a second of calibration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ldpflow.engine.choice import ROW_SECONDS, chosen_engine, python_rows
from ldpflow.engine.timing import seconds_per_record, seconds_per_step, step_kind
from ldpflow.random.lockstep import LANES
from ldpflow.simulators.simulator import Plan

__all__ = ["Prediction", "predict"]

CALIBRATION_SECONDS = 1.0
START_SECONDS = {"serial": 0.5, "threads": 0.5, "ray": 6.0}  # until the first batch runs, compile cache warm


@dataclass(frozen=True)
class Prediction:
    """Expected cost of a sweep.

    ``kernel_seconds`` and ``interval_seconds`` are CPU time on one core of this machine,
    ``nanoseconds`` the time per step and replicate of every simulator, in the order of the plans.
    """

    steps: int
    kernel_seconds: float
    interval_seconds: float
    wall_seconds: float
    cores: int
    engine: str
    nanoseconds: tuple[float, ...]


def predict(plans: Sequence[Plan], replicates: int, cores: int, engine: str = "auto") -> Prediction:
    """Predict a sweep of ``replicates`` over ``plans`` on ``cores`` cores like this one.

    CPU time is measured, so that other work on this machine does not count; the sweep itself will
    have to share with it. Every kind of step runs for its share of CALIBRATION_SECONDS on the study's own
    settings; intervals and trajectories are computed once for every kind and set of cells, in a row of lanes.
    """
    groups = -(-replicates // LANES)
    requests = [plan.request() for plan in plans]
    alike = [step_kind(plan.simulator, request) for plan, request in zip(plans, requests, strict=True)]
    share = CALIBRATION_SECONDS / max(1, len(set(alike)))
    measured: dict[object, float] = {}
    rows_measured: dict[object, float] = {}
    kernel_seconds = interval_seconds = 0.0
    steps = 0
    per_simulator = []
    for plan, request, kind in zip(plans, requests, alike, strict=True):
        simulator = plan.simulator
        if kind not in measured:
            measured[kind] = seconds_per_step(simulator, request, share)
        longest = simulator.cost(request, 1).steps
        steps += longest * replicates
        kernel_seconds += groups * longest * measured[kind]
        cells = kind, plan.cells, plan.checkpoints
        if cells not in rows_measured:
            rows_measured[cells] = seconds_per_record(simulator, request)
        interval_seconds += groups * rows_measured[cells]
        per_simulator.append(1e9 * measured[kind] / LANES)
    if engine == "auto":
        rows = sum(python_rows(plan.simulator, plan.cells, plan.checkpoints) for plan in plans)
        engine, _ = chosen_engine(kernel_seconds + interval_seconds, cores, ROW_SECONDS * rows * replicates)
    wall = (kernel_seconds + interval_seconds) / max(1, min(cores, groups * len(plans)))
    return Prediction(
        steps=steps,
        kernel_seconds=kernel_seconds,
        interval_seconds=interval_seconds,
        wall_seconds=wall + START_SECONDS[engine],
        cores=cores,
        engine=engine,
        nanoseconds=tuple(per_simulator),
    )
