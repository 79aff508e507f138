"""Settings, diagnostics and columns that components declare, and what pages and help say of them."""

import csv
import doctest
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ldpflow as lf
from ldpflow.columns import Column, Summary, cautions, index_columns
from ldpflow.results.columns import COLUMNS
from ldpflow.results.decomposition import DIAGNOSIS
from ldpflow.results.summary import RELATIVE
from ldpflow.settings import parameter_text
from ldpflow.study import GROUPS
from ldpflow.study.reading import CollectionFacts, Grid, Heading, Monitor, Trajectory

TABLES = Path(__file__).parents[1] / "docs" / "tables.md"
PAGE = Path(__file__).parents[1] / "docs" / "reading-results.md"


def test_every_column_stands_in_the_page_with_its_formula():
    text = PAGE.read_text()
    assert set(re.findall(r"^\| `(\w+)` \| .", text, re.MULTILINE)) >= {*COLUMNS, *RELATIVE, *DIAGNOSIS}
    assert "`main_cause`" in text


def test_written_files_are_what_the_components_declare():
    # In a process of its own: other tests register components.
    code = "from docs import stubs, tables; print(tables.page() + stubs.page(), end='')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=TABLES.parents[1])
    stubs = Path(lf.__file__).parent / "__init__.pyi"
    assert done.stdout == TABLES.read_text() + stubs.read_text(), f"run docs/*.py {done.stderr}"


def test_every_table_of_numbers_is_shown_on_one_page():
    docs = TABLES.parent
    shown = [
        name for page in docs.glob("*.md") for name in re.findall(r":file: (data/\S+)", page.read_text())
    ]
    assert sorted(shown) == sorted(str(file.relative_to(docs)) for file in docs.glob("data/*/*.csv"))
    for name in shown:
        with open(docs / name, newline="", encoding="utf-8") as file:
            assert len({len(row) for row in csv.reader(file)}) == 1, name


@pytest.mark.parametrize("table", [Heading, Grid, Trajectory, Monitor, CollectionFacts])
def test_every_setting_without_a_kind_says_what_it_is(table):
    for name in table.model_fields:
        assert parameter_text(table, name), name


@pytest.mark.parametrize(
    ("heading", "base"),
    [
        ("Interval method", "PathIntervalMethod"),
        ("Mechanism", "Mechanism"),
        ("Problem", "Problem"),
        ("Algorithm", "DecayingSteps"),
        ("Data law", "DataLaw"),
        ("Protocol", "Protocol"),
    ],
)
def test_every_method_that_an_author_has_to_write_stands_in_the_page(heading, base):
    import ldpflow

    text = (PAGE.parent / "own_component.md").read_text()
    start = text.index(f"**{heading}**")
    part = text[start : text.index("## In a package")] if base == "DataLaw" else text[start:].split("\n**")[0]
    for name in getattr(ldpflow, base).__abstractmethods__:
        assert f"`{name}" in part or f"def {name}" in part, name


ON_PAGES = {
    "analyse": "tutorials/collected_reports",
    "register": "own_component",
    "load_plugin": "own_component",
}
"""Functions with an example on a page that other tests run."""

USED = {
    "Run": "summary rows compare explain trajectories verify replay check plot report",
    "Study": "replace from_toml to_toml simulators left_out load",
}
"""Methods in the examples of a class."""


def test_every_public_function_has_an_example_that_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kinds = [kind for group in GROUPS.values() for kind in group.values()]
    components = {kind.__name__ for kind in kinds if kind.__module__.startswith("ldpflow.")}
    functions = [name for name in lf.__all__ if inspect.isfunction(getattr(lf, name))]
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for name in sorted([*functions, "Run", "Study", *components], key=lambda name: (name != "sweep", name)):
        found = getattr(lf, name)
        if name in ON_PAGES:
            page = (PAGE.parent / f"{ON_PAGES[name]}.md").read_text()
            assert f"lf.{name}" in page, name
            continue
        test = doctest.DocTestParser().get_doctest(inspect.getdoc(found), {"lf": lf}, name, None, 0)
        assert test.examples, name
        assert all(f".{used}(" in found.__doc__ for used in USED.get(name, "").split()), name
        runner.run(test, clear_globs=False)
    assert runner.summarize(verbose=False).failed == 0


