"""The short form of the fault matrix, part one: no Ray."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults import on_disk

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("kills", [4, pytest.param(50, marks=pytest.mark.slow)])
def test_the_driver_is_killed_at_many_moments(tmp_path, kills):
    command = [sys.executable, "-m", "tests.faults.serial_kills", str(tmp_path), str(kills), "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split()[0]) >= kills


@pytest.mark.parametrize("trial", range(4))
def test_damaged_part(tmp_path, trial):
    on_disk.damaged_part(tmp_path, trial)


# The second trial of these differs from the first in a number alone.
ALIKE = (on_disk.clock_backwards, on_disk.diverging, on_disk.clock_jumps, on_disk.damaged_trajectory)


@pytest.mark.parametrize(
    ("fault", "trial"),
    [
        pytest.param(fault, trial, marks=pytest.mark.slow if trial and fault in ALIKE else ())
        for fault in (
            on_disk.full_disk,
            on_disk.read_only,
            on_disk.clock_backwards,
            on_disk.diverging,
            on_disk.delivered_twice,
            on_disk.clock_jumps,
            on_disk.damaged_trajectory,
        )
        for trial in range(2)
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_fault(tmp_path, fault, trial):
    fault(tmp_path, trial)
