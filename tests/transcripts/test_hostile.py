"""Hostile transcripts and settings: one message and exit code 2, in seconds and little memory.

Cases of all families come in turn. What is compiled once belongs to none of them: the first one is sound.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.transcripts.hostile import write_cases, wrong

OF_PROTOCOLS = ("protocols", "parts", "bytes_of_protocols")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("count", "names"),
    [
        (22, ()),
        (60, OF_PROTOCOLS),
        pytest.param(300, (), marks=pytest.mark.slow),
        pytest.param(600, OF_PROTOCOLS, marks=pytest.mark.slow),
    ],
)
def test_hostile_transcripts(tmp_path, count, names):
    write_cases(tmp_path, count, names)
    command = [sys.executable, "-m", "tests.transcripts.hostile", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0 and len(found) == count + 1, done.stderr[-2000:]
    sound = found[0]
    assert sound["code"] in (0, 1) and sound["out"].startswith("method,") and not sound["failure"]
    faults = {case["name"]: fault for case in found[1:] if (fault := wrong(case, sound["out"]))}
    assert faults == {}