ROWS = ("file", "target", "features", "moments")
NOT_STORED = {
    "Quantile": ("file", "law_table", "units"),
    "Quantiles": ("file", "law_table", "units"),
    "LinearRegression": ROWS,
    "LogisticRegression": ROWS,
}
"""Settings that are no columns: a path of one machine, a table of numbers, what a digest stands for, and
units, which other columns are given in."""

COMPONENTS = [cls for registry in GROUPS.values() for cls in registry.values()]


@pytest.mark.parametrize("component", COMPONENTS, ids=lambda cls: cls.__name__)
def test_every_setting_says_what_it_is(component):
    columns = component.setting_columns()
    hidden = {"kind", *NOT_STORED.get(component.__name__, ())}
    assert [column.name for column in columns] == [n for n in component.model_fields if n not in hidden]
    assert all(column.meaning and column.unit and column.identifies for column in columns)


@pytest.mark.parametrize(
    ("problem", "algorithm", "n"),
    [
        (lf.LeastSquares(), lf.DpAmbssgd(), 10**6),
        (lf.LeastSquares(), lf.DpMbssgd(), 10**6),
        (lf.LeastSquares(), lf.SufficientStatistics(), 1000),
        (lf.RobustRegression(), lf.DpNsgd(), 100),
    ],
)
def test_what_follows_from_settings_is_declared(problem, algorithm, n):
    kinds = {int: "int64", float: "double"}
    chosen = algorithm.resolved(problem, n) if algorithm.family == "one_pass" else algorithm
    values = chosen.columns(problem, n)
    found = {name: kinds[type(value)] for name, value in values.items() if value is not None}
    declared = {column.name: column.type for column in algorithm.derived}
    assert set(values) == set(declared)
    assert found.items() <= declared.items()


def test_settings_survive_their_columns():
    problem = lf.LinearRegression(coefficients=(0.1, 1e-300), bounding="clip", clip=1.5)
    values = problem.setting_values()
    assert values["coefficients"] == "[0.1, 1e-300]" and values["clip"] == 1.5
    assert lf.LinearRegression.from_values(values | {"another": 1, "huber": None}) == problem


def test_a_declaration_survives_its_text():
    share = Summary("far", "share of rows beyond 2", beyond=2.0, caution="it is far")
    column = Column("distance", "double", "m", "how far", "δ", summaries=(share, Summary("middle", "median")))
    assert Column.from_json(column.to_json()) == column
    assert cautions([column], {"far": 0.25}) == ["It is far in 25% of the finished replicates."]
    assert cautions([column], {"far": 0.05}) == cautions([column], {}) == []


@pytest.mark.parametrize("name", ["", "1st", "a b", "a-b", "ü", "a\x1b[31m", "x" * 65])
def test_a_name_is_a_name(name):
    with pytest.raises(ValueError, match="letters, digits and underscores"):
        Column(name, "double")
    with pytest.raises(ValueError, match="letters, digits and underscores"):
        Column("fine", "double", summaries=(Summary(name, "?"),))


def test_one_name_has_one_type():
    with pytest.raises(ValueError, match="none of int32, int64, double, string, bool"):
        Column("a", "float")
    first = Column("a", "double", meaning="first")
    assert index_columns([first, Column("a", "double", meaning="second")])["a"] == first
    with pytest.raises(ValueError, match="'a' is declared as double value and as int64 value"):
        index_columns([first, Column("a", "int64")])
    with pytest.raises(ValueError, match="as double value and as double setting"):
        index_columns([first, Column("a", "double", identifies=True)])
