"""Batches one after the other in this process: for tests, debugging and small studies."""

from __future__ import annotations

from collections import deque

from ldpflow.engine.executor import Outcome, part_meta, publish_trajectories
from ldpflow.simulate import Batch, simulate
from ldpflow.store import Aggregator

__all__ = ["SerialExecutor"]


class SerialExecutor:
    """Executor without any concurrency.

    Parameters
    ----------
    aggregator : Aggregator
        Where rows go.
    """

    cores = 1
    capacity = 1

    def __init__(self, aggregator: Aggregator) -> None:
        self.aggregator = aggregator
        self.waiting: deque[Batch] = deque()

    def submit(self, batch: Batch) -> None:
        self.waiting.append(batch)

    def wait(self, timeout: float) -> list[Outcome]:
        batch = self.waiting.popleft()
        try:
            result = simulate(batch)
        except Exception as error:
            return [Outcome(batch, error=f"{type(error).__name__}: {error}")]
        publish_trajectories(self.aggregator.store, batch, result)
        if batch.cells:
            self.aggregator.add(
                batch.path.key, batch.first, batch.last, result.rows, part_meta(batch)
            )
        return [
            Outcome(
                batch,
                kernel_seconds=result.kernel_seconds,
                seconds=result.seconds,
                statistics=self.aggregator.statistics(),
            )
        ]

    def flush(self) -> list[Outcome]:
        self.aggregator.flush()
        return []

    def close(self) -> None:
        return None
