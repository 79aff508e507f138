"""The fault matrix, part two: on a Ray that is there."""

from __future__ import annotations

import pytest

from tests.faults import on_ray
from tests.faults.study import trials


@pytest.mark.parametrize(
    ("fault", "trial"),
    # engine/test_cluster.py kills one of two aggregators.
    trials(worker_killed=(1, 3), raising=(1, 2), stopped=(1, 2)),
)
def test_fault(tmp_path, ray_session, fault, trial):
    getattr(on_ray, fault)(tmp_path, trial)
