"""The state machine over a run, on disk and on an object store: fixed examples; run_machine explores."""

import pytest
from hypothesis import Phase, seed, settings

from tests.faults.object_store import BUCKET, bucket
from tests.faults.run_machine import PROFILE, explore, machine


def run(place: str, examples: int) -> None:
    # Shorter than those of the exploration: a step of a long example takes more time than one of a short one.
    fixed = {"max_examples": examples, "database": None, "stateful_step_count": 5}
    explore(seed(1)(machine(place)), settings=settings(PROFILE, phases=[Phase.generate], **fixed))


def test_on_disk(tmp_path):
    run(str(tmp_path), 50)


@pytest.mark.system
def test_on_an_object_store():
    with bucket():
        run(f"s3://{BUCKET}", 10)
