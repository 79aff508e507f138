"""What the page of own tables, figures and texts shows is run as it stands there."""

import re
from pathlib import Path

import pytest

from ldpflow.cli import main
from ldpflow.store.schema import FINISHED

pytestmark = pytest.mark.thorough

PAGE = Path(__file__).parents[1] / "docs" / "tutorials" / "dashboards.md"
FILES = PAGE.with_suffix("")


def blocks(text, start):
    return [
        re.sub(r"^(:tags:.*|#\|.*|!.*)$", "", block, flags=re.MULTILINE)
        for block in re.findall(rf"^```{start}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    ]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Folder in which the cells of the page were run, and the names that they defined."""
    folder, names = tmp_path_factory.mktemp("own"), {}
    (sweep, *others) = blocks(PAGE.read_text().replace("!ldpflow export", "#"), r"\{code-cell\} ipython3")[1:]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        (study,) = [b for b in blocks(PAGE.read_text(), r"\{code-cell\} ipython3") if "lf.Study(" in b]
        exec(study.replace("replicates=200", "replicates=40"), names)
        exec(sweep, names)
        assert main(["export", "runs/own", "-o", "own.duckdb"]) == 0
        for block in others:
            exec(block, names)
    return folder, names


def test_the_cells_of_the_page_are_tables_and_a_figure(made):
    folder, names = made
    run, rows = names["run"], names["rows"]
    assert rows.groupby(["epsilon", "law", "tau", "n", "method"])["hit"].mean().shape == (32,)
    keys = ["epsilon", "law", "method"]
    shares = run.summary().to_pandas().groupby(keys)["coverage_failures_as_misses"].mean()
    assert names["table"].set_index(keys)["coverage_failures_as_misses"].sub(shares).abs().max() < 1e-12
    assert "<svg" in (folder / "own.svg").read_text()


def test_the_cells_of_the_document_of_quarto(made, monkeypatch):
    monkeypatch.chdir(made[0])
    names = {}
    for block in blocks((FILES / "study.qmd").read_text(), r"\{python\}"):
        exec(block, names)
    assert len(names["held"]) == 8 and names["least"] == 40


def test_the_columns_that_the_script_of_r_names_are_there(made):
    text = (FILES / "simsum.R").read_text()
    run = made[1]["run"]
    paths, rows = (found.split(", ") for found in re.findall(r"select\(([^)]*)\)", text))
    assert set(paths) <= set(run.store.read_paths().column_names)
    assert set(rows) <= set(run.rows().column_names)
    (kept,) = re.findall(r"status %in% c\(([^)]*)\)", text)
    assert re.findall(r"\w+", kept) == [*FINISHED], "the rows of the summary's bias and coverage"
