"""Hostile transcripts and settings: one message and exit code 2, in seconds.

Cases of all families come in turn. What is compiled once belongs to none of them: the first one is sound.
"""

from __future__ import annotations

import pytest

from tests.transcripts.hostile import Cases, outcome, text_of, wrong


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("count", "names"),
    [
        (22, ()),
        (60, ("protocols", "bytes_of_protocols")),
        pytest.param(300, (), marks=pytest.mark.slow),
        pytest.param(600, ("protocols", "bytes_of_protocols"), marks=pytest.mark.slow),
    ],
)
def test_hostile_transcripts(tmp_path, count, names):
    cases = Cases(tmp_path)
    sound = outcome(cases.csv("sound", text_of(cases.lines), "rows"))
    assert sound["code"] in (0, 1) and sound["out"].startswith("method,") and not sound["failure"]
    found = cases.all(count, names)
    assert len(found) == count
    assert {case.name: fault for case in found if (fault := wrong(outcome(case), sound["out"]))} == {}
