"""The parts of a run that hold one kind of rows: written, found, read, each row once.

::

    RUN/<kind>/path=p<key>/part-<first>-<last>-<cell set hash>.parquet
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from ldpflow.columns import Column
from ldpflow.errors import DamagedRun, InputError
from ldpflow.store.files import LARGEST, RunFiles
from ldpflow.store.kinds import Kind
from ldpflow.store.overlaps import each_once, overlapping
from ldpflow.store.parallel import ahead, in_parallel
from ldpflow.store.part import (
    MOST_ROWS,
    CompleteRows,
    Part,
    PartMeta,
    UnreadablePart,
    arrange,
    parse_footer,
    parse_rows,
    serialise,
)
from ldpflow.store.ranges import Ranges, union
from ldpflow.store.schema import cell_id, conform, further_columns

PARTITION = "path=p"
PLACE = re.compile(r"path=p([0-9a-f]{16})/part-\d+-\d+-[0-9a-f]{12}\.parquet")
"""A part below the folder of its kind. What has another name is not ours to read or to move."""

REMOVED = "removed while it was being read"
FOOTER_GUESS = 64 * 1024

Damaged = Literal["refuse"] | list[UnreadablePart]
"""What a reader does about parts that cannot be used: refuse, or leave them out and list them."""

Expected = Callable[[Kind, str | None, Sequence[Part], Sequence[UnreadablePart]], Iterator[UnreadablePart]]
"""Parts and paths that cannot be used, contradict the run or are missing from it."""


class Dataset:
    """The parts of one kind of rows of a run.

    Names of parts follow from their content, so that writing a part twice, by whichever process, is
    harmless.

    Parameters
    ----------
    files : RunFiles
        The run.
    kind : Kind
    expected : callable
        Compares parts with what else the run holds.

    Attributes
    ----------
    further : tuple of Column
        Columns beside those of every run that new parts have, see :meth:`declare`.
    """

    def __init__(self, files: RunFiles, kind: Kind, expected: Expected) -> None:
        self.files = files
        self.kind = kind
        self.expected = expected
        self.further: tuple[Column, ...] = ()

    def schema(self, parts: Iterable[Part] = ()) -> pa.Schema:
        """Schema of the rows of several parts together, or of the next part."""
        return self.kind.schema((part.schema for part in parts), self.further)

    # Writing

    def declare(self, columns: Iterable[Column], parts: Sequence[Part]) -> None:
        """Give all parts of the run these columns beside its own: those to come, and those stored.

        Plain readers take a run's columns from one of its parts, so that all must have the same. Parts
        that lack some are written anew under their name, with nulls.

        Parameters
        ----------
        columns : iterable of Column
        parts : sequence of Part
            All that are stored; the run's lock must be held.

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
        """Publish rows of one path as a part.

        Parameters
        ----------
        path_key : str
            16 hex digits.
        rows : pyarrow.Table
            Complete rows in any order; absent nullable columns are null.
        meta : PartMeta
        cells : sequence of mappings, optional
            What every replicate has, of a kind whose rows do not tell.

        Returns
        -------
        str
            Name relative to the run directory: ``<kind>/path=p<key>/part-<first>-<last>-<cell set
            hash>.parquet``, where ``last`` is exclusive.

        Raises
        ------
        ValueError
            Unless every replicate of the range has every row exactly once.
        """
        return self.publish(path_key, arrange(self.kind, rows, cells), meta)

    def publish(self, path_key: str, rows: CompleteRows, meta: PartMeta) -> str:
        """:meth:`write` of rows that are arranged already."""
        schema = self.kind.schema([rows.table.schema], self.further)
        name = f"{self.kind.folder}/{PARTITION}{path_key}/{rows.name}"
        table = conform(rows.table, schema)
        data = serialise(rows.with_table(table), path_key, meta)
        if data.size > LARGEST or table.num_rows > MOST_ROWS:
            raise ValueError(f"{name} has {table.num_rows:,} rows, {data.size:,} bytes: more than a part may")
        self.files.publish(name, data)
        return name

    # Finding

    def path_keys(self) -> list[str]:
        """Keys of the paths that have parts, sorted."""
        return sorted({key for key, _ in self._names(None)})

    def scan(self, path_key: str | None = None, *, damaged: Damaged) -> list[Part]:
        """Footers of all parts, by path and first replicate.

        Parameters
        ----------
        path_key : str, optional
            All paths unless given.
        damaged : "refuse" or list
            What is done about parts that cannot be used: a list gets them, and the others are returned.
            ``"refuse"`` is for whatever shows results: it asks in addition for the rows that the
            run's summary counts, and for parts of one seed and of one origin for each path.

        Raises
        ------
        InputError
            If that is refused; names the part or path.
        """
        found = in_parallel(self._footer, self._names(path_key))
        parts = [part for part in found if isinstance(part, Part)]
        parts.sort(key=lambda part: (part.path_key, part.first, part.name))
        bad = [part for part in found if isinstance(part, UnreadablePart)]
        for one in self.expected(self.kind, path_key, parts, bad) if damaged == "refuse" else bad:
            self.leave_out(one, damaged)
        return parts

    def leave_out(self, bad: UnreadablePart, damaged: Damaged) -> None:
        """Note a part that cannot be used, or refuse to go on."""
        if damaged == "refuse":
            raise self.unusable(bad)
        damaged.append(bad)

    def finished(self, path_key: str) -> dict[str, Ranges]:
        """Replicates that are stored, by cell id: sorted disjoint half-open ranges.

        Footers alone are read. Parts that cannot be used count as absent and are warned of.
        """
        unreadable: list[UnreadablePart] = []
        parts = self.scan(path_key, damaged=unreadable)
        for bad in unreadable:
            warnings.warn(f"{self.files.full(bad.name)} counts as missing: {bad.reason}", stacklevel=2)
        return finished_of(parts)

    # Reading

    def read(
        self,
        path_key: str | None = None,
        columns: Sequence[str] | None = None,
        within: tuple[int, int] | None = None,
        *,
        damaged: Damaged,
    ) -> pa.Table:
        """:meth:`iterate` as one table."""
        tables = list(self.iterate(path_key, columns, within, damaged=damaged))
        if not tables:
            empty = self.schema(self.scan(path_key, damaged=[])).empty_table()
            tables = [with_path(empty if columns is None else empty.select(columns), "")]
        return pa.concat_tables(tables)

    def iterate(
        self,
        path_key: str | None = None,
        columns: Sequence[str] | None = None,
        within: tuple[int, int] | None = None,
        *,
        damaged: Damaged,
    ) -> Iterator[pa.Table]:
        """Rows of one path or of all, each once, a part at a time.

        Parameters
        ----------
        path_key : str, optional
            All paths unless given.
        columns : sequence of str, optional
            Columns to return; all unless given.
        within : (int, int), optional
            Replicates wanted, the last exclusive; other parts are not read.
        damaged : "refuse" or list
            As of :meth:`scan`.

        Yields
        ------
        pyarrow.Table
            A string column ``path`` (``p<key>``, as in the partition), then the columns; by path and
            first replicate of the part.

        Raises
        ------
        InputError
            If a part cannot be used and that is refused, or a row is stored twice with different values
            (names both parts).
        """
        parts = self.scan(path_key, damaged=damaged)
        schema = self.schema(parts)
        names = list(schema.names if columns is None else columns)
        if within is not None:
            parts = [part for part in parts if part.first < within[1] and within[0] < part.last]
        shared = overlapping(parts)
        for key, group in groupby(parts, key=lambda part: part.path_key):
            here = list(group)
            alone = [part for part in here if part.name not in shared]
            doubled = [part for part in here if part.name in shared]
            for part, table in chain(
                self.loaded(alone, damaged=damaged),
                each_once(self.loaded(doubled, damaged=damaged), self.load),
            ):
                if within is not None and not within[0] <= part.first <= part.last <= within[1]:
                    replicate = pc.field("replicate")
                    table = table.filter((replicate >= within[0]) & (replicate < within[1]))
                yield with_path(conform(table, schema).select(names), key)

    def loaded(
        self, parts: Iterable[Part], columns: Sequence[str] | None = None, *, damaged: Damaged
    ) -> Iterator[tuple[Part, pa.Table]]:
        """Parts and their rows, in order; a few files are read ahead, one part is held."""
        for part, data in ahead(lambda part: self._bytes(part), parts):
            table = parsed(part, data, columns)
            if isinstance(table, UnreadablePart):
                self.leave_out(table, damaged)
            else:
                yield part, table

    def load(self, part: Part) -> pa.Table | UnreadablePart:
        """Rows of a part, checksums verified."""
        return parsed(part, self._bytes(part), None)

    def _bytes(self, part: Part) -> pa.Buffer | UnreadablePart | None:
        try:
            return self.files.read(part.name)
        except InputError as error:
            return UnreadablePart(part.name, f"it is no part that a sweep wrote: {error.value}")

    def unusable(self, part: UnreadablePart) -> DamagedRun:
        """Error for a part that has to be read and cannot be."""
        hint = "Run the sweep again, or ldpflow check with --repair, to compute it again."
        if part.reason == REMOVED:
            hint = "A sweep has merged parts: run the command again."
        return DamagedRun(self.files.full(part.name), part.reason, "a readable part", hint)

    def _names(self, path_key: str | None) -> list[tuple[str, str]]:
        """(path key, name) of every part in the folder of the kind, or in one of its partitions."""
        wanted = None if path_key is None else f"{PARTITION}{path_key}"
        parts = []
        for name in self._listed(wanted):
            match = PLACE.fullmatch(name)
            if match is not None and wanted in (None, PARTITION + match[1]):
                parts.append((match[1], f"{self.kind.folder}/{name}"))
        return sorted(parts)

    def foreign(self) -> list[str]:
        """Files in the folder of the parts that are no parts: links, and files that no sweep writes."""
        return sorted(
            f"{self.kind.folder}/{name}" for name in self._listed(None, True) if not PLACE.fullmatch(name)
        )

    def _listed(self, wanted: str | None, links: bool = False) -> list[str]:
        """Names of regular files in the folders of the kind, or in one of them; links on request."""
        if self.files.local:
            return list(regular(Path(self.files.full(self.kind.folder)), wanted, links))
        below = self.files.full(self.kind.folder if wanted is None else f"{self.kind.folder}/{wanted}")
        selector = fs.FileSelector(below, allow_not_found=True, recursive=True)
        infos = self.files.filesystem.get_file_info(selector)
        start = self.files.full(self.kind.folder) + "/"
        return [info.path.removeprefix(start) for info in infos if info.type == fs.FileType.File]

    def _footer(self, file: tuple[str, str]) -> Part | UnreadablePart:
        path_key, name = file
        try:
            source = self.files.opened(name)
        except InputError:
            return UnreadablePart(name, "it is no regular file")
        except FileNotFoundError:
            return UnreadablePart(name, REMOVED)
        with source:
            size = source.size()
            want = min(size, FOOTER_GUESS)
            while True:
                # Reading at an offset: errors of the network surface here, not in the parser.
                tail = source.read_at(want, size - want)
                found = parse_footer(self.kind, tail, size, name, path_key)
                if not isinstance(found, int):
                    return found
                want = found


