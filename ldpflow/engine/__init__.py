"""Scheduling of batches: one loop, and executors in this process or on Ray."""

from ldpflow.engine.check import Finding, check_run, repair_run
from ldpflow.engine.events import Planned, Progress, RunResult
from ldpflow.engine.precision import Precision
from ldpflow.engine.replay import replay
from ldpflow.engine.run import run_study, summarise_run

__all__ = [
    "Finding",
    "Planned",
    "Precision",
    "Progress",
    "RunResult",
    "check_run",
    "repair_run",
    "replay",
    "run_study",
    "summarise_run",
]
