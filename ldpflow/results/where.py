"""Conditions on the rows of a table, as a person writes them: ``method == 'BB' and n >= 1e5``."""

from __future__ import annotations

import ast
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ldpflow.errors import InputError
from ldpflow.settings import nearest
from ldpflow.store.run_store import RunStore

SOME_ROW = "a condition that some row meets"
MOST_VALUES = 12
"""Values of a column that an error lists at most; of more it names the ends."""
MOST_LOOKED = 100_000
"""Rows of a part in which it looks for them."""

FORM = "comparisons of columns with values, joined by and, or, not: method == 'BB' and n >= 1e5"

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
MIRRORED = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}


def condition(text: str, schema: pa.Schema) -> pc.Expression:
    """The condition as a filter expression.

    Parameters
    ----------
    text : str
        Comparisons (``==``, ``!=``, ``<``, ``<=``, ``>``, ``>=``, ``in``, ``not in``) of a column with a
        value, or with ``None`` for a null, joined by ``and``, ``or`` and ``not``.
    schema : pyarrow.Schema
        Of the table that is filtered; it names the columns.

    Raises
    ------
    InputError
        Naming ``where``.
    """
    return ConditionReader(text, schema).expression()


def select_rows(
    table: pa.Table,
    where: str | None = None,
    sort: str | Sequence[str] | None = None,
    columns: str | Sequence[str] | None = None,
) -> pa.Table:
    """Rows that meet a condition, in an order, with some of the columns.

    Parameters
    ----------
    table : pyarrow.Table
    where : str, optional
        See :func:`condition`.
    sort : str or sequence of str, optional
        Names of columns, the most important first; ``-name`` for the largest first.
    columns : str or sequence of str, optional

    Raises
    ------
    InputError
        Naming ``where``, ``sort`` or ``columns``; also if no row meets the condition.
    """
    if where is not None:
        reader = ConditionReader(where, table.schema)
        found = table.filter(reader.expression())
        if table.num_rows and not found.num_rows:
            raise reader.refuse(SOME_ROW, describe_values(reader.columns, [table]))
        table = found
    if sort:
        order = []
        for name in read_names(sort, "sort"):
            check_column(name.removeprefix("-"), table.schema, "sort")
            order.append((name.removeprefix("-"), "descending" if name.startswith("-") else "ascending"))
        table = table.sort_by(order)
    if columns:
        names = read_names(columns, "columns")
        for name in names:
            check_column(name, table.schema, "columns")
        table = table.select(names)
    return table


def describe_values(names: Iterable[str], tables: Iterable[pa.Table]) -> str:
    held: dict[str, set[Any]] = {name: set() for name in names}
    for table in tables:
        for name, values in held.items():
            ends = pc.min_max(table[name]).as_py().values()
            few = pc.unique(table[name].slice(0, MOST_LOOKED)).to_pylist()[:MOST_VALUES]
            values |= {*few, *ends} - {None}
    found = []
    for name, values in held.items():
        shown = sorted(values)
        few = ", ".join(map(repr, shown)) if len(shown) < MOST_VALUES else f"{shown[0]!r} to {shown[-1]!r}"
        found.append(f"{name} has {few or 'no value'}")
    return f"{'; '.join(found)}."


def read_names(names: str | Sequence[str], field: str) -> list[str]:
    found = [names] if isinstance(names, str) else names
    if not isinstance(found, (list, tuple)) or not all(isinstance(name, str) for name in found):
        raise InputError(field, names, "names of columns")
    return list(found)


def settings_condition(settings: Mapping[str, Any], schema: pa.Schema) -> pc.Expression | None:
    """The condition that columns equal these values, or are among them where a list is given."""
    found = []
    for name, value in settings.items():
        check_column(name, schema, name)
        found.append(is_among(name, value if isinstance(value, (list, tuple)) else [value], schema))
    return reduce(operator.and_, found) if found else None


def check_column(name: str, schema: pa.Schema, field: str) -> None:
    if name not in schema.names:
        raise InputError(field, name, "a column of the table", nearest(name, schema.names))


