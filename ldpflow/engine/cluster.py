"""Batches as Ray tasks, rows to aggregator actors: on this machine's cores or on a cluster.

A batch is a task; its rows travel through the object store to an aggregator actor that coalesces and
publishes them. The driver keeps a reference to a batch's rows until they are published: a batch
whose worker or node died is computed again by Ray, and if an aggregator died with rows it had not
yet published, the driver starts another and sends them there. Everything may happen twice;
published parts are named by their content, so that is harmless.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayError, RayTaskError

from ldpflow.engine.executor import Outcome, part_meta, publish_trajectories
from ldpflow.errors import InputError, LdpflowError, StorageError
from ldpflow.simulate import Batch, BatchResult, simulate
from ldpflow.store import Aggregator, Published, cell_set_hash

__all__ = ["RayExecutor"]

# One thread per task: the replicates are the parallelism.
THREADS = {
    name: "1"
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
}

POLL_SECONDS = 0.5
FLUSH_SECONDS = 4.0  # for the last rows of a sweep that was stopped
MAX_DEATHS = 20  # of aggregators in one sweep
STATISTICS_SECONDS = 1.0  # how often an aggregator's running statistics travel to the driver


def run_batch(batch: Batch) -> BatchResult:
    """The task."""
    import pyarrow

    pyarrow.set_cpu_count(1)
    return simulate(batch)


class AggregatorActor:
    """An aggregator in a process of its own."""

    def __init__(self, make: Callable[[], Aggregator]) -> None:
        self.aggregator = make()
        self.told = 0.0

    def add(self, batch: Batch, result: BatchResult) -> dict[str, Any]:
        """Take the rows of a batch; tell what has been published by now."""
        publish_trajectories(self.aggregator.store, batch, result)
        if batch.cells:
            published = self.aggregator.add(
                batch.path.key, batch.first, batch.last, result.rows, part_meta(batch)
            )
        else:
            # Trajectories alone, and they are on disk.
            published = [Published(batch.path.key, batch.first, batch.last, cell_set_hash([]))]
        statistics = None
        if time.monotonic() - self.told > STATISTICS_SECONDS:
            statistics = self.aggregator.statistics()
            self.told = time.monotonic()
        return {
            "published": published,
            "kernel_seconds": result.kernel_seconds,
            "seconds": result.seconds,
            "statistics": statistics,
        }

    def flush(self) -> None:
        """Publish everything."""
        self.aggregator.flush()


@dataclass(frozen=True)
class Sent:
    """A batch whose rows are, or will be, with an aggregator; ``told`` once the loop knows of it."""

    batch: Batch
    rows: ray.ObjectRef
    aggregator: Any
    told: bool


class RayExecutor:
    """Executor on Ray.

    Parameters
    ----------
    make_aggregator : callable
        Makes an aggregator inside the actor.
    address : str, optional
        An existing cluster's address, ``auto`` for the one this machine belongs to; without it a
        local Ray is started and stopped again.
    num_cpus : int, optional
        Cores of the local Ray; all of this machine's unless given.
    retries : int
        How often Ray runs a task again whose worker or node died.
    verbose : bool
        Let Ray's own log lines through.
    """

    def __init__(
        self,
        make_aggregator: Callable[[], Aggregator],
        address: str | None = None,
        num_cpus: int | None = None,
        retries: int = 3,
        verbose: bool = False,
    ) -> None:
        self.started_ray = False
        if not ray.is_initialized():
            self.connect(address, num_cpus, verbose)
        self.cores = max(1, int(ray.cluster_resources().get("CPU", 1)))
        self.capacity = 2 * self.cores
        task: Any = ray.remote(run_batch)
        self.task = task.options(max_retries=retries, num_cpus=1)
        self.make_aggregator = make_aggregator
        self.aggregator: Any = self.new_aggregator()
        self.deaths = 0  # of aggregators
        self.in_flight: dict[ray.ObjectRef, Sent] = {}
        # Rows that the aggregator may hold in memory only.
        self.unpublished: list[Sent] = []
        self.dropped = False

    def new_aggregator(self) -> Any:
        """Start an aggregator.

        Ray could restart it by itself, but calls on restarted actors were seen to hang (Ray 2.60),
        and its rows have to be sent again anyhow.
        """
        actor: Any = ray.remote(AggregatorActor)
        # It mostly waits for disk, so it must not take a core from the batches; and a batch that
        # takes long must not hold up the rows of those that are done.
        options = {"num_cpus": 0, "max_restarts": 0, "allow_out_of_order_execution": True}
        return actor.options(**options).remote(self.make_aggregator)

    def connect(self, address: str | None, num_cpus: int | None, verbose: bool) -> None:
        """Start or join Ray."""
        logging: dict[str, Any] = {"log_to_driver": verbose}
        if not verbose:
            logging["logging_level"] = "ERROR"
        if address is None:
            os.environ.update(THREADS)
            os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
            # Without "local" Ray would join whatever cluster this machine happens to run.
            options: dict[str, Any] = {
                "address": "local",
                "num_cpus": num_cpus,
                "include_dashboard": False,
            }
        else:
            options = {"address": address, "runtime_env": {"env_vars": THREADS}}
        before = signal.getsignal(signal.SIGTERM)
        try:
            ray.init(**options, **logging)
        except (ConnectionError, RuntimeError, ValueError) as error:
            if address is None:
                raise LdpflowError(f"Ray could not be started on this machine: {error}") from error
            raise InputError(
                "--address", address, "the address of a running Ray cluster", str(error)
            ) from error
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)  # Ray puts its own in the place of the caller's
        self.started_ray = True

    def submit(self, batch: Batch) -> None:
        self.send(batch, self.task.remote(batch), told=False)

    def send(self, batch: Batch, rows: ray.ObjectRef, told: bool) -> None:
        """Rows to the aggregator, as soon as they are there."""
        sent = Sent(batch, rows, self.aggregator, told)
        self.in_flight[self.aggregator.add.remote(batch, rows)] = sent

    def wait(self, timeout: float) -> list[Outcome]:
        done, _ = ray.wait(list(self.in_flight), num_returns=1, timeout=timeout)
        outcomes = []
        for answer in done:
            sent = self.in_flight.pop(answer)
            try:
                told = ray.get(answer)
            except RayActorError as error:
                self.succeed(sent.aggregator, error)
                self.send(sent.batch, sent.rows, sent.told)
                continue
            except RayError as error:
                raise_if_of_store(error)
                outcomes.append(Outcome(sent.batch, error=reason(error)))
                continue
            if sent.aggregator is self.aggregator:
                self.unpublished.append(replace(sent, told=True))
            else:  # it died since: what it took may be lost
                self.send(sent.batch, sent.rows, told=True)
            self.forget(told["published"])
            if not sent.told:
                outcomes.append(
                    Outcome(
                        sent.batch,
                        kernel_seconds=told["kernel_seconds"],
                        seconds=told["seconds"],
                        statistics=told["statistics"],
                    )
                )
        return outcomes

    def forget(self, published: list[Published]) -> None:
        """Let go of rows that are in published parts."""
        if published:
            self.unpublished = [
                sent
                for sent in self.unpublished
                if not any(covers(part, sent.batch) for part in published)
            ]

    def succeed(self, dead: Any, error: RayActorError) -> None:
        """A new aggregator in the place of one that died, and what that one had not published."""
        if dead is not self.aggregator:
            return  # of several calls on one dead aggregator, the first one has done it
        self.deaths += 1
        if self.deaths > MAX_DEATHS:
            raise LdpflowError(
                f"the process that stores rows died {self.deaths} times: {reason(error)}"
            ) from error
        self.aggregator = self.new_aggregator()
        lost, self.unpublished = self.unpublished, []
        for sent in lost:
            self.send(sent.batch, sent.rows, told=True)

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
            aggregator = self.aggregator
            timeout = FLUSH_SECONDS if self.dropped else None
            try:
                ray.get(aggregator.flush.remote(), timeout=timeout)
            except GetTimeoutError:
                return failed
            except RayActorError as error:
                if self.dropped:
                    return failed
                self.succeed(aggregator, error)
                continue
            except RayError as error:
                raise_if_of_store(error)
                raise
            self.unpublished = []
            return failed

    def close(self) -> None:
        if self.started_ray:
            ray.shutdown()


def covers(part: Published, batch: Batch) -> bool:
    """Whether a published part holds all rows of a batch."""
    return (
        part.path_key == batch.path.key
        and part.first <= batch.first
        and batch.last <= part.last
        and part.cell_set == cell_set_hash(cell.columns() for cell in batch.cells)
    )


def raise_if_of_store(error: RayError) -> None:
    """Raise what the store said: no batch can be kept then."""
    if isinstance(error, RayTaskError) and isinstance(error.cause, StorageError | InputError):
        if isinstance(error.cause, StorageError) or error.cause.field == "--out":
            raise error.cause from None


def reason(error: RayError) -> str:
    """One line on why a task failed."""
    if isinstance(error, RayTaskError):
        cause = error.cause
        return f"{type(cause).__name__}: {cause}"
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
