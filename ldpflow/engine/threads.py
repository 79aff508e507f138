"""Batches in threads of this process: one for debugging, one per core for studies of seconds or minutes."""

from __future__ import annotations

import queue
import threading

from ldpflow.engine.executor import Outcome, part_meta, publish_trajectories, run_batch, said
from ldpflow.errors import InputError, StorageError
from ldpflow.simulators.batch import Batch, BatchResult
from ldpflow.store import Aggregator

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
            return []
        try:
            if isinstance(result, Exception):
                return [Outcome(batch, error=said(result))]
            publish_trajectories(self.aggregator.store, batch, result)
            if batch.cells:
                self.aggregator.add(
                    batch.simulator.key, batch.first, batch.last, result.rows, part_meta(batch)
                )
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