def is_among(name: str, values: Sequence[Any], schema: pa.Schema) -> pc.Expression:
    kind = schema.field(name).type
    try:
        return pc.field(name).isin(pa.array([to_column_type(v, kind) for v in values], kind))
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        raise InputError("where", values, f"values of {name}, which is {kind}") from None


def to_column_type(value: Any, kind: pa.DataType) -> Any:
    """1e5 is how people write an integer."""
    if pa.types.is_integer(kind) and isinstance(value, float) and value.is_integer():
        return int(value)
    return value


class ConditionReader:
    """Turns the syntax tree of a condition into a filter expression."""

    def __init__(self, text: str, schema: pa.Schema) -> None:
        self.text = text
        self.schema = schema
        self.columns: list[str] = []

    def expression(self) -> pc.Expression:
        try:
            return self.read(ast.parse(self.text.strip(), mode="eval").body)
        except (AttributeError, SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
            raise self.refuse() from None

    def column(self, name: str) -> pa.DataType:
        check_column(name, self.schema, "where")
        self.columns.append(name)
        return self.schema.field(name).type

    def refuse(self, allowed: str = FORM, hint: str = "") -> InputError:
        return InputError("where", self.text, allowed, hint)

    def read(self, node: ast.expr) -> pc.Expression:
        match node:
            case ast.BoolOp(op=op, values=values):
                return reduce(OPERATORS[type(op)], map(self.read, values))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return ~self.read(operand)
            case ast.Compare(left=left, ops=ops, comparators=others):
                return reduce(operator.and_, map(self.compare, [left, *others], ops, others))
            case ast.Name(id=name) if pa.types.is_boolean(self.column(name)):
                return pc.field(name)
        raise self.refuse()

    def compare(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> pc.Expression:
        """One comparison of a column with a number, a text, a truth value, None, or a list of them."""
        if isinstance(right, ast.Name) and not isinstance(op, (ast.In, ast.NotIn)):
            left, right, op = right, left, MIRRORED.get(type(op), type(op))()
        if not isinstance(left, ast.Name):
            raise self.refuse()
        kind, column, value = self.column(left.id), pc.field(left.id), ast.literal_eval(right)
        several = isinstance(value, (list, tuple))
        if not all(isinstance(v, int | float | str | None) for v in (value if several else [value])):
            raise self.refuse()
        match op:
            case ast.In() if several:
                return is_among(left.id, value, self.schema)
            case ast.NotIn() if several:
                return ~is_among(left.id, value, self.schema)
            case ast.Eq() | ast.Is() if value is None:
                return column.is_null()
            case ast.NotEq() | ast.IsNot() if value is None:
                return column.is_valid()
        if type(op) not in OPERATORS or several or value is None:
            raise self.refuse()
        if (pa.types.is_string(kind) or pa.types.is_large_string(kind)) != isinstance(value, str):
            raise self.refuse(f"values of {left.id}, which is {kind}")
        found: pc.Expression = OPERATORS[type(op)](column, pa.scalar(value))
        return found


def stored_rows(
    store: RunStore, where: str | None, columns: str | Sequence[str] | None, settings: Mapping[str, Any]
) -> pa.Table:
    """Rows of single replicates that meet a condition and have these settings."""
    found, named = [], [*settings]

    def tables(columns: list[str] | None = None) -> Iterator[pa.Table]:
        return store.replicates.iterate(columns=columns, damaged="refuse")

    for table in tables():
        filters = settings_condition(settings, table.schema)
        if where is not None:
            reader = ConditionReader(where, table.schema)
            own = reader.expression()
            filters = own if filters is None else filters & own
            named = [*dict.fromkeys((*settings, *reader.columns))]
        found.append(table if filters is None else table.filter(filters))
    if not found:
        raise InputError("run", store.root, "a run with rows of replicates", "Nothing finished there.")
    if named and not any(table.num_rows for table in found):
        field, value = ("where", where) if where is not None else next(iter(settings.items()))
        raise InputError(field, value, SOME_ROW, describe_values(named, tables(named)))
    return select_rows(pa.concat_tables(found), columns=columns)
