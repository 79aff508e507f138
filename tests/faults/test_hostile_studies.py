"""Hostile studies: an exit code and one message, soon, in bounded memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.hostile_studies import COUNT, wrong
from tests.faults.study import serial, study

ROOT = Path(__file__).parents[2]
BLOCK = 20


def answers(tmp_path: Path, first: int, end: int) -> list[dict]:
    """Answers of a process that tries these studies."""
    serial(tmp_path / "run", study(replicates=8))
    command = [sys.executable, "-m", "tests.faults.hostile_studies", tmp_path, str(first), str(end)]
    done = subprocess.run([*map(str, command)], cwd=ROOT, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.system
@pytest.mark.parametrize(
    "first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in range(BLOCK, COUNT, BLOCK))]
)
def test_a_hostile_study_has_an_answer(tmp_path, first):
    found = answers(tmp_path, first, min(first + BLOCK, COUNT))
    assert len(found) == 3 * BLOCK
    assert [answer for answer in found if wrong(answer)] == []
    assert any(answer["code"] == 2 for answer in found)
    assert not list(tmp_path.rglob("*.mark"))
