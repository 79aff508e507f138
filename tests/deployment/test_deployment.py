"""The route of docs/tutorials/deployment.md, and whether its intervals cover the population's quantiles."""

from __future__ import annotations

import re
import runpy
import shlex
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import ldpflow as lf
from ldpflow.cli import main
from tests.deployment.collector import collect, population

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorials" / "deployment.md"
COMMANDS = re.findall(r"^ {4}((?:ldpflow|python) .*)$", PAGE.read_text(), re.MULTILINE)


def run(command, monkeypatch):
    """Run a command of the page in this process; its exit code."""
    name, *arguments = shlex.split(command)
    if name == "ldpflow":
        return main(arguments)
    script, *arguments = arguments
    monkeypatch.setattr(sys, "argv", [script, *arguments])
    monkeypatch.syspath_prepend(str(ROOT / Path(script).parent))
    runpy.run_path(str(ROOT / script), run_name="__main__")
    return 0


@pytest.mark.thorough
def test_the_commands_of_the_page_lead_to_two_intervals(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    printed = {}
    for command in COMMANDS:
        code = run(command.replace("200000", "20000"), monkeypatch)
        printed[command] = capsys.readouterr()
        assert code == 0, (command, printed[command])
    assert len(COMMANDS) == 9  # the pilot, and eight
    assert (tmp_path / "page.html").stat().st_size > 10_000
    settings = [word for command in COMMANDS[2:] for word in shlex.split(command) if word.startswith("--")]
    first = {word for word in shlex.split(COMMANDS[1]) if word.startswith("--")}
    assert not first & set(settings)  # no setting is typed twice


TRUTH = {0.5: 71.0, 0.9: 293.0}
"""Quantiles of the population: the smallest value with at least this share of users up to it."""


@pytest.mark.slow
def test_three_hundred_collections_cover(tmp_path, monkeypatch):
    """Clients and collector are NumPy alone; the error rate of coverage is 2e-4 for each quantile."""
    monkeypatch.chdir(tmp_path)
    for command in COMMANDS[:2]:
        assert run(command, monkeypatch) == 0
    plan = lf.plan(
        pilot="pilot.csv",
        column="session_s",
        tau=[0.5, 0.9],
        epsilon=1,
        n=200_000,
        range=(0, 3600),
        compare=True,
    )
    rng = np.random.default_rng(20261123)
    for design in sorted(tmp_path.glob("design*.toml")):
        tables = tomllib.loads(design.read_text())
        kind = tables.get("protocol", tables.get("mechanism"))["kind"]
        users = int(np.atleast_1d(tables["grid"]["n"])[0])
        lower, upper = [], []
        for _ in range(6):
            values = population(50 * users, rng).reshape(50, users)
            for table in collect(design, values, rng):
                found = lf.analyse(table, str(design))
                rows = [found.reported(q) for q in range(len(found.verdicts))]
                lower.append([row["lower"] for row in rows])
                upper.append([row["upper"] for row in rows])
        lower, upper = np.array(lower, dtype=float), np.array(upper, dtype=float)
        taus = np.atleast_1d(tables["problem"].get("taus", tables["problem"].get("tau")))
        for q, tau in enumerate(taus):
            covered = (lower[:, q] <= TRUTH[tau]) & (TRUTH[tau] <= upper[:, q])
            half_width = np.median(upper[:, q] - lower[:, q]) / 2
            planned = next(row for row in plan.rows if row["tau"] == tau and row["protocol"] in (kind, "sgd"))
            print(kind, tau, covered.mean(), half_width, planned["half_width"], planned["coverage"])
            assert covered.sum() >= 251  # binomial (300, .9): smaller with probability 2e-4
            assert abs(half_width / planned["half_width"] - 1) < 0.05
