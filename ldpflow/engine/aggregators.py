"""Aggregators as Ray actors, and what the driver must remember until their rows are on disk."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ldpflow.engine.executor import store_result
from ldpflow.simulators.batch import Batch, BatchResult
from ldpflow.store import Aggregator, Published

STATISTICS_SECONDS = 1.0  # how often an aggregator's running statistics travel to the driver


class AggregatorActor:
    """An aggregator in a process of its own."""

    def __init__(self, make: Callable[[], Aggregator]) -> None:
        self.aggregator = make()
        self.reported_at = 0.0

    def add(self, batch: Batch, result: BatchResult) -> dict[str, Any]:
        """Take the rows of a batch; tell what has been published by now."""
        published = store_result(self.aggregator, batch, result)
        statistics = None
        if time.monotonic() - self.reported_at > STATISTICS_SECONDS:
            statistics = self.aggregator.statistics()
            self.reported_at = time.monotonic()
        return {
            "published": published,
            "kernel_seconds": result.kernel_seconds,
            "seconds": result.seconds,
            "statistics": statistics,
        }

    def flush(self) -> None:
        """Publish everything."""
        self.aggregator.flush()


def new_aggregator(make: Callable[[], Aggregator]) -> Any:
    """Start an aggregator on the driver's node.

    There it lives as long as the driver, whatever happens to other nodes; and a folder given as
    ``out`` is one of the machine that the sweep was started on. Ray could restart it by itself, but
    calls on restarted actors were seen to hang (Ray 2.60), and its rows have to be sent again anyhow.
    """
    actor: Any = ray.remote(AggregatorActor)
    here = ray.get_runtime_context().get_node_id()
    return actor.options(
        # It mostly waits for disk, so it must not take a core from the batches.
        num_cpus=0,
        max_restarts=0,
        # A batch that takes long must not hold up the rows of those that are done.
        allow_out_of_order_execution=True,
        scheduling_strategy=NodeAffinitySchedulingStrategy(here, soft=False),
    ).remote(make)


@dataclass
class Shard:
    """An aggregator, and the rows that it may hold in memory only.

    Its paths are its own: no other aggregator of the sweep writes parts of them.
    """

    aggregator: Any
    # By path and cell set, then by first replicate.
    unpublished: dict[tuple[str, str], dict[int, Sent]] = field(default_factory=dict)
    statistics: Any = None

    def keep(self, sent: Sent) -> None:
        """Hold on to a batch that the aggregator has taken."""
        self.unpublished.setdefault((sent.batch.simulator.key, sent.cell_set), {})[sent.batch.first] = sent

    def forget(self, published: list[Published]) -> None:
        """Let go of rows that are in published parts."""
        for part in published:
            held = self.unpublished.get((part.path_key, part.cell_set), {})
            covered = [
                first for first, sent in held.items() if part.first <= first and sent.batch.last <= part.last
            ]
            for first in covered:
                del held[first]

    def give_up(self) -> Iterator[Sent]:
        """All that the aggregator took with it, and no longer held here."""
        lost, self.unpublished = self.unpublished, {}
        for held in lost.values():
            yield from held.values()


@dataclass(frozen=True)
class Sent:
    """A batch whose rows are, or will be, with an aggregator; ``counted`` once the loop has counted it."""

    batch: Batch
    cell_set: str
    rows: ray.ObjectRef
    shard: Shard
    aggregator: Any  # the shard's, when it was sent
    counted: bool
