"""Bits that flip in the files of a run."""

from __future__ import annotations

import pytest

from tests.faults.flips import flipped_bits


@pytest.mark.parametrize("trials", [20, pytest.param(600, marks=pytest.mark.slow)])
def test_no_flipped_bit_changes_what_is_printed_with_exit_code_0(tmp_path, trials):
    noticed = flipped_bits(tmp_path, trials)
    assert noticed["noticed"] > trials / 2
