"""What ends a sweep early: limits of time and memory, Ctrl-C, and the end of the interpreter.

Events of a running sweep, for displays and logs.

What runs batches for the engine's loop: the protocol of executors, what they share, and threads.

The one loop behind every executor: keep a bounded number of batches in flight until none is left.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from ldpflow.engine.batching import Batches
from ldpflow.errors import InputError, LdpflowError, StorageError
from ldpflow.simulators.families import description, names_file
from ldpflow.simulators.rows import Batch, BatchResult, simulate
from ldpflow.store.aggregate import Aggregator, Published
from ldpflow.store.part import PartMeta
from ldpflow.store.provenance import versions
from ldpflow.store.schema import cell_id, cell_set_hash
from ldpflow.study.plugins import plugins_of

PROCESSES = Path("/proc")
CHECK_SECONDS = 1.0  # adding up the memory of many processes takes milliseconds


def limits(
    max_seconds: float | None = None,
    max_bytes: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Callable[[], str | None]:
    """A function that says which limit has been passed, if one has.

    Parameters
    ----------
    max_seconds : float, optional
        Counted from this call.
    max_bytes : int, optional
        Of memory that this process and those it started (a local Ray) use on this machine.

    Raises
    ------
    InputError
        If memory is limited on a system without ``/proc``, where it cannot be measured.
    """
    if max_bytes is not None and not (PROCESSES / "self" / "stat").is_file():
        raise InputError(
            "max_memory", max_bytes, "nothing on a system without /proc (macOS)", "Limit the time, max_time."
        )
    start = clock()
    last = -CHECK_SECONDS

    def passed() -> str | None:
        nonlocal last
        now = clock() - start
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
    """Bytes of memory of this process and all its descendants; shared pages count once.

    0 where the system has no /proc.
    """
    children: dict[int, list[int]] = {}
    for entry in PROCESSES.glob("[0-9]*/stat"):
        try:
            # The command's name, in brackets, may hold anything.
            parent = int(entry.read_text(errors="replace").rpartition(")")[2].split()[1])
        except (OSError, IndexError, ValueError):
            continue  # ended meanwhile
        children.setdefault(parent, []).append(int(entry.parent.name))
    total = 0
    family = [os.getpid()]
    while family:
        process = family.pop()
        family += children.get(process, [])
        total += proportional_size(process)
    return total


def proportional_size(process: int) -> int:
    """Bytes of a process, pages shared with k others counted as 1 / k."""
    try:
        with open(PROCESSES / str(process) / "smaps_rollup", encoding="ascii") as file:
            return sum(int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:"))
    except (OSError, ValueError):
        return 0


LAST_SECONDS = 5.0


@contextmanager
def interpreter_open() -> Iterator[Callable[[], str | None]]:
    """Keep the interpreter from ending in the middle of a sweep, in a daemon thread too.

    At its end Python waits for threads that are no daemons; a daemon inside of compiled code would abort the
    process. So while a daemon thread sweeps another thread waits for it, and gives it a reason to stop.
    """
    if not threading.current_thread().daemon:
        yield lambda: None
        return
    over, main, caller = threading.Event(), threading.main_thread(), threading.current_thread()

    def hold() -> None:
        over.wait()
        if not main.is_alive():
            caller.join(LAST_SECONDS)  # for the traceback of its SweepInterrupted

    threading.Thread(target=hold, name="end of a sweep", daemon=False).start()
    try:
        yield lambda: None if main.is_alive() else "the main thread has ended"
    finally:
        over.set()


class Interrupts:
    """While the context is open, the first Ctrl-C is noted, the second ends all.

    SIGTERM, and SIGHUP when a terminal closes, do the same.

    Calling it gives the reason to stop, or None.
    """

    def __init__(self) -> None:
        self.reason: str | None = None
        self.before: dict[signal.Signals, Any] = {}

    def __call__(self) -> str | None:
        return self.reason

    def __enter__(self) -> Interrupts:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            try:
                self.before[number] = signal.signal(number, self.received)
            except ValueError:  # not in the main thread, which alone may set handlers
                break
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def received(self, number: int, frame: FrameType | None) -> None:
        """The handler. It writes to the descriptor: a buffer may be locked by what it interrupts."""
        if self.reason is not None:
            if sys.stderr.isatty():
                os.write(2, b"\x1b[?25h")  # the progress bar hides the cursor
            os.write(2, b"\nldpflow: stopped at once; what was on disk is kept\n")
            # No clean-up: what is not on disk is computed again, and the lock dies with the process.
            os._exit(130)
        self.reason = f"{signal.Signals(number).name} received"
        os.write(2, b"\nldpflow: finishing what is running (at most 10 s); again to stop at once\n")


@dataclass(frozen=True)
class Progress:
    """State of a sweep after a batch.

    ``done_steps`` and ``total_steps`` count SGD steps over all replicates of this session;
    ``statistics`` is a snapshot of the aggregators' running statistics (progress only, not results).
    """

    done_batches: int
    total_batches: int
    done_steps: int
    total_steps: int
    seconds: float
    failed_batches: int = 0
    statistics: Any = None


Listener = Callable[[Progress], None]


Phase = Callable[[str], None]
"""Called with what a sweep waits for, in a few words, when that changes; with "" once batches come back."""


@dataclass(frozen=True)
class Planned:
    """Rows of a path that are there already and rows that are to be computed.

    ``settings`` is what tells the path from the study's others; ``ranges`` are the replicates
    (last exclusive) to be computed and of how many cells.
    """

    path: str
    settings: str
    reused: int
    computed: int
    ranges: list[tuple[int, int, int]]


@dataclass(frozen=True)
class RunResult:
    """Outcome of a sweep.

    ``failures`` counts rows whose status is not ``ok``; ``failed_share`` is their share of all rows;
    ``finished_replicates`` is the least over the study's cells. ``stopped`` says why the run ended
    early, if it did. ``failed_batches`` names batches that raised, with their cause and the command
    that computes them again. ``paths`` counts the study's paths, ``complete_paths`` those that have all of
    their replicates; ``done_replicates`` of ``wanted_replicates`` are there of all paths together.
    ``batches`` were computed in this session.
    """

    out: str
    finished_replicates: int
    failures: int
    failed_share: float
    wall_seconds: float
    stopped: str | None = None
    failed_batches: list[str] = field(default_factory=list)
    paths: int = 0
    complete_paths: int = 0
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
    statistics: Any = None


class Executor(Protocol):
    """Runs batches and hands their rows to the store's aggregators."""

    @property
    def cores(self) -> int:
        """Cores that batches are cut for."""

    @property
    def capacity(self) -> int:
        """Batches that may be in flight; asked before every one, since nodes come and go."""

    def submit(self, batch: Batch) -> None:
        """Start a batch."""

    def wait(self, timeout: float) -> list[Outcome]:
        """Batches that came back, in completion order; may be empty after ``timeout`` seconds."""

    def drop(self) -> None:
        """Give up the batches in flight; at most seconds may pass from here to :meth:`close`."""

    def flush(self) -> list[Outcome]:
        """Publish every row received so far; returns batches whose rows turned out to be lost."""

    def close(self) -> None:
        """Stop what this executor started."""


