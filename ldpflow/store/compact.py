"""Few large parts instead of many small ones, each row once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pyarrow as pa

from ldpflow.store.dataset import Dataset
from ldpflow.store.overlaps import of_cells
from ldpflow.store.part import Part, UnreadablePart, arrange
from ldpflow.store.ranges import intersect, union
from ldpflow.store.run_store import RunStore
from ldpflow.store.schema import cell_id

MAX_ROWS = 1_000_000


def compact(
    store: RunStore, path_keys: Iterable[str] | None = None, max_rows: int = MAX_ROWS
) -> tuple[int, int]:
    """Merge the parts of the replicates of paths.

    Parameters
    ----------
    store : RunStore
        Its lock must be held.
    path_keys : iterable of str, optional
        All paths unless given.
    max_rows : int
        A part with more rows is cut, at a multiple of 64 replicates.

    Returns
    -------
    before, after : int
        Number of parts of these paths.

    Raises
    ------
    InputError
        If a part cannot be used, or two differ on a row.

    Notes
    -----
    New parts are published before old ones are deleted: a reader, or a kill, in between finds rows
    twice and never none. The next sweep or compaction ends that.
    """
    counts = [0, 0]
    rows = store.replicates
    for key in rows.path_keys() if path_keys is None else path_keys:
        parts = rows.scan(key, damaged=[])
        names = {part.name for part in parts}
        kept = compact_path(rows, key, parts, max_rows) if parts else set()
        for name in names - kept:
            store.filesystem.delete_file(store.full(name))
        counts[0] += len(names)
        counts[1] += len(kept)
    return counts[0], counts[1]


def compact_path(dataset: Dataset, key: str, parts: list[Part], max_rows: int) -> set[str]:
    """Publish the rows of a path in large parts; their names."""
    pieces = tiles(parts, max_rows)
    existing = {(part.first, part.last, ids(part.cells)): part.name for part in parts}
    if all((a, b, ids(cells)) in existing for a, b, cells in pieces):
        # All there already: what else there is repeats them, or nothing else is there.
        if len(pieces) < len(parts):
            for _ in whole_rows(dataset, key):
                pass  # raises where repeated rows differ
        return {existing[(a, b, ids(cells))] for a, b, cells in pieces}
    runs = {cell: count for part in parts for cell, count in part.runs.items()}
    origin = replace(parts[0].origin(), runs=runs)
    names = set()
    for first, last, cells in pieces:
        rows = pa.concat_tables(whole_rows(dataset, key, (first, last))).drop_columns("path")
        whole = arrange(dataset.kind, of_cells(rows, cells))
        names.add(dataset.publish(key, whole, origin))
    return names


def whole_rows(dataset: Dataset, key: str, within: tuple[int, int] | None = None) -> Iterator[pa.Table]:
    """Rows of a path.

    Raises
    ------
    InputError
        If a part cannot be used; a path may have fewer rows than before, while it is repaired.
    """
    damaged: list[UnreadablePart] = []
    yield from dataset.iterate(key, within=within, damaged=damaged)
    for bad in damaged:
        raise dataset.unusable(bad)


def ids(cells: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """Identifiers of a set of cells."""
    return frozenset(map(cell_id, cells))


def tiles(parts: list[Part], max_rows: int) -> list[tuple[int, int, list[dict[str, Any]]]]:
    """Ranges and cells that cover what the parts cover, once, in as few pieces as they allow."""
    known = {cell_id(cell): cell for part in parts for cell in part.cells}
    spans: dict[str, list[tuple[int, int]]] = {cell: [] for cell in known}
    for part in parts:
        for cell in ids(part.cells):
            spans[cell].append((part.first, part.last))
    covered = {cell: union(ranges) for cell, ranges in spans.items()}
    cuts = sorted({end for ranges in covered.values() for span in ranges for end in span})
    found: list[tuple[int, int, list[dict[str, Any]]]] = []
    for first, last in pairwise(cuts):
        cells = [known[c] for c, ranges in covered.items() if intersect(ranges, first, last)]
        if not cells:
            continue
        if found and found[-1][1] == first and ids(found[-1][2]) == ids(cells):
            found[-1] = (found[-1][0], last, cells)
        else:
            found.append((first, last, cells))
    result = []
    for first, last, cells in found:
        size = max(max_rows // (len(cells) * parts[0].rows_per_cell) // 64, 1) * 64
        while first < last:
            end = min((first // size + 1) * size, last)
            result.append((first, end, cells))
            first = end
    return result
