"""Files of a run that are damaged, exchanged or forged."""

from __future__ import annotations

import pytest

from tests.faults.mutations import mutated


@pytest.mark.thorough
@pytest.mark.parametrize(("trials", "seed"), [(7, 1), pytest.param(700, 18, marks=pytest.mark.slow)])
def test_no_mutation_changes_what_is_printed_or_written_with_exit_code_0(tmp_path, trials, seed):
    found = mutated(tmp_path, trials, seed)
    assert found["mutations noticed"] > trials / 2
