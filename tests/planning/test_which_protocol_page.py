"""Numbers in docs/which_protocol.md against formulas and against the table of its studies."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pytest

from docs.protocols_table import DATA, PROTOCOLS
from ldpflow.results import protocol_curves as theory

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "which_protocol.md").read_text()


def errors():
    """RMSE over the bound's standard error, by (law, tau, eps, n)."""
    found = {}
    with open(DATA / "errors.csv", newline="") as file:
        for row in csv.DictReader(file):
            key = (row["law"], float(row["tau"]), float(row["eps"]), float(row["n"]))
            found[key] = {name: float(row[name].split()[0]) for name in PROTOCOLS}
    return found


def users_of_one_shot(budgets):
    """Users of the best one-shot protocol over those of the best other one, and over the bound's: ranges."""
    best, bound = [], []
    for (_, _, epsilon, _), row in errors().items():
        if epsilon in budgets:
            one_shot = min(value for name, value in row.items() if name not in ("sgd", "rounds"))
            best.append((one_shot / min(row["sgd"], row["rounds"])) ** 2)
            bound.append(one_shot**2)
    return (min(best), max(best)), (min(bound), max(bound))


@pytest.mark.parametrize(
    ("budgets", "best", "bound"),
    [
        ((0.5, 1.0), (3.5, 15), (7, 34)),
        ((2.0,), (6, 21), None),
        ((4.0,), (3, 12), (3, 13)),
    ],
)
def test_users_of_one_shot_protocols(budgets, best, bound):
    assert len(errors()) == 48
    found, against_bound = users_of_one_shot(budgets)
    assert found == pytest.approx(best, rel=0.05)
    assert f"{best[0]:g} to {best[1]:g} times" in PAGE
    if bound is not None:
        assert against_bound == pytest.approx(bound, rel=0.09)
        assert f"{bound[0]:g} to {bound[1]:g}" in PAGE


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


def test_rounds_that_a_start_takes_to_be_forgotten():
    """From a start three standard deviations off: what the text says is what the table has."""
    rows = re.findall(r"^\| (0\.\d) \| 3 \| (\d) \|(.*)\|$", PAGE, re.MULTILINE)
    found = {(tau, c): [float(value) for value in cells.split("|")] for tau, c, cells in rows}
    assert (found["0.5", "4"][4], found["0.5", "2"][4:]) == (1.10, [2.55, 1.21])
    assert [found["0.9", c][5] for c in ("4", "2")] == [1.29, 2.01]
    for words in ("1.10 after 300 rounds with c = 4", "2.55 with c = 2, which takes 1,000 rounds to 1.21"):
        assert words in " ".join(PAGE.split())