def regular(folder: Path, wanted: str | None, links: bool) -> Iterator[str]:
    """Regular files in the folders of a folder, or in one of them; no link is followed."""
    if folder.is_symlink() or not folder.is_dir():
        if links and folder.is_symlink():
            yield ""
        return
    with os.scandir(folder) as inside:
        entries = [entry for entry in inside if wanted is None or entry.name == wanted]
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            with os.scandir(entry) as files:
                for file in files:
                    if links or file.is_file(follow_symlinks=False):
                        link = file.is_symlink() or not file.is_file(follow_symlinks=False)
                        yield f"{entry.name}/{file.name}" + (" (no regular file)" if link else "")
        elif links or entry.is_file(follow_symlinks=False):
            yield entry.name


def parsed(
    part: Part, data: pa.Buffer | UnreadablePart | None, columns: Sequence[str] | None
) -> pa.Table | UnreadablePart:
    """Rows of a part from its bytes; of some columns only those are verified."""
    if data is None:
        return UnreadablePart(part.name, REMOVED)
    return data if isinstance(data, UnreadablePart) else parse_rows(data, part, columns)


def finished_of(parts: Iterable[Part]) -> dict[str, Ranges]:
    """Replicates of several parts by cell id."""
    ranges: dict[str, list[tuple[int, int]]] = {}
    for part in parts:
        for cell in part.cells:
            ranges.setdefault(cell_id(cell), []).append((part.first, part.last))
    return {cell: union(found) for cell, found in ranges.items()}


def with_path(table: pa.Table, path_key: str) -> pa.Table:
    """The table with the partition as its first column."""
    column = pa.repeat(pa.scalar(f"p{path_key}"), table.num_rows)
    return table.add_column(0, "path", column)
