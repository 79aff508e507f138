"""What components declare: settings and diagnostics, and what is reported beside them."""

from __future__ import annotations

import pytest

import ldpflow as lf
from ldpflow.columns import Column, Summary, cautions, index_columns
from ldpflow.study.entry import GROUPS

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
        (lf.RobustRegression(), lf.DpSgd(batch_size=10), 100),
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
