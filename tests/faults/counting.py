"""Batches that count their invocations in files, and fail on those that a file names.

Workers import this module by name; what to do travels with the task, so that it holds in every
process. (The way in which cubed tests its executors.)
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import ray

from ldpflow.engine.ray_executor import run_task
from ldpflow.simulators.rows import Batch, BatchResult

CRASH, RAISE, DAWDLE = "crash", "raise", "dawdle"


@dataclass(frozen=True)
class Counted:
    """The task of a batch: note the invocation and its node, then do what the plan says.

    ``plan`` maps the place of a batch (which of the study's batches, by path and first replicate) to what
    goes wrong, and on how many of its first invocations.
    """

    folder: str
    plan: dict[str, tuple[str, int]]
    seconds: float = 0.0

    def __call__(self, batch: Batch) -> BatchResult:
        name = place(batch)
        number = 0
        while True:
            try:
                with open(Path(self.folder, f"{name}.{number}"), "x") as file:
                    file.write(ray.get_runtime_context().get_node_id())
                break
            except FileExistsError:
                number += 1
        what, times = self.plan.get(name, ("", 0))
        if number >= times:
            what = ""
        if what == CRASH:
            run_task(batch)
            # In the middle: the work is done, and lost with the worker.
            os.kill(os.getpid(), signal.SIGKILL)
        if what == RAISE:
            raise ArithmeticError("injected")
        if what == DAWDLE:
            time.sleep(30)
        time.sleep(self.seconds)
        return run_task(batch)

    def invocations(self) -> dict[str, int]:
        """How often each batch was started."""
        return dict(Counter(file.name.rpartition(".")[0] for file in Path(self.folder).iterdir()))


def place(batch: Batch) -> str:
    """What names a batch."""
    return f"{batch.simulator.key}-{batch.first}"


def task(counted: Counted) -> Callable[[Batch], BatchResult]:
    """As a function, which is what Ray makes tasks of."""

    def run_counted(batch: Batch) -> BatchResult:
        return counted(batch)

    return run_counted
