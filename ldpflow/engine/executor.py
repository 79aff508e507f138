"""What runs batches for the engine's loop: the protocol of executors, what they share, and threads."""

from __future__ import annotations

import queue
import threading
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

from ldpflow.errors import InputError, LdpflowError, StorageError
from ldpflow.simulators.batch import Batch, BatchResult, simulate
from ldpflow.simulators.stored import description, names_file
from ldpflow.store import Aggregator, PartMeta, Published, cell_id, cell_set_hash
from ldpflow.store.provenance import versions
from ldpflow.study.plugins import plugins_of


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
    from ldpflow.random.streams import STREAM_VERSION

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
    (:mod:`ldpflow.simulators.turns`). Rows are stored from the calling thread, which can stop while
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
