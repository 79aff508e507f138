"""Rows that lie in more than one part: found, compared, counted once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldpflow.errors import InputError
from ldpflow.store.kinds import Kind
from ldpflow.store.part import Part, UnreadablePart
from ldpflow.store.schema import cell_columns, cell_id, cell_keys, conform, key_codes

COMPARED_ROWS = 2**17  # at a time: sorting takes hundreds of bytes a row

Read = tuple[Part, pa.Table]


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


def each_once(parts: Iterable[Read], load: Callable[[Part], pa.Table | UnreadablePart]) -> Iterator[Read]:
    """Parts of one path with the rows that no part before has; one at a time is held.

    Parameters
    ----------
    parts : iterable of (part, rows)
        Whole parts in the full schema.
    load : callable
        Reads an earlier part again, to be compared with.

    Raises
    ------
    InputError
        If a part holds other values for a row of a part before; names both.
    """
    before: list[tuple[Part, dict[str, int]]] = []
    for part, table in parts:
        own = {cell_id(cell): at for at, cell in enumerate(part.cells)}
        left = np.ones((part.last - part.first, len(part.cells), part.rows_per_cell), dtype=bool)
        for other, theirs in before:
            first, last = max(part.first, other.first), min(part.last, other.last)
            shared = [cell for cell in own if cell in theirs] if first < last else []
            if shared and not isinstance(again := load(other), UnreadablePart):
                at = [own[cell] for cell in shared], [theirs[cell] for cell in shared]
                step = max(COMPARED_ROWS // (len(shared) * part.rows_per_cell), 1)
                for start in range(first, last, step):
                    span = start, min(start + step, last)
                    theirs_again = of_replicates(again, other, *span, at[1])
                    own_again = of_replicates(table, part, *span, at[0])
                    check_equal(part.kind, (other.name, theirs_again), (part.name, own_again))
                left[first - part.first : last - part.first, at[0]] = False
        before.append((part, own))
        yield part, table if left.all() else table.filter(pa.array(left.reshape(-1)))


def of_replicates(
    rows: pa.Table, part: Part, first: int, last: int, cells: Sequence[int] | None = None
) -> pa.Table:
    """Rows of the replicates first to last (exclusive) of a whole part; of all cells or of these."""
    width = len(part.cells) * part.rows_per_cell
    inside = rows.slice((first - part.first) * width, (last - first) * width)
    if cells is None:
        return inside
    at: NDArray[np.int64] = np.arange(inside.num_rows).reshape(last - first, -1, part.rows_per_cell)
    return inside.take(pa.array(at[:, list(cells)].reshape(-1)))


def of_cells(rows: pa.Table, cells: Sequence[Mapping[str, Any]]) -> pa.Table:
    """The rows of these cells (key columns)."""
    chosen = pa.array(np.zeros(rows.num_rows, dtype=bool))
    for cell in map(cell_columns, cells):
        here = pa.array(np.ones(rows.num_rows, dtype=bool))
        for name in cell_keys(rows.schema):
            column = rows[name].combine_chunks()
            same = column.is_null() if name not in cell else pc.equal(column, cell[name])
            here = pc.and_(here, pc.fill_null(same, False))
        chosen = pc.or_(chosen, here)
    return rows.filter(chosen)


def check_equal(kind: Kind, one: tuple[str, pa.Table], other: tuple[str, pa.Table]) -> None:
    """Compare two names with the same rows, in any order.

    Raises
    ------
    InputError
        If they differ; names both and the first row in which they do.
    """
    schema = kind.schema([one[1].schema, other[1].schema])
    keys = [(name, "ascending") for name in kind.row_keys(schema)]
    tables = [conform(table, schema).sort_by(keys) for _, table in (one, other)]
    count = tables[0].num_rows
    differs = np.zeros(count, dtype=bool)
    for name in schema.names:
        codes = key_codes(pa.chunked_array([*tables[0][name].chunks, *tables[1][name].chunks]))
        differs |= codes[:count] != codes[count:]
    if differs.any():
        row = tables[0].slice(int(np.flatnonzero(differs)[0]), 1).to_pylist()[0]
        key = ", ".join(f"{name} = {row[name]}" for name, _ in keys if row[name] is not None)
        raise InputError(
            kind.folder,
            f"{one[0]} and {other[0]}",
            "parts that agree on the rows they share",
            f"They differ at {key}.",
        )
