"""The Ray executor: where it connects, how much it sends out, several aggregators."""

from __future__ import annotations

from functools import partial
from unittest import mock

import pytest

from ldpflow.engine import ray_executor
from ldpflow.engine.ray_executor import check_address
from ldpflow.engine.run import run_study
from ldpflow.errors import InputError
from ldpflow.options import SweepOptions
from ldpflow.simulators.rows import Batch
from ldpflow.store.run_store import Aggregator
from tests.faults.on_ray import on_ray
from tests.faults.study import serial, study, whole


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


def test_an_error_of_pickling_may_have_no_text():
    plan = study().plans()[0]
    refused = ray_executor.pickling_error(Batch(plan.simulator, 1, 0, 8, plan.cells), TypeError())
    assert str(refused).endswith("for a OnePass, which cannot be pickled. TypeError:")


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


def test_several_aggregators(tmp_path, ray_session):
    """Paths go to one each; one dies with rows that it had not published."""
    import ray

    expected = serial(tmp_path / "expected")
    executors, statistics = [], []
    start = ray_executor.RayExecutor.__init__

    def noting(self, *arguments, **options):
        start(self, *arguments, **options)
        executors.append(self)

    def note(event):
        if event.statistics is not None:
            statistics.append(set(event.statistics["path"].to_pylist()))
        if event.done_batches == 4:
            ray.kill(executors[0].shards[-1].aggregator)

    with (
        mock.patch.object(ray_executor, "CORES_PER_AGGREGATOR", 1),
        mock.patch.object(ray_executor.RayExecutor, "__init__", noting),
        mock.patch("ldpflow.engine.ray_executor.STATISTICS_SECONDS", 0.0),
        mock.patch("ldpflow.engine.batching.TARGET_SECONDS", 1e-9),
    ):
        result = run_study(study(), tmp_path / "run", engine="ray", on_event=note)
    assert not result.failed_batches
    assert executors[0].most_shards == 3 and len(executors[0].shards) == 2
    assert max(map(len, statistics)) == 2, "of both paths, which two aggregators have"
    assert executors[0].deaths == 1
    whole(tmp_path / "run", expected)
