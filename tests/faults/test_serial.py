"""The fault matrix, part one: no Ray."""

from __future__ import annotations

import pytest

from tests.faults import on_disk
from tests.faults.study import trials


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("fault", "trial"),
    trials(
        clock_jumps=(2, 8),
        full_disk=(2, 8),
        read_only=(2, 4),
        diverging=(1, 4),
    ),
)
def test_fault(tmp_path, fault, trial):
    getattr(on_disk, fault)(tmp_path, trial)
