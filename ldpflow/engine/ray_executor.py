"""Batches as Ray tasks, on this machine or on a cluster, and an actor that stores their rows.

Ray's object store hands the rows of a batch to the aggregator actor, which publishes them as parts. The
driver, which is the process of the sweep, keeps a reference to the rows until they are published. If a worker
or a node dies, Ray computes its batches again. If the aggregator dies, the driver starts another one and
sends the rows again. So a batch may be computed and stored twice. That is harmless, because the name of a
part follows from its content.
"""

from __future__ import annotations

import errno
import os
import pickle
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import Any

import pyarrow as pa
import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayError, RayTaskError
from ray.util.metrics import Counter, Gauge
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ldpflow.engine.loop import (
    POLL_SECONDS,
    PROCESSES,
    Outcome,
    ends_sweep,
    error_text,
    process_state,
    run_batch,
    store_result,
)
from ldpflow.engine.prediction import ray_addresses
from ldpflow.errors import EngineLost, InputError, LdpflowError, address_limit
from ldpflow.options import SweepOptions
from ldpflow.simulators.rows import Batch, BatchResult
from ldpflow.simulators.simulator import Cell
from ldpflow.store.run_store import Aggregator, Published
from ldpflow.store.schema import cell_set_hash

# One thread per task, because tasks run in parallel.
THREADS = {
    name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
}
# With these settings Ray notices a lost machine within a minute, with its defaults within seven minutes.
KEEPALIVE = {"RAY_grpc_client_keepalive_time_ms": "30000", "RAY_grpc_client_keepalive_timeout_ms": "30000"}
CONNECT_SECONDS = 10.0
CONNECTION_LOOK_SECONDS = 1.0
ANSWER_SECONDS = 2.0
GRACE_SECONDS = 15.0  # for the GCS of a cluster (Ray's control process) to come back
STUCK_SECONDS = 3.0  # for a call to a lost Ray to return

LOOK_SECONDS = 5.0  # between two looks at the number of cores of the cluster
FLUSH_SECONDS = 4.0  # for the last rows of a sweep that was stopped
MAX_DEATHS = 20  # of aggregators in one sweep

when_stuck: Callable[[str], None] | None = None
"""Called with a message if a call to a lost Ray does not return, unless it is None. The command line sets a
function that ends the process."""

ADDRESSES = "auto or HOST:6379, on a machine of the cluster"
FROM_OUTSIDE = "From any other machine: ldpflow submit STUDY --address http://HEAD:8265 --out ..."


class ClusterWatch:
    """Thread that looks once a second whether Ray has lost its raylet or its GCS.

    The raylet is Ray's process on each machine, the GCS the control process of the cluster. Without them
    calls to Ray may wait for ever, and without the GCS Ray ends this process after a minute. So the thread
    makes no call to Ray. It looks at processes and sockets.
    """

    def __init__(self, own: bool) -> None:
        self.own = own  # True: this process starts Ray. False: it joins a cluster
        self.lost: str | None = None  # message about the process that has died
        self.silent = False  # whether the GCS does not answer now, so that calls to Ray would wait
        self.raylet = self.gcs = ""  # path of a socket, and host:port; "" before Ray has been joined
        self.silent_since = 0.0
        self.before = ray_processes(os.getpid())  # processes of an earlier Ray
        self.seen: dict[int, str] = {}
        self.noticed = threading.Event()
        self.closed = threading.Event()
        self.thread = threading.Thread(target=self.run, name="watch of Ray", daemon=False)
        self.thread.start()

    def join_node(self) -> None:
        context = ray.get_runtime_context()
        own = context.get_node_id()
        self.raylet = next(node["RayletSocketName"] for node in ray.nodes() if node["NodeID"] == own)
        self.gcs = context.gcs_address

    def check(self) -> None:
        """Raise EngineLost if Ray has lost a process."""
        if self.lost is not None:
            self.noticed.set()
            raise EngineLost(self.lost)

    def close(self) -> None:
        self.noticed.set()
        self.closed.set()
        self.thread.join()

    def run(self) -> None:
        """Look until a process is lost. Call ``when_stuck`` if the caller does not notice soon."""
        while self.lost is None:
            if self.closed.wait(CONNECTION_LOOK_SECONDS):
                return
            self.lost = self.look()
        if not self.noticed.wait(STUCK_SECONDS) and when_stuck is not None:
            when_stuck(self.lost)

    def look(self) -> str | None:
        """Message about a process that has died, or None."""
        if self.own:
            self.seen |= ray_processes(os.getpid())
            for process, name in self.seen.items():
                if process not in self.before and not runs(process):
                    return f"Ray's {name} on this machine has died"
        if self.raylet and not raylet_answers(self.raylet):
            return "Ray's raylet on this machine has died"
        if not self.gcs:
            return None
        host, _, port = self.gcs.rpartition(":")
        now = time.monotonic()
        if unreachable(host.strip("[]"), int(port), ANSWER_SECONDS) is None:
            self.silent = False
        elif not self.silent:
            self.silent, self.silent_since = True, now
        if self.silent and (self.own or now - self.silent_since >= GRACE_SECONDS):
            return f"Ray's gcs_server at {self.gcs} has died, or cannot be reached"
        return None


