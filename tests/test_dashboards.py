"""The numbers of the page of own tables, figures and texts, and the files beside it that no build runs."""

import re
from pathlib import Path

import pytest

from ldpflow.store.schema import FINISHED

pytestmark = pytest.mark.thorough

PAGE = Path(__file__).parents[1] / "docs" / "tutorials" / "dashboards.md"
FILES = PAGE.with_suffix("")


def blocks(file, start):
    found = re.findall(rf"^```{start}\n(.*?)^```", file.read_text(), re.MULTILINE | re.DOTALL)
    return [re.sub(r"^(:tags:.*|#\|.*|!.*)$", "", block, flags=re.MULTILINE) for block in found]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder, names = tmp_path_factory.mktemp("own"), {}
    study, sweep, pandas, *_ = blocks(PAGE, r"\{code-cell\} ipython3")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for block in (study.replace("replicates=200", "replicates=40"), sweep, pandas):
            exec(block, names)
    return folder, names


def test_shares_of_the_page_are_those_of_the_summary(made):
    _, names = made
    keys = ["epsilon", "law", "tau", "n", "method"]
    hits = names["rows"].groupby(keys)["hit"].mean()
    shares = names["run"].summary().to_pandas().set_index(keys)["coverage_failures_as_misses"]
    assert len(hits) == len(shares) == 32 and hits.sub(shares).abs().max() < 1e-12


def test_the_cells_of_the_document_of_quarto(made, monkeypatch):
    monkeypatch.chdir(made[0])
    names = {}
    for block in blocks(FILES / "study.qmd", r"\{python\}"):
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
