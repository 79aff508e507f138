"""Columns of the replicates of a run, and the names of their cells.

A later version may add nullable columns: append them to :data:`REPLICATES` (and to
:data:`CELL_KEYS` where they name a cell) and raise :data:`SCHEMA_VERSION`. Old parts read as null
there and keep their cell ids, because an id leaves nulls out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldpflow.settings import canonical_json

__all__ = [
    "CELL_KEYS",
    "FIT_CHECKS",
    "REPLICATES",
    "ROW_KEYS",
    "SCHEMA_VERSION",
    "cell_columns",
    "cell_id",
    "cell_set_hash",
    "conform",
    "key_codes",
]

SCHEMA_VERSION = 2

CELL_KEYS: tuple[str, ...] = (
    "n",
    "method",
    "beta",
    "B",
    "multiplier",
    "M",
    "level",
    "degree",
    "burn_in",
    "variance",
)
"""The columns that name a cell inside a path (each cell has one row per coordinate)."""

ROW_KEYS: tuple[str, ...] = ("replicate", *CELL_KEYS, "coordinate")
"""What identifies a row inside a path, in the order in which the rows of a part are sorted."""

REPLICATES = pa.schema(
    [
        ("replicate", pa.int64()),
        ("n", pa.int64()),
        ("method", pa.string()),
        ("beta", pa.float64()),
        ("B", pa.int64()),
        ("multiplier", pa.string()),
        ("M", pa.int64()),
        ("level", pa.float64()),
        ("coordinate", pa.int32()),
        ("truth", pa.float64()),
        ("estimate", pa.float64()),
        ("se", pa.float64()),
        ("lower", pa.float64()),
        ("upper", pa.float64()),
        ("covered", pa.bool_()),
        ("length", pa.float64()),
        ("status", pa.string()),
        # Since version 2: regression on the transcript and its diagnosis.
        ("degree", pa.int64()),
        ("burn_in", pa.string()),
        ("variance", pa.string()),
        ("relaxation_times", pa.float64()),
        ("condition", pa.float64()),
        ("lack_of_fit", pa.float64()),
    ]
)
"""The full schema of every part. ``path`` is the Hive partition, not a column. Null where absent:
settings that a method does not have, se, covered and the diagnosis. ``status`` is ok, undefined or
diverged."""

FIT_CHECKS: tuple[str, ...] = ("relaxation_times", "condition", "lack_of_fit")
"""What an interval method may say about its own soundness, per row (see
ldpflow.intervals.transcript_regression)."""


def cell_columns(cell: Mapping[str, Any]) -> dict[str, Any]:
    """The key columns of a cell in their stored types, nulls left out.

    Raises
    ------
    ValueError
        For a name that is not in :data:`CELL_KEYS`.
    """
    if unknown := set(cell) - set(CELL_KEYS):
        raise ValueError(f"not key columns of a cell: {sorted(unknown)}")
    columns = {}
    for name in CELL_KEYS:
        value = cell.get(name)
        if value is not None:
            kind = REPLICATES.field(name).type
            # An integral beta must give the id that its stored float gives.
            convert: type = float if pa.types.is_floating(kind) else int if pa.types.is_integer(kind) else str
            columns[name] = convert(value)
    return columns


def cell_id(cell: Mapping[str, Any]) -> str:
    """Canonical JSON of the key columns, nulls left out."""
    return id_of(tuple(cell.items()))


@lru_cache(maxsize=2**16)
def id_of(items: tuple[tuple[str, Any], ...]) -> str:
    # Cached: an aggregator asks for the same ids with every batch.
    return canonical_json(cell_columns(dict(items)))


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