def ray_processes(parent: int) -> dict[int, str]:
    """Names, by id, of the raylet and the GCS that a process has started. Empty without ``/proc``."""
    found = {}
    for entry in PROCESSES.glob("[0-9]*"):
        name, _, above = process_state(int(entry.name))
        if name in ("raylet", "gcs_server") and above == parent:
            found[int(entry.name)] = name
    return found


def runs(process: int) -> bool:
    return process_state(process)[1] not in "ZX"


def raylet_answers(path: str) -> bool:
    """Whether a process listens on a socket of this machine. A busy process counts as listening."""
    with closing(socket.socket(socket.AF_UNIX)) as trial:
        trial.settimeout(ANSWER_SECONDS)
        return trial.connect_ex(path) not in (errno.ECONNREFUSED, errno.ENOENT)


def unreachable(host: str, port: int, seconds: float = CONNECT_SECONDS) -> str | None:
    """Reason why a host and port do not answer, or None."""
    try:
        socket.create_connection((host, port), seconds).close()
    except OSError as error:
        return error.strerror or str(error)
    return None


def check_address(address: str) -> None:
    """Refuse addresses that a driver cannot use, such as those of Ray Client or of jobs."""
    name, value = "address", address
    if address == "auto":  # for "auto" Ray reads RAY_ADDRESS
        name, value = "RAY_ADDRESS", os.environ.get("RAY_ADDRESS", "")
    if "://" in value:
        raise InputError(name, value, ADDRESSES, f"A sweep cannot connect to it. {FROM_OUTSIDE}")
    host, _, port = address.rpartition(":")
    if host and port.isdigit() and (reason := unreachable(host.strip("[]"), int(port))) is not None:
        # Ray would try for minutes.
        raise InputError("address", address, ADDRESSES, f"{reason}. {FROM_OUTSIDE}")


def local_arguments(options: SweepOptions) -> dict[str, Any]:
    """Arguments of ``ray.init`` for a local Ray. Sets environment variables that Ray reads."""
    if (limit := address_limit()) < (least := ray_addresses()):
        allowed = f"`engine` threads with a limit of {limit / 2**30:.1f} GiB of addresses (ulimit -v)"
        raise InputError("engine", "ray", allowed, f"Ray needs {least / 2**30:.1f} GiB here.")
    os.environ.update(THREADS)
    if options.nice is not None:
        os.environ["RAY_worker_niceness"] = str(options.nice)
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    # Without "local" Ray would join a cluster that runs on this machine.
    return {"address": "local", "num_cpus": options.num_cpus, "include_dashboard": False}


def cluster_arguments(address: str) -> dict[str, Any]:
    """Arguments of ``ray.init`` for a cluster. Sets environment variables that Ray reads."""
    check_address(address)
    for name, value in KEEPALIVE.items():
        os.environ.setdefault(name, value)
    return {"address": address, "runtime_env": {"env_vars": THREADS}}


def connect(options: SweepOptions) -> ClusterWatch:
    """Start a local Ray or join a cluster. Returns a watch of its processes.

    Raises EngineLost if a process of Ray dies while it starts.
    """
    address = options.address
    arguments = local_arguments(options) if address is None else cluster_arguments(address)
    if not options.verbose:
        arguments["logging_level"] = "ERROR"
    before = signal.getsignal(signal.SIGTERM)
    watch = ClusterWatch(own=address is None)
    try:
        ray.init(log_to_driver=options.verbose, **arguments)
        watch.join_node()
    except BaseException as error:
        watch.close()
        if watch.lost is not None:
            raise EngineLost(f"{watch.lost} as it started") from error
        if not isinstance(error, Exception):
            raise
        raise connection_error(error, address) from error
    if before is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, before)  # Ray has replaced the caller's handler
    return watch


def connection_error(error: Exception, address: str | None) -> LdpflowError:
    says = (str(error).splitlines() or [type(error).__name__])[0]
    if address is None:
        return LdpflowError(f"Ray could not be started on this machine: {says}")
    cause = "another version of Ray, or a token that is not in ~/.ray/auth_token here"
    hint = f"{says.rstrip('.')}. Perhaps the cluster there has {cause}. {FROM_OUTSIDE}"
    return InputError("address", address, ADDRESSES, hint)


