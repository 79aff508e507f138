"""Starting a Ray on this machine, or joining a cluster as one of its drivers."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from ldpflow.engine.choice import ray_addresses
from ldpflow.errors import EngineLost, InputError, LdpflowError, address_limit
from ldpflow.options import SweepOptions

# One thread per task: the replicates are the parallelism.
THREADS = {
    name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
}

# A machine that is gone without a word is noticed within a minute; Ray's own settings take seven.
KEEPALIVE = {
    "RAY_grpc_client_keepalive_time_ms": "30000",
    "RAY_grpc_client_keepalive_timeout_ms": "30000",
}

CONNECT_SECONDS = 10.0
LOOK_SECONDS = 1.0
ANSWER_SECONDS = 2.0
GRACE_SECONDS = 15.0  # without a GCS of others: one that keeps its state elsewhere can be started again
BEFORE_RAY = 10.0  # seconds before Ray itself gives up
WAIT = "RAY_gcs_rpc_server_reconnect_timeout_s"
STUCK_SECONDS = 3.0  # how long a call to Ray may take to return after a loss; Ray itself warns after 5

when_stuck: Callable[[str], None] | None = None
"""Called with a message where a call to a lost Ray does not return; the command line ends the process."""

ADDRESSES = "auto or HOST:6379, on a machine of the cluster"
FROM_OUTSIDE = "From any other machine: ldpflow submit STUDY --address http://HEAD:8265 --out ..."


class Watch:
    """Thread that looks once a second whether a Ray has lost its raylet or its GCS.

    Calls to such a Ray wait for minutes or for ever, and after a minute without the GCS Ray ends the process.
    So this asks Ray nothing: it looks at the processes that this one has started, or at sockets.

    Parameters
    ----------
    own : bool
        Whether this process starts the Ray; else it joins one that others have started.

    Attributes
    ----------
    lost : str or None
        What has died.
    silent : bool
        Whether the GCS of a cluster does not answer just now, and calls to Ray would wait.
    """

    def __init__(self, own: bool) -> None:
        self.own = own
        self.lost: str | None = None
        self.silent = False
        self.raylet = self.gcs = ""  # sockets, known once Ray has been joined
        self.silent_since = 0.0
        self.before = ray_processes(os.getpid())  # of a Ray that has been shut down
        self.seen: dict[int, str] = {}
        self.noticed = threading.Event()
        self.closed = threading.Event()
        self.thread = threading.Thread(target=self.run, name="watch of Ray", daemon=False)
        self.thread.start()

    def join_node(self) -> None:
        """Ask a Ray that has been joined where its processes listen."""
        import ray

        context = ray.get_runtime_context()
        own = context.get_node_id()
        self.raylet = next(node["RayletSocketName"] for node in ray.nodes() if node["NodeID"] == own)
        self.gcs = context.gcs_address

    def check(self) -> None:
        """Raise if Ray has lost a process.

        Raises
        ------
        EngineLost
        """
        if self.lost is not None:
            self.noticed.set()
            raise EngineLost(self.lost)

    def close(self) -> None:
        """End the thread."""
        self.noticed.set()
        self.closed.set()
        self.thread.join()

    def run(self) -> None:
        """Look until something is lost; then wait for the caller to notice it."""
        while self.lost is None:
            if self.closed.wait(LOOK_SECONDS):
                return
            self.lost = self.look()
        if not self.noticed.wait(STUCK_SECONDS) and when_stuck is not None:
            when_stuck(self.lost)

    def look(self) -> str | None:
        """What has died, or None."""
        if self.own:
            here = ray_processes(os.getpid())
            for process, name in (self.seen | here).items():
                if process not in self.before and not runs(process):
                    return f"Ray's {name} on this machine has died"
            self.seen |= here
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
        if self.silent and (self.own or now - self.silent_since >= grace()):
            return f"Ray's gcs_server at {self.gcs} has died, or cannot be reached"
        return None


def ray_processes(parent: int) -> dict[int, str]:
    """Names of the raylet and the GCS that a process has started, dead or alive; empty without ``/proc``."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        name, _, above = state_of(int(entry.name))
        if name in ("raylet", "gcs_server") and above == parent:
            found[int(entry.name)] = name
    return found


def state_of(process: int) -> tuple[str, str, int]:
    """Name, state (Z: dead, its parent has not asked yet) and parent of a process."""
    try:
        head, _, rest = Path(f"/proc/{process}/stat").read_text(errors="replace").rpartition(")")
    except OSError:
        return "", "X", 0
    state, parent, *_ = rest.split()
    return head.partition("(")[2], state, int(parent)


