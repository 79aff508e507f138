"""Datasets of a run: write, find and read the parts of one kind of rows.

::

    RUN/<kind>/path=p<key>/part-<first>-<last>-<cell set hash>.parquet
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, groupby, pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import fs

from ldpflow.columns import Column
from ldpflow.errors import DamagedRun, InputError
from ldpflow.store.files import LARGEST, RunFiles, map_parallel, read_ahead
from ldpflow.store.part import (
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
    serialise,
    union,
)
from ldpflow.store.schema import Kind, cell_columns, cell_id, cell_keys, conform, further_columns, key_codes

PARTITION = "path=p"
PLACE = re.compile(r"path=p([0-9a-f]{16})/part-\d+-\d+-[0-9a-f]{12}\.parquet")
"""Names of parts below the folder of their kind. Other files are neither read nor moved."""

REMOVED = "removed while it was being read"
FOOTER_GUESS = 64 * 1024

LARGE = 1_000_000
"""Target rows of a merged part, which ends at a multiple of 64 replicates."""

MANY, SMALL = 32, 100_000
"""Parts of a path are merged if they are more than MANY and have less than SMALL rows on average."""

Damaged = Literal["refuse"] | list[UnreadablePart]
"""Treatment of unusable parts by a reader: refuse, or leave out and list them."""

Expected = Callable[[Kind, str | None, Sequence[Part], Sequence[UnreadablePart]], Iterator[UnreadablePart]]
"""Generator of unusable, contradictory and missing parts and paths."""


class Dataset:
    """The parts of one kind of rows of a run.

    Names of parts follow from their content, so it does no harm if two processes write one part.

    Parameters
    ----------
    files : RunFiles
    kind : Kind
    expected : callable
        Compares parts with the rest of the run.

    Attributes
    ----------
    further : tuple of Column
        Columns of new parts after the frozen ones, see :meth:`declare`.
    """

    def __init__(self, files: RunFiles, kind: Kind, expected: Expected) -> None:
        self.files = files
        self.kind = kind
        self.expected = expected
        self.further: tuple[Column, ...] = ()

    def schema(self, parts: Iterable[Part] = ()) -> pa.Schema:
        """Common schema of several parts, or of the next part."""
        return self.kind.schema((part.schema for part in parts), self.further)

    # Writing

    def declare(self, columns: Iterable[Column], parts: Sequence[Part]) -> None:
        """Add columns to all parts of the run, future and stored.

        Plain readers take a run's columns from one of its parts, so all parts have equal columns. Parts that
        lack some are written again under their name, with nulls.

        Parameters
        ----------
        columns : iterable of Column
        parts : sequence of Part
            All stored parts. The caller holds the run's lock.

        Raises
        ------
        ValueError
            If a column is declared differently by two components, or by the run.
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
        """Publish complete rows of one path, in any order, as a part. Returns its relative name.

        Raises
        ------
        ValueError
            If a replicate of the range lacks a row or has one twice.
        """
        return self.publish(path_key, arrange(self.kind, rows, cells), meta)

    def publish(self, path_key: str, rows: CompleteRows, meta: PartMeta) -> str:
        """Publish arranged rows, see :meth:`write`."""
        schema = self.kind.schema([rows.table.schema], self.further)
        name = f"{self.kind.folder}/{PARTITION}{path_key}/{rows.name}"
        table = conform(rows.table, schema)
        data = serialise(replace(rows, table=table), path_key, meta)
        if data.size > LARGEST or table.num_rows > MOST_ROWS:
            raise ValueError(f"{name} is too large for a part: {table.num_rows:,} rows, {data.size:,} bytes")
        self.files.publish(name, data)
        return name

    def compact(self, path_keys: Iterable[str]) -> None:
        """Merge the parts of paths into few large ones, each row once. The caller holds the run's lock.

        New parts are published before old ones are deleted. A reader in between, or after a kill, may find
        a row twice but misses none.

        Raises
        ------
        InputError
            If a part is unusable, or two parts differ on a row.
        """
        for key in path_keys:
            # A path may have fewer rows than the summary counts while it is repaired.
            damaged: list[UnreadablePart] = []
            parts = self.scan(key, damaged=damaged)
            pieces = tiles(parts)
            existing = {(part.first, part.last, cell_ids(part.cells)): part.name for part in parts}
            kept = {existing.get((first, last, cell_ids(cells)), "") for first, last, cells in pieces}
            if "" in kept:
                runs = {cell: count for part in parts for cell, count in part.runs.items()}
                origin = replace(parts[0].origin(), runs=runs)
            for first, last, cells in pieces if "" in kept or len(kept) < len(parts) else ():
                rows = self.read(key, within=(first, last), damaged=damaged).drop_columns("path")
                for bad in damaged:
                    raise self.unusable(bad)
                if (first, last, cell_ids(cells)) not in existing:
                    kept.add(self.publish(key, arrange(self.kind, of_cells(rows, cells)), origin))
            for part in parts:
                if part.name not in kept:
                    self.files.filesystem.delete_file(self.files.full(part.name))

    # Finding

    def path_keys(self) -> list[str]:
        """Keys of the paths that have parts, sorted."""
        return sorted({key for key, _ in self._names(None)})

    def scan(self, path_key: str | None = None, *, damaged: Damaged) -> list[Part]:
        """Read the footers of all parts, sorted by path and first replicate.

        Parameters
        ----------
        path_key : str, optional
            Default: all paths.
        damaged : "refuse" or list
            A list receives the unusable parts, and the others are returned. ``"refuse"`` is for results. It
            also requires all rows that the summary counts, one seed, and one origin per path.

        Raises
        ------
        InputError
            If ``damaged`` is "refuse". Names the part or path.
        """
        found = map_parallel(self._footer, self._names(path_key))
        parts = [part for part in found if isinstance(part, Part)]
        parts.sort(key=lambda part: (part.path_key, part.first, part.name))
        bad = [part for part in found if isinstance(part, UnreadablePart)]
        for one in self.expected(self.kind, path_key, parts, bad) if damaged == "refuse" else bad:
            self.leave_out(one, damaged)
        return parts

    def leave_out(self, bad: UnreadablePart, damaged: Damaged) -> None:
        """List an unusable part once, or raise its error."""
        if damaged == "refuse":
            raise self.unusable(bad)
        if all(bad.name != known.name for known in damaged):
            damaged.append(bad)

    def finished(self, path_key: str) -> dict[str, Ranges]:
        """Stored replicates by cell id, from footers: sorted disjoint half-open ranges.

        Unusable parts count as absent, with a warning.
        """
        unreadable: list[UnreadablePart] = []
        parts = self.scan(path_key, damaged=unreadable)
        for bad in unreadable:
            warnings.warn(f"{self.files.full(bad.name)} counts as missing: {bad.reason}", stacklevel=2)
        return replicates_by_cell(parts)

    # Reading

    def read(
        self,
        path_key: str | None = None,
        columns: Sequence[str] | None = None,
        within: tuple[int, int] | None = None,
        *,
        damaged: Damaged,
    ) -> pa.Table:
        """Read rows as one table, see :meth:`iterate`."""
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
        """Iterate over the rows of one path or all, each once, part by part.

        Parameters
        ----------
        path_key : str, optional
            Default: all paths.
        columns : sequence of str, optional
            Default: all.
        within : (int, int), optional
            Half-open range of replicates. Default: all.
        damaged : "refuse" or list
            See :meth:`scan`.

        Yields
        ------
        pyarrow.Table
            A string column ``path`` (``p<key>``, as in the partition), then the columns, sorted by path and
            first replicate of the part.

        Raises
        ------
        InputError
            If a part is unusable and ``damaged`` is "refuse", or two parts differ on a row (names both).
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
            for part, table in chain(
                self.loaded(alone, damaged=damaged),
                deduplicate(self.loaded(doubled, damaged=damaged), self.load),
            ):
                if within is not None and not within[0] <= part.first <= part.last <= within[1]:
                    replicate = pc.field("replicate")
                    table = table.filter((replicate >= within[0]) & (replicate < within[1]))
                yield add_path_column(conform(table, schema).select(names), key)

    def loaded(
        self, parts: Iterable[Part], columns: Sequence[str] | None = None, *, damaged: Damaged
    ) -> Iterator[tuple[Part, pa.Table]]:
        """Iterate over parts and their rows, in order. A few files are read ahead."""
        for part, data in read_ahead(self._read, parts):
            table = parse_rows(data, part, columns)
            if isinstance(table, UnreadablePart):
                self.leave_out(table, damaged)
            else:
                yield part, table

    def load(self, part: Part) -> pa.Table | UnreadablePart:
        """Read the rows of a part and verify its checksums."""
        return parse_rows(self._read(part), part)

    def _read(self, part: Part) -> pa.Buffer | UnreadablePart:
        try:
            data = self.files.read(part.name)
        except InputError as error:
            return UnreadablePart(part.name, f"it is no part that a sweep wrote: {error.value}")
        return UnreadablePart(part.name, REMOVED) if data is None else data

    def unusable(self, part: UnreadablePart) -> DamagedRun:
        """Error for an unusable part."""
        hint = "Run the sweep again, or ldpflow check with --repair, to compute it again."
        if part.reason == REMOVED:
            hint = "A sweep has merged parts: run the command again."
        return DamagedRun(self.files.full(part.name), part.reason, "a readable part", hint)

    def _names(self, path_key: str | None) -> list[tuple[str, str]]:
        """Path key and name of every part, or of the parts of one path."""
        wanted = None if path_key is None else f"{PARTITION}{path_key}"
        parts = []
        for name, is_regular in self._list(wanted):
            match = PLACE.fullmatch(name)
            if is_regular and match is not None and wanted in (None, PARTITION + match[1]):
                parts.append((match[1], f"{self.kind.folder}/{name}"))
        return sorted(parts)

    def foreign(self) -> list[str]:
        """Files in the folder of the parts that are no parts, such as links."""
        return sorted(
            f"{self.kind.folder}/{name}" + ("" if is_regular else " (no regular file)")
            for name, is_regular in self._list(None)
            if not (is_regular and PLACE.fullmatch(name))
        )

    def _list(self, wanted: str | None) -> list[tuple[str, bool]]:
        """Names below the folder of the kind, or one partition, and whether each is a regular file."""
        if self.files.local:
            return list(list_local(Path(self.files.full(self.kind.folder)), wanted))
        below = self.files.full(self.kind.folder if wanted is None else f"{self.kind.folder}/{wanted}")
        selector = fs.FileSelector(below, allow_not_found=True, recursive=True)
        infos = self.files.filesystem.get_file_info(selector)
        start = self.files.full(self.kind.folder) + "/"
        return [(info.path.removeprefix(start), True) for info in infos if info.type == fs.FileType.File]

    def _footer(self, file: tuple[str, str]) -> Part | UnreadablePart:
        path_key, name = file
        try:
            source = self.files.open(name)
        except InputError:
            return UnreadablePart(name, "it is no regular file")
        except FileNotFoundError:
            return UnreadablePart(name, REMOVED)
        with source:
            size = source.size()
            want = min(size, FOOTER_GUESS)
            while True:
                # By offset: network errors surface here, not in the parser.
                tail = source.read_at(want, size - want)
                found = parse_footer(self.kind, tail, size, name, path_key)
                if not isinstance(found, int):
                    return found
                want = found


def list_local(folder: Path, wanted: str | None) -> Iterator[tuple[str, bool]]:
    """:meth:`Dataset._list` of a local folder; no link is followed."""
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
    """Ranges of replicates by cell id, over several parts."""
    ranges: dict[str, list[tuple[int, int]]] = {}
    for part in parts:
        for cell in part.cells:
            ranges.setdefault(cell_id(cell), []).append((part.first, part.last))
    return {cell: union(found) for cell, found in ranges.items()}


def add_path_column(table: pa.Table, path_key: str) -> pa.Table:
    column = pa.repeat(pa.scalar(f"p{path_key}"), table.num_rows)
    return table.add_column(0, "path", column)


Read = tuple[Part, pa.Table]


def paths_to_compact(parts: Sequence[Part]) -> list[str]:
    """Keys of the paths with a row in two parts, or with many small parts."""
    shared = overlapping_parts(parts)
    rows: dict[str, list[int]] = {}
    for part in parts:
        rows.setdefault(part.path_key, []).append(part.num_rows)
    many = {key for key, counts in rows.items() if len(counts) > MANY and sum(counts) < len(counts) * SMALL}
    return sorted(many | {part.path_key for part in parts if part.name in shared})


def overlapping_parts(parts: Sequence[Part]) -> set[str]:
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


def deduplicate(parts: Iterable[Read], load: Callable[[Part], pa.Table | UnreadablePart]) -> Iterator[Read]:
    """Iterate over the parts of one path without the rows of earlier parts.

    Two parts are in memory at a time. ``load`` reads an earlier part again for the comparison.

    Raises
    ------
    InputError
        If two parts differ on a row. Names both.
    """
    before: list[Part] = []
    for part, table in parts:
        left = np.ones(table.num_rows, dtype=bool)
        for other in before:
            within = max(part.first, other.first), min(part.last, other.last)
            cells = cell_ids(part.cells) & cell_ids(other.cells)
            own = rows_of(part, within, cells)
            if own.any() and not isinstance(again := load(other), UnreadablePart):
                theirs = again.filter(pa.array(rows_of(other, within, cells)))
                check_equal(part.kind, (other.name, theirs), (part.name, table.filter(pa.array(own))))
                left &= ~own
        before.append(part)
        yield part, table if left.all() else table.filter(pa.array(left))


def rows_of(part: Part, within: tuple[int, int], cells: Collection[str]) -> NDArray[np.bool_]:
    """Mask of the rows of some replicates and cells in a whole part."""
    replicates = np.arange(part.first, part.last)
    here = (within[0] <= replicates) & (replicates < within[1])
    wanted = [cell_id(cell) in cells for cell in part.cells for _ in range(part.rows_per_cell)]
    return np.logical_and.outer(here, wanted).reshape(-1)


def of_cells(rows: pa.Table, cells: Sequence[Mapping[str, Any]]) -> pa.Table:
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
    """Refuse two named tables that differ in a row. Both are sorted by the keys of their rows.

    Raises
    ------
    InputError
        Naming both and the first row that differs.
    """
    schema = kind.schema([one[1].schema, other[1].schema])
    tables = [conform(table, schema) for _, table in (one, other)]
    count = tables[0].num_rows
    differs = np.zeros(count, dtype=bool)
    for name in schema.names:
        codes = key_codes(pa.chunked_array([*tables[0][name].chunks, *tables[1][name].chunks]))
        differs |= codes[:count] != codes[count:]
    if differs.any():
        row = tables[0].slice(int(np.flatnonzero(differs)[0]), 1).to_pylist()[0]
        keys = kind.row_keys(schema)
        key = ", ".join(f"{name} = {row[name]}" for name in keys if row[name] is not None)
        raise InputError(
            kind.folder,
            f"{one[0]} and {other[0]}",
            "parts that agree on the rows they share",
            f"They differ at {key}.",
        )


def tiles(parts: Sequence[Part]) -> list[tuple[int, int, list[dict[str, Any]]]]:
    """Split the rows of parts into few disjoint pieces: first and last replicate, cells."""
    known = {cell_id(cell): cell for part in parts for cell in part.cells}
    covered = replicates_by_cell(parts)
    ends = {end for ranges in covered.values() for span in ranges for end in span}
    pieces: list[tuple[int, int, list[dict[str, Any]]]] = []
    for first, last in pairwise(sorted(ends)):
        cells = [known[cell] for cell, ranges in covered.items() if intersect(ranges, first, last)]
        if pieces and pieces[-1][1] == first and cell_ids(pieces[-1][2]) == cell_ids(cells):
            first = pieces.pop()[0]
        if cells:
            pieces.append((first, last, cells))
    found = []
    for first, last, cells in pieces:
        size = max(LARGE // (len(cells) * parts[0].rows_per_cell) // 64, 1) * 64
        cuts = [first, *range((first // size + 1) * size, last, size), last]
        found += [(a, b, cells) for a, b in pairwise(cuts)]
    return found
