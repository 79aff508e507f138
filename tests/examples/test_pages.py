"""Commands of docs/pilot_to_plan.md print what stands there; studies of docs/ties.md make its table."""

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
def test_python_on_the_page(folder, monkeypatch):
    monkeypatch.chdir(folder)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names = {}
    exec(code.replace("plan.check()", "pass"), names)
    assert names["plan"].table().num_rows == 2 and not names["plan"].refused


TIES = (ROOT / "docs" / "ties.md").read_text()


@pytest.fixture
def clone(monkeypatch):
    monkeypatch.chdir(ROOT)


@pytest.mark.thorough
def test_the_commands_of_the_page_make_its_table(clone, tmp_path, monkeypatch):
    """Ten replicates at small n: the rows and columns of the stored table, and finite numbers."""
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


def test_the_bias_on_the_page_is_that_of_its_formula(clone):
    """tau = .515 with c = 5,000, gamma = .51, epsilon = 1; F at 50,000 from the file."""
    law = lf.Study.load("examples/salary/ties.toml").simulators()[0].problem.data_law().table
    at = law.values.index(50_000.0)
    size, before = law.size, sum(law.counts[:at])
    d, e = 0.515 - before / size, (before + law.counts[at]) / size - 0.515
    noise = 2.718281828 / 1.718281828**2 + 0.25
    for n, printed in ((200_000, "-209"), (2_000_000, "-64")):
        step = 5000.0 * n**-0.51 / 0.49
        assert f"{step * noise / 2 * (1 / e - 1 / d):.0f}" == printed and printed in TIES
