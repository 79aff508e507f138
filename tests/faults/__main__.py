"""The long form of the fault matrix: ``python -m tests.faults --long``; short without the flag.

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
from pathlib import Path
from typing import Any

import pytest

from tests.faults import object_store, on_disk, on_ray

Row = tuple[str, int, str, float]


def trials(
    name: str, fault: Callable[..., str], count: int, work: Path, *more: Any
) -> Row:
    """Run a fault some times."""
    started = time.monotonic()
    said: dict[str, int] = {}
    for trial in range(count):
        folder = work / f"{name}-{trial}"
        folder.mkdir()
        try:
            what = fault(folder, *more, trial)
        except pytest.skip.Exception as reason:
            what = f"SKIPPED: {reason}"
        said[what] = said.get(what, 0) + 1
    kinds = ", ".join(f"{what} {n}" for what, n in said.items()) if len(said) > 1 else next(iter(said))
    return told((name, count, kinds, time.monotonic() - started))


def script(name: str, work: Path, count: int, *command: str) -> Row:
    """Run a script that makes its own processes; its last line says how many trials."""
    folder = work / name
    folder.mkdir()
    started = time.monotonic()
    arguments = [part.replace("FOLDER", str(folder)) for part in command]
    done = subprocess.run(
        [sys.executable, "-m", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.strip().splitlines()[-1]
    assert int(last.split()[0]) >= count, last
    return told((name, int(last.split()[0]), last, time.monotonic() - started))


def told(row: Row) -> Row:
    print(f"{row[0]}: {row[1]} trials, {row[3]:.0f} s", file=sys.stderr, flush=True)
    return row


def main(arguments: Sequence[str]) -> None:
    """All faults."""
    long = "--long" in arguments
    warnings.simplefilter("ignore")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        kills = "120" if long else "50"
        rows.append(
            script(
                "serial driver killed", work, int(kills),
                "tests.faults.serial_kills", "FOLDER", kills, "2",
            )
        )
        for fault, count in (
            (on_disk.damaged_part, 24),
            (on_disk.full_disk, 8),
            (on_disk.read_only, 4),
            (on_disk.clock_backwards, 4),
            (on_disk.diverging, 4),
            (on_disk.delivered_twice, 4),
        ):
            name = fault.__name__.replace("_", " ")
            rows.append(trials(name, fault, count if long else 2, work))
        with object_store.bucket() as proxy:
            for s3, count in (
                (object_store.undisturbed, 2),
                (object_store.disturbed, 6),
                (object_store.down, 1),
            ):
                name = f"s3 {s3.__name__}"
                rows.append(trials(name, s3, count if long else 1, work, proxy))
        ray_kills = "5" if long else "1"
        rows.append(
            script(
                "ray driver killed", work, int(ray_kills),
                "tests.faults.ray_scripts", "driver", "FOLDER", ray_kills, "3",
            )
        )
        nodes = "2" if long else "1"
        rows.append(
            script(
                "ray node lost", work, int(nodes),
                "tests.faults.ray_scripts", "nodes", "FOLDER", nodes,
            )
        )
        import ray

        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        for fault in on_ray.FAULTS:
            name = f"ray {fault.__name__.replace('_', ' ')}"
            rows.append(trials(name, fault, 3 if long else 1, work))
        ray.shutdown()
    print("| fault | trials | of these | seconds |\n|---|---|---|---|")
    for name, count, kinds, seconds in rows:
        print(f"| {name} | {count} | {kinds} | {seconds:.0f} |")


if __name__ == "__main__":
    main(sys.argv[1:])
