"""The one loop behind every executor: keep a bounded number of batches in flight until none is left."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ldpflow.engine.batching import Batches
from ldpflow.engine.events import Listener, Phase, Progress
from ldpflow.engine.executor import Executor, Outcome

POLL_SECONDS = 0.5
DRAIN_SECONDS = 3.0  # how long batches in flight may still take after a stop


Stop = Callable[[], str | None]
"""Asked for a reason to stop."""


def never() -> None:
    """No reason to stop."""


@dataclass
class Tally:
    """Result of a session."""

    batches: int = 0
    steps: int = 0
    kernel_seconds: float = 0.0
    batch_seconds: float = 0.0
    failed: list[Outcome] = field(default_factory=list)
    stopped: str | None = None  # why, if it was
    lost: str | None = None  # what has died, if the executor has
    # CPU seconds and steps per path key: the throughput that provenance reports.
    by_path: dict[str, tuple[float, int]] = field(default_factory=dict)

    def take(self, outcome: Outcome) -> None:
        """Count one outcome."""
        if outcome.error is not None:
            self.failed.append(outcome)
            return
        self.batches += 1
        self.steps += outcome.batch.steps
        self.kernel_seconds += outcome.kernel_seconds
        self.batch_seconds += outcome.seconds
        self.took(outcome.batch.simulator.key, outcome.kernel_seconds, outcome.batch.steps)

    def took(self, key: str, seconds: float, steps: int) -> None:
        """Count the work on a path."""
        before = self.by_path.get(key, (0.0, 0))
        self.by_path[key] = (before[0] + seconds, before[1] + steps)

    def add(self, later: Tally) -> None:
        """Count what a later loop of the session did."""
        self.batches += later.batches
        self.steps += later.steps
        self.kernel_seconds += later.kernel_seconds
        self.batch_seconds += later.batch_seconds
        self.failed += later.failed
        self.stopped = self.stopped or later.stopped
        for key, (seconds, steps) in later.by_path.items():
            self.took(key, seconds, steps)


def drive(
    batches: Batches,
    executor: Executor,
    listener: Listener | None = None,
    should_stop: Stop = never,
    on_phase: Phase | None = None,
) -> Tally:
    """Run the batches, in the order given, and publish their rows.

    Parameters
    ----------
    batches : Batches
    executor : Executor
    listener : callable, optional
        Called with the progress after every batch.
    should_stop : callable
        Asked at least twice a second for a reason to stop; once there is one nothing more is
        submitted, and what is in flight gets DRAIN_SECONDS to finish before it is dropped.
    on_phase : callable, optional
        Called with a few words where batches are no longer what the sweep waits for.
    """
    started = time.monotonic()
    tally = Tally()
    count, total_steps = len(batches), batches.steps
    waiting = iter(batches)
    if on_phase is not None:
        on_phase("")
    sent = in_flight = 0
    deadline = float("inf")
    while (sent < count or in_flight) and time.monotonic() < deadline:
        if tally.stopped is None and (reason := should_stop()) is not None:
            tally.stopped = reason
            if on_phase is not None:
                on_phase("stopping: batches in flight get 3 s")
            sent = count
            deadline = time.monotonic() + DRAIN_SECONDS
            continue
        while sent < count and in_flight < executor.capacity:
            executor.submit(next(waiting))
            sent += 1
            in_flight += 1
        for outcome in executor.wait(POLL_SECONDS):
            in_flight -= 1
            tally.take(outcome)
            if listener is not None:
                listener(
                    Progress(
                        done_batches=tally.batches,
                        total_batches=count,
                        done_steps=tally.steps,
                        total_steps=total_steps,
                        seconds=time.monotonic() - started,
                        failed_batches=len(tally.failed),
                        statistics=outcome.statistics,
                    )
                )
    if in_flight:
        executor.drop()
    tally.failed.extend(executor.flush())
    return tally
