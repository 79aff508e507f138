"""Record in Ray's workers when batches start: one line per event in a file of each process.

The task of the Ray engine is replaced by a task that writes the time to a file and then calls the original.
``python -m benchmarks.stamped FOLDER ARGUMENTS...`` runs ``ldpflow ARGUMENTS...`` with this task.
"""

from __future__ import annotations

import os
import sys
import time
from importlib import import_module
from pathlib import Path
from unittest import mock

from benchmarks.processes import resident


def stamp(folder: str, event: str, value: float) -> None:
    """Append an event to the file of this process."""
    with open(Path(folder) / f"{os.getpid()}.stamps", "a", encoding="utf-8") as file:
        file.write(f"{event} {value!r}\n")


def stamped_batch(batch, *, folder):  # type: ignore[no-untyped-def]
    """Run a batch, and stamp ``batch`` at its start, ``kernel`` once it is loaded and ``peak`` at the end."""
    from ldpflow.engine import ray_executor

    stamp(folder, "batch", time.time())
    simulator = import_module("ldpflow.simulators.one_pass")
    load = simulator.one_pass_kernel

    def stamped_load(*arguments, **options):  # type: ignore[no-untyped-def]
        function = load(*arguments, **options)
        stamp(folder, "kernel", time.time())
        return function

    with mock.patch.object(simulator, "one_pass_kernel", stamped_load):
        result = ray_executor.run_task(batch)
    stamp(folder, "peak", resident(name="VmHWM"))
    return result


def patched(folder: str):  # type: ignore[no-untyped-def]
    """A context in which the engine of this process uses the stamped task."""
    from ldpflow.engine import ray_executor

    return mock.patch.object(ray_executor, "run_task", lambda batch: stamped_batch(batch, folder=folder))


def read_stamps(folder: str, event: str) -> list[float]:
    """Values of an event in the files of all processes."""
    values = []
    for file in Path(folder).glob("*.stamps"):
        for line in file.read_text(encoding="utf-8").splitlines():
            name, value = line.split()
            if name == event:
                values.append(float(value))
    return values


if __name__ == "__main__":
    from benchmarks.stamped import patched as patch
    from ldpflow.cli import main

    with patch(sys.argv[1]):
        sys.exit(main(sys.argv[2:]))
