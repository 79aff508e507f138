"""A sweep notices that the Ray that it uses has lost a process, without asking Ray."""

import os
import shutil
import signal
import socket
import subprocess
import time
from types import SimpleNamespace

import pytest

from ldpflow.engine import ray_executor as connection
from ldpflow.engine.ray_executor import ClusterWatch, ray_processes, runs
from ldpflow.errors import EngineLost


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(seconds=100.0)
    monkeypatch.setattr(connection.time, "monotonic", lambda: now.seconds)
    return now


@pytest.fixture
def watching(monkeypatch):
    """Makes a watch that looks only when a test does."""
    monkeypatch.setattr(ClusterWatch, "run", lambda self: None)
    return ClusterWatch


@pytest.fixture
def fake(tmp_path):
    """Start a process of this one that has the name of one of Ray's."""
    started = []

    def start(name):
        shutil.copy(shutil.which("sleep"), tmp_path / name)
        started.append(subprocess.Popen([tmp_path / name, "1000"]))
        limit = time.monotonic() + 30
        while started[-1].pid not in ray_processes(os.getpid()) and time.monotonic() < limit:
            time.sleep(0.01)
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("dead", "seen", "reaped"),
    [("raylet", True, False), ("gcs_server", True, True), ("gcs_server", False, False)],
)
def test_a_process_of_ones_own_that_has_died(watching, fake, dead, seen, reaped):
    watch = watching(own=True)
    assert watch.look() is None, "nothing has been started yet"
    processes = {name: fake(name) for name in ("raylet", "gcs_server")}
    assert not seen or watch.look() is None
    processes[dead].send_signal(signal.SIGKILL)
    limit = time.monotonic() + 30
    while runs(processes[dead].pid) and time.monotonic() < limit:
        time.sleep(0.01)
    if reaped:
        processes[dead].wait()
    lost = watch.look()
    assert lost == f"Ray's {dead} on this machine has died"
    assert watching(own=True).look() is None, "it belongs to an earlier Ray"


@pytest.mark.parametrize("noticed", [False, True])
def test_a_call_that_does_not_return_after_a_loss(monkeypatch, noticed):
    said, lost = [], []
    monkeypatch.setattr(connection, "CONNECTION_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(connection, "STUCK_SECONDS", 30.0 if noticed else 0.1)
    monkeypatch.setattr(connection, "when_stuck", said.append)
    monkeypatch.setattr(ClusterWatch, "look", lambda self: lost[0] if lost else None)
    watch = ClusterWatch(own=True)
    watch.check()
    lost.append("Ray's raylet on this machine has died")
    if not noticed:
        watch.thread.join(30)
    with pytest.raises(EngineLost, match="raylet on this machine has died"):
        while True:
            watch.check()
    watch.close()
    assert said == ([] if noticed else lost)
    assert not watch.thread.daemon and not watch.thread.is_alive()


def listening(address, family=socket.AF_INET):
    server = socket.socket(family)
    server.bind(address)
    server.listen()
    return server


@pytest.fixture
def joined(tmp_path, watching):
    """A node of a cluster that others have started: sockets alone."""
    raylet = listening(str(tmp_path / "raylet"), socket.AF_UNIX)
    gcs = listening(("127.0.0.1", 0))
    watch = watching(own=False)
    watch.raylet, watch.gcs = str(tmp_path / "raylet"), f"127.0.0.1:{gcs.getsockname()[1]}"
    assert watch.look() is None
    yield watch, raylet, gcs
    raylet.close()
    gcs.close()


def test_processes_of_a_ray_that_was_joined(joined):
    watch, raylet, gcs = joined
    raylet.close()
    assert watch.look() == "Ray's raylet on this machine has died"
    watch.raylet, watch.own = "", True  # a Ray of one's own, whose GCS does not come back
    gcs.close()
    assert "gcs_server" in watch.look()


def test_the_gcs_of_a_joined_cluster_may_come_back(clock, joined):
    watch, _, gcs = joined
    port = gcs.getsockname()[1]
    gcs.close()
    assert watch.look() is None and watch.silent, "calls to Ray would wait"
    clock.seconds += 10
    with listening(("127.0.0.1", port)):
        assert watch.look() is None and not watch.silent
    for seconds in (2, 14.9):
        clock.seconds += seconds
        assert watch.look() is None and watch.silent
    clock.seconds += 2
    assert watch.look() == f"Ray's gcs_server at 127.0.0.1:{port} has died, or cannot be reached"
