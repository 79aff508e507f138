"""Datasets of a run: write, find and read the parts of one kind of rows.

A part is RUN/<kind>/path=p<key>/part-<first>-<last>-<cell set hash>.parquet.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from ldpflow.columns import Column
from ldpflow.errors import DamagedRun, InputError, warn
from ldpflow.store.files import LARGEST, read_ahead
from ldpflow.store.part import (
    LARGEST_FOOTER,
    MOST_ROWS,
    CompleteRows,
    Part,
    PartMeta,
    Ranges,
    UnreadablePart,
    arrange,
    cell_ids,
    intersect,
    parse_footer,
    parse_rows,
    sealed_length,
    serialise,
    union,
)
from ldpflow.store.schema import Kind, cell_id, conform, further_columns, key_codes

if TYPE_CHECKING:
    from ldpflow.store.run_store import RunStore

PARTITION = "path=p"
PLACE = re.compile(r"path=p([0-9a-f]{16})/part-\d+-\d+-[0-9a-f]{12}\.parquet")
"""Names of parts below the folder of their kind of rows. Other files are not read or moved."""

REMOVED = "removed while it was being read"
FOOTER_GUESS = 64 * 1024

LARGE = 1_000_000
"""Wanted maximum of rows in a merged part. Larger parts are cut at multiples of 64 replicates."""

MANY, SMALL = 32, 100_000
"""The parts of a path are merged if there are more than MANY, with fewer than SMALL rows on average."""

Damaged = Literal["refuse"] | list[UnreadablePart]
"""What a reader does with unusable parts: "refuse" raises an error, a list receives them."""


class Dataset:
    """The parts of one kind of rows of a run.

    The name of a part follows from its content, so two processes may write the same part.
    """

    def __init__(self, store: RunStore, kind: Kind) -> None:
        self.store = store
        self.kind = kind
        self.further: tuple[Column, ...] = ()
        """Columns of new parts after the columns that all parts have."""

    def schema(self, parts: Iterable[Part] = ()) -> pa.Schema:
        """Common schema of ``parts`` and new parts."""
        return self.kind.schema((part.schema for part in parts), self.further)

    def declare(self, columns: Iterable[Column], parts: Sequence[Part]) -> None:
        """Add columns to stored and new parts of the run. The caller holds the lock of the run.

        All parts have equal columns, because other programs read the columns of a run from one of its parts.
        """
        stored = further_columns(self.schema(parts), self.kind.frozen)
        wanted = self.kind.schema(further=[*stored, *columns])
        self.further = further_columns(wanted, self.kind.frozen)
        for part in parts:
            if not self.further or part.schema.names == wanted.names:
                continue
            rows = self.load(part)
            if isinstance(rows, pa.Table):
                whole = CompleteRows(self.kind, rows, part.first, part.last, part.cells, part.rows_per_cell)
                self.publish(part.path_key, whole, part.origin())

    def write(
        self, path_key: str, rows: pa.Table, meta: PartMeta, cells: Sequence[Mapping[str, Any]] | None = None
    ) -> str:
        """Publish complete rows of one path as a part. Returns the name of the part in the run.

        ``cells``: cells of rows that do not name their cell, see :func:`~ldpflow.store.part.arrange`.
        """
        return self.publish(path_key, arrange(self.kind, rows, cells), meta)

    def publish(self, path_key: str, rows: CompleteRows, meta: PartMeta) -> str:
        schema = self.kind.schema([rows.table.schema], self.further)
        name = f"{self.kind.folder}/{PARTITION}{path_key}/{rows.name}"
        table = conform(rows.table, schema)
        data = serialise(replace(rows, table=table), path_key, meta)
        if data.size > LARGEST or table.num_rows > MOST_ROWS:
            raise ValueError(f"{name} is too large for a part: {table.num_rows:,} rows, {data.size:,} bytes")
        self.store.publish(name, data)
        return name

    def compact(self, path_keys: Iterable[str]) -> None:
        """Merge the parts of paths into few large parts, each row once. The caller holds the lock of the run.

        New parts are published before old parts are deleted. So a reader in the meantime, or after a kill,
        finds every row, perhaps twice.
        """
        for key in path_keys:
            # Not "refuse": during a repair a path may have fewer rows than the summary counts.
            damaged: list[UnreadablePart] = []
            parts = self.scan(key, damaged=damaged)
            existing = {(part.first, part.last, cell_ids(part.cells)): part.name for part in parts}
            pieces = [(first, last, cell_ids(cells)) for first, last, cells in tiles(parts)]
            if len(pieces) == len(parts) and {*pieces} == {*existing}:
                continue
            runs = {cell: count for part in parts for cell, count in part.runs.items()}
            origin = replace(parts[0].origin(), runs=runs)
            kept = set()
            for piece in pieces:
                rows = self.read(key, within=piece[:2], damaged=damaged).drop_columns("path")
                for bad in damaged:
                    raise self.unusable(bad)
                kept.add(existing.get(piece) or self.publish(key, arrange(self.kind, rows), origin))
            for part in parts:
                if part.name not in kept:
                    self.store.filesystem.delete_file(self.store.full(part.name))

    def path_keys(self) -> list[str]:
        return sorted({key for key, _ in self._names(None)})

    def scan(self, path_key: str | None = None, *, damaged: Damaged) -> list[Part]:
        """Read the footers of the parts of one path, or of all parts, sorted by path and first replicate.

        A list ``damaged`` receives the unusable parts. ``"refuse"`` raises an error for an unusable part, for
        fewer rows than the summary counts, for a wrong seed, and for parts of a path that contradict each
        other.
        """
        found = [footer for _, footer in read_ahead(self._footer, self._names(path_key))]
        parts = [part for part in found if isinstance(part, Part)]
        parts.sort(key=lambda part: (part.path_key, part.first, part.name))
        bad = [part for part in found if isinstance(part, UnreadablePart)]
        for one in self.store.contradictions(self.kind, path_key, parts, bad) if damaged == "refuse" else bad:
            self.leave_out(one, damaged)
        return parts

    def leave_out(self, bad: UnreadablePart, damaged: Damaged) -> None:
        if damaged == "refuse":
            raise self.unusable(bad)
        if all(bad.name != known.name for known in damaged):
            damaged.append(bad)

    def finished(self, path_key: str) -> dict[str, Ranges]:
        """Ranges of stored replicates by cell id, from footers. Warns of unusable parts and ignores them."""
        unreadable: list[UnreadablePart] = []
        parts = self.scan(path_key, damaged=unreadable)
        for bad in unreadable:
            warn(f"{self.store.full(bad.name)} counts as missing: {bad.reason}")
        return replicates_by_cell(parts)

    def read(
        self,
        path_key: str | None = None,
        columns: Sequence[str] | None = None,
        within: tuple[int, int] | None = None,
        *,
        damaged: Damaged,
    ) -> pa.Table:
        """Read rows as one table. The arguments are those of :meth:`iterate`."""
        tables = list(self.iterate(path_key, columns, within, damaged=damaged))
        if not tables:
            empty = self.schema(self.scan(path_key, damaged=[])).empty_table()
            tables = [add_path_column(empty if columns is None else empty.select(columns), "")]
        return pa.concat_tables(tables)

    def iterate(
        self,
        path_key: str | None = None,
        columns: Sequence[str] | None = None,
        within: tuple[int, int] | None = None,
        *,
        damaged: Damaged,
    ) -> Iterator[pa.Table]:
        """Iterate over tables of rows of one path, or of all paths. Each row comes once.

        A table has the column ``path`` (``p<key>``), then ``columns``, by default all columns. ``within`` is
        a range of replicates, its end exclusive. Parts with different values of a row are refused.
        """
        parts = self.scan(path_key, damaged=damaged)
        schema = self.schema(parts)
        names = list(schema.names if columns is None else columns)
        if within is not None:
            parts = [part for part in parts if part.first < within[1] and within[0] < part.last]
        shared = overlapping_parts(parts)
        for key, group in groupby(parts, key=lambda part: part.path_key):
            here = list(group)
            alone = [part for part in here if part.name not in shared]
            doubled = [part for part in here if part.name in shared]
            tables = (table for _, table in self.loaded(alone, damaged=damaged))
            for table in chain(tables, self.merged(doubled, damaged=damaged)):
                table = table if within is None else select_replicates(table, *within)
                yield add_path_column(conform(table, schema).select(names), key)

    def merged(self, parts: Sequence[Part], *, damaged: Damaged) -> Iterator[pa.Table]:
        """Iterate over the rows of overlapping parts of one path, each once, by ranges of replicates."""
        for first, last, _ in tiles(parts):
            here = [part for part in parts if part.first < last and first < part.last]
            tables = [
                (part.name, select_replicates(table, first, last))
                for part, table in self.loaded(here, damaged=damaged)
            ]
            if tables:
                yield merge_rows(self.kind, tables)

    def loaded(
        self, parts: Iterable[Part], columns: Sequence[str] | None = None, *, damaged: Damaged
    ) -> Iterator[tuple[Part, pa.Table]]:
        """Iterate over parts and their rows, in order. Threads read the next files."""
        for part, data in read_ahead(self._read, parts):
            table = parse_rows(data, part, columns)
            if isinstance(table, UnreadablePart):
                self.leave_out(table, damaged)
            else:
                yield part, table

    def load(self, part: Part) -> pa.Table | UnreadablePart:
        return parse_rows(self._read(part), part)

    def _read(self, part: Part) -> pa.Buffer | UnreadablePart:
        try:
            data = self.store.read(part.name)
        except InputError as error:
            return UnreadablePart(part.name, f"no sweep has written it: {error.value}")
        return UnreadablePart(part.name, REMOVED) if data is None else data

    def unusable(self, part: UnreadablePart) -> DamagedRun:
        hint = "Run the sweep again, or ldpflow check with `repair`, to compute it again."
        if part.reason == REMOVED:
            hint = "A sweep has merged parts: run the command again."
        return DamagedRun(self.store.full(part.name), part.reason, "a readable part", hint)

    def _names(self, path_key: str | None) -> list[tuple[str, str]]:
        parts = []
        for name, is_regular in self._list(None if path_key is None else f"{PARTITION}{path_key}"):
            match = PLACE.fullmatch(name)
            if is_regular and match is not None:
                parts.append((match[1], f"{self.kind.folder}/{name}"))
        return sorted(parts)

    def foreign(self) -> list[str]:
        """Files in the folder of the parts that are no parts, for example links."""
        return sorted(
            f"{self.kind.folder}/{name}" + ("" if is_regular else " (no regular file)")
            for name, is_regular in self._list(None)
            if not (is_regular and PLACE.fullmatch(name))
        )

    def _list(self, wanted: str | None) -> list[tuple[str, bool]]:
        """Files below the folder of the kind or its subfolder ``wanted``, as (name, is a regular file)."""
        folder = self.store.full(self.kind.folder)
        if self.store.local:
            return list(list_local(Path(folder), wanted))
        below = folder if wanted is None else f"{folder}/{wanted}"
        selector = fs.FileSelector(below, allow_not_found=True, recursive=True)
        infos = self.store.filesystem.get_file_info(selector)
        start = f"{folder}/"
        return [(info.path.removeprefix(start), True) for info in infos if info.type == fs.FileType.File]

    def _footer(self, file: tuple[str, str]) -> Part | UnreadablePart:
        path_key, name = file
        try:
            source = self.store.open(name)
        except InputError:
            return UnreadablePart(name, "it is no regular file")
        except FileNotFoundError:
            return UnreadablePart(name, REMOVED)
        with source:
            # Reads here, so that a network error is not taken for a fault of the footer.
            size = source.size()
            tail = source.read_at(min(size, FOOTER_GUESS), max(size - FOOTER_GUESS, 0))
            length = sealed_length(tail)
            if len(tail) < length <= min(size, LARGEST_FOOTER):
                tail = source.read_at(length, size - length)
        return parse_footer(self.kind, tail, size, name, path_key)


def list_local(folder: Path, wanted: str | None) -> Iterator[tuple[str, bool]]:
    """:meth:`Dataset._list` of a local folder. Follows no links."""
    if folder.is_symlink():
        yield "", False
    if folder.is_symlink() or not folder.is_dir():
        return
    with os.scandir(folder) as inside:
        entries = [entry for entry in inside if wanted is None or entry.name == wanted]
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            with os.scandir(entry) as files:
                yield from (
                    (f"{entry.name}/{file.name}", file.is_file(follow_symlinks=False)) for file in files
                )
        else:
            yield entry.name, entry.is_file(follow_symlinks=False)


def replicates_by_cell(parts: Iterable[Part]) -> dict[str, Ranges]:
    ranges: dict[str, list[tuple[int, int]]] = {}
    for part in parts:
        for cell in part.cells:
            ranges.setdefault(cell_id(cell), []).append((part.first, part.last))
    return {cell: union(found) for cell, found in ranges.items()}


def add_path_column(table: pa.Table, path_key: str) -> pa.Table:
    column = pa.repeat(pa.scalar(f"p{path_key}"), table.num_rows)
    return table.add_column(0, "path", column)


def select_replicates(table: pa.Table, first: int, last: int) -> pa.Table:
    return table.filter((pc.field("replicate") >= first) & (pc.field("replicate") < last))


def paths_to_compact(parts: Sequence[Part]) -> list[str]:
    """Keys of the paths whose parts share a row, or are many and small."""
    shared = overlapping_parts(parts)
    rows: dict[str, list[int]] = {}
    for part in parts:
        rows.setdefault(part.path_key, []).append(part.num_rows)
    many = {key for key, counts in rows.items() if len(counts) > MANY and sum(counts) < len(counts) * SMALL}
    return sorted(many | {part.path_key for part in parts if part.name in shared})


def overlapping_parts(parts: Sequence[Part]) -> set[str]:
    """Names of the parts that share a replicate of a cell with another part."""
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


def merge_rows(kind: Kind, tables: Sequence[tuple[str, pa.Table]]) -> pa.Table:
    """Merge the sorted rows of named tables of a path, each row once. Refuses different values of a row."""
    schema = kind.schema(table.schema for _, table in tables)
    rows = pa.concat_tables([conform(table, schema) for _, table in tables])
    origin = np.repeat(np.arange(len(tables)), [table.num_rows for _, table in tables])
    keys = kind.row_keys(schema)
    order = pc.sort_indices(rows, [(name, "ascending") for name in keys]).to_numpy()
    rows, origin = rows.take(order), origin[order]
    repeated = np.ones(len(order) - 1, dtype=bool)
    differs = ~repeated
    for name in schema.names:
        codes = key_codes(rows[name])
        changes = codes[1:] != codes[:-1]
        if name in keys:
            repeated &= ~changes
        else:
            differs |= changes
    if (repeated & differs).any():
        at = int(np.argmax(repeated & differs))
        row = rows.slice(at, 1).to_pylist()[0]
        key = ", ".join(f"{name} = {row[name]}" for name in keys if row[name] is not None)
        names = " and ".join(tables[place][0] for place in sorted(origin[at : at + 2]))
        allowed = "parts that agree on the rows they share"
        raise InputError(kind.folder, names, allowed, f"They differ at {key}.")
    return rows.filter(pa.array(np.append(True, ~repeated)))


def tiles(parts: Sequence[Part]) -> list[tuple[int, int, list[dict[str, Any]]]]:
    """Split the rows of parts into few disjoint pieces: first replicate, last (exclusive), cells."""
    known = {cell_id(cell): cell for part in parts for cell in part.cells}
    covered = replicates_by_cell(parts)
    ends = {end for ranges in covered.values() for span in ranges for end in span}
    found: list[tuple[int, int, list[dict[str, Any]]]] = []
    for first, last in pairwise(sorted(ends)):
        cells = [known[cell] for cell, ranges in covered.items() if intersect(ranges, first, last)]
        if cells:
            size = max(LARGE // (len(cells) * parts[0].rows_per_cell) // 64, 1) * 64
            cuts = [first, *range((first // size + 1) * size, last, size), last]
            found += [(a, b, cells) for a, b in pairwise(cuts)]
    return found
