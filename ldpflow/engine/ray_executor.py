"""Batches as Ray tasks, rows to aggregator actors: on this machine's cores or on a cluster.

A batch is a task; its rows travel through the object store to an aggregator actor that coalesces and
publishes them. The driver keeps a reference to a batch's rows until they are published: a batch
whose worker or node died is computed again by Ray, and if an aggregator died with rows it had not
yet published, the driver starts another and sends them there. Everything may happen twice;
published parts are named by their content, so that is harmless.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import ray
from ray import cloudpickle
from ray.exceptions import GetTimeoutError, RayActorError, RayError, RayTaskError
from ray.util.metrics import Counter, Gauge

from ldpflow.engine import connection
from ldpflow.engine.aggregators import Sent, Shard, new_aggregator
from ldpflow.engine.executor import Outcome, run_batch, said
from ldpflow.errors import InputError, LdpflowError, StorageError
from ldpflow.options import SweepOptions
from ldpflow.simulators.batch import Batch, BatchResult
from ldpflow.simulators.cell import Cell
from ldpflow.store import Aggregator, cell_set_hash

POLL_SECONDS = 0.5
LOOK_SECONDS = 5.0  # how often the cluster is asked for its cores: nodes come and go
FLUSH_SECONDS = 4.0  # for the last rows of a sweep that was stopped
MAX_DEATHS = 20  # of aggregators in one sweep
CORES_PER_AGGREGATOR = 1000  # one takes the rows of twice as many; see docs/scale.md


def run_task(batch: Batch) -> BatchResult:
    """The task."""
    pa.set_cpu_count(1)
    return run_batch(batch)


class RayExecutor:
    """Executor on Ray.

    Parameters
    ----------
    make_aggregator : callable
        Makes an aggregator inside the actor.
    options : SweepOptions
    run : str
        What the metrics call this run.
    """

    def __init__(
        self, make_aggregator: Callable[[], Aggregator], options: SweepOptions | None = None, run: str = ""
    ) -> None:
        options = options or SweepOptions()
        self.keep = options.keep_ray
        # With an address: cores that batches are sent out for although the cluster has fewer.
        self.wanted = 1 if options.address is None else options.num_cpus or 1
        self.max_in_flight = options.max_in_flight
        self.looked = -LOOK_SECONDS
        self.there = 0
        task: Any = ray.remote(run_task)
        self.task = task.options(max_retries=options.retries, num_cpus=1)
        self.make_aggregator = make_aggregator
        # Started when paths come: a study of one path needs one.
        self.shards: list[Shard] = []
        self.shard_of_path: dict[str, Shard] = {}
        self.deaths = 0  # of aggregators
        self.in_flight: dict[ray.ObjectRef, Sent] = {}
        self.cell_sets: dict[int, tuple[tuple[Cell, ...], str]] = {}
        self.dropped = False
        self.metrics = Metrics(run)
        self.watch = None if ray.is_initialized() else connection.connect(options)

    @property
    def cores(self) -> int:
        """Cores that the cluster has, or is to have."""
        self.check_alive()
        silent = self.watch is not None and self.watch.silent
        if time.monotonic() - self.looked >= LOOK_SECONDS and not silent:
            self.looked = time.monotonic()
            self.there = int(ray.cluster_resources().get("CPU", 0))
        return max(self.there, self.wanted)

    @cached_property
    def most_shards(self) -> int:
        """Aggregators that share the rows, where there are as many paths."""
        return 1 + self.cores // CORES_PER_AGGREGATOR

    @property
    def capacity(self) -> int:
        """One batch that runs and one that waits per core: a core never waits for the driver."""
        return self.max_in_flight or 2 * self.cores

    def check_alive(self) -> None:
        """Raise if Ray has lost a process that it cannot do without."""
        if self.watch is not None:
            self.watch.check()

    def shard_of(self, batch: Batch) -> Shard:
        """The aggregator of a path; paths go to them in turn."""
        shard = self.shard_of_path.get(batch.simulator.key)
        if shard is None:
            if len(self.shards) < self.most_shards:
                self.shards.append(Shard(new_aggregator(self.make_aggregator)))
            shard = self.shards[len(self.shard_of_path) % self.most_shards]
            self.shard_of_path[batch.simulator.key] = shard
        return shard

    def cell_set_of(self, batch: Batch) -> str:
        """The batch's cell set; the batches of a path share their cells, and hashing takes time."""
        known = self.cell_sets.get(id(batch.cells))
        if known is None or known[0] is not batch.cells:
            known = (batch.cells, cell_set_hash(cell.columns() for cell in batch.cells))
            self.cell_sets[id(batch.cells)] = known
        return known[1]

    def submit(self, batch: Batch) -> None:
        shard = self.shard_of(batch)
        try:
            rows = self.task.remote(batch)
        except (TypeError, AttributeError, pickle.PicklingError) as error:
            raise unpicklable(batch, error) from error
        self.send(Sent(batch, self.cell_set_of(batch), rows, shard, shard.aggregator, counted=False))

    def send(self, sent: Sent) -> None:
        """Rows to the aggregator, as soon as they are there."""
        self.in_flight[sent.aggregator.add.remote(sent.batch, sent.rows)] = sent

    def send_again(self, sent: Sent) -> None:
        """Rows that went to an aggregator that has died."""
        self.send(replace(sent, aggregator=sent.shard.aggregator))

    def wait(self, timeout: float) -> list[Outcome]:
        self.check_alive()
        self.metrics.flying(len(self.in_flight))
        waiting = list(self.in_flight)
        done, _ = ray.wait(waiting, num_returns=1, timeout=timeout)
        if done:  # and what else has come meanwhile
            done, _ = ray.wait(waiting, num_returns=len(waiting), timeout=0)
        outcomes = []
        for answer in done:
            outcome = self.taken(self.in_flight.pop(answer), answer)
            if outcome is not None:
                self.metrics.took(outcome)
                outcomes.append(outcome)
        return outcomes

    def taken(self, sent: Sent, answer: ray.ObjectRef) -> Outcome | None:
        """Answer of an aggregator about a batch; None where the batch is running again."""
        shard = sent.shard
        try:
            taken = ray.get(answer)
        except RayActorError as error:
            if sent.aggregator is shard.aggregator:
                # Of several calls on one dead aggregator, this is the first.
                self.succeed(shard, error)
            self.send_again(sent)
            return None
        except RayError as error:
            raise_if_of_store(error)
            return Outcome(sent.batch, error=reason(error))
        if sent.aggregator is shard.aggregator:
            shard.keep(replace(sent, counted=True))
        else:  # it died since: what it took may be lost
            self.send_again(replace(sent, counted=True))
        shard.forget(taken["published"])
        if sent.counted:
            return None
        if taken["statistics"] is not None:
            shard.statistics = taken["statistics"]
        return Outcome(
            sent.batch,
            kernel_seconds=taken["kernel_seconds"],
            seconds=taken["seconds"],
            statistics=None if taken["statistics"] is None else self.statistics(),
        )

    def statistics(self) -> pa.Table:
        """Running statistics of all aggregators."""
        return pa.concat_tables(shard.statistics for shard in self.shards if shard.statistics is not None)

    def succeed(self, shard: Shard, error: RayActorError) -> None:
        """A new aggregator in the place of one that died, and what that one had not published."""
        self.deaths += 1
        if self.deaths > MAX_DEATHS:
            raise LdpflowError(
                f"the process that stores rows died {self.deaths} times: {reason(error)}"
            ) from error
        shard.aggregator = new_aggregator(self.make_aggregator)
        for sent in shard.give_up():
            self.send_again(sent)

    def drop(self) -> None:
        self.dropped = True
        for sent in self.in_flight.values():
            ray.cancel(sent.rows, force=True)
        self.in_flight = {}

    def flush(self) -> list[Outcome]:
        failed: list[Outcome] = []
        while True:
            while self.in_flight:
                failed += [o for o in self.wait(POLL_SECONDS) if o.error is not None]
            flushed = [self.flushed(shard) for shard in self.shards]
            if all(flushed) or self.dropped:
                return failed

    def flushed(self, shard: Shard) -> bool:
        """Publish what an aggregator has; False if it has died."""
        timeout = FLUSH_SECONDS if self.dropped else None
        try:
            ray.get(shard.aggregator.flush.remote(), timeout=timeout)
        except GetTimeoutError:
            return False
        except RayActorError as error:
            if not self.dropped:
                self.succeed(shard, error)
            return False
        except RayError as error:
            raise_if_of_store(error)
            raise
        shard.unpublished = {}
        return True

    def close(self) -> None:
        if self.watch is None:  # the caller's Ray
            self.metrics.flying(0)
            return
        self.watch.close()
        lost = self.watch.lost is not None
        if not lost:
            self.metrics.flying(0)
        # A command line whose Ray is lost ends at once, and what is left of that Ray with it.
        if connection.when_stuck is None if lost else not self.keep:
            ray.shutdown()


