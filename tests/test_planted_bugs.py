"""The lines that a planted bug replaces are in the source. `python -m tests.planted_bugs` runs the tests."""

from pathlib import Path

import pytest

import ldpflow
from tests.planted_bugs import BUGS, ROOT

SOURCES = Path(ldpflow.__file__).parents[1]


@pytest.mark.parametrize("bug", BUGS, ids=[bug["what"] for bug in BUGS])
def test_the_place_of_a_bug_is_there_once(bug):
    assert (SOURCES / bug["file"]).read_text().count(bug["old"]) == 1
    assert bug["new"] != bug["old"]
    assert all((ROOT / path).exists() for path in bug["tests"].split())
