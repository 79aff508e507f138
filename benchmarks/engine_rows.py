"""Wall time of ``ldpflow sweep`` without ``--engine``, compared with serial and Ray."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.effort import Effort
from benchmarks.measurement import Measurement

SMALL = ("quickstart", "--n", "1e4", "--replicates", "64")
QUICKSTART = ("quickstart",)
LONG = ("paper-table1", "--n", "1e7")
FULL_REPLICATES, QUICK_REPLICATES = 1024, 128


@dataclass(frozen=True)
class Ran:
    """Times of one sweep in a fresh process, in seconds."""

    wall: float  # until it has ended
    shown: float  # until its results are printed
    cpu: float  # CPU time of the process and of those it waited for, without Ray's other processes
    batches: float  # CPU seconds of the batches


def ran(arguments: tuple[str, ...], engine: str | None) -> Ran:
    """Run a sweep and wait for its end."""
    with tempfile.TemporaryDirectory() as out:
        named = () if engine is None else ("--engine", engine)
        command = [sys.executable, "-m", "ldpflow", "sweep", *arguments, *named, "--out", f"{out}/run"]
        before, started = children_seconds(), time.monotonic()
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            assert process.stdout is not None
            shown = started
            for line in process.stdout:
                if line.strip():
                    shown = time.monotonic()
        wall = time.monotonic() - started
        if process.returncode:
            raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
        session = json.loads(Path(out, "run", "provenance.json").read_text(encoding="utf-8"))[-1]
    return Ran(wall, shown - started, children_seconds() - before, session["batch_cpu_seconds"])


def children_seconds() -> float:
    """CPU time of the processes that this process has waited for, and of their descendants."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def in_turn(arguments: tuple[str, ...], repetitions: int) -> dict[str, list[Ran]]:
    """Sweep with each engine in turn, after a sweep that fills the caches."""
    ran(arguments, "serial")
    found: dict[str, list[Ran]] = {"auto": [], "serial": [], "ray": []}
    for _ in range(repetitions):
        for name, runs in found.items():
            runs.append(ran(arguments, None if name == "auto" else name))
    return found


def details(found: dict[str, list[Ran]]) -> dict[str, float]:
    """Medians of the measured times, by engine."""
    medians = {}
    for engine, runs in found.items():
        for name in ("wall", "shown", "cpu", "batches"):
            medians[f"{engine}_{name}_seconds"] = median(getattr(run, name) for run in runs)
    return medians


def over_better(found: dict[str, list[Ran]]) -> list[float]:
    """Wall time of the default engine over (1.1 times the better of the other engines + 1 s)."""
    return [
        auto.wall / (1.1 * min(serial.wall, ray.wall) + 1.0)
        for auto, serial, ray in zip(found["auto"], found["serial"], found["ray"], strict=True)
    ]


def engine_rows(effort: Effort) -> list[Measurement]:
    """Rows for a small study, for quickstart, and for a study of 40 to 100 CPU seconds."""
    cores = len(os.sched_getaffinity(0))
    replicates = QUICK_REPLICATES if effort.quick else FULL_REPLICATES
    studies = {"small": SMALL, "quickstart": QUICKSTART, "long": (*LONG, "--replicates", str(replicates))}
    rows = []
    for name, arguments in studies.items():
        found = in_turn(arguments, effort.starts)
        what = f"`ldpflow sweep {' '.join(arguments)}`"
        rows.append(
            Measurement(
                f"engine-{name}",
                f"{what}, no engine named: wall time over (1.1 x the better of serial and Ray + 1 s)",
                "of the allowed time",
                over_better(found),
                1.0,
                "lower",
                details(found),
            )
        )
        if name == "quickstart":
            ratios = [a.wall / s.wall for a, s in zip(found["auto"], found["serial"], strict=True)]
            what = f"{what}, no engine named: wall time over --engine serial"
            rows.append(Measurement("engine-over-serial", what, "times the time", ratios, 1.0, "lower"))
        if name == "long":
            ratios = [run.wall / (run.batches / cores + 3.0) for run in found["auto"]]
            what = f"{what}, no engine named: wall time over (CPU time of its batches / {cores} cores + 3 s)"
            rows.append(Measurement("engine-long-cores", what, "times the time", ratios, 1.1, "lower"))
    return rows
