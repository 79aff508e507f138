"""Loop of every executor, the executor of threads, and reasons to end a sweep early.

A bounded number of batches is in flight until none is left, a limit of time or memory has passed, Ctrl-C came
or the interpreter ends.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from ldpflow.engine.batching import BatchRange
from ldpflow.errors import InputError, LdpflowError, StorageError
from ldpflow.numerics.streams import STREAM_VERSION
from ldpflow.simulators.families import description, names_file
from ldpflow.simulators.rows import Batch, BatchResult, simulate
from ldpflow.simulators.simulator import Cell, Simulator
from ldpflow.store.part import PartMeta
from ldpflow.store.provenance import versions
from ldpflow.store.run_store import Aggregator, Published
from ldpflow.store.schema import cell_id, cell_set_hash
from ldpflow.study.plugins import place_of_error, plugins_of

if TYPE_CHECKING:
    from ldpflow.engine.ray_executor import RayExecutor

PROCESSES = Path("/proc")
LAST_SECONDS = 5.0  # for the traceback of a thread that sweeps as the interpreter ends
CHECK_SECONDS = 1.0  # adding up the memory of many processes takes milliseconds


def limits(max_seconds: float | None = None, max_bytes: float | None = None) -> Callable[[], str | None]:
    """A function that names the limit that has passed, or returns None.

    Time counts from this call. Memory is that of this process and of those it started (a local Ray). It
    cannot be limited on a system without ``/proc``.
    """
    if max_bytes is not None and not (PROCESSES / "self" / "stat").is_file():
        raise InputError(
            "max_memory", max_bytes, "a system with /proc (macOS has none)", "Limit the time, max_time."
        )
    start, last = time.monotonic(), -CHECK_SECONDS

    def passed() -> str | None:
        nonlocal last
        now = time.monotonic() - start
        if max_seconds is not None and now >= max_seconds:
            return f"the time limit of {max_seconds:g} s has passed"
        if max_bytes is not None and now - last >= CHECK_SECONDS:
            last = now
            used = memory_in_use()
            if used > max_bytes:
                return f"{used / 2**20:,.0f} MiB of memory in use, the limit is {max_bytes / 2**20:,.0f} MiB"
        return None

    return passed


def memory_in_use() -> int:
    """Bytes of memory of this process and its descendants, shared pages once; 0 without ``/proc``."""
    children: dict[int, list[int]] = {}
    for entry in PROCESSES.glob("[0-9]*"):
        children.setdefault(process_state(int(entry.name))[2], []).append(int(entry.name))
    total = 0
    family = [os.getpid()]
    while family:
        process = family.pop()
        family += children.get(process, [])
        with suppress(OSError, ValueError):  # it has ended
            rollup = (PROCESSES / str(process) / "smaps_rollup").read_text()
            total += sum(int(line.split()[1]) * 1024 for line in rollup.splitlines() if line[:4] == "Pss:")
    return total


def process_state(process: int) -> tuple[str, str, int]:
    """Name, state (Z: ended, but not yet reaped; X: gone) and parent of a process."""
    try:
        # The name, in brackets, may hold anything.
        head, _, rest = (PROCESSES / str(process) / "stat").read_text(errors="replace").rpartition(")")
        state, parent, *_ = rest.split()
    except (OSError, ValueError):
        return "", "X", 0
    return head.partition("(")[2], state, int(parent)


@contextmanager
def interpreter_open() -> Iterator[Callable[[], str | None]]:
    """Keep the interpreter from ending while a daemon thread sweeps; yields its reason to stop.

    A daemon thread inside of compiled code would abort the process as Python ends. Python waits for
    threads that are no daemons, so one of them waits for the sweep.
    """
    if not threading.current_thread().daemon:
        yield lambda: None
        return
    over, main, caller = threading.Event(), threading.main_thread(), threading.current_thread()

    def hold() -> None:
        over.wait()
        if not main.is_alive():
            caller.join(LAST_SECONDS)

    threading.Thread(target=hold, name="end of a sweep", daemon=False).start()
    try:
        yield lambda: None if main.is_alive() else "the main thread has ended"
    finally:
        over.set()


@contextmanager
def interrupts() -> Iterator[Callable[[], str | None]]:
    """Yield the reason to stop that a first SIGINT, SIGTERM or SIGHUP gives; a second ends the process."""
    reason: str | None = None

    def received(number: int, frame: FrameType | None) -> None:
        nonlocal reason
        # Written to the descriptor: a buffer may be locked by the interrupted code.
        if reason is not None:
            if sys.stderr.isatty():
                os.write(2, b"\x1b[?25h")  # the progress bar hides the cursor
            os.write(2, b"\nldpflow: stopped at once; what was on disk is kept\n")
            # No clean-up: what is not on disk is computed again, and the lock dies with the process.
            os._exit(130)
        reason = f"{signal.Signals(number).name} received"
        os.write(2, b"\nldpflow: finishing what is running (batches get 3 s); again to stop at once\n")

    before: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():  # which alone may set handlers
        before = {n: signal.signal(n, received) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield lambda: reason
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


Stop = Callable[[], str | None]
"""Function that returns a reason to stop, or None."""

Phase = Callable[[str], None]
"""Called with what a sweep waits for, in a few words; with "" if batches can run."""


@dataclass(frozen=True)
class Progress:
    """State of a sweep after a batch.

    Steps are those of all replicates of this session.
    """

    done_batches: int
    total_batches: int
    done_steps: int
    total_steps: int
    seconds: float
    failed_batches: int = 0


Listener = Callable[[Progress], None]


@dataclass(frozen=True)
class RunResult:
    """Outcome of a sweep.

    Parameters
    ----------
    finished_replicates : int
        Smallest number over the cells of the study.
    failures : int
        Rows whose status is not ``ok``.
    failed_share : float
        Their share of all rows.
    stopped : str or None
        Why the sweep ended early.
    failed_batches : list of str
        Batches that raised, each with its cause and the command that computes it again.
    done_replicates, wanted_replicates : int
        Over all paths. ``wanted_replicates`` is 0 if a target decides.
    batches : int
        Computed in this session.
    """

    out: str
    finished_replicates: int
    failures: int
    failed_share: float
    wall_seconds: float
    stopped: str | None = None
    failed_batches: list[str] = field(default_factory=list)
    done_replicates: int = 0
    wanted_replicates: int = 0
    batches: int = 0


@dataclass(frozen=True)
class Outcome:
    """A batch that has come back; ``error`` is the reason why there are no rows, or None."""

    batch: Batch
    error: str | None = None
    kernel_seconds: float = 0.0
    seconds: float = 0.0


def store_result(aggregator: Aggregator, batch: Batch, result: BatchResult) -> list[Published]:
    """Give rows to an aggregator and write trajectories; returns what is published by now."""
    key, meta = batch.simulator.key, part_meta(batch.seed, batch.simulator, batch.cells)
    if result.trajectories is not None:
        cells = [{"checkpoints": batch.checkpoints}]
        aggregator.store.trajectories.write(key, result.trajectories, meta, cells)
    if not batch.cells:
        return [Published(key, batch.first, batch.last, cell_set_hash([]))]
    return aggregator.add(key, batch.first, batch.last, result.rows, meta)


def run_batch(batch: Batch) -> BatchResult:
    """Simulate a batch. Any exception becomes an LdpflowError with its class, message and place.

    A traceback does not leave the process of a Ray task, and ``sys.exit`` of a plug-in would end the thread.
    """
    try:
        return simulate(batch)
    except LdpflowError:
        raise
    except BaseException as error:
        raise LdpflowError(error_text(error)) from error


def error_text(error: BaseException) -> str:
    """Message of an error, with its class and place unless it is an LdpflowError."""
    if isinstance(error, LdpflowError):
        return str(error)
    return f"{type(error).__name__}: {error}{place_of_error(error)}"


@lru_cache(maxsize=8)  # every batch of a path has the same
def part_meta(seed: int, simulator: Simulator[Any, Any], cells: tuple[Cell, ...]) -> PartMeta:
    plugins = plugins_of([*simulator.parts().values(), *(cell.method for cell in cells)])
    return PartMeta(
        seed,
        STREAM_VERSION,
        simulator.settings(),
        versions() | {plugin.version_name: plugin.sha256 for plugin in plugins},
        description(simulator) if plugins or names_file(simulator.settings()) else None,
        {cell_id(cell.columns()): cell.runs for cell in cells if cell.runs > 1},
    )


THREAD_NAME = "batches"


def dropped_batches() -> bool:
    """Whether a batch that was given up still runs: the interpreter waits for its end."""
    return any(thread.name == THREAD_NAME for thread in threading.enumerate())


def ends_sweep(error: BaseException) -> bool:
    """Whether an error of the store means that no batch can be stored."""
    return isinstance(error, StorageError) or (isinstance(error, InputError) and error.field == "out")


class ThreadExecutor:
    """Executor that runs one batch per thread and stores rows in the calling thread.

    Kernels run at the same time; Python code of batches takes turns (:mod:`ldpflow.simulators.rows`). The
    calling thread can stop while kernels run for minutes.

    Attributes
    ----------
    cores : int
        Number of cores for which work is cut into batches.
    capacity : int
        Batches that may be in flight; read before every batch, since nodes of a cluster come and go.
    """

    def __init__(self, aggregator: Aggregator, cores: int = 1) -> None:
        self.aggregator = aggregator
        self.cores = cores
        # With several threads one more batch waits, so that no thread waits until rows are stored.
        self.capacity = cores + (cores > 1)
        self.dropped = threading.Event()
        self.waiting: queue.SimpleQueue[Batch | None] = queue.SimpleQueue()
        self.finished: queue.SimpleQueue[tuple[Batch, BatchResult | LdpflowError]] = queue.SimpleQueue()
        # No daemons, even if the caller is one: one that ends in compiled code takes the process down.
        self.threads = [
            threading.Thread(target=self.work, name=THREAD_NAME, daemon=False) for _ in range(cores)
        ]
        for thread in self.threads:
            thread.start()

    def work(self) -> None:
        while (batch := self.waiting.get()) is not None and not self.dropped.is_set():
            try:
                self.finished.put((batch, run_batch(batch)))
            except LdpflowError as error:
                self.finished.put((batch, error))

    def submit(self, batch: Batch) -> None:
        """Start a batch."""
        self.waiting.put(batch)

    def wait(self, timeout: float) -> list[Outcome]:
        """Batches that came back, in completion order; may be empty after ``timeout`` seconds."""
        try:
            batch, result = self.finished.get(timeout=timeout)
        except queue.Empty:
            if not all(thread.is_alive() for thread in self.threads):
                raise MemoryError("a thread that runs batches has ended") from None
            return []
        if isinstance(result, LdpflowError):
            return [Outcome(batch, error=str(result))]
        try:
            store_result(self.aggregator, batch, result)
        except Exception as error:
            if ends_sweep(error):
                raise
            return [Outcome(batch, error=error_text(error))]
        return [Outcome(batch, None, result.kernel_seconds, result.seconds)]

    def drop(self) -> None:
        """Give up the batches in flight; at most seconds may pass from here to :meth:`close`."""
        self.dropped.set()

    def flush(self) -> list[Outcome]:
        """Publish every row received so far; returns batches whose rows turned out to be lost."""
        self.aggregator.publish(everything=True)
        return []

    def close(self) -> None:
        """Stop what this executor started."""
        for _ in self.threads:
            self.waiting.put(None)
        if not self.dropped.is_set():
            for thread in self.threads:
                thread.join()


POLL_SECONDS = 0.5
DRAIN_SECONDS = 3.0  # how long batches in flight may still take after a stop


@dataclass
class Tally:
    """Batches, steps and CPU time of a session."""

    batches: int = 0
    steps: int = 0
    batch_seconds: float = 0.0
    failed: list[Outcome] = field(default_factory=list)
    stopped: str | None = None  # reason, if the session was stopped
    lost: str | None = None  # what has died, if the executor has
    # CPU seconds in kernels, and steps, by path key.
    by_path: dict[str, tuple[float, int]] = field(default_factory=dict)

    def count(self, outcome: Outcome) -> None:
        if outcome.error is not None:
            self.failed.append(outcome)
            return
        batch, steps = outcome.batch, outcome.batch.steps
        self.batches += 1
        self.steps += steps
        self.batch_seconds += outcome.seconds
        seconds_before, steps_before = self.by_path.get(batch.simulator.key, (0.0, 0))
        self.by_path[batch.simulator.key] = (seconds_before + outcome.kernel_seconds, steps_before + steps)


def drive(
    batches: Sequence[BatchRange],
    executor: ThreadExecutor | RayExecutor,
    tally: Tally,
    started: float,
    listener: Listener | None = None,
    should_stop: Stop = lambda: None,
    on_phase: Phase = lambda phase: None,
) -> None:
    """Run batches in their order, publish their rows and count them in ``tally``.

    ``started`` is the start of the sweep on the monotonic clock. ``should_stop`` is asked at least twice a
    second: once there is a reason nothing more is submitted, and batches in flight get DRAIN_SECONDS.
    """
    sent, count = tally.batches, tally.batches + sum(map(len, batches))
    total_steps = tally.steps + sum(some.steps for some in batches)
    waiting = chain.from_iterable(batches)
    on_phase("")
    in_flight = 0
    deadline = float("inf")
    while (sent < count or in_flight) and time.monotonic() < deadline:
        if tally.stopped is None and (reason := should_stop()) is not None:
            tally.stopped = reason
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
            tally.count(outcome)
            if listener is not None:
                listener(
                    Progress(
                        done_batches=tally.batches,
                        total_batches=count,
                        done_steps=tally.steps,
                        total_steps=total_steps,
                        seconds=time.monotonic() - started,
                        failed_batches=len(tally.failed),
                    )
                )
    if in_flight:
        executor.drop()
    tally.failed.extend(executor.flush())
