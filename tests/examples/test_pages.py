"""Commands of docs/pilot_to_plan.md print what the page shows. Studies of docs/ties.md make its table."""

import csv
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import ldpflow as lf
from docs import ties_table
from ldpflow.cli import main

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "pilot_to_plan.md"
CODES = {"--tau 0.1 ": 2, "sweep quickstart": 0, "--tau 0.9 ": 1, "--bounds": 1}
"""Exit codes of the commands that contain a text; others end with 0."""


def commands():
    """Commands of the page in order, each with the output that the page shows, or None."""
    text = PAGE.read_text()
    found = []
    for match in re.finditer(r"^ {4,6}((?:ldpflow|python examples/)\b.*)$", text, re.MULTILINE):
        after = re.match(r"\n\n```text\n(.*?)```", text[match.end() :], re.DOTALL)
        found.append((match[1], None if after is None else after[1]))
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Folder with the pilot files."""
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
def test_python_on_the_page(folder, monkeypatch):
    monkeypatch.chdir(folder)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names = {}
    exec(code.replace("plan.check()", "pass"), names)
    assert names["plan"].table().num_rows == 2 and not names["plan"].refused


TIES = (ROOT / "docs" / "ties.md").read_text()


@pytest.mark.thorough
def test_the_commands_of_the_page_make_its_table(tmp_path, monkeypatch):
    """With ten replicates at small n the table has the rows and columns of the stored one."""
    monkeypatch.chdir(ROOT)
    commands = re.findall(r"^    ldpflow sweep (\S+) --out (\S+)$", TIES, re.MULTILINE)
    assert f"python docs/ties_table.py {' '.join(run for _, run in commands)}" in TIES
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
