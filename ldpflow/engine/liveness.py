"""Whether the Ray that a sweep uses has lost a process that it cannot do without.

Calls to a Ray without its raylet or GCS wait for minutes or for ever, and after a minute without the GCS
Ray ends the driver. So this looks at the processes, or their sockets, and asks Ray nothing.
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import closing
from typing import Any

import ray

from ldpflow.errors import EngineLost

__all__ = ["Liveness", "abandon"]

EVERY_SECONDS = 1.0
ANSWER_SECONDS = 2.0
GRACE_SECONDS = 15.0  # without a GCS: one that keeps its state elsewhere can be started again
BEFORE_RAY = 10.0  # seconds before Ray itself gives up
WAIT = "RAY_gcs_rpc_server_reconnect_timeout_s"


class Liveness:
    """The processes of a local Ray, or the sockets of a cluster that was joined."""

    def __init__(self) -> None:
        self.node: Any = ray._private.worker._global_node
        self.looked = time.monotonic()
        self.silent: float | None = None  # since when the GCS does not answer

    def check(self) -> bool:
        """Raise if one is lost; False while the GCS does not answer, and calls to Ray would wait."""
        now = time.monotonic()
        if now - self.looked < EVERY_SECONDS:
            return self.silent is None
        own = getattr(self.node, "all_processes", {})
        for kind in ("raylet", "gcs_server"):
            for info in own.get(kind, []):
                if (code := info.process.poll()) is not None:
                    raise EngineLost(f"Ray's {kind} on this machine has died (exit code {code})")
        if not own.get("gcs_server"):
            self.check_joined(now)
        self.looked = time.monotonic()
        return self.silent is None

    def check_joined(self, now: float) -> None:
        """The raylet of this machine, and the head's GCS, of a cluster that others have started."""
        if not raylet_answers(self.node.raylet_socket_name):
            raise EngineLost("Ray's raylet on this machine has died")
        host, _, port = self.node.gcs_address.rpartition(":")
        if gcs_answers(host.strip("[]"), int(port)):
            self.silent = None
            return
        self.silent = now if self.silent is None else self.silent
        if now - self.silent >= grace():
            raise EngineLost(f"Ray's gcs_server at {self.node.gcs_address} has died, or cannot be reached")


def grace() -> float:
    """Seconds that a GCS may be silent: Ray waits 60 s unless it is set to wait longer."""
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


def gcs_answers(host: str, port: int) -> bool:
    """Whether a host takes connections on a port."""
    try:
        socket.create_connection((host, port), ANSWER_SECONDS).close()
    except OSError:
        return False
    return True


def abandon() -> None:
    """End what is left of a local Ray that cannot be asked to end, and forget it."""
    import atexit

    atexit.unregister(ray.shutdown)
    node: Any = ray._private.worker._global_node
    node.kill_all_processes(check_alive=False, allow_graceful=False)
