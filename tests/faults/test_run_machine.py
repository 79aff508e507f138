"""The state machine over a run, on disk and on an object store: fixed examples; run_machine explores."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import Phase, settings

from tests.faults.killed_sweeps import Forks
from tests.faults.object_store import BUCKET, bucket
from tests.faults.run_machine import PROFILE, explore, machine, tables


def run(place: str, examples: int) -> None:
    forks = Forks(tables())
    fixed = settings(PROFILE, max_examples=examples, derandomize=True, phases=[Phase.generate])
    try:
        explore(machine(place, forks), settings=fixed)
    finally:
        forks.close()


def test_a_bit_that_is_flipped_twice_is_no_damage(tmp_path):
    forks = Forks(tables())
    state = machine(str(tmp_path), forks)()
    state.begin()
    state.sweep(tables([0.5], [1.0], [40], ["SN"], 8), "serial")
    for _ in range(2):
        state.damage(SimpleNamespace(draw=lambda strategy: 0), "flip")
        assert len(state.lost) == 8 and not state.present
    forks.close()


def test_on_disk(tmp_path):
    run(str(tmp_path), 50)


@pytest.mark.system
def test_on_an_object_store():
    with bucket():
        run(f"s3://{BUCKET}", 10)
