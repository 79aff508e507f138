"""The run directory, on a local disk or an object store.

::

    RUN/study.toml, provenance.json, summary.parquet
    RUN/replicates/path=p<key>/part-<first>-<last>-<cell set hash>.parquet
    RUN/tmp/        unfinished files (local disk only)
    RUN/set_aside/  parts that could not be used
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from ldpflow.errors import InputError
from ldpflow.store.files import OBJECT_STORES, RunFiles
from ldpflow.store.parallel import ahead, in_parallel
from ldpflow.store.part import (
    CompleteRows,
    Part,
    PartMeta,
    UnreadablePart,
    arrange,
    parse_footer,
    parse_rows,
    serialise,
)
from ldpflow.store.ranges import Ranges, subtract, union
from ldpflow.store.reading import each_once, overlapping
from ldpflow.store.schema import REPLICATES, cell_id, conform, union_schema

__all__ = ["Missing", "RunStore"]

REPLICATES_FOLDER = "replicates"
PARTITION = "path=p"
FOOTER_GUESS = 64 * 1024


class Missing(NamedTuple):
    """Replicates ``first`` to ``last`` (exclusive) lack these cells."""

    first: int
    last: int
    cells: tuple[Mapping[str, Any], ...]


class RunStore(RunFiles):
    """A run directory: ``RunStore(root, filesystem=None)``, see :class:`RunFiles`.

    Names of parts follow from their content, so that writing a part twice, by whichever process,
    is harmless.
    """

    def read_study(self) -> str | None:
        """The text of study.toml, or None for a new run."""
        data = self.read("study.toml")
        return None if data is None else data.to_pybytes().decode()

    def write_study(self, text: str) -> None:
        """Write study.toml."""
        self.publish("study.toml", text.encode())

    def read_summary(self) -> pa.Table | None:
        """summary.parquet, or None where there is none."""
        data = self.read("summary.parquet")
        return None if data is None else pq.read_table(pa.BufferReader(data))

    def write_summary(self, table: pa.Table) -> None:
        """Write summary.parquet."""
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd")
        self.publish("summary.parquet", sink.getvalue())

    # Parts

    def write_part(self, path_key: str, table: pa.Table, meta: PartMeta) -> str:
        """Publish rows of one path as a part.

        Parameters
        ----------
        path_key : str
            16 hex digits.
        table : pyarrow.Table
            Complete rows (any order) in the schema REPLICATES; absent nullable columns are null.
        meta : PartMeta

        Returns
        -------
        str
            Name relative to the run directory: ``replicates/path=p<key>/part-<first>-<last>-<cell
            set hash>.parquet``, where ``last`` is exclusive.

        Raises
        ------
        ValueError
            Unless every replicate of the range has every cell and coordinate exactly once.
        """
        return self.publish_part(path_key, arrange(table), meta)

    def publish_part(self, path_key: str, rows: CompleteRows, meta: PartMeta) -> str:
        """:meth:`write_part` of rows that are arranged already."""
        name = f"{REPLICATES_FOLDER}/{PARTITION}{path_key}/{rows.name}"
        self.publish(name, serialise(rows, path_key, meta))
        return name

    def path_keys(self) -> list[str]:
        """Keys of the paths that have parts, sorted."""
        return sorted({key for key, _ in self._files(None)})

    def scan(self, path_key: str | None = None) -> tuple[list[Part], list[UnreadablePart]]:
        """Footers of all parts, sorted by name, and the files that cannot be used."""
        parts: list[Part] = []
        unreadable: list[UnreadablePart] = []
        for found in in_parallel(self._footer, self._files(path_key)):
            if isinstance(found, Part):
                parts.append(found)
            else:
                unreadable.append(found)
        return sorted(parts, key=lambda part: (part.path_key, part.first, part.name)), unreadable

    def unreadable(self, path_key: str | None = None, pages: bool = False) -> list[UnreadablePart]:
        """Files that cannot be used; with ``pages`` all rows are read and checksums verified."""
        parts, found = self.scan(path_key)
        if pages:
            found += [table for _, table in self.loaded(parts) if isinstance(table, UnreadablePart)]
        return found

    def holds_run(self) -> bool:
        """Whether there is something here that a sweep has written."""
        names = ("study.toml", "provenance.json", "summary.parquet", REPLICATES_FOLDER)
        infos = self.filesystem.get_file_info([self.full(name) for name in names])
        return any(info.type != fs.FileType.NotFound for info in infos)

    def move_aside(self) -> str | None:
        """Move the whole run to a name that is free; that name, or None where there is no run.

        Raises
        ------
        InputError
            If the place holds something that is not a run.
        """
        inside = fs.FileSelector(self.base, allow_not_found=True)
        if not self.holds_run():
            names = {info.base_name for info in self.filesystem.get_file_info(inside)}
            if names - {"lock", "tmp"}:
                raise InputError("fresh", self.root, "a run directory", "What lies there is not a run.")
            return None
        number = 1
        while self.filesystem.get_file_info(f"{self.base}.old-{number}").type != (fs.FileType.NotFound):
            number += 1
        target = f"{self.base}.old-{number}"
        if self.filesystem.type_name not in OBJECT_STORES:
            self.filesystem.move(self.base, target)
        else:
            inside = fs.FileSelector(self.base, recursive=True)
            for info in self.filesystem.get_file_info(inside):
                if info.type == fs.FileType.File:
                    self.filesystem.move(info.path, target + info.path.removeprefix(self.base))
        return target

    def set_aside(self, part: UnreadablePart) -> str:
        """Move an unusable part out of replicates/, so that plain readers work; its new name."""
        name = f"set_aside/{part.name.removeprefix(REPLICATES_FOLDER + '/')}"
        if self.filesystem.type_name not in OBJECT_STORES:
            self.filesystem.create_dir(self.full(name).rsplit("/", 1)[0], recursive=True)
        self.filesystem.move(self.full(part.name), self.full(name))
        return name

    def read_rows(
        self,
        path_key: str | None = None,
        columns: Sequence[str] | None = None,
        skip_unreadable: bool = False,
        left_out: list[UnreadablePart] | None = None,
        within: tuple[int, int] | None = None,
    ) -> pa.Table:
        """:meth:`tables` as one."""
        tables = list(self.tables(path_key, columns, skip_unreadable, left_out, within))
        names = list(REPLICATES.names if columns is None else columns)
        return pa.concat_tables(tables or [with_path(REPLICATES.empty_table().select(names), "")])

    def tables(
        self,
        path_key: str | None = None,
        columns: Sequence[str] | None = None,
        skip_unreadable: bool = False,
        left_out: list[UnreadablePart] | None = None,
        within: tuple[int, int] | None = None,
    ) -> Iterator[pa.Table]:
        """Rows of one path or of all, each once, a part at a time.

        Parameters
        ----------
        path_key : str, optional
            All paths unless given.
        columns : sequence of str, optional
            Columns to return; all unless given.
        skip_unreadable : bool
            Leave parts that cannot be used out instead of raising.
        left_out : list, optional
            The parts left out are appended.
        within : (int, int), optional
            Replicates wanted, the last exclusive; other parts are not read.

        Yields
        ------
        pyarrow.Table
            A string column ``path`` (``p<key>``, as in the partition), then the columns; by path and
            first replicate of the part.

        Raises
        ------
        InputError
            If a part cannot be used, or a row is stored twice with different values (names both
            parts).
        """
        parts, unreadable = self.scan(path_key)
        schema = union_schema(part.schema for part in parts)
        names = list(schema.names if columns is None else columns)

        def usable(found: Iterable[UnreadablePart]) -> None:
            for bad in found:
                if not skip_unreadable:
                    raise self.unusable(bad)
                if left_out is not None:
                    left_out.append(bad)

        usable(unreadable)
        if within is not None:
            parts = [part for part in parts if part.first < within[1] and within[0] < part.last]
        shared = overlapping(parts)
        for key, group in groupby(parts, key=lambda part: part.path_key):
            here = list(group)
            alone = [part for part in here if part.name not in shared]
            doubled = [part for part in here if part.name in shared]
            for part, table in chain(self.loaded(alone), each_once(self.loaded(doubled), self.rows_of)):
                if isinstance(table, UnreadablePart):
                    usable([table])
                    continue
                if within is not None and not within[0] <= part.first <= part.last <= within[1]:
                    replicate = pc.field("replicate")
                    table = table.filter((replicate >= within[0]) & (replicate < within[1]))
                yield with_path(conform(table, schema).select(names), key)

    def loaded(
        self, parts: Iterable[Part], columns: Sequence[str] | None = None
    ) -> Iterator[tuple[Part, pa.Table | UnreadablePart]]:
        """Parts and their rows, in order; a few files are read ahead, one part is held."""
        for part, data in ahead(lambda part: self.read(part.name), parts):
            yield part, self.rows_of(part, data, columns)

    def unusable(self, part: UnreadablePart) -> InputError:
        """What to raise where a part has to be read."""
        return InputError(
            self.full(part.name),
            part.reason,
            "a readable part",
            "Remove this file and run the sweep again, or repair it: ldpflow check --repair.",
        )

    def finished(self, path_key: str) -> dict[str, Ranges]:
        """Replicates that are stored, by cell id: sorted disjoint half-open ranges.

        Footers alone are read. Parts that cannot be used count as absent and are warned of (see
        :meth:`unreadable`, :meth:`set_aside`).
        """
        parts, unreadable = self.scan(path_key)
        for bad in unreadable:
            warnings.warn(f"{self.full(bad.name)} counts as missing: {bad.reason}", stacklevel=2)
        ranges: dict[str, list[tuple[int, int]]] = {}
        for part in parts:
            for cell in part.cells:
                ranges.setdefault(cell_id(cell), []).append((part.first, part.last))
        return {cell: union(found) for cell, found in ranges.items()}

    def missing(
        self,
        path_key: str,
        cells: Sequence[Mapping[str, Any]],
        replicates: int,
        block: int = 64,
    ) -> list[Missing]:
        """What is still to be computed, cut at multiples of ``block``.

        Parameters
        ----------
        path_key : str
        cells : sequence of mappings
            Key columns of the cells wanted.
        replicates : int
            Replicates 0 to ``replicates`` (exclusive) are wanted.
        block : int
            Replicates per block of the fixed grid.

        Returns
        -------
        list of Missing
            By first replicate; cells in the order given. Where a block is stored in part (the last
            one of a run that grew), only the replicates that are not there, so that no row comes
            to be stored twice.
        """
        finished = self.finished(path_key)
        wanted = {cell_id(cell): cell for cell in cells}
        gaps = {cell: subtract(0, replicates, finished.get(cell, [])) for cell in wanted}
        batches: dict[tuple[int, int], list[Mapping[str, Any]]] = {}
        for cell, ranges in gaps.items():
            for first, last in ranges:
                while first < last:
                    cut = min(last, (first // block + 1) * block)
                    batches.setdefault((first, cut), []).append(wanted[cell])
                    first = cut
        return [Missing(*batch, tuple(group)) for batch, group in sorted(batches.items())]

    def _files(self, path_key: str | None) -> list[tuple[str, str]]:
        """(path key, name) of every file under replicates/ or one of its partitions."""
        folder = REPLICATES_FOLDER if path_key is None else f"replicates/{PARTITION}{path_key}"
        selector = fs.FileSelector(self.full(folder), allow_not_found=True, recursive=True)
        files = []
        for info in self.filesystem.get_file_info(selector):
            name = info.path.removeprefix(self.base + "/")
            partition = name.split("/")[1]
            if info.type == fs.FileType.File:
                files.append((partition.removeprefix(PARTITION), name))
        return sorted(files)

    def _footer(self, file: tuple[str, str]) -> Part | UnreadablePart:
        path_key, name = file
        with self.filesystem.open_input_file(self.full(name)) as source:
            size = source.size()
            want = min(size, FOOTER_GUESS)
            while True:
                # Reading at an offset: errors of the network surface here, not in the parser.
                tail = source.read_at(want, size - want)
                found = parse_footer(tail, size, name, path_key)
                if not isinstance(found, int):
                    return found
                want = found

    def rows_of(
        self, part: Part, data: pa.Buffer | None = None, columns: Sequence[str] | None = None
    ) -> pa.Table | UnreadablePart:
        """Rows of a part, checksums verified; its bytes are read unless given.

        Of some columns only those are read and verified.
        """
        data = self.read(part.name) if data is None else data
        if data is None:
            return UnreadablePart(part.name, "removed while it was being read")
        return parse_rows(data, part, columns)


def with_path(table: pa.Table, path_key: str) -> pa.Table:
    """The table with the partition as its first column."""
    column = pa.repeat(pa.scalar(f"p{path_key}"), table.num_rows)
    return table.add_column(0, "path", column)
