"""The model of the scheduler, where arithmetic tells what it must give."""

from __future__ import annotations

import pytest

from benchmarks.scheduler import Parts, simulate

EVEN = {"start": 0.0, "spread": 0.0}


@pytest.mark.parametrize(
    ("parts", "cores", "aggregators", "per_second"),
    [
        (Parts(driver=1e-6, aggregator=1e-6, **EVEN), 10, 1, 10.0),  # the cores
        (Parts(driver=0.02, aggregator=1e-6, **EVEN), 1000, 1, 50.0),  # the driver
        (Parts(driver=1e-6, aggregator=0.05, **EVEN), 1000, 1, 20.0),  # the aggregator
        (Parts(driver=1e-6, aggregator=0.05, **EVEN), 1000, 4, 80.0),  # four of them
    ],
)
def test_the_slowest_part_sets_the_pace(parts, cores, aggregators, per_second):
    short, long = (simulate(cores, 1.0, n, parts, aggregators) for n in (4000, 8000))
    assert 4000 / (long.seconds - short.seconds) == pytest.approx(per_second, rel=0.02)
    assert long.work == pytest.approx(8000.0)


def test_batches_in_flight_bound_what_waits():
    parts = Parts(driver=1e-6, aggregator=0.05, **EVEN)
    assert simulate(100, 0.1, 5000, parts).most_waiting <= 200
    assert simulate(100, 0.1, 5000, parts, in_flight=7).most_waiting <= 7
