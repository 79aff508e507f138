"""The state machine over a run, on disk and on an object store: fixed examples; run_machine explores."""

from __future__ import annotations

import pytest
from hypothesis import Phase, settings

from tests.faults.killed_sweeps import Forks
from tests.faults.object_store import BUCKET, bucket
from tests.faults.run_machine import PROFILE, explore, machine, tables


def run(place: str, examples: int) -> None:
    forks = Forks(tables())
    # Shorter than those of the exploration: a step of a long example takes more time than one of a short one.
    fixed = settings(
        PROFILE, max_examples=examples, derandomize=True, phases=[Phase.generate], stateful_step_count=6
    )
    try:
        explore(machine(place, forks), settings=fixed)
    finally:
        forks.close()


def test_on_disk(tmp_path):
    run(str(tmp_path), 50)


@pytest.mark.system
def test_on_an_object_store():
    with bucket():
        run(f"s3://{BUCKET}", 10)
