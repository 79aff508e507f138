"""Batches as Ray tasks, rows to aggregator actors: on this machine's cores or on a cluster.

A batch is a task; its rows travel through the object store to an aggregator actor that coalesces and
publishes them. The driver keeps a reference to a batch's rows until they are published: a batch
whose worker or node died is computed again by Ray, and if an aggregator died with rows it had not
yet published, they are sent to its successor. Everything may happen twice; published parts are
named by their content, so that is harmless.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from ldpflow.engine.executor import Outcome, part_meta, publish_trajectories
from ldpflow.errors import InputError
from ldpflow.simulate import Batch, BatchResult, simulate
from ldpflow.store import Aggregator, Published, cell_set_hash

__all__ = ["RayExecutor"]

# One thread per task: the replicates are the parallelism.
THREADS = {
    name: "1"
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
}

POLL_SECONDS = 0.5
STATISTICS_SECONDS = 1.0  # how often an aggregator's running statistics travel to the driver


def run_batch(batch: Batch) -> BatchResult:
    """The task."""
    import pyarrow

    pyarrow.set_cpu_count(1)
    return simulate(batch)


class AggregatorActor:
    """An aggregator in a process of its own.

    ``incarnation`` changes when Ray restarts the actor; what its predecessor had not published is
    then lost, and the driver sends it again.
    """

    def __init__(self, make: Callable[[], Aggregator]) -> None:
        self.aggregator = make()
        self.incarnation = uuid.uuid4().hex
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
            "incarnation": self.incarnation,
            "kernel_seconds": result.kernel_seconds,
            "seconds": result.seconds,
            "statistics": statistics,
        }

    def flush(self) -> dict[str, Any]:
        """Publish everything."""
        return {"published": self.aggregator.flush(), "incarnation": self.incarnation}


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
        # The aggregator mostly waits for disk; it must not take a core from the batches.
        actor: Any = ray.remote(AggregatorActor)
        self.aggregator: Any = actor.options(
            num_cpus=0, max_restarts=-1, max_task_retries=-1
        ).remote(make_aggregator)
        self.in_flight: dict[ray.ObjectRef, tuple[Batch, ray.ObjectRef]] = {}
        # Rows that an aggregator of this incarnation holds in memory only.
        self.unpublished: list[tuple[Batch, ray.ObjectRef, str]] = []

    def connect(self, address: str | None, num_cpus: int | None, verbose: bool) -> None:
        """Start or join Ray."""
        logging: dict[str, Any] = {"log_to_driver": verbose}
        if not verbose:
            logging["logging_level"] = "ERROR"
        if address is None:
            os.environ.update(THREADS)
            os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
            ray.init(num_cpus=num_cpus, include_dashboard=False, **logging)
        else:
            try:
                ray.init(address=address, runtime_env={"env_vars": THREADS}, **logging)
            except (ConnectionError, RuntimeError, ValueError) as error:
                raise InputError(
                    "--address", address, "the address of a running Ray cluster", str(error)
                ) from error
        self.started_ray = True

    def submit(self, batch: Batch) -> None:
        rows = self.task.remote(batch)
        self.in_flight[self.aggregator.add.remote(batch, rows)] = (batch, rows)

    def wait(self, timeout: float) -> list[Outcome]:
        done, _ = ray.wait(list(self.in_flight), num_returns=1, timeout=timeout)
        outcomes = []
        for answer in done:
            batch, rows = self.in_flight.pop(answer)
            try:
                told = ray.get(answer)
            except RayError as error:
                outcomes.append(Outcome(batch, error=reason(error)))
                continue
            self.unpublished.append((batch, rows, told["incarnation"]))
            self.forget(told["published"])
            self.resend(told["incarnation"])
            outcomes.append(
                Outcome(
                    batch,
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
                held
                for held in self.unpublished
                if not any(covers(part, held[0]) for part in published)
            ]

    def resend(self, incarnation: str) -> None:
        """Send again what an aggregator before this incarnation took and had not published."""
        lost = [held for held in self.unpublished if held[2] != incarnation]
        if lost:
            self.unpublished = [held for held in self.unpublished if held[2] == incarnation]
            for batch, rows, _ in lost:
                self.in_flight[self.aggregator.add.remote(batch, rows)] = (batch, rows)

    def flush(self) -> list[Outcome]:
        failed: list[Outcome] = []
        while True:
            told: dict[str, Any] = ray.get(self.aggregator.flush.remote())
            self.forget(told["published"])
            self.resend(told["incarnation"])
            if not self.unpublished and not self.in_flight:
                return failed
            while self.in_flight:
                failed += [o for o in self.wait(POLL_SECONDS) if o.error is not None]

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


def reason(error: RayError) -> str:
    """One line on why a task failed."""
    if isinstance(error, RayTaskError):
        cause = error.cause
        return f"{type(cause).__name__}: {cause}"
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
