"""Batches one after the other in this process: for tests, debugging and small studies."""

from __future__ import annotations

import queue
import threading

from ldpflow.engine.executor import Outcome, part_meta, publish_trajectories
from ldpflow.errors import InputError, StorageError
from ldpflow.simulators.batch import Batch, BatchResult, simulate
from ldpflow.store import Aggregator

__all__ = ["SerialExecutor"]


class SerialExecutor:
    """Executor of one batch at a time.

    The batch runs in a thread, and its kernel without the interpreter's lock, so that the loop can
    be told to stop while a kernel runs for minutes. Rows are stored from the calling thread.

    Parameters
    ----------
    aggregator : Aggregator
        Where rows go.
    """

    cores = 1
    capacity = 1

    def __init__(self, aggregator: Aggregator) -> None:
        self.aggregator = aggregator
        self.waiting: queue.SimpleQueue[Batch | None] = queue.SimpleQueue()
        self.finished: queue.SimpleQueue[tuple[Batch, BatchResult | Exception]] = queue.SimpleQueue()
        # A daemon: the interpreter must be able to end before a batch that was dropped does.
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while (batch := self.waiting.get()) is not None:
            try:
                self.finished.put((batch, simulate(batch)))
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
                raise result
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
            return [Outcome(batch, error=f"{type(error).__name__}: {error}")]
        return [
            Outcome(
                batch,
                kernel_seconds=result.kernel_seconds,
                seconds=result.seconds,
                statistics=self.aggregator.statistics(),
            )
        ]

    def drop(self) -> None:
        self.waiting.put(None)

    def flush(self) -> list[Outcome]:
        self.aggregator.flush()
        return []

    def close(self) -> None:
        self.waiting.put(None)
