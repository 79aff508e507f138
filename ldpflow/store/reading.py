"""Rows that lie in more than one part: found, compared, counted once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ldpflow.errors import InputError
from ldpflow.store.part import Part
from ldpflow.store.schema import CELL_KEYS, REPLICATES, ROW_KEYS, cell_columns, cell_id, key_codes

__all__ = ["of_cells", "overlapping", "without_duplicates"]


def overlapping(parts: Sequence[Part]) -> set[str]:
    """Names of the parts that share a (path, cell, replicate) with another part."""
    by_cell: dict[tuple[str, str], list[Part]] = {}
    for part in parts:
        for cell in part.cells:
            by_cell.setdefault((part.path_key, cell_id(cell)), []).append(part)
    found: set[str] = set()
    for group in by_cell.values():
        group.sort(key=lambda part: part.first)
        furthest = group[0]
        for part in group[1:]:
            if part.first < furthest.last:
                found.update((part.name, furthest.name))
            if part.last > furthest.last:
                furthest = part
    return found


def of_cells(rows: pa.Table, cells: Sequence[Mapping[str, Any]]) -> pa.Table:
    """The rows of these cells (key columns)."""
    chosen = pa.array(np.zeros(rows.num_rows, dtype=bool))
    for cell in map(cell_columns, cells):
        here = pa.array(np.ones(rows.num_rows, dtype=bool))
        for name in CELL_KEYS:
            column = rows[name].combine_chunks()
            same = column.is_null() if name not in cell else pc.equal(column, cell[name])
            here = pc.and_(here, pc.fill_null(same, False))
        chosen = pc.or_(chosen, here)
    return rows.filter(chosen)


def without_duplicates(tables: Sequence[tuple[str, pa.Table]]) -> pa.Table:
    """Rows of several parts of one path, each once, sorted by :data:`ROW_KEYS`.

    Parameters
    ----------
    tables : sequence of (name, table)
        Parts in the full schema.

    Raises
    ------
    InputError
        If two parts hold different values for a row; names both.
    """
    source = np.repeat(np.arange(len(tables)), [table.num_rows for _, table in tables])
    together = pa.concat_tables([table for _, table in tables])
    together = together.append_column("part", pa.array(source)).sort_by(
        [(name, "ascending") for name in (*ROW_KEYS, "part")]
    )
    repeated = np.zeros(together.num_rows, dtype=bool)
    repeated[1:] = True
    differs = np.zeros(together.num_rows, dtype=bool)
    for name in REPLICATES.names:
        codes = key_codes(together[name])
        changed = codes[1:] != codes[:-1]
        if name in ROW_KEYS:
            repeated[1:] &= ~changed
        else:
            differs[1:] |= changed
    conflict = np.flatnonzero(repeated & differs)
    if len(conflict):
        at = int(conflict[0])
        one, other = together.slice(at - 1, 2).to_pylist()
        key = ", ".join(f"{name} = {one[name]}" for name in ROW_KEYS if one[name] is not None)
        raise InputError(
            "replicates",
            f"{tables[one['part']][0]} and {tables[other['part']][0]}",
            "parts that agree on the rows they share",
            f"They differ at {key}.",
        )
    return together.filter(pa.array(~repeated)).drop_columns("part")
