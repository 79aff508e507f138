"""docs/pilot_to_plan.md: its commands run, and print what stands on the page."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ldpflow.cli import main

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "pilot_to_plan.md"
CODES = {"--tau 0.1 ": 2, "sweep quickstart": 0, "--tau 0.9 ": 1, "--bounds": 1}
"""Exit codes other than 0, by a part of the command."""


def commands():
    """The commands of the page in their order, and their output where the page has it."""
    text = PAGE.read_text()
    found = []
    for match in re.finditer(r"^ {4,6}((?:ldpflow|python examples/)\b.*)$", text, re.MULTILINE):
        after = re.match(r"\n\n```text\n(.*?)```", text[match.end() :], re.DOTALL)
        found.append((match[1], None if after is None else after[1]))
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the pilot."""
    place = tmp_path_factory.mktemp("pilot")
    script = ROOT / "examples" / "pilot" / "make_pilot.py"
    for name in ("spend.parquet", "spend.csv"):
        subprocess.run([sys.executable, str(script), str(place / name)], check=True)
    return place


def test_the_page_has_its_commands():
    shown = [output is not None for command, output in commands() if command.startswith("ldpflow plan")]
    assert shown == [True, True, True, True, True, False, False, True]


# The page's other commands make the files of `folder`.
OF_LDPFLOW = [(command, output) for command, output in commands() if command.startswith("ldpflow")]


@pytest.mark.thorough
@pytest.mark.parametrize(("command", "output"), OF_LDPFLOW, ids=lambda value: None)
def test_commands_print_what_the_page_says(command, output, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    code = main(shlex.split(command)[1:])
    printed = capsys.readouterr()
    assert code == next((c for part, c in CODES.items() if part in f"{command} "), 0), printed.err
    if output is not None:
        assert printed.out == output
    if " -o " in command:
        (design,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
        text, shown = ((folder / "spend.toml").read_text().splitlines(), design.splitlines())
        assert [line for line in text if "sha256" not in line] == [x for x in shown if "sha256" not in x]


@pytest.mark.thorough
def test_both_files_are_one_pilot(folder):
    """Skewed, rounded, and a fifth of it zero; Parquet and CSV have equal values."""
    from ldpflow.components.problems.tables import read_column

    values, other = (read_column(str(folder / f"spend.{end}"), "amount").values for end in ("parquet", "csv"))
    assert (values == other).all()
    assert (values == np.round(values)).all() and 0.17 < np.mean(values == 0) < 0.23
    assert np.mean(values) > 1.4 * np.median(values)


@pytest.mark.thorough
def test_python_on_the_page(folder, monkeypatch):
    monkeypatch.chdir(folder)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names = {}
    exec(code.replace("plan.check()", "pass"), names)
    assert names["plan"].table().num_rows == 2 and not names["plan"].refused
