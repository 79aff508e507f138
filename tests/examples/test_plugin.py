"""The example plug-in's tests run beside a plain installation, without the plug-ins of our own tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.system
def test_its_tests_need_pytest_alone():
    example = ROOT / "examples" / "plugin"
    paths = os.pathsep.join([str(ROOT), str(example)])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:xdist", "-p", "no:cacheprovider", "-q",
         "examples/plugin/tests", "-k", "literal or true_values"],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths}, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
