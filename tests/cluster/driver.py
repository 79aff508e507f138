"""The driver of the tests with several nodes: ``python -m tests.cluster.driver GCS RUN COUNTS STUDY``.

Batches take two seconds each and note where they ran.
"""

from __future__ import annotations

import sys
from pathlib import Path
from unittest import mock

from ldpflow.engine.run import run_study
from ldpflow.study import load_study
from tests.faults.on_ray import counted

SECONDS = 2.0


def main(gcs: str, run: str, counts: str, study: str) -> None:
    small = mock.patch("ldpflow.engine.batching.TARGET_SECONDS", 1e-9)
    with counted(Path(counts), {}, seconds=SECONDS), small:
        result = run_study(load_study(study), run, address=gcs)
    assert not result.failed_batches, result.failed_batches
    print(f"{result.finished_replicates} replicates in {result.wall_seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
