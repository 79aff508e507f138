"""A form of result tables whose hash survives new columns and another order of rows.

Of every row the columns that a golden file names are written as text: floats by their hexadecimal form,
nulls as ``null``; a column that a table lacks is null. The rows are sorted as text. Types and metadata
of Arrow do not enter.
"""

from __future__ import annotations

import hashlib

__all__ = ["as_text", "canonical_rows", "column_hashes", "table_hash"]


def as_text(value):
    """A value with nothing rounded; NaN equals itself."""
    if value is None:
        return "null"
    return value.hex() if isinstance(value, float) else str(value)


def canonical_rows(table, columns):
    """Rows as text, sorted."""
    texts = [
        [as_text(value) for value in table[name].to_pylist()]
        if name in table.column_names
        else ["null"] * table.num_rows
        for name in columns
    ]
    return sorted(zip(*texts, strict=True))


def digest(lines):
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def table_hash(table, columns):
    """SHA-256 of the names of the columns and of the canonical rows."""
    rows = canonical_rows(table, columns)
    return digest(["\t".join(columns), *("\t".join(row) for row in rows)])


def column_hashes(table, columns):
    """Eight hex digits for every column that is not all null: they say which columns have changed."""
    rows = canonical_rows(table, columns)
    values = dict(zip(columns, zip(*rows, strict=True), strict=True))
    return {name: digest(v)[:8] for name, v in values.items() if set(v) != {"null"}}
