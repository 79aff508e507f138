"""Share of the cores' time that Ray's workers spend in kernels, and memory of a worker."""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks import processes
from benchmarks.designs import SEED, cells, kernel, quantile
from benchmarks.effort import Effort
from benchmarks.kernel_designs import DESIGNS
from benchmarks.measurement import Measurement
from benchmarks.stamped import patched, read_stamps
from benchmarks.timing import cpu_seconds
from ldpflow.engine.run import run_study
from ldpflow.study import Study

ROOT = str(Path(__file__).resolve().parent.parent)


def worker_path() -> Any:
    """Context in which new Ray workers can import the benchmarks."""
    path = os.pathsep.join(filter(None, [ROOT, os.environ.get("PYTHONPATH")]))
    return mock.patch.dict(os.environ, PYTHONPATH=path)


def study(n: list[int], replicates: int) -> Study:
    """Study of the median with BB, BM and SN."""
    design = DESIGNS["quantile-sn"].study
    return Study.from_mapping(
        design | {"name": "benchmark", "seed": SEED, "replicates": replicates, "grid": {"n": n}}
    )


def idle_seconds() -> float:
    """Idle time of all cores since the machine started, in seconds."""
    with open("/proc/stat", encoding="utf-8") as file:
        fields = file.readline().split()
    return (int(fields[4]) + int(fields[5])) / os.sysconf("SC_CLK_TCK")


def tree_cpu_seconds() -> float:
    """CPU time of this process and its descendants. Ended ones count if they were waited for."""
    return sum(processes.cpu_seconds(process, waited=True) for process in processes.family())


def efficiency_row(effort: Effort) -> list[Measurement]:
    """CPU seconds in kernels over (wall seconds times cores), for one long sweep."""
    cores = len(os.sched_getaffinity(0))
    n = [10**6, 10**7]
    work, units = kernel(quantile(), cells(effort.steps, "BB", "BM", "SN"))
    work()
    replicate_seconds = cpu_seconds(work) / units * n[-1]
    replicates = int(effort.ray_seconds * cores / replicate_seconds) // 64 * 64 + 64
    with tempfile.TemporaryDirectory() as stamps, tempfile.TemporaryDirectory() as out, worker_path():
        before = (time.monotonic(), idle_seconds(), tree_cpu_seconds())
        after = before

        def note(event: Any) -> None:
            nonlocal after
            if event.done_batches == event.total_batches:
                after = (time.monotonic(), idle_seconds(), tree_cpu_seconds())

        with patched(stamps):
            run_study(study(n, replicates), out, engine="ray", num_cpus=cores, on_event=note)
        started = min(read_stamps(stamps, "batch"))
        written = max(part.stat().st_mtime for part in Path(out).rglob("replicates/**/*.parquet"))
        batches = len(read_stamps(stamps, "batch"))
        session = json.loads((Path(out) / "provenance.json").read_text())[-1]
    wall = written - started
    available = wall * cores
    window, idle, ours = (b - a for a, b in zip(before, after, strict=True))
    # The time that was neither ours nor idle went to other processes.
    others = max(0.0, 1.0 - (idle + ours) / (window * cores))
    efficiency = session["kernel_cpu_seconds"] / available
    what = "Ray: CPU seconds in kernels / (wall x cores), first batch's start to last row written"
    if effort.quick:
        what += f" (quick: {wall:.0f} s only)"
    return [
        Measurement(
            "ray-efficiency",
            what,
            "of the cores",
            [efficiency],
            0.95,
            "higher",
            {
                "wall_seconds": wall,
                "cores": cores,
                "kernel_cpu_seconds": session["kernel_cpu_seconds"],
                "batch_cpu_seconds": session["batch_cpu_seconds"],
                "batches": batches,
                "share_idle": idle / (window * cores),
                "share_taken_by_other_processes": others,
                "efficiency_on_what_others_left": efficiency / (1.0 - others),
            },
        )
    ]


def memory_row(effort: Effort) -> list[Measurement]:
    """Peak resident memory of a Ray worker that has run one batch."""
    with (
        tempfile.TemporaryDirectory() as stamps,
        tempfile.TemporaryDirectory() as out,
        worker_path(),
        patched(stamps),
    ):
        run_study(study([effort.memory_n], 32), out, engine="ray", num_cpus=1)
        peak = max(read_stamps(stamps, "peak"))
    what = f"memory of a Ray worker after a batch at n = {effort.memory_n:.0e}, BB+BM+SN"
    if effort.quick:
        what += " (quick: the target is for 1e8)"
    return [Measurement("memory", what, "MB (peak resident)", [peak], 600.0, "lower")]
