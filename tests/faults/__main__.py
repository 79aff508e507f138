"""The long form of the fault matrix: ``python -m tests.faults --long``; short without the flag.
Words choose faults by the beginning of their names: ``python -m tests.faults --long ray``.

Every trial ends with a run whose sorted rows are, byte for byte, those of an undisturbed serial
run, and which passes ``ldpflow check``. Prints a table of the faults and the count of trials.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.faults import object_store, on_disk, on_ray

Row = tuple[str, int, str, float]

# Name, module, trials (short, long), arguments.
SCRIPTS = (
    ("serial driver killed", "tests.faults.serial_kills", (50, 120), ("FOLDER", "COUNT", "2")),
    ("ray driver killed", "tests.faults.ray_scripts", (1, 20), ("driver", "FOLDER", "COUNT", "3")),
    ("ray raylet or gcs killed", "tests.faults.ray_scripts", (2, 4), ("lost", "FOLDER", "COUNT")),
    ("ray lost early", "tests.faults.ray_scripts", (2, 4), ("early", "FOLDER", "COUNT")),
    ("ray joined lost", "tests.faults.ray_scripts", (2, 2), ("joined", "FOLDER", "COUNT")),
    ("no /dev/shm", "tests.faults.ray_scripts", (1, 1), ("shm", "FOLDER")),
    ("ray node lost", "tests.faults.ray_scripts", (1, 2), ("nodes", "FOLDER", "COUNT")),
)
FAULTS: tuple[tuple[str, Callable[..., str], tuple[int, int]], ...] = (
    ("damaged part", on_disk.damaged_part, (4, 24)),
    ("mutations", on_disk.mutations, (1, 1)),
    ("clock jumps", on_disk.clock_jumps, (2, 4)),
    ("trajectory part damaged", on_disk.damaged_trajectory, (4, 12)),
    ("disk full", on_disk.full_disk, (2, 8)),
    ("read-only", on_disk.read_only, (2, 4)),
    ("clock backwards", on_disk.clock_backwards, (2, 4)),
    ("diverging", on_disk.diverging, (2, 4)),
    ("delivered twice", on_disk.delivered_twice, (2, 4)),
    ("s3 undisturbed", object_store.undisturbed, (1, 2)),
    ("s3 disturbed", object_store.disturbed, (3, 6)),
    ("s3 killed in a put", object_store.killed_in_put, (2, 8)),
    ("s3 down", object_store.down, (1, 1)),
    ("ray worker killed", on_ray.worker_killed, (1, 3)),
    ("ray aggregator killed", on_ray.aggregator_killed, (1, 5)),
    ("ray delivered twice", on_ray.delivered_twice, (1, 3)),
    ("ray raising", on_ray.raising, (2, 2)),
    ("ray stopped", on_ray.stopped, (1, 2)),
)


def trials(name: str, fault: Callable[..., str], count: int, work: Path, *more: Any) -> Row:
    """Run a fault some times."""
    started = time.monotonic()
    said: dict[str, int] = {}
    for trial in range(count):
        folder = work / f"{name.replace(' ', '-')}-{trial}"
        folder.mkdir()
        try:
            what = fault(folder, *more, trial)
        except pytest.skip.Exception as reason:
            what = f"SKIPPED: {reason}"
        said[what] = said.get(what, 0) + 1
    kinds = ", ".join(f"{what} {n}" for what, n in said.items()) if len(said) > 1 else next(iter(said))
    return printed((name, count, kinds, time.monotonic() - started))


def script(name: str, work: Path, count: int, *command: str) -> Row:
    """Run a script that makes its own processes; its last line says how many trials."""
    folder = work / name.replace(" ", "-")
    folder.mkdir()
    started = time.monotonic()
    arguments = [part.replace("FOLDER", str(folder)) for part in command]
    done = subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.strip().splitlines()[-1]
    assert int(last.split()[0]) >= count, last
    return printed((name, int(last.split()[0]), last, time.monotonic() - started))


def printed(row: Row) -> Row:
    print(f"{row[0]}: {row[1]} trials, {row[3]:.0f} s", file=sys.stderr, flush=True)
    return row


def main(arguments: Sequence[str]) -> None:
    """The faults whose names begin with one of the words given, or all."""
    long = "--long" in arguments
    words = tuple(word for word in arguments if not word.startswith("-")) or ("",)
    warnings.simplefilter("ignore")
    rows = []
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        work = Path(folder)
        for name, module, counts, command in SCRIPTS:
            if name.startswith(words):
                count = counts[long]
                options = [str(count) if part == "COUNT" else part for part in command]
                rows.append(script(name, work, count, module, *options))
        proxy = None
        for name, fault, counts in FAULTS:
            if not name.startswith(words):
                continue
            if name.startswith("s3") and proxy is None:
                proxy = stack.enter_context(object_store.bucket())
            if name.startswith("ray"):
                start_ray()
            more = [proxy] if name.startswith("s3") else []
            rows.append(trials(name, fault, counts[long], work, *more))
    print("| fault | trials | of these | seconds |\n|---|---|---|---|")
    for name, count, kinds, seconds in rows:
        print(f"| {name} | {count} | {kinds} | {seconds:.0f} |")


def start_ray() -> None:
    """A Ray of two cores, once."""
    import ray

    if not ray.is_initialized():
        ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")


if __name__ == "__main__":
    main(sys.argv[1:])
