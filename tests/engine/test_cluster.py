"""The Ray executor: where it connects, and how much it sends out."""

from __future__ import annotations

import os
from unittest import mock

import pytest

from ldpflow.engine import ray_executor
from ldpflow.engine.ray_executor import check_address
from ldpflow.errors import InputError
from ldpflow.options import SweepOptions
from tests.faults.on_ray import on_ray


@pytest.mark.parametrize(
    ("address", "variable", "says"),
    [
        ("ray://127.0.0.1:10001", "", "^address: .*Ray Client's work"),
        ("auto", "ray://127.0.0.1:10001", "^RAY_ADDRESS: .*Ray Client's work"),
        ("http://127.0.0.1:8265", "", "ldpflow submit"),
        ("127.0.0.1:9", "ray://elsewhere:10001", "Connection refused"),
        ("host.invalid:6379", "", "ldpflow submit"),
    ],
)
def test_addresses_that_a_driver_cannot_use(tmp_path, monkeypatch, address, variable, says):
    monkeypatch.setenv("RAY_ADDRESS", variable)
    with pytest.raises(InputError, match=says):
        check_address(address)


def test_batches_in_flight(tmp_path, ray_session):
    def executor(**options):
        return ray_executor.RayExecutor(SweepOptions(**options))

    assert executor().capacity == 4  # of two cores
    assert executor(max_in_flight=3).capacity == 3
    # Cores to ask a cluster for; of a local Ray it has what it was started with.
    assert executor(address="auto", num_cpus=50).capacity == 100
    assert executor(num_cpus=50).capacity == 4
    seen = []
    submit = ray_executor.RayExecutor.submit

    def counting(self, batch):
        submit(self, batch)
        seen.append(len(self.in_flight))

    with mock.patch.object(ray_executor.RayExecutor, "submit", counting):
        on_ray(tmp_path / "run", max_in_flight=2)
    assert len(seen) == 6 and max(seen) == 2


def test_a_machine_that_vanishes_is_noticed_within_a_minute(monkeypatch):
    """Measured with a cut cable: docs/faults_measured.md."""
    monkeypatch.setattr(ray_executor, "check_address", lambda address: None)
    for name in ray_executor.KEEPALIVE:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    ray_executor.cluster_arguments("auto")
    names = ("RAY_grpc_client_keepalive_time_ms", "RAY_grpc_client_keepalive_timeout_ms")
    assert [os.environ[name] for name in names] == ["30000", "30000"]