def store_result(aggregator: Aggregator, batch: Batch, result: BatchResult) -> list[Published]:
    """Give the rows of a batch to an aggregator; what has been published by now.

    Trajectories are written at once: one part, which needs no neighbours.
    """
    key, meta = batch.simulator.key, part_meta(batch)
    if result.trajectories is not None:
        cells = [{"checkpoints": batch.checkpoints}]
        aggregator.store.trajectories.write(key, result.trajectories, meta, cells)
    if not batch.cells:
        return [Published(key, batch.first, batch.last, cell_set_hash([]))]
    return aggregator.add(key, batch.first, batch.last, result.rows, meta)


def run_batch(batch: Batch) -> BatchResult:
    """Run a batch in a thread or process that serves several.

    Raises
    ------
    Exception
        What the batch raised; also where a plug-in's code called ``sys.exit`` or raised KeyboardInterrupt,
        which would end the thread.
    """
    try:
        return simulate(batch)
    except Exception:
        raise
    except BaseException as error:
        raise LdpflowError(f"{type(error).__name__}: {error}") from error


def said(error: Exception) -> str:
    """Message of an error, with its class name unless it is one of ldpflow's own."""
    return str(error) if isinstance(error, LdpflowError) else f"{type(error).__name__}: {error}"


def part_meta(batch: Batch) -> PartMeta:
    """Metadata of the parts of a batch."""
    from ldpflow.numerics.streams import STREAM_VERSION

    simulator = batch.simulator
    methods = [cell.method for cell in batch.cells]
    plugins = plugins_of([*simulator.parts().values(), *methods])
    found = package_versions() | {plugin.version_name: plugin.sha256 for plugin in plugins}
    return PartMeta(
        batch.seed,
        STREAM_VERSION,
        simulator.settings(),
        found,
        description(simulator) if plugins or names_file(simulator.settings()) else None,
        {cell_id(cell.columns()): cell.runs for cell in batch.cells if cell.runs > 1},
    )


