"""The loop that hands batches to an executor, the executor of threads, and reasons to end a sweep early.

The loop keeps a limited number of batches in flight. It ends if no batch is left, a limit of time or memory
has passed, a signal such as that of Ctrl-C has come, or the interpreter ends.
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
LAST_SECONDS = 5.0  # for a thread with a sweep to print its traceback while the interpreter ends
CHECK_SECONDS = 1.0  # between two measurements of memory, each of which takes milliseconds


def limits(max_seconds: float | None = None, max_bytes: float | None = None) -> Callable[[], str | None]:
    """Make a function that returns a text if a limit has passed, and None otherwise.

    If ``max_seconds`` or ``max_bytes`` is None, there is no such limit. Time starts at this call. Memory is
    the sum over this process and its descendants, such as a local Ray. A limit of memory is refused on a
    system without ``/proc``.
    """
    if max_bytes is not None and not (PROCESSES / "self" / "stat").is_file():
        raise InputError("max_memory", max_bytes, "a system with /proc (macOS has none)")
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
    """Bytes of memory of this process and its descendants. Shared pages count once. 0 without ``/proc``."""
    children: dict[int, list[int]] = {}
    for entry in PROCESSES.glob("[0-9]*"):
        children.setdefault(process_state(int(entry.name))[2], []).append(int(entry.name))
    total = 0
    family = [os.getpid()]
    while family:
        process = family.pop()
        family += children.get(process, [])
        with suppress(OSError, ValueError):  # the process has ended
            rollup = (PROCESSES / str(process) / "smaps_rollup").read_text()
            total += sum(int(line.split()[1]) * 1024 for line in rollup.splitlines() if line[:4] == "Pss:")
    return total


def process_state(process: int) -> tuple[str, str, int]:
    """Name, state and parent of a process. States: Z, ended and not yet waited for; X, no such process."""
    try:
        # The name stands in brackets and may contain spaces and brackets.
        head, _, rest = (PROCESSES / str(process) / "stat").read_text(errors="replace").rpartition(")")
        state, parent, *_ = rest.split()
    except (OSError, ValueError):
        return "", "X", 0
    return head.partition("(")[2], state, int(parent)


@contextmanager
def interpreter_open() -> Iterator[Callable[[], str | None]]:
    """Keep the interpreter open while a daemon thread sweeps. Yields a :data:`Stop` function.

    A daemon thread that is in compiled code when Python ends would abort the process. Python waits for
    threads that are no daemons, so this function starts such a thread, which waits for the sweep.
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
    """Yield a :data:`Stop` function for SIGINT, SIGTERM and SIGHUP. A second signal ends the process."""
    reason: str | None = None

    def received(number: int, frame: FrameType | None) -> None:
        nonlocal reason
        # os.write, because the interrupted code may hold the lock of sys.stderr.
        if reason is not None:
            if sys.stderr.isatty():
                os.write(2, b"\x1b[?25h")  # show the cursor, which the progress bar hides
            os.write(2, b"\nldpflow: stopped at once; what was on disk is kept\n")
            # No clean-up: the next sweep computes missing rows, and the operating system releases the lock.
            os._exit(130)
        reason = f"{signal.Signals(number).name} received"
        os.write(2, b"\nldpflow: finishing what is running (batches get 3 s); again to stop at once\n")

    before: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():  # Python refuses handlers of other threads
        before = {n: signal.signal(n, received) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield lambda: reason
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


Stop = Callable[[], str | None]
"""Function that returns a reason to stop, or None."""

Phase = Callable[[str], None]
"""Function that is called with a few words about what a sweep waits for, or with "" when batches run."""


@dataclass(frozen=True)
class Progress:
    """State of a sweep after a batch. Steps are summed over the replicates of this session."""

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
    out : str
        Run directory or its address, without credentials.
    finished_replicates : int
        Smallest number of finished replicates over the cells of the study.
    failures : int
        Number of rows without a finished interval (``status``).
    failed_share : float
        ``failures`` divided by the number of rows.
    wall_seconds : float
        Time of this session in seconds.
    stopped : str or None
        Why the sweep ended early. None if it did not.
    failed_batches : list of str
        Batches that raised an error, each with the error and a command that computes the batch again.
    done_replicates, wanted_replicates : int
        Sums over all paths. ``wanted_replicates`` is 0 if the sweep has a target precision.
    batches : int
        Number of batches that this session computed.
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
    """Result of a batch. ``error`` says why its rows are not stored, or is None. Times are CPU time."""

    batch: Batch
    error: str | None = None
    kernel_seconds: float = 0.0
    seconds: float = 0.0


def store_result(aggregator: Aggregator, batch: Batch, result: BatchResult) -> list[Published]:
    key, meta = batch.simulator.key, part_meta(batch.seed, batch.simulator, batch.cells)
    if result.trajectories is not None:
        cells = [{"checkpoints": batch.checkpoints}]
        aggregator.store.trajectories.write(key, result.trajectories, meta, cells)
    if not batch.cells:
        return [Published(key, batch.first, batch.last, cell_set_hash([]))]
    return aggregator.add(key, batch.first, batch.last, result.rows, meta)


def run_batch(batch: Batch) -> BatchResult:
    """Simulate a batch. Turns every exception into an LdpflowError with its class, message and place.

    Ray does not return a traceback, and ``sys.exit`` in a plug-in would end the thread.
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


@lru_cache(maxsize=8)  # all batches of a path have equal arguments
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
    """Whether a dropped batch still runs. The interpreter would wait for its end."""
    return any(thread.name == THREAD_NAME for thread in threading.enumerate())


def ends_sweep(error: BaseException) -> bool:
    """Whether an error of the store means that no batch can be stored."""
    return isinstance(error, StorageError) or (isinstance(error, InputError) and error.field == "out")


class ThreadExecutor:
    """Executor that runs batches in threads and stores their rows in the calling thread.

    Kernels run in parallel. Only one thread at a time runs Python code of a batch
    (:mod:`ldpflow.simulators.rows`). The calling thread can stop the sweep while kernels run.

    Attributes
    ----------
    cores : int
        Number of cores for which :func:`~ldpflow.engine.batching.cut` makes batches.
    capacity : int
        Largest number of batches in flight. The loop reads this number before every batch, because a cluster
        may change its size.
    """

    def __init__(self, aggregator: Aggregator, cores: int) -> None:
        self.aggregator = aggregator
        self.cores = cores
        # One more batch than threads: a thread need not wait while the caller stores rows.
        self.capacity = cores + (cores > 1)
        self.dropped = threading.Event()
        self.waiting: queue.SimpleQueue[Batch | None] = queue.SimpleQueue()
        self.finished: queue.SimpleQueue[tuple[Batch, BatchResult | LdpflowError]] = queue.SimpleQueue()
        # A daemon thread that is in compiled code when Python ends would abort the process.
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
        self.waiting.put(batch)

    def wait(self, timeout: float) -> list[Outcome]:
        """Results of batches that have ended. [] if no batch ends within ``timeout`` seconds."""
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
        """Give up the batches in flight. The caller then calls :meth:`flush` and :meth:`close`."""
        self.dropped.set()

    def flush(self) -> list[Outcome]:
        """Publish all rows that have come. Returns outcomes of batches whose rows were lost."""
        self.aggregator.publish(everything=True)
        return []

    def close(self) -> None:
        for _ in self.threads:
            self.waiting.put(None)
        if not self.dropped.is_set():
            for thread in self.threads:
                thread.join()


POLL_SECONDS = 0.5
DRAIN_SECONDS = 3.0  # for the batches in flight, after a reason to stop


@dataclass
class Tally:
    batches: int = 0
    steps: int = 0
    batch_seconds: float = 0.0
    failed: list[Outcome] = field(default_factory=list)
    stopped: str | None = None  # reason to stop
    lost: str | None = None  # process of Ray that has died
    # CPU seconds in kernels and number of steps, by path key.
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
    listener: Listener,
    should_stop: Stop,
    on_phase: Phase,
) -> None:
    """Run batches in their order, publish their rows and count them in ``tally``.

    ``started`` is the start of the sweep on the monotonic clock, in seconds. ``should_stop`` is called at
    least twice a second. If it returns a reason, no further batch starts, and batches in flight have
    DRAIN_SECONDS to end.
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