def runs(process: int) -> bool:
    """Whether a process is alive."""
    return state_of(process)[1] not in "ZX"


def grace() -> float:
    """Seconds that the GCS of a cluster may be silent: Ray waits 60 s unless it is set to wait longer."""
    try:
        return max(GRACE_SECONDS, float(os.environ[WAIT]) - BEFORE_RAY)
    except (KeyError, ValueError):
        return GRACE_SECONDS


def raylet_answers(path: str) -> bool:
    """Whether a process listens on a socket of this machine; a busy one counts as listening."""
    with closing(socket.socket(socket.AF_UNIX)) as trial:
        trial.settimeout(ANSWER_SECONDS)
        try:
            trial.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True
    return True


def connect(options: SweepOptions) -> Watch:
    """Start a Ray that ends with this process, or join the one at an address; a watch of its processes.

    Raises
    ------
    InputError
        Naming ``address``, if there is no such cluster, its Ray or Python is another version, its
        token is another one, or the address is one of Ray Client. A Ray Client's connection is the
        life of all its work, and Ray advises jobs for work that lasts.
    EngineLost
        If a process of the Ray dies as it starts.
    """
    import ray
    from ray.exceptions import AuthenticationError

    address = options.address
    logging: dict[str, Any] = {"log_to_driver": options.verbose}
    if not options.verbose:
        logging["logging_level"] = "ERROR"
    if address is None:
        if (limit := address_limit()) < (least := ray_addresses()):
            allowed = f"`engine` threads with a limit of {limit / 2**30:.1f} GiB of addresses (ulimit -v)"
            raise InputError("engine", "ray", allowed, f"Ray needs {least / 2**30:.1f} GiB here.")
        os.environ.update(THREADS)
        if options.nice is not None:
            os.environ["RAY_worker_niceness"] = str(options.nice)
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        # Without "local" Ray would join whatever cluster this machine happens to run.
        chosen: dict[str, Any] = {
            "address": "local",
            "num_cpus": options.num_cpus,
            "include_dashboard": False,
        }
    else:
        check_address(address)
        for name, value in KEEPALIVE.items():
            os.environ.setdefault(name, value)
        chosen = {"address": address, "runtime_env": {"env_vars": THREADS}}
    before = signal.getsignal(signal.SIGTERM)
    watch = Watch(own=address is None)
    try:
        ray.init(**chosen, **logging)
        watch.join_node()
    except BaseException as error:
        watch.close()
        if watch.lost is not None:
            raise EngineLost(f"{watch.lost} as it started") from error
        if isinstance(error, AuthenticationError):
            raise InputError(
                "address",
                address,
                "a cluster that knows this machine's token",
                f"{str(error).splitlines()[0]} Set RAY_AUTH_TOKEN_PATH to the file with the cluster's "
                "token; a machine of the cluster has it in ~/.ray/auth_token.",
            ) from error
        if not isinstance(error, Exception):
            raise
        says = (str(error).splitlines() or [type(error).__name__])[0]
        if address is None:
            raise LdpflowError(f"Ray could not be started on this machine: {says}") from error
        hint = f"{says}. If it is there, its token or version may be another one. {FROM_OUTSIDE}"
        raise InputError("address", address, ADDRESSES, hint) from error
    if before is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, before)  # Ray puts its own in the place of the caller's
    return watch


def check_address(address: str) -> None:
    """Refuse addresses that a driver cannot use."""
    for name, value in (("address", address), ("RAY_ADDRESS", os.environ.get("RAY_ADDRESS", ""))):
        if name == "RAY_ADDRESS" and address != "auto":
            continue  # Ray reads it for auto alone
        if value.startswith("ray://"):
            why = "A Ray Client's work ends when its connection does."
        elif "://" in value:
            why = "That is not where drivers connect."
        else:
            continue
        raise InputError(name, value, ADDRESSES, f"{why} {FROM_OUTSIDE}")
    host, _, port = address.rpartition(":")
    if host and port.isdigit() and (reason := unreachable(host.strip("[]"), int(port))) is not None:
        # Ray itself would try for minutes.
        raise InputError("address", address, ADDRESSES, f"{reason}. {FROM_OUTSIDE}")


def unreachable(host: str, port: int, seconds: float = CONNECT_SECONDS) -> str | None:
    """Reason why a host and port do not answer, or None."""
    try:
        socket.create_connection((host, port), seconds).close()
    except OSError as error:
        return error.strerror or str(error)
    return None
