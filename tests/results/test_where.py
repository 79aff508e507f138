"""Conditions on rows: what they keep, and what is refused."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldpflow.errors import InputError
from ldpflow.results.where import condition, select_rows

TABLE = pa.table(
    {
        "method": ["BB", "BM", "SN", "BB", None],
        "n": [100, 1000, 100, 1000, 10],
        "coverage": [0.8, 0.9, 0.85, None, 0.5],
        "covered": [True, False, True, None, False],
    }
)


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("method == 'BB' and n == 1e3", [3]),
        ("method in ['BB', 'SN']", [0, 2, 3]),
        ("method not in ['BB'] and n < 500", [2, 4]),
        ("n > 100 or method == 'SN'", [1, 2, 3]),
        ("coverage == None", [3]),
        ("coverage != None and not method == 'BM'", [0, 2]),
        ("covered", [0, 2]),
        ("n in (1e2, 1e1)", [0, 2, 4]),
    ],
)
def test_rows_that_are_kept(where: str, rows: list[int]) -> None:
    table = TABLE.append_column("row", pa.array(range(5)))
    assert select_rows(table, where)["row"].to_pylist() == rows


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("methd == 'BB'", "Did you mean 'method'?"),
        ("n == 'x'", "values of n"),
        ("method == 3", "values of method"),
        ("__import__('os').system('true')", "comparisons"),
        ("n", "comparisons"),
        ("n = 3", "Equality is =="),
        ("n == nan", "comparisons"),
        ("100 <= n < 1000", "comparisons"),
        ("100 < n", "comparisons"),
        ("method == BB", "Text is in quotes: 'BB'"),
        ("", "comparisons"),
        ("method in 'BB'", "comparisons"),
        ("n in ['a']", "values of n"),
    ],
)
def test_refused(where: str, says: str) -> None:
    with pytest.raises(InputError, match="^where: ") as caught:
        condition(where, TABLE.schema)
    assert says in str(caught.value)


def test_a_cause_that_no_row_has_is_refused_with_the_classes_of_causes() -> None:
    table = pa.table({"cause": ["10% too short"], "cause_class": ["too short"]})
    with pytest.raises(InputError, match="cause has '10% too short'; cause_class has 'too short'"):
        select_rows(table, "cause == 'bias'")


def test_order_and_columns() -> None:
    table = select_rows(TABLE, sort=["-n", "method"], columns=["method", "n"])
    assert table["method"].to_pylist() == ["BB", "BM", "BB", "SN", None]
    assert table.column_names == ["method", "n"]
    with pytest.raises(InputError, match="^sort: "):
        select_rows(TABLE, sort="m")
    with pytest.raises(InputError, match="^columns: "):
        select_rows(TABLE, columns=["x"])


@pytest.mark.parametrize("name", ["state", "level_state"])
def test_rows_by_whether_a_method_holds_its_level(name: str) -> None:
    shares = {"level": [0.9] * 3, "coverage_failures_as_misses": [0.9, 0.7, 0.88], "replicates": [2000] * 3}
    table = pa.table(shares)
    assert select_rows(table, f"{name} == 'fails'").equals(table.slice(1, 1))
    found = select_rows(table, sort=f"-{name}", columns=name)
    assert found.to_pylist() == [{name: state} for state in ("unclear", "holds", "fails")]


@given(st.text(max_size=60))
def test_any_text_is_a_condition_or_refused(text: str) -> None:
    try:
        select_rows(TABLE, text)
    except InputError:
        pass