@cache
def package_versions() -> dict[str, str]:
    """Versions of what computes rows."""
    return versions()


THREAD_NAME = "batches"


def dropped_batches() -> bool:
    """Whether a batch that was given up still runs: the interpreter waits for its end."""
    return any(thread.name == THREAD_NAME for thread in threading.enumerate())


class ThreadExecutor:
    """Executor of one batch per thread.

    Kernels run at the same time, without the interpreter's lock; Python code of batches takes turns
    (:mod:`ldpflow.simulators.rows`). Rows are stored from the calling thread, which can stop while
    kernels run for minutes.

    Parameters
    ----------
    aggregator : Aggregator
        Where rows go.
    cores : int
        Threads.
    """

    def __init__(self, aggregator: Aggregator, cores: int = 1) -> None:
        self.aggregator = aggregator
        self.cores = cores
        # With several threads, one batch waits: a thread does not wait for rows to be stored.
        self.capacity = cores + (cores > 1)
        self.dropped = threading.Event()
        self.waiting: queue.SimpleQueue[Batch | None] = queue.SimpleQueue()
        self.finished: queue.SimpleQueue[tuple[Batch, BatchResult | Exception]] = queue.SimpleQueue()
        # No daemons, in a daemon thread too: one that ends inside of compiled code takes the process down.
        self.threads = [
            threading.Thread(target=self._run, name=THREAD_NAME, daemon=False) for _ in range(cores)
        ]
        for thread in self.threads:
            thread.start()

    def _run(self) -> None:
        while (batch := self.waiting.get()) is not None and not self.dropped.is_set():
            try:
                self.finished.put((batch, run_batch(batch)))
            except Exception as error:
                self.finished.put((batch, error))

    def submit(self, batch: Batch) -> None:
        self.waiting.put(batch)

    def wait(self, timeout: float) -> list[Outcome]:
        try:
            batch, result = self.finished.get(timeout=timeout)
        except queue.Empty:
            if not all(thread.is_alive() for thread in self.threads):
                raise MemoryError("a thread that runs batches has ended") from None
            return []
        try:
            if isinstance(result, Exception):
                return [Outcome(batch, error=said(result))]
            store_result(self.aggregator, batch, result)
        except StorageError:
            raise  # no batch can be kept
        except Exception as error:
            if isinstance(error, InputError) and error.field == "out":
                raise
            return [Outcome(batch, error=said(error))]
        return [
            Outcome(
                batch,
                kernel_seconds=result.kernel_seconds,
                seconds=result.seconds,
                statistics=self.aggregator.statistics(),
            )
        ]

    def drop(self) -> None:
        self.dropped.set()

    def flush(self) -> list[Outcome]:
        self.aggregator.flush()
        return []

    def close(self) -> None:
        for _ in self.threads:
            self.waiting.put(None)
        if not self.dropped.is_set():
            for thread in self.threads:
                thread.join()


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
