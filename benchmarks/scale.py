"""Run very many tiny batches through the engine: does the driver need more memory or time?

    python -m benchmarks.scale --batches 200000 --num-cpus 2 --json FILE

Batching, Ray, aggregator, parts and summary are those of a sweep. Only the kernel is replaced. It returns
rows that were computed once, after --kernel-ms milliseconds, in which it spins (up to 5 ms) or sleeps. With
a sleeping kernel --num-cpus may exceed the number of cores. The program prints a row per tenth of the
batches.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa

from benchmarks.kernel_designs import MEDIAN, RESPONSE, SGD, design
from benchmarks.processes import command_line, cpu_seconds, family, resident
from benchmarks.ray_rows import worker_path
from ldpflow.engine import ray_executor
from ldpflow.engine.run import run_study
from ldpflow.numerics.streams import LANES
from ldpflow.simulators.rows import Batch, BatchResult, simulate
from ldpflow.study import Study

SPIN_SECONDS = 0.005  # kernels of at most this time spin, because sleeping is less precise


@cache
def template(settings: str, last: int) -> BatchResult:
    """Rows of one batch of the study, computed once per worker."""
    plan = Study.from_mapping(json.loads(settings)).plans()[0]
    return simulate(Batch(plan.simulator, 0, 0, last, plan.cells))


def tiny_task(mapping: dict[str, Any], seconds: float) -> Any:
    """Task for Ray whose kernel takes ``seconds``."""
    settings = json.dumps(mapping)

    def run_tiny(batch: Batch) -> BatchResult:
        from benchmarks.scale import template  # cached by the module, not with the task

        started = time.perf_counter()
        made = template(settings, batch.last - batch.first)
        at = made.rows.schema.get_field_index("replicate")
        replicates = made.rows["replicate"].to_numpy() + batch.first
        rows = made.rows.set_column(at, made.rows.schema.field(at), pa.array(replicates))
        if seconds > SPIN_SECONDS:
            time.sleep(seconds)
        while time.perf_counter() - started < seconds:
            pass
        return BatchResult(rows, seconds, seconds)

    return run_tiny


def study(batches: int, cells: int) -> dict[str, Any]:
    """Study of one path with ``batches`` times LANES replicates."""
    n = list(range(100, 100 + cells))
    one = design("", 0, MEDIAN, RESPONSE, SGD, [{"kind": "oracle"}]).study
    return one | {"name": "scale", "seed": 1, "replicates": batches * LANES, "grid": {"n": n}}


def measure(batches: int, num_cpus: int, cells: int, seconds: float) -> dict[str, Any]:
    """Run the batches. Return a row per tenth of them, and totals."""
    mapping = study(batches, cells)
    rows: list[dict[str, float]] = []
    aggregator: list[int] = []

    def snapshot(done: int) -> dict[str, float]:
        if not aggregator:
            aggregator.extend(p for p in family() if "AggregatorActor" in command_line(p))
        return {
            "batches": done,
            "at": time.monotonic(),
            "driver_mb": resident(),
            "driver_cpu": cpu_seconds(os.getpid()),
            "aggregator_mb": sum(map(resident, aggregator)),
            "aggregator_cpu": sum(map(cpu_seconds, aggregator)),
            "load": os.getloadavg()[0],
        }

    def note(event: Any) -> None:
        # The first snapshot comes after a hundredth of the batches, when the workers have started.
        if event.done_batches == max(batches // 100, 1) or event.done_batches % (batches // 10) == 0:
            rows.append(snapshot(event.done_batches))

    with (
        tempfile.TemporaryDirectory() as out,
        worker_path(),
        mock.patch.object(ray_executor, "run_task", tiny_task(mapping, seconds)),
        mock.patch("ldpflow.engine.batching.TARGET_SECONDS", 1e-9),
    ):
        result = run_study(Study.from_mapping(mapping), out, engine="ray", num_cpus=num_cpus, on_event=note)
        parts = [file.stat().st_size for file in Path(out).rglob("part-*.parquet")]
    ended = time.monotonic()
    assert not result.failed_batches, result.failed_batches[:3]
    tenths = []
    for before, after in pairwise(rows):
        count = after["batches"] - before["batches"]
        seconds = after["at"] - before["at"]
        tenths.append(
            {
                "from": before["batches"],
                "to": after["batches"],
                "batches_per_second": count / seconds,
                "driver_mb": after["driver_mb"],
                "driver_cpu_ms": 1e3 * (after["driver_cpu"] - before["driver_cpu"]) / count,
                "aggregator_mb": after["aggregator_mb"],
                "aggregator_cpu_ms": (1e3 * (after["aggregator_cpu"] - before["aggregator_cpu"]) / count),
                "load": after["load"],
            }
        )
    assert result.finished_replicates == batches * LANES
    return {
        "batches": batches,
        "cells": cells,
        "num_cpus": num_cpus,
        "kernel_seconds": seconds,
        "rows": batches * LANES * cells,
        "tenths": tenths,
        "wall_seconds": result.wall_seconds,
        "summary_seconds": ended - rows[-1]["at"],
        "summary_peak_mb": resident(name="VmHWM"),
        "parts": len(parts),
        "bytes": int(np.sum(parts)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=200_000)
    parser.add_argument("--num-cpus", type=int, default=2)
    parser.add_argument("--cells", type=int, default=1)
    parser.add_argument("--kernel-ms", type=float, default=1.0)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found = measure(given.batches, given.num_cpus, given.cells, given.kernel_ms / 1e3)
    print("| batches | per second | driver MB | driver CPU ms | aggregator MB | its CPU ms | load |")
    print("|---|---|---|---|---|---|---|")
    for row in found["tenths"]:
        print(
            f"| {row['to']:,.0f} | {row['batches_per_second']:.0f} | {row['driver_mb']:.0f} "
            f"| {row['driver_cpu_ms']:.2f} | {row['aggregator_mb']:.0f} "
            f"| {row['aggregator_cpu_ms']:.2f} | {row['load']:.1f} |"
        )
    print(
        f"{found['wall_seconds']:.0f} s in all, {found['summary_seconds']:.0f} s of it after the last "
        f"batch (driver's peak {found['summary_peak_mb']:.0f} MB); {found['parts']} parts, "
        f"{found['bytes'] / 1e6:.0f} MB"
    )
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
