"""Every column of the summary is documented where people look for it."""

from __future__ import annotations

from pathlib import Path

from docs.tables import page
from ldpflow.results import COLUMNS
from ldpflow.results.diagnosis import DIAGNOSIS
from ldpflow.results.summary import RELATIVE

TABLES = Path(__file__).parents[1] / "docs" / "tables.md"
PAGE = Path(__file__).parents[1] / "docs" / "reading-results.md"


def test_every_column_stands_in_the_page_with_its_formula():
    text = PAGE.read_text()
    formulas = {name: measure.formula for name, measure in {**COLUMNS, **RELATIVE}.items()}
    formulas |= {name: formula for name, (formula, _, _) in DIAGNOSIS.items()}
    for name, formula in formulas.items():
        assert f"| `{name}` | {formula.replace('|', chr(92) + '|')} |" in text, name
    assert "`main_cause`" in text


def test_the_page_of_tables_is_what_the_components_declare():
    assert TABLES.read_text() == page(), "run python docs/tables.py"
