"""docs/ties.md: its studies read, and its table has every quantile and method of them."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

import ldpflow as lf
from docs import ties_table

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "ties.md").read_text()


@pytest.fixture
def clone(monkeypatch):
    monkeypatch.chdir(ROOT)


@pytest.mark.thorough
def test_the_commands_of_the_page_make_its_table(clone, tmp_path, monkeypatch):
    """Ten replicates at small n: the rows and columns of the stored table, and finite numbers."""
    commands = re.findall(r"^    ldpflow sweep (\S+) --out (\S+)$", PAGE, re.MULTILINE)
    assert f"python docs/ties_table.py {' '.join(run for _, run in commands)}" in PAGE
    runs = []
    for number, (file, _) in enumerate(commands):
        study = lf.Study.load(file)
        small = study.replace(n=[4096, 8192], replicates=10)
        lf.sweep(small, tmp_path / str(number), executor="serial", progress=False)
        runs.append(str(tmp_path / str(number)))
    monkeypatch.setattr(ties_table, "FILE", tmp_path / "data" / "coverage.csv")
    ties_table.main(runs)
    with open(ties_table.FILE, encoding="utf-8") as made, open(ROOT / "docs/data/ties/coverage.csv") as kept:
        found, stored = list(csv.reader(made)), list(csv.reader(kept))
    assert [row[:2] for row in found] == [row[:2] for row in stored] and found[0] == stored[0]


def test_the_bias_on_the_page_is_that_of_its_formula(clone):
    """tau = .515 with c = 5,000, gamma = .51, epsilon = 1; F at 50,000 from the file."""
    law = lf.Study.load("examples/salary/ties.toml").simulators()[0].problem.data_law().table
    at = law.values.index(50_000.0)
    size, before = law.size, sum(law.counts[:at])
    d, e = 0.515 - before / size, (before + law.counts[at]) / size - 0.515
    noise = 2.718281828 / 1.718281828**2 + 0.25
    for n, printed in ((200_000, "-209"), (2_000_000, "-64")):
        step = 5000.0 * n**-0.51 / 0.49
        assert f"{step * noise / 2 * (1 / e - 1 / d):.0f}" == printed and printed in PAGE