def unpicklable(batch: Batch, error: Exception) -> InputError:
    """The component that keeps a batch from being sent to another process."""
    for component in (*batch.simulator.parts().values(), *(cell.method for cell in batch.cells)):
        try:
            cloudpickle.dumps(component)
        except Exception as reason:
            error, name = reason, type(component).__name__
            break
    else:
        name = type(batch.simulator).__name__
    return InputError(
        "engine", "ray", f"threads or serial for a {name}, which cannot be pickled",
        f"{type(error).__name__}: {str(error).splitlines()[0]}",
    )  # fmt: skip


def raise_if_of_store(error: RayError) -> None:
    """Raise what the store said: no batch can be kept then."""
    if isinstance(error, RayTaskError) and isinstance(error.cause, StorageError | InputError):
        if isinstance(error.cause, StorageError) or error.cause.field == "out":
            raise error.cause from None


def reason(error: RayError) -> str:
    """One line on why a task failed."""
    if isinstance(error, RayTaskError):
        return said(error.cause)
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


class Metrics:
    """Counters and gauges of one run for Ray's Prometheus endpoint; Ray adds ``ray_`` before their names.

    Replicates and steps are counted once per path, when their batch is done; batches that Ray ran
    again because a node was lost are counted alike.

    Parameters
    ----------
    run : str
        The run directory, the label ``run``.
    """

    def __init__(self, run: str) -> None:
        def counter(name: str, description: str) -> Counter:
            made = Counter(name, description, tag_keys=("run",))
            made.set_default_tags({"run": run})
            return made

        self.replicates = counter("ldpflow_replicates_done", "Replicates of paths, done.")
        self.steps = counter("ldpflow_steps_done", "Steps of the recursion, done.")
        self.batches = counter("ldpflow_batches_done", "Batches done.")
        self.failures = counter("ldpflow_batches_failed", "Batches given up.")
        self.kernel_seconds = counter("ldpflow_kernel_seconds", "CPU seconds in recursions.")
        self.in_flight = Gauge(
            "ldpflow_batches_in_flight", "Batches sent out and not stored.", tag_keys=("run",)
        )
        self.in_flight.set_default_tags({"run": run})

    def took(self, outcome: Outcome) -> None:
        """A batch has come back."""
        if outcome.error is not None:
            self.failures.inc()
            return
        self.batches.inc()
        self.replicates.inc(outcome.batch.last - outcome.batch.first)
        self.steps.inc(outcome.batch.steps)
        if outcome.kernel_seconds > 0.0:  # Ray refuses to add nothing
            self.kernel_seconds.inc(outcome.kernel_seconds)

    def flying(self, batches: int) -> None:
        """So many batches are on their way."""
        self.in_flight.set(batches)
