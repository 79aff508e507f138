"""Path keys, cell ids and checkpoints of the bundled studies are what they were."""

from __future__ import annotations

import json

import pytest

from tests.golden import adapter
from tests.golden.make import HERE, key_results

STORED = json.loads((HERE / "keys.json").read_text())


@pytest.mark.parametrize("name", STORED)
def test_keys_of_a_bundled_study(name):
    assert key_results(adapter.plans_of(adapter.bundled_studies()[name])) == STORED[name]


def test_the_bundled_studies_of_today_are_all_there():
    assert STORED.keys() == adapter.bundled_studies().keys()
