"""The fault matrix, part three: faults that need a Ray of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [["driver", "20", "3"], ["nodes", "2"], ["lost", "4"], ["early", "4"], ["joined", "2"], ["shm"]],
    ids=lambda a: a[0],
)
def test_fault(tmp_path, arguments):
    what, *numbers = arguments
    if what == "shm" and subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
        pytest.skip("a mount namespace of its own is not permitted here")
    command = [sys.executable, "-m", "tests.faults.ray_scripts", what, str(tmp_path), *numbers]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=2400)
    assert done.returncode == 0, done.stdout + done.stderr
