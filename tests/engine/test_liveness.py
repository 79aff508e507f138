"""A sweep notices that the Ray that it uses has lost a process, without asking Ray."""

from __future__ import annotations

import socket
from types import SimpleNamespace

import pytest

from ldpflow.engine import liveness
from ldpflow.engine.liveness import WAIT, Liveness
from ldpflow.errors import EngineLost


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass when a test says so."""
    now = SimpleNamespace(seconds=100.0)
    monkeypatch.setattr(liveness.time, "monotonic", lambda: now.seconds)
    return now


def watching(node) -> Liveness:
    found = Liveness()
    found.node = node
    return found


def own(**processes):
    """A node with processes of its own; True is one that is alive."""
    return SimpleNamespace(
        all_processes={
            kind: [SimpleNamespace(process=SimpleNamespace(poll=lambda alive=alive: None if alive else -9))]
            for kind, alive in processes.items()
        }
    )


@pytest.mark.parametrize("dead", ["raylet", "gcs_server"])
def test_a_process_of_ones_own_that_has_died(clock, dead):
    node = own(raylet=True, gcs_server=True)
    alive = watching(node)
    clock.seconds += 2
    assert alive.check()
    node.all_processes[dead][0].process.poll = lambda: -9
    clock.seconds += 2
    with pytest.raises(EngineLost, match=rf"{dead} on this machine has died \(exit code -9\)"):
        alive.check()


def listening(address, family=socket.AF_INET):
    server = socket.socket(family)
    server.bind(address)
    server.listen()
    return server


@pytest.fixture
def joined(tmp_path):
    """A node of a cluster that others have started: sockets alone."""
    raylet = listening(str(tmp_path / "raylet"), socket.AF_UNIX)
    gcs = listening(("127.0.0.1", 0))
    node = SimpleNamespace(
        all_processes={},
        raylet_socket_name=str(tmp_path / "raylet"),
        gcs_address=f"127.0.0.1:{gcs.getsockname()[1]}",
    )
    yield node, raylet, gcs
    raylet.close()
    gcs.close()


def test_the_raylet_of_a_joined_cluster(clock, joined):
    node, raylet, _ = joined
    alive = watching(node)
    clock.seconds += 2
    assert alive.check()
    raylet.close()
    assert alive.check(), "it is looked at once a second"
    clock.seconds += 2
    with pytest.raises(EngineLost, match="raylet on this machine has died"):
        alive.check()


def test_the_gcs_of_a_joined_cluster_may_come_back(clock, joined, monkeypatch):
    node, _, gcs = joined
    monkeypatch.delenv(WAIT, raising=False)
    alive = watching(node)
    port = gcs.getsockname()[1]
    gcs.close()
    clock.seconds += 2
    assert not alive.check(), "calls to Ray would wait"
    assert not alive.check()
    clock.seconds += 10
    with listening(("127.0.0.1", port)):
        assert alive.check()
    for seconds in (2, 14.9):
        clock.seconds += seconds
        assert not alive.check()
    clock.seconds += 2
    with pytest.raises(EngineLost, match=rf"gcs_server at 127.0.0.1:{port} has died"):
        alive.check()


def test_a_gcs_that_ray_waits_longer_for_is_waited_for(clock, joined, monkeypatch):
    node, _, gcs = joined
    monkeypatch.setenv(WAIT, "600")
    alive = watching(node)
    gcs.close()
    for _ in range(58):
        clock.seconds += 10
        assert not alive.check()
    clock.seconds += 30
    with pytest.raises(EngineLost):
        alive.check()
