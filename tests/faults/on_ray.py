"""Faults on Ray: workers, aggregators, deliveries, retries. They join a Ray that is running."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from ldpflow.engine import ray_executor
from ldpflow.engine.loop import RunResult
from ldpflow.engine.replay import replay
from ldpflow.engine.run import run_study
from ldpflow.study import Study
from tests.faults.counting import CRASH, DAWDLE, RAISE, Counted, task
from tests.faults.study import serial, study, whole

FIRSTS = (0, 32, 64)


@contextmanager
def counted(work: Path, plan: dict[str, tuple[str, int]], seconds: float = 0.0) -> Iterator[Counted]:
    """Sweeps on Ray run these tasks."""
    folder = work / "invocations"
    folder.mkdir(parents=True)
    tasks = Counted(str(folder), plan, seconds)
    with mock.patch.object(ray_executor, "run_task", task(tasks)):
        yield tasks


def places(what: Study) -> list[str]:
    """The batches of a study, as counting names them."""
    return [f"{plan.simulator.key}-{first}" for plan in what.plans() for first in FIRSTS]


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
    expected = serial(work / "expected")
    with counted(work, dict.fromkeys(chosen, (CRASH, count))) as tasks:
        result = on_ray(work / "run")
    assert not result.failed_batches
    whole(work / "run", expected)
    assert tasks.invocations() == {name: 1 + count * (name in chosen) for name in places(study())}


def raising(work: Path, trial: int) -> None:
    """A batch raises, or kills its worker, every time: reported, the rest is there, then resumed."""
    expected = serial(work / "expected")
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
    whole(work / "run", expected)


def stopped(work: Path, trial: int) -> None:
    """Told to stop while a batch takes long: done within 10 s, what finished is kept."""
    expected = serial(work / "expected")
    chosen = places(study())[trial % 6]
    done = 0

    def count(event: object) -> None:
        nonlocal done
        done += 1

    with counted(work, {chosen: (DAWDLE, 1)}), mock.patch("ldpflow.engine.loop.DRAIN_SECONDS", 0.5):
        result = on_ray(work / "run", on_event=count, should_stop=lambda: "asked" if done >= 2 else None)
    assert result.stopped == "asked" and not result.failed_batches
    assert result.finished_replicates < 96
    assert on_ray(work / "run").stopped is None
    whole(work / "run", expected)
