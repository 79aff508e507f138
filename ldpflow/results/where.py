"""Conditions on the rows of a table, as a person writes them: ``method == 'BB' and n >= 1e5``."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ldpflow.errors import InputError
from ldpflow.settings import closest
from ldpflow.store.run_store import RunStore

SOME_ROW = "a condition that some row meets"
MOST_VALUES = 12
"""Of a column with this many values or more, an error shows the smallest and the largest value."""

FORM = "comparisons of a column, one sign and a value, joined by and, or, not: method == 'BB' and n >= 1e5"

OPERATORS: dict[type[ast.AST], Any] = {
    ast.And: operator.and_,
    ast.Or: operator.or_,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def condition(text: str, schema: pa.Schema) -> pc.Expression:
    """Read a condition as a filter expression.

    A condition compares columns with values by ``==``, ``!=``, ``<``, ``<=``, ``>``, ``>=``, ``in`` and
    ``not in``, and joins comparisons by ``and``, ``or`` and ``not``. ``None`` stands for null.
    """
    try:
        return read_condition(ast.parse(text.strip(), mode="eval").body, schema)
    except (AttributeError, SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        hint = "Equality is ==, with two signs." if re.search(r"\w\s*=\s*[\w'\"]", str(text)) else ""
        raise InputError("where", text, FORM, hint) from None


def columns_named(where: str | None) -> list[str]:
    return [node.id for node in ast.walk(ast.parse((where or "0").strip())) if isinstance(node, ast.Name)]


def select_rows(
    table: pa.Table,
    where: str | None = None,
    sort: str | Sequence[str] | None = None,
    columns: str | Sequence[str] | None = None,
) -> pa.Table:
    """Rows that meet the condition ``where``, sorted by ``sort``, with the columns ``columns``.

    ``-name`` sorts in descending order. Each argument may name ``level_state``, or ``state`` for short. The
    result has this column if ``columns`` names it.
    """
    kept = table.column_names
    if "state" in str((where, sort, columns)):
        from ldpflow.results.arena import with_state  # loads the interval methods

        table = with_state(table)
        if "level_state" in table.column_names and "state" not in table.column_names:
            table = table.append_column("state", table["level_state"])
    if where is not None:
        found = table.filter(condition(where, table.schema))
        if table.num_rows and not found.num_rows:
            names = [name for name in columns_named(where) for name in (name, f"{name}_class")]
            raise InputError("where", where, SOME_ROW, describe_values(names, table))
        table = found
    if sort:
        order = []
        for name in read_names(sort, "sort"):
            check_column(name.removeprefix("-"), table.column_names, "sort")
            order.append((name.removeprefix("-"), "descending" if name.startswith("-") else "ascending"))
        table = table.sort_by(order)
    if columns:
        kept = read_names(columns, "columns")
        for name in kept:
            check_column(name, table.column_names, "columns")
    return table.select(kept)


def describe_values(names: Iterable[str], table: pa.Table) -> str:
    """Describe the values of the named columns. Names that are no columns are skipped."""
    found = []
    for name in dict.fromkeys(name for name in names if name in table.column_names):
        held = sorted(pc.unique(table[name]).drop_null().to_pylist())
        few = ", ".join(map(repr, held)) if len(held) < MOST_VALUES else f"{held[0]!r} to {held[-1]!r}"
        found.append(f"{name} has {few or 'no value'}")
    return f"{'; '.join(found)}." if found else ""


def read_names(names: str | Sequence[str], field: str) -> list[str]:
    found = [names] if isinstance(names, str) else names
    if not isinstance(found, (list, tuple)) or not all(isinstance(name, str) for name in found):
        raise InputError(field, names, "names of columns")
    return list(found)


def check_column(name: str, names: Sequence[str], field: str) -> None:
    if name not in names:
        mean = f"Did you mean '{name}_mean'?" if f"{name}_mean" in names else ""
        hint = mean or closest(name, names) or "The first line of the table as CSV has all names."
        raise InputError(field, name, "a column of the table", hint)


def is_among(name: str, values: Sequence[Any], schema: pa.Schema) -> pc.Expression:
    kind = schema.field(name).type
    if pa.types.is_integer(kind):  # people write integers as 1e5
        values = [int(v) if isinstance(v, float) and v.is_integer() else v for v in values]
    try:
        return pc.field(name).isin(pa.array(values, kind))
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        raise InputError("where", values, f"values of {name}, which is {kind}") from None


def read_condition(node: ast.expr, schema: pa.Schema) -> pc.Expression:
    """Filter expression of a syntax tree. Raises TypeError if the tree is no condition."""
    match node:
        case ast.BoolOp(op=op, values=values):
            return reduce(OPERATORS[type(op)], [read_condition(value, schema) for value in values])
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return ~read_condition(operand, schema)
        case ast.Compare(left=ast.Name(id=name), ops=[op], comparators=[other]):
            return compare(name, op, other, schema)
        case ast.Name(id=name):
            check_column(name, schema.names, "where")
            if pa.types.is_boolean(schema.field(name).type):
                return pc.field(name)
    raise TypeError


def compare(name: str, op: ast.cmpop, other: ast.expr, schema: pa.Schema) -> pc.Expression:
    """Filter expression of one comparison.

    Raises TypeError if ``other`` is no number, text, truth value or None, and no list of these.
    """
    check_column(name, schema.names, "where")
    column, kind = pc.field(name), schema.field(name).type
    has_texts = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if isinstance(other, ast.Name) and has_texts and other.id not in schema.names:
        raise InputError("where", other.id, f"a value of {name}", f"Text is in quotes: '{other.id}'.")
    value = ast.literal_eval(other)
    several = isinstance(value, (list, tuple))
    if not all(isinstance(v, int | float | str | None) for v in (value if several else [value])):
        raise TypeError
    match op:
        case ast.In() if several:
            return is_among(name, value, schema)
        case ast.NotIn() if several:
            return ~is_among(name, value, schema)
        case ast.Eq() if value is None:
            return column.is_null()
        case ast.NotEq() if value is None:
            return column.is_valid()
    if type(op) not in OPERATORS or several or value is None:
        raise TypeError
    if has_texts != isinstance(value, str):
        raise InputError("where", value, f"values of {name}, which is {kind}")
    found: pc.Expression = OPERATORS[type(op)](column, value)
    return found


def iterate_rows(store: RunStore) -> Iterator[pa.Table]:
    """Iterate over the rows of all replicates, part by part. Columns of path settings come first."""
    from ldpflow.results.summary import stored_settings  # loads SciPy

    paths = stored_settings(store, damaged="refuse")
    places = {path: at for at, path in enumerate(paths["path"].to_pylist())}
    longest: dict[str, list[pa.Array]] = {}  # parts of a path share these settings
    for rows in store.replicates.iterate(damaged="refuse"):
        if rows.num_rows:
            path, count = rows["path"][0].as_py(), rows.num_rows
            rows = rows.drop_columns("path")
            if path not in longest or len(longest[path][0]) < count:
                longest[path] = [pa.repeat(column[places[path]], count) for column in paths.columns]
            settings = [column.slice(0, count) for column in longest[path]]
            schema = pa.schema([*paths.schema, *rows.schema])
            yield pa.Table.from_arrays([*settings, *rows.columns], schema=schema)


def stored_rows(
    store: RunStore, where: str | None, columns: str | Sequence[str] | None, settings: Mapping[str, Any]
) -> pa.Table:
    found = []
    for table in iterate_rows(store):
        chosen = [] if where is None else [condition(where, table.schema)]
        for name, value in settings.items():
            check_column(name, table.column_names, name)
            values = value if isinstance(value, (list, tuple)) else [value]
            chosen.append(is_among(name, values, table.schema))
        if chosen:
            table = table.filter(reduce(operator.and_, chosen))
        found.append(select_rows(table, columns=columns))
    if not found:
        raise InputError("run", store.root, "a run with rows of replicates", "Nothing finished there.")
    rows = pa.concat_tables(found)
    if not rows.num_rows and (where is not None or settings):
        field, value = ("where", where) if where is not None else next(iter(settings.items()))
        summary, named = store.read_summary(), (*settings, *columns_named(where))
        hint = "" if summary is None else describe_values(named, summary)
        raise InputError(field, value, SOME_ROW, hint)
    return rows
