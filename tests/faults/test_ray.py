"""The short form of the fault matrix, part two: on Ray."""

from __future__ import annotations

import pytest

from tests.faults import on_ray

LONG = (on_ray.delivered_twice, on_ray.aggregator_killed)


@pytest.mark.parametrize(
    "fault",
    [
        # Without Ray it is fast, and the aggregator is the same; engine/test_cluster.py kills one of two.
        pytest.param(fault, marks=pytest.mark.slow if fault in LONG else ())
        for fault in on_ray.FAULTS
    ],
    ids=lambda fault: fault.__name__,
)
def test_fault(tmp_path, ray_session, fault):
    fault(tmp_path, 0)


@pytest.mark.slow
def test_a_batch_that_kills_every_worker(tmp_path, ray_session):
    on_ray.raising(tmp_path, 1)