class AggregatorActor:
    def __init__(self, make: Callable[[], Aggregator]) -> None:
        self.aggregator = make()

    def add(self, batch: Batch, result: BatchResult) -> tuple[list[Published], float, float]:
        """Store the rows of a batch. Returns the published ranges, kernel CPU time and total CPU time."""
        published = store_result(self.aggregator, batch, result)
        return published, result.kernel_seconds, result.seconds

    def flush(self) -> None:
        self.aggregator.publish(everything=True)


def new_aggregator(make: Callable[[], Aggregator]) -> Any:
    """Start an aggregator on the driver's node, so that a folder ``out`` is on the driver's machine.

    Ray does not restart the actor: calls to restarted actors were seen to hang (Ray 2.60), and the driver has
    to send the rows again in any case.
    """
    actor: Any = ray.remote(AggregatorActor)
    here = ray.get_runtime_context().get_node_id()
    return actor.options(
        # It mostly waits for the disk and needs no core.
        num_cpus=0,
        max_restarts=0,
        # The rows of finished batches need not wait for an earlier, longer batch.
        allow_out_of_order_execution=True,
        scheduling_strategy=NodeAffinitySchedulingStrategy(here, soft=False),
    ).remote(make)


@dataclass(frozen=True)
class Sent:
    """A batch whose rows are sent to an aggregator. ``counted``: whether the loop has counted it."""

    batch: Batch
    rows: ray.ObjectRef
    aggregator: Any = None
    counted: bool = False


@lru_cache(maxsize=8)  # all batches of a path have equal arguments
def cell_set_of(cells: tuple[Cell, ...]) -> str:
    return cell_set_hash(cell.columns() for cell in cells)


def run_task(batch: Batch) -> BatchResult:
    pa.set_cpu_count(1)
    return run_batch(batch)


class RayExecutor:
    """Executor on Ray, with the methods of :class:`~ldpflow.engine.loop.ThreadExecutor`.

    The actor calls ``make_aggregator``. ``run`` is the label of the metrics.
    """

    def __init__(
        self, make_aggregator: Callable[[], Aggregator], options: SweepOptions, run: str = ""
    ) -> None:
        self.options = options
        # A cluster may have fewer cores than ``num_cpus`` now, and grow later.
        self.wanted = 1 if options.address is None else options.num_cpus or 1
        self.looked = -LOOK_SECONDS
        self.there = 0
        task: Any = ray.remote(run_task)
        self.task = task.options(max_retries=options.retries, num_cpus=1)
        self.make_aggregator = make_aggregator
        self.aggregator: Any = None  # the first batch starts it
        # Batches whose rows may be in the aggregator's memory alone. The keys are path and cell set, then the
        # first replicate.
        self.unpublished: dict[tuple[str, str], dict[int, Sent]] = {}
        self.deaths = 0  # of aggregators
        self.in_flight: dict[ray.ObjectRef, Sent] = {}
        self.dropped = False
        self.metrics = Metrics(run)
        self.watch = None if ray.is_initialized() else connect(options)

    @property
    def cores(self) -> int:
        """Cores of the cluster, at least the number ``num_cpus`` that the user wants."""
        if self.watch is not None:
            self.watch.check()
        silent = self.watch is not None and self.watch.silent
        if time.monotonic() - self.looked >= LOOK_SECONDS and not silent:
            self.looked = time.monotonic()
            self.there = int(ray.cluster_resources().get("CPU", 0))
        return max(self.there, self.wanted)

    @property
    def capacity(self) -> int:
        """Largest number of batches in flight, by default one that runs and one that waits for each core."""
        return self.options.max_in_flight or 2 * self.cores

    def submit(self, batch: Batch) -> None:
        try:
            rows = self.task.remote(batch)
        except (TypeError, AttributeError, pickle.PicklingError) as error:
            cause = error.__cause__ or error  # without the lines that Ray adds
            text = f"{type(cause).__name__}: {next(iter(str(cause).splitlines()), '')}"
            allowed = "threads or serial for components that cannot be pickled"
            raise InputError("engine", "ray", allowed, text) from error
        self.send(Sent(batch, rows))

    def send(self, sent: Sent) -> None:
        """Let Ray pass rows to the aggregator when they are computed."""
        if self.aggregator is None:
            self.aggregator = new_aggregator(self.make_aggregator)
        sent = replace(sent, aggregator=self.aggregator)
        self.in_flight[sent.aggregator.add.remote(sent.batch, sent.rows)] = sent

    def wait(self, timeout: float) -> list[Outcome]:
        if self.watch is not None:
            self.watch.check()
        self.metrics.in_flight.set(len(self.in_flight))
        waiting = list(self.in_flight)
        done, _ = ray.wait(waiting, num_returns=1, timeout=timeout)
        if done:  # take all answers that have come
            done, _ = ray.wait(waiting, num_returns=len(waiting), timeout=0)
        answers = [self.receive(self.in_flight.pop(answer), answer) for answer in done]
        outcomes = [outcome for outcome in answers if outcome is not None]
        for outcome in outcomes:
            self.metrics.count(outcome)
        return outcomes

    def receive(self, sent: Sent, answer: ray.ObjectRef) -> Outcome | None:
        """Read the answer of an aggregator. None if the rows are sent again or were counted before."""
        try:
            published, kernel_seconds, seconds = ray.get(answer)
        except RayActorError as error:
            if sent.aggregator is self.aggregator:
                # The first call that fails replaces the dead aggregator.
                self.replace_aggregator(error)
            self.send(sent)
            return None
        except RayError as error:
            raise_if_of_store(error)
            return Outcome(sent.batch, error=reason(error))
        again = replace(sent, counted=True)
        if sent.aggregator is self.aggregator:
            place = sent.batch.simulator.key, cell_set_of(sent.batch.cells)
            self.unpublished.setdefault(place, {})[sent.batch.first] = again
        else:  # the aggregator died after its answer: the rows may be lost
            self.send(again)
        for part in published:
            held = self.unpublished.get((part.path_key, part.cell_set), {})
            for first, other in list(held.items()):
                if part.first <= first and other.batch.last <= part.last:
                    del held[first]
        return None if sent.counted else Outcome(sent.batch, None, kernel_seconds, seconds)

    def replace_aggregator(self, error: RayActorError) -> None:
        """Replace a dead aggregator, and send the rows again that the dead one had not published."""
        self.deaths += 1
        if self.deaths > MAX_DEATHS:
            message = f"the process that stores rows died {self.deaths} times: {reason(error)}"
            raise LdpflowError(message) from error
        self.aggregator = None
        lost, self.unpublished = self.unpublished, {}
        for sent in chain.from_iterable(held.values() for held in lost.values()):
            self.send(sent)

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
            if self.flush_aggregator() or self.dropped:
                return failed

    def flush_aggregator(self) -> bool:
        """Publish the rows of the aggregator. False if it has died or takes too long."""
        if self.aggregator is None:
            return True
        try:
            ray.get(self.aggregator.flush.remote(), timeout=FLUSH_SECONDS if self.dropped else None)
        except GetTimeoutError:
            return False
        except RayActorError as error:
            if not self.dropped:
                self.replace_aggregator(error)
            return False
        except RayError as error:
            raise_if_of_store(error)
            raise
        self.unpublished = {}
        return True

    def close(self) -> None:
        if self.watch is not None:
            self.watch.close()
        lost = self.watch is not None and self.watch.lost is not None
        if not lost:
            self.metrics.in_flight.set(0)
        if self.watch is None:  # the caller has started Ray
            return
        # After a loss the command line ends the process, and a shutdown would wait.
        if when_stuck is None if lost else not self.options.keep_ray:
            ray.shutdown()


