"""Run the Python code that README and the page of own components show."""

import re
import shlex
from pathlib import Path

import pytest

import ldpflow as lf
from ldpflow.cli import main
from ldpflow.testing import check_plugin

ROOT = Path(__file__).parents[1]
PACKAGE = Path(lf.__file__).parent
README = (ROOT / "README.md").read_text()


def block(beginning, page="README.md", language="python"):
    blocks = re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    (found,) = [text for text in blocks if beginning in text]
    return found


def test_the_readme_is_short_and_its_pages_are_there():
    assert len(README.splitlines()) <= 160
    places = re.findall(r"\]\((?!http)([^)#]+)", README)
    assert len(places) > 20
    assert [place for place in places if not (ROOT / place).is_file()] == []


def test_the_lines_in_python(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = block("lf.sweep")
    shorter = shown.replace("replicates=200", "replicates=20")
    assert shorter != shown
    names = {}
    exec(compile(shorter, "README.md", "exec"), names)
    assert names["run"].summary().num_rows == 2 * 2 * 3 * 2 and names["run"].out == "runs/mine"


def test_the_study_file_is_the_study_in_python():
    names = {}
    exec(block("lf.Study").partition("run = ")[0], names)
    assert lf.Study.load(block("[0.5, 0.9]", language="toml")) == names["study"]


@pytest.mark.thorough
def test_a_study_becomes_a_table_and_a_figure_of_a_paper(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = "docs/from_simdesign.md"
    study = block('name = "paper"', page, "toml")
    shorter = study.replace("replicates = 1100", "replicates = 10").replace("1e5", "2e4")
    Path("paper.toml").write_text(shorter)
    for line in block("ldpflow sweep", page, "bash").splitlines():
        words, _, file = line.partition(" > ")
        capsys.readouterr()
        assert main(shlex.split(words)[1:]) == 0
        if file:
            table = capsys.readouterr().out
            assert "\\toprule" in table and table.count("laplace") == table.count("normal") == 4
    assert Path("coverage.pdf").stat().st_size and Path("runs/paper/report.html").is_file()


@pytest.mark.thorough
def test_the_problem_is_right(tmp_path):
    file = tmp_path / "mean_of_readme.py"
    file.write_text(block("class Mean", "docs/own_component.md"))
    assert [str(finding) for finding in check_plugin(str(file)) if not finding.passed] == []
