"""Faults on Ray: workers, aggregators, deliveries, retries. They join a Ray that is running."""

from __future__ import annotations

import itertools
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import ray

from ldpflow.engine import ray_executor
from ldpflow.engine.loop import RunResult
from ldpflow.engine.ray_executor import run_task
from ldpflow.engine.replay import replay
from ldpflow.engine.run import run_study
from ldpflow.simulators.rows import Batch, BatchResult
from ldpflow.study import Study
from tests.faults.study import study, whole

CRASH, RAISE, DAWDLE = "crash", "raise", "dawdle"


@dataclass(frozen=True)
class Counted:
    """Tasks of batches that note each invocation and its node in a file, as cubed tests its executors.

    ``plan`` maps names of batches to what goes wrong, and on how many of the first invocations. It travels
    with the task, so that it holds in every process.
    """

    folder: Path
    plan: dict[str, tuple[str, int]]
    seconds: float = 0.0

    def run(self, batch: Batch) -> BatchResult:
        name = f"{batch.simulator.key}-{batch.first}"
        for number in itertools.count():
            with suppress(FileExistsError), open(self.folder / f"{name}.{number}", "x") as file:
                file.write(ray.get_runtime_context().get_node_id())
                break
        what, times = self.plan.get(name, ("", 0))
        what = what if number < times else ""
        if what == CRASH:
            run_task(batch)
            # The work is done, and lost with the worker.
            os.kill(os.getpid(), signal.SIGKILL)
        if what == RAISE:
            raise ArithmeticError("injected")
        time.sleep(30 if what == DAWDLE else self.seconds)
        return run_task(batch)

    def invocations(self) -> dict[str, int]:
        return dict(Counter(file.name.rpartition(".")[0] for file in self.folder.iterdir()))


@contextmanager
def counted(work: Path, plan: dict[str, tuple[str, int]], seconds: float = 0.0) -> Iterator[Counted]:
    """Sweeps on Ray run these tasks."""
    folder = work / "invocations"
    folder.mkdir(parents=True)
    tasks = Counted(folder, plan, seconds)
    with mock.patch.object(ray_executor, "run_task", lambda batch: tasks.run(batch)):
        yield tasks


def places(what: Study) -> list[str]:
    return [f"{plan.simulator.key}-{first}" for plan in what.plans() for first in (0, 32, 64)]


def on_ray(run: Path, **options: Any) -> RunResult:
    """Run the study on the Ray that is there, in batches of 32."""
    with mock.patch("ldpflow.engine.batching.TARGET_SECONDS", 1e-9):
        return run_study(study(), run, engine="ray", **options)


def worker_killed(work: Path, trial: int) -> None:
    """A worker dies by SIGKILL in the middle of batches: Ray runs them again, and only them."""
    chance = random.Random(trial)
    # A worker takes seconds to start: one in the first trial, up to four in others.
    count = chance.randint(1, 2) if trial else 1
    chosen = chance.sample(places(study()), 1 + bool(trial))
    with counted(work, dict.fromkeys(chosen, (CRASH, count))) as tasks:
        result = on_ray(work / "run")
    assert not result.failed_batches
    whole(work / "run")
    assert tasks.invocations() == {name: 1 + count * (name in chosen) for name in places(study())}


def raising(work: Path, trial: int) -> None:
    """A batch raises, or kills its worker, every time: reported, the rest is there, then resumed."""
    chosen = places(study())[trial % 6]
    what = CRASH if trial % 2 else RAISE
    with counted(work, {chosen: (what, 10)}) as tasks:
        result = on_ray(work / "run", retries=1)
    # What a batch raises is its own fault and would be raised again; a lost worker is the system's.
    assert tasks.invocations()[chosen] == (2 if what == CRASH else 1)
    key, first = chosen.split("-")
    (failed,) = result.failed_batches
    assert f"p{key}, replicates {first} to {int(first) + 31}" in failed
    assert f"ldpflow replay {work / 'run'} --path p{key} --replicate {first}" in failed
    assert "injected" in failed or what == CRASH
    assert result.finished_replicates == 64
    computed, stored = replay(work / "run", key, int(first), int(first) + 31)
    assert computed.num_rows > 0 and stored.num_rows == 0
    assert not on_ray(work / "run").failed_batches
    whole(work / "run")


def stopped(work: Path, trial: int) -> None:
    """Told to stop while a batch takes long: done within 10 s, what finished is kept."""
    chosen = places(study())[trial % 6]
    done: list[object] = []
    stop = {"on_event": done.append, "should_stop": lambda: "asked" if len(done) >= 2 else None}
    with counted(work, {chosen: (DAWDLE, 1)}), mock.patch("ldpflow.engine.loop.DRAIN_SECONDS", 0.5):
        result = on_ray(work / "run", **stop)
    assert result.stopped == "asked" and not result.failed_batches
    assert result.finished_replicates < 96
    assert on_ray(work / "run").stopped is None
    whole(work / "run")