def raise_if_of_store(error: RayError) -> None:
    if isinstance(error, RayTaskError) and ends_sweep(error.cause):
        raise error.cause from None


def reason(error: RayError) -> str:
    if isinstance(error, RayTaskError):
        return error_text(error.cause)
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


METRICS = {
    "ldpflow_replicates_done": "Finished replicates of paths.",
    "ldpflow_steps_done": "Finished steps of recursions.",
    "ldpflow_batches_done": "Finished batches.",
    "ldpflow_batches_failed": "Batches that failed.",
    "ldpflow_kernel_seconds": "CPU seconds in kernels.",
}


class Metrics:
    """Counters and a gauge of one run for Ray's Prometheus endpoint. Ray adds ``ray_`` before their names.

    A batch is counted once, when its rows are stored, even if Ray has computed it twice. ``run`` is the run
    directory and the value of the label ``run``.
    """

    def __init__(self, run: str) -> None:
        self.counters = {name: Counter(name, text, tag_keys=("run",)) for name, text in METRICS.items()}
        in_flight = "Batches in flight: sent and not stored."
        self.in_flight = Gauge("ldpflow_batches_in_flight", in_flight, tag_keys=("run",))
        for metric in (*self.counters.values(), self.in_flight):
            metric.set_default_tags({"run": run})

    def count(self, outcome: Outcome) -> None:
        batch = outcome.batch
        counts: dict[str, float] = {"batches_failed": 1}
        if outcome.error is None:
            counts = {
                "batches_done": 1,
                "replicates_done": batch.last - batch.first,
                "steps_done": batch.steps,
                "kernel_seconds": outcome.kernel_seconds,
            }
        for name, value in counts.items():
            if value > 0.0:  # Ray refuses to add 0
                self.counters[f"ldpflow_{name}"].inc(value)
