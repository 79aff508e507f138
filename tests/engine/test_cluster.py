"""The Ray executor: where it connects, how much it sends out, an aggregator that dies."""

from functools import partial
from unittest import mock

import pytest

from ldpflow.engine import ray_executor
from ldpflow.engine.ray_executor import check_address
from ldpflow.errors import InputError
from ldpflow.options import SweepOptions
from ldpflow.store.run_store import Aggregator
from tests.faults.on_ray import on_ray
from tests.faults.study import whole


@pytest.mark.parametrize(
    ("address", "variable", "says"),
    [
        ("ray://127.0.0.1:10001", "", "^address: .*ldpflow submit"),
        ("auto", "ray://127.0.0.1:10001", "^RAY_ADDRESS: .*ldpflow submit"),
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
        return ray_executor.RayExecutor(partial(Aggregator, str(tmp_path)), SweepOptions(**options))

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


def test_an_aggregator_dies_with_rows_that_it_had_not_published(tmp_path, ray_session):
    import ray

    executors = []
    start = ray_executor.RayExecutor.__init__

    def noting(self, *arguments, **options):
        start(self, *arguments, **options)
        executors.append(self)

    def note(event):
        if event.done_batches == 4:
            ray.kill(executors[0].aggregator)

    with mock.patch.object(ray_executor.RayExecutor, "__init__", noting):
        result = on_ray(tmp_path / "run", on_event=note)
    assert not result.failed_batches and executors[0].deaths == 1
    whole(tmp_path / "run")
