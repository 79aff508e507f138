"""The fault matrix, part one: no Ray."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults import on_disk
from tests.faults.study import trials

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("kills", [4, pytest.param(120, marks=pytest.mark.slow)])
def test_the_driver_is_killed_at_many_moments(tmp_path, kills):
    command = [sys.executable, "-m", "tests.faults.serial_kills", str(tmp_path), str(kills), "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split()[0]) >= kills


@pytest.mark.parametrize(
    ("fault", "trial"),
    trials(
        damaged_part=(4, 24),
        clock_backwards=(1, 4),
        clock_jumps=(1, 4),
        full_disk=(2, 8),
        read_only=(2, 4),
        diverging=(1, 4),
        delivered_twice=(2, 4),
    ),
)
def test_fault(tmp_path, fault, trial):
    getattr(on_disk, fault)(tmp_path, trial)
