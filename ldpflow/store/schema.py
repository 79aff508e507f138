"""Columns of the stored rows of a run, and the names of their cells.

The columns of the bundled interval methods stand in a frozen order, so that the parts of old runs are
parts of this version. A method that came later, or from a plug-in, appends nullable columns: its
settings, which become part of the cell's id, and its diagnostics. Their declarations are stored in the
part, as metadata of the Arrow fields; null columns are left out of an id, so that old cells keep theirs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldpflow.columns import Column, by_name
from ldpflow.intervals import INTERVAL_METHODS
from ldpflow.settings import canonical_json

__all__ = [
    "CELL_KEYS",
    "REPLICATES",
    "SCHEMA_VERSION",
    "arrow_field",
    "cell_columns",
    "cell_id",
    "cell_keys",
    "cell_set_hash",
    "columns_of",
    "conform",
    "further_columns",
    "key_codes",
    "replicates_schema",
    "row_keys",
    "union_schema",
]

SCHEMA_VERSION = 2

THETA = "unit of theta"

CORE = (
    Column("replicate", "int64", "index", "address of the path within its key"),
    Column("n", "int64", "users", "sample size", title="users", logarithmic=True, identifies=True),
    Column("method", "string", "-", "interval method", identifies=True),
    Column("level", "double", "share", "nominal coverage", identifies=True),
    Column("coordinate", "int32", "index", "coordinate of theta, from 0"),
    Column("truth", "double", THETA, "theta*"),
    Column("estimate", "double", THETA, "centre of the interval"),
    Column("se", "double", THETA, "the method's own standard error; null where it has none"),
    Column("lower", "double", THETA, "lower limit; NaN unless status is ok"),
    Column("upper", "double", THETA, "upper limit; NaN unless status is ok"),
    Column("covered", "bool", "-", "lower <= truth <= upper; null unless status is ok"),
    Column("length", "double", THETA, "upper - lower; NaN unless status is ok"),
    Column("status", "string", "-", "ok, undefined (no interval at these settings) or diverged"),
)
"""What the rows of every interval method have."""

FROZEN = (
    "replicate", "n", "method", "beta", "B", "multiplier", "M", "level", "coordinate", "truth", "estimate",
    "se", "lower", "upper", "covered", "length", "status",
    # Since version 2: regression on the transcript and its diagnostics.
    "degree", "burn_in", "variance", "relaxation_times", "condition", "lack_of_fit",
)  # fmt: skip
"""Columns that every part has, in order; what is declared beside them is appended."""

ARROW = {
    "int32": pa.int32(),
    "int64": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "bool": pa.bool_(),
}

DECLARATION = b"ldpflow"
"""Name of a field's metadata that holds the declaration of a further column."""


def declared(methods: Iterable[str] | None = None) -> Mapping[str, Column]:
    """The core and the columns of interval methods (of all unless given) by name, the frozen ones first.

    Raises
    ------
    ValueError
        If two methods declare a column differently.
    """
    kinds = INTERVAL_METHODS if methods is None else dict.fromkeys(methods)
    found = by_name([*CORE, *(column for kind in kinds for column in INTERVAL_METHODS[kind].columns())])
    frozen = {name: found[name] for name in FROZEN if name in found}
    return {**frozen, **{name: column for name, column in found.items() if name not in frozen}}


BUNDLED = {name: column for name, column in declared().items() if name in FROZEN}
"""The frozen columns by name."""


def arrow_field(column: Column) -> pa.Field:
    """The Arrow field of a column; that of a further one carries the declaration."""
    told = None if column.name in BUNDLED else {DECLARATION: column.to_json()}
    return pa.field(column.name, ARROW[column.type], metadata=told)


REPLICATES = pa.schema([arrow_field(column) for column in BUNDLED.values()])
"""Schema of the parts of a run of bundled methods. ``path`` is the Hive partition, not a column. Null
where absent: settings that a method does not have, se, covered and the diagnostics."""

CELL_KEYS: tuple[str, ...] = tuple(name for name, column in BUNDLED.items() if column.identifies)
"""The frozen columns that name a cell inside a path (each cell has one row per coordinate)."""


