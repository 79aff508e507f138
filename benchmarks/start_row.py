"""Time from ``ldpflow sweep`` to the first running batch, less the time to start Ray."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from statistics import median

from benchmarks.effort import Effort
from benchmarks.measurement import Measurement
from benchmarks.ray_rows import worker_path
from benchmarks.stamped import read_stamps

# These are the settings of the engine.
BARE = """
import time

import ray

ray.init("local", num_cpus={cores}, include_dashboard=False, log_to_driver=False, logging_level="ERROR")


@ray.remote
def empty():
    return None


ray.get(empty.remote())
print(time.time())
ray.shutdown()
"""


def bare_seconds(cores: int) -> float:
    """Seconds in a fresh process to import and start Ray and get the result of an empty task."""
    environment = os.environ | {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    started = time.time()
    ended = subprocess.run(
        [sys.executable, "-c", BARE.format(cores=cores)],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
    )
    return float(ended.stdout.split()[-1]) - started


def sweep_seconds(cores: int) -> tuple[float, float]:
    """Seconds of ``ldpflow sweep`` in a fresh process until a batch starts, and until its kernel is there."""
    with tempfile.TemporaryDirectory() as stamps, tempfile.TemporaryDirectory() as out:
        words = f"-m benchmarks.stamped {stamps} sweep quickstart --engine ray --out {out} --quiet"
        command = [sys.executable, *words.split(), "--replicates", "64", "--num-cpus", str(cores)]
        started = time.time()
        subprocess.run(command, check=True, capture_output=True, text=True)
        return (min(read_stamps(stamps, "batch")) - started, min(read_stamps(stamps, "kernel")) - started)


def start_row(effort: Effort) -> list[Measurement]:
    """Row with the seconds that a sweep takes longer than Ray alone."""
    cores = len(os.sched_getaffinity(0))
    bare = []
    batch = []
    kernel = []
    with worker_path():
        # The first start of each fills the kernel cache and the file cache.
        sweep_seconds(cores)
        bare_seconds(cores)
        for _ in range(effort.starts):
            bare.append(bare_seconds(cores))
            until_batch, until_kernel = sweep_seconds(cores)
            batch.append(until_batch)
            kernel.append(until_kernel)
    more = [b - a for a, b in zip(bare, kernel, strict=True)]
    return [
        Measurement(
            "start",
            "`ldpflow sweep` until the first kernel runs: over bare import, ray.init, empty task",
            "seconds more",
            more,
            2.0,
            "lower",
            {
                "bare_seconds": median(bare),
                "sweep_to_batch_entered_seconds": median(batch),
                "sweep_to_kernel_loaded_seconds": median(kernel),
            },
        )
    ]
