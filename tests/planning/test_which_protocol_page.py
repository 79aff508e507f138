"""Numbers in docs/which_protocol.md against formulas and against the table of its studies."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from ldpflow.results import protocol_curves as theory

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "which_protocol.md").read_text()


def test_two_answers_with_half_the_budget():
    costs = {
        tau: [
            theory.repeated_bit_variance(tau, epsilon, 2) / theory.repeated_bit_variance(tau, epsilon, 1)
            for epsilon in (1.0, 2.0, 4.0)
        ]
        for tau in (0.5, 0.9)
    }
    assert costs[0.5] == pytest.approx([1.9, 1.65, 1.27], abs=0.015)
    assert costs[0.9] == pytest.approx([2.0, 2.0, 1.66], abs=0.035)
    assert "1.9, 1.65 and 1.27 times" in PAGE and "2.0, 2.0 and 1.66 times" in PAGE


def test_variances_of_cells():
    """The column of ``cells`` in the table over Q and eps, to its last digit."""
    rows = re.findall(r"^\| (\d) \| ([\d./ ]+) \| \d \| ([\d./ ]+) \| ([\d./ ]+) \|$", PAGE, re.MULTILINE)
    assert [int(row[0]) for row in rows] == [2, 3, 4, 9]
    for count, budgets, cells, best in rows:
        taus = [(q + 1) / (int(count) + 1) for q in range(int(count))]
        for epsilon, shown, least in zip(
            *(map(float, text.split("/")) for text in (budgets, cells, best)), strict=True
        ):
            covariance = theory.cells_covariance(taus, epsilon)
            mean = np.mean(
                [covariance[q][q] / theory.bit_variance(tau, epsilon) for q, tau in enumerate(taus)]
            )
            assert shown == pytest.approx(mean, abs=0.0051)
            assert least <= shown, "a report of cells is one of the channels"