def replicates_schema(further: Iterable[Column] = ()) -> pa.Schema:
    """Schema of a part whose methods declare further columns.

    Raises
    ------
    ValueError
        If one of them is declared differently by another method, or has the name of a frozen column
        and not its type.
    """
    columns = by_name([*BUNDLED.values(), *further]).values()
    return REPLICATES if len(columns) == len(BUNDLED) else pa.schema([arrow_field(c) for c in columns])


def union_schema(schemas: Iterable[pa.Schema]) -> pa.Schema:
    """Schema of the rows of several parts together."""
    return replicates_schema(column for schema in schemas for column in further_columns(schema))


def columns_of(schema: pa.Schema) -> dict[str, Column]:
    """The declarations of the columns of stored rows, or of a summary, by name; others are left out.

    Raises
    ------
    ValueError, TypeError
        If a field's metadata is no declaration, or one of another name or type.
    """
    found = {}
    for field in schema:
        told = (field.metadata or {}).get(DECLARATION)
        if field.name in BUNDLED:
            found[field.name] = BUNDLED[field.name]
        elif told is not None:
            column = Column.from_json(told)
            if (column.name, ARROW[column.type]) != (field.name, field.type):
                raise ValueError(f"column {field.name} ({field.type}) is declared as {column.name}")
            found[field.name] = column
    return found


def further_columns(schema: pa.Schema) -> tuple[Column, ...]:
    """The declared columns that are not among the frozen ones."""
    return tuple(column for name, column in columns_of(schema).items() if name not in BUNDLED)


def cell_keys(schema: pa.Schema) -> tuple[str, ...]:
    """The columns that name a cell: the frozen ones, then further settings."""
    return (*CELL_KEYS, *(column.name for column in further_columns(schema) if column.identifies))


def row_keys(schema: pa.Schema) -> tuple[str, ...]:
    """What identifies a row inside a path, in the order in which the rows of a part are sorted."""
    return ("replicate", *cell_keys(schema), "coordinate")


PYTHON: dict[str, type] = {"double": float, "int64": int, "int32": int, "string": str, "bool": bool}


def cell_columns(cell: Mapping[str, Any]) -> dict[str, Any]:
    """The key columns of a cell in their stored types and order, nulls left out.

    Raises
    ------
    ValueError
        For a column of the rows that does not identify a cell.
    """
    if wrong := [name for name in cell if name in BUNDLED and name not in CELL_KEYS]:
        raise ValueError(f"not key columns of a cell: {sorted(wrong)}")
    columns = {}
    for name in (*CELL_KEYS, *(name for name in cell if name not in CELL_KEYS)):
        value = cell.get(name)
        if value is not None:
            # An integral beta must give the id that its stored float gives.
            columns[name] = PYTHON[BUNDLED[name].type](value) if name in BUNDLED else value
    return columns


def cell_id(cell: Mapping[str, Any]) -> str:
    """Canonical JSON of the key columns, nulls left out."""
    return id_of(tuple((name, value, type(value)) for name, value in cell.items()))


@lru_cache(maxsize=2**16)
def id_of(items: tuple[tuple[str, Any, type], ...]) -> str:
    # Cached: an aggregator asks for the same ids with every batch. By type too, since 1 == 1.0 == True.
    return canonical_json(cell_columns({name: value for name, value, _ in items}))


def cell_set_hash(cells: Iterable[Mapping[str, Any]]) -> str:
    """First 12 hex digits of SHA-256 over the sorted cell ids; the order of cells is irrelevant."""
    ids = sorted({cell_id(cell) for cell in cells})
    return hashlib.sha256("\n".join(ids).encode()).hexdigest()[:12]


def conform(table: pa.Table, schema: pa.Schema = REPLICATES) -> pa.Table:
    """The table in the full schema, or some columns of it: in order, absent ones null, no metadata.

    Raises
    ------
    ValueError
        If a column is unknown or cannot be cast without loss.
    """
    if unknown := set(table.column_names) - set(schema.names):
        raise ValueError(f"columns that are not in the schema: {sorted(unknown)}")
    if table.schema.equals(schema, check_metadata=True):
        return table
    arrays = [
        table[field.name].cast(field.type)
        if field.name in table.column_names
        else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def key_codes(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Integers that are equal where the values are, null to null and NaN to NaN included."""
    codes = column.combine_chunks().dictionary_encode().indices
    filled: NDArray[np.int64] = codes.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return filled
