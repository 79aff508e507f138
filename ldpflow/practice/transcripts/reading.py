"""Files of transcripts: regular ones that are read in several passes, and what is special to CSV.

CSV is in UTF-8 with a header, one report a line, lines of at most 1 MiB.

Reading transcripts in chunks: Parquet, CSV, and tables in memory, one row per report.

Columns ``report`` and ``theta`` (what the user was asked, theta_{i-1}), or ``report_0, report_1, ...`` and
``theta_0, ...`` for a vector; optional ``step``, ``epsilon``, ``round`` and ``user``. Memory is that of
a chunk and of what the file format reads at once. A file is opened without waiting and must be a regular one.
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from io import BufferedReader
from itertools import islice
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldpflow.documents import decode_text, open_regular
from ldpflow.errors import InputError
from ldpflow.practice.transcripts.values import (
    RowError,
    as_floats,
    as_names,
    as_whole,
    check_names,
    is_text,
    short_names,
)

FORM = "a Parquet or CSV file"


@dataclass(frozen=True)
class RegularFile:
    """A transcript on the disk.

    Parameters
    ----------
    place : str
        Path.
    state : tuple of int
        Device, inode, size and time of change.
    """

    place: str
    state: tuple[int, ...]

    @classmethod
    def of(cls, place: str) -> RegularFile:
        """The file at a path.

        Raises
        ------
        InputError
            If it is not a regular file that can be read.
        """
        descriptor = open_regular(place, "file", FORM)
        state = state_of(descriptor)
        os.close(descriptor)
        return cls(place, state)

    def descriptor(self) -> int:
        """Descriptor of the file, opened anew.

        Raises
        ------
        InputError
            If it cannot be read, or changed since it was opened first.
        """
        descriptor = open_regular(self.place, "file", FORM)
        if state_of(descriptor) == self.state:
            return descriptor
        os.close(descriptor)
        raise self.error("a file that does not change while it is read", "Take a copy.")

    def for_python(self) -> BufferedReader:
        """The file, opened by Python."""
        return open(self.descriptor(), "rb")

    def for_arrow(self) -> pa.NativeFile:
        """The file, opened by Arrow: it reads ahead in threads, which must not need Python."""
        descriptor = self.descriptor()
        try:
            return pa.OSFile(f"/proc/self/fd/{descriptor}")
        finally:
            os.close(descriptor)

    def error(self, allowed: str, hint: str = "") -> InputError:
        """An error that names the file."""
        return InputError("file", self.place, allowed, hint)


def state_of(descriptor: int) -> tuple[int, ...]:
    """Device, inode, size and time of change of an opened file."""
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


LARGEST_LINE = 2**20
HEADER = re.compile(rb"[^\r\n]*(\r\n|\r|\n)?")
TEXTS = 4096
"""Rows that are looked through together."""

Types = dict[str, pa.DataType]


@dataclass(frozen=True)
class CsvFile:
    """A transcript in CSV.

    Parameters
    ----------
    file : RegularFile
    """

    file: RegularFile

    @cached_property
    def header(self) -> bytes:
        """The first line with its end."""
        with self.file.for_python() as file:
            found = HEADER.match(file.read(LARGEST_LINE + 1))
        assert found is not None
        if len(found[0]) > LARGEST_LINE:
            raise self.file.error(f"a CSV file with a header of at most {LARGEST_LINE:,} bytes")
        return found[0]

    @cached_property
    def names(self) -> list[str]:
        """Names of the columns."""
        try:
            line = self.header.decode("utf-8-sig").rstrip("\r\n")
            names = next(csv.reader([line], strict=True), [])
        except UnicodeDecodeError as error:
            hint = f"Byte {error.object[error.start]:#04x} at position {error.start} is not."
            raise self.file.error("a CSV file in UTF-8", hint) from None
        except csv.Error as error:
            raise self.file.error("a CSV file with a header", f"In its first line: {error}.") from None
        if not names:
            raise self.file.error("a CSV file with a header")
        return [name.strip() for name in names]

    @cached_property
    def rows(self) -> int:
        """Lines after the header that are not empty."""
        count, before = 0, np.True_
        with self.file.for_python() as file:
            file.seek(len(self.header))
            while data := file.read(2**22):
                values = np.frombuffer(data, np.uint8)
                ends = (values == ord("\n")) | (values == ord("\r"))
                count += int(np.count_nonzero(~ends[1:] & ends[:-1])) + int(before & ~ends[0])
                before = ends[-1]
        return count

    def batches(self, types: Types) -> Iterator[pa.RecordBatch]:
        """Batches of some columns up to the first line that is wrong, which is raised after them.

        Raises
        ------
        RowError
            At the first value that is not of its column's type, or line with another number of values.
        InputError
            If a line is longer than :data:`LARGEST_LINE`.
        """
        if not self.rows:
            return
        done = 0
        try:
            with self.file.for_arrow() as file:
                file.seek(len(self.header))
                for batch in reader_of(file, self.names, types):
                    yield batch
                    done += batch.num_rows
        except pa.ArrowInvalid as error:
            reason = " ".join(str(error).split())[:300]
        else:
            return
        # What is wrong lies in the rows that follow: look through their texts.
        for columns, ragged in self.texts(list(types), done):
            fault = first_fault(columns, types, done + 1) or ragged
            sound = len(columns[0]) if fault is None else fault.row - done - 1
            pairs = zip(columns, types.values(), strict=True)
            values = [converted(texts[:sound], kind) for texts, kind in pairs]
            yield pa.RecordBatch.from_arrays(values, list(types))
            if fault is not None:
                raise fault
            done += sound
        raise self.file.error(f"a CSV file with lines of at most {LARGEST_LINE:,} bytes", f"{reason}.")

    def texts(self, names: list[str], done: int) -> Iterator[tuple[list[list[str]], RowError | None]]:
        """Texts of some columns after the first ``done`` rows, and the error where the next row is ragged."""
        places = [self.names.index(name) for name in names]
        wanted = len(self.names)
        limit = csv.field_size_limit(LARGEST_LINE)
        try:
            with self.file.for_python() as file:
                file.seek(len(self.header))
                rows = islice(filter(None, csv.reader(lines_of(file))), done, None)
                error: RowError | None = None
                while error is None:
                    columns: list[list[str]] = [[] for _ in places]
                    for row in islice(rows, TEXTS):
                        if len(row) != wanted:
                            allowed = f"{wanted}, one for each name of the header"
                            at = done + len(columns[0]) + 1
                            error = RowError(at, "number of values", len(row), allowed)
                            break
                        for column, place in zip(columns, places, strict=True):
                            column.append(row[place])
                    if not columns[0] and error is None:
                        return
                    done += len(columns[0])
                    yield columns, error
        finally:
            csv.field_size_limit(limit)


def lines_of(file: BinaryIO) -> Iterator[str]:
    """Lines up to the first that is too long; latin-1 has a character for every byte."""
    lines = io.TextIOWrapper(file, "latin-1", newline="")
    while 0 < len(line := lines.readline(LARGEST_LINE + 1)) <= LARGEST_LINE:
        yield line


def reader_of(file: pa.NativeFile, names: list[str], types: Types) -> Iterable[pa.RecordBatch]:
    """Arrow's reader of some columns of a CSV file without a header."""
    from pyarrow.csv import ConvertOptions, ReadOptions, open_csv

    conversion = ConvertOptions(
        column_types=types, include_columns=list(types), null_values=[""], strings_can_be_null=True
    )
    found: Iterable[pa.RecordBatch] = open_csv(
        file,
        ReadOptions(use_threads=False, block_size=LARGEST_LINE, column_names=names),
        convert_options=conversion,
    )
    return found


def converted(texts: list[str], kind: pa.DataType) -> pa.Array:
    """Texts as values of a type, as Arrow reads them from a CSV file."""
    if pa.types.is_binary(kind):
        return pa.array([text.encode("latin-1") or None for text in texts], kind)
    trimmed = pc.ascii_trim_whitespace(pa.array([text or None for text in texts], pa.string()))
    return pc.cast(trimmed, kind)


def first_fault(columns: list[list[str]], types: Types, first: int) -> RowError | None:
    """The first text that is no value of its column's type; ``first`` is the number of the first row."""
    found: list[tuple[int, str, str]] = []
    for (name, kind), texts in zip(types.items(), columns, strict=True):
        low, high = 0, len(texts)
        if converts(texts, kind):
            continue
        # The first `low` texts convert, the first `high` do not.
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if converts(texts[:middle], kind) else (low, middle)
        found.append((low, name, texts[low]))
    if not found:
        return None
    at, name, text = min(found, key=lambda item: item[0])
    shown = text.encode("latin-1").decode("utf-8", "backslashreplace")
    allowed = "a whole number" if pa.types.is_integer(types[name]) else "a number"
    return RowError(first + at, name, shown, allowed)


def converts(texts: list[str], kind: pa.DataType) -> bool:
    """Whether texts are values of the type."""
    try:
        converted(texts, kind)
    except pa.ArrowInvalid:
        return False
    return True


CHUNK = 2**16
METADATA = b"ldpflow"
READ_ROWS = 2**16

MOST_COORDINATES = 64
"""Most coordinates of theta, as in the problems of a study."""

LARGEST_ROW_GROUP = 2**29
"""Most bytes of a row group of a Parquet file when it is unpacked."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Columns:
    """Which columns a transcript has.

    Parameters
    ----------
    reports, thetas : tuple of str
        One name, or one per coordinate; thetas may be empty. A report that is a cell is one number for all
        coordinates.
    optional : tuple of str
        Of ``step``, ``epsilon``, ``round``, ``user``.
    ignored : tuple of str
        Columns that mean nothing here.
    """

    reports: tuple[str, ...]
    thetas: tuple[str, ...]
    optional: tuple[str, ...]
    ignored: tuple[str, ...]

    @property
    def read(self) -> list[str]:
        """Names of all that is read."""
        return [*self.reports, *self.thetas, *self.optional]

    @classmethod
    def of(cls, names: list[str]) -> Columns:
        """The columns among the names of a file.

        Raises
        ------
        InputError
            If there is no report, or names are doubled or have a gap.
        """
        doubled = next((name for name, count in Counter(names).items() if count > 1), None)
        if doubled is not None:
            raise InputError("columns", doubled, "every name once", "The file has it twice.")
        reports, thetas = coordinates("report", names), coordinates("theta", names)
        if not reports:
            shown = [name if len(name) < 40 else f"{name[:40]}..." for name in names[:10]]
            more = f" and {len(names) - 10:,} more" if len(names) > 10 else ""
            hint = f"The file has {', '.join(shown) or 'none'}{more}."
            raise InputError("columns", None, "a column report (or report_0, report_1, ...)", hint)
        optional = tuple(name for name in ("step", "epsilon", "round", "user") if name in names)
        read = {*reports, *thetas, *optional}
        return cls(reports, thetas, optional, tuple(name for name in names if name not in read))


def coordinates(stem: str, names: list[str]) -> tuple[str, ...]:
    """``stem`` alone, or ``stem_0``, ``stem_1``, ... without a gap."""
    form = f"{stem}_0, {stem}_1, ..."
    numbered = [name for name in names if re.fullmatch(rf"{stem}_\d+", name)]
    if stem in names:
        if numbered:
            raise InputError("columns", f"{stem} and {numbered[0]}", f"{stem} or {form}, not both")
        return (stem,)
    if len(numbered) > MOST_COORDINATES:
        raise InputError("columns", f"{len(numbered):,} columns {form}", f"at most {MOST_COORDINATES}")
    wanted = tuple(f"{stem}_{j}" for j in range(len(numbered)))
    for name in numbered:
        if name not in wanted:
            raise InputError("columns", name, f"{form} without a gap, as in {', '.join(wanted)}"[:200])
    return wanted


@dataclass(frozen=True)
class Chunk:
    """Consecutive rows of a transcript; absent columns are None.

    Parameters
    ----------
    first : int
        Number of its first row, from 1.
    reports : ndarray, shape (m, d), or (m, 1) where a report is a cell
    thetas : ndarray, shape (m, d), or None
    steps, epsilons : ndarray, shape (m,), or None
    rounds : ndarray of int64, shape (m,), or None
    users : pyarrow.Array, or None
    """

    first: int
    reports: Floats
    thetas: Floats | None
    steps: Floats | None
    epsilons: Floats | None
    rounds: NDArray[np.int64] | None
    users: Any

    def __len__(self) -> int:
        return len(self.reports)

    def before(self, row: int) -> Chunk:
        """The rows before one of them."""
        end = row - self.first
        return Chunk(
            self.first,
            self.reports[:end],
            None if self.thetas is None else self.thetas[:end],
            None if self.steps is None else self.steps[:end],
            None if self.epsilons is None else self.epsilons[:end],
            None if self.rounds is None else self.rounds[:end],
            None if self.users is None else self.users[:end],
        )


@dataclass(frozen=True)
class Transcript:
    """A transcript: a Parquet file, a CSV file or an Arrow table.

    Parameters
    ----------
    place : str
        Path of the file; ``table`` for one in memory.
    table : pyarrow.Table, optional
    file : RegularFile, optional
    """

    place: str
    table: pa.Table | None = None
    file: RegularFile | None = None

    @classmethod
    def of(cls, source: object) -> Transcript:
        """From a path, a pyarrow table, or what pyarrow makes one of (pandas, polars, a mapping)."""
        if isinstance(source, Transcript):
            return source
        if isinstance(source, (str, bytes, os.PathLike)):
            place = os.fsdecode(source)
            return cls(place, file=RegularFile.of(place))
        if isinstance(source, pa.Table):
            return cls("table", source)
        if not isinstance(source, dict) and not hasattr(source, "__arrow_c_stream__"):
            raise InputError("table", type(source).__name__, "a path, an Arrow table or a data frame")
        try:
            return cls("table", pa.table(source))
        except (pa.ArrowException, TypeError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise InputError("table", type(source).__name__, "columns of one length", f"{reason}.") from None

    @cached_property
    def parquet(self) -> bool:
        """Whether the file is Parquet, by its name."""
        return self.place.lower().endswith((".parquet", ".pq"))

    @cached_property
    def schema(self) -> pa.Schema:
        """Names and types; those of a CSV file are read off its first block."""
        if self.table is not None:
            return self.table.schema
        if self.parquet:
            return self.parquet_file().schema_arrow
        return pa.schema([(name, pa.string()) for name in self.csv_file.names])

    @cached_property
    def columns(self) -> Columns:
        """Which columns it has."""
        return Columns.of(self.schema.names)

    @cached_property
    def rows(self) -> int:
        """Number of rows: from the metadata, or the lines of a CSV file."""
        if self.table is not None:
            return int(self.table.num_rows)
        return int(self.parquet_file().metadata.num_rows) if self.parquet else self.csv_file.rows

    def settings(self) -> str | None:
        """TOML that ldpflow wrote into the file's metadata, or None."""
        stored = self.schema.metadata
        if self.table is None and self.parquet:
            stored = self.parquet_file().metadata.metadata
        found = (stored or {}).get(METADATA)
        return None if found is None else decode_text(found, "file", self.place, "settings in its metadata")

    def sha256(self) -> str | None:
        """Digest of the file; None for a table in memory."""
        if self.file is None:
            return None
        with self.file.for_python() as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def chunks(self, size: int = CHUNK) -> Iterator[Chunk]:
        """The rows in order, ``size`` at a time, up to the first one with a value that cannot be read.

        Raises
        ------
        RowError
            After the rows before it.
        """
        first = 1
        waiting: list[pa.RecordBatch] = []
        count = 0
        batches = short_names(self.batches())
        wrong: RowError | None = None
        while wrong is None:
            try:
                batch = next(batches, None)
            except RowError as error:
                batch, wrong = None, error
            while batch is not None and batch.num_rows:
                part = batch.slice(0, size - count)
                waiting.append(part)
                count += part.num_rows
                batch = batch.slice(part.num_rows)
                if count == size:
                    yield from self.sound(pa.Table.from_batches(waiting), first)
                    first += count
                    waiting, count = [], 0
            if batch is None:
                break
        if count:
            yield from self.sound(pa.Table.from_batches(waiting), first)
        if wrong is not None:
            raise wrong

    def sound(self, table: pa.Table, first: int) -> Iterator[Chunk]:
        """A chunk; where a value is missing or of another type, the rows before it, and then the error."""
        try:
            found = self.chunk(table, first)
        except RowError as error:
            if error.row > first:
                yield from self.sound(table.slice(0, error.row - first), first)
            raise
        yield found

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Record batches of the columns that are read, as they come."""
        names = self.columns.read
        if self.table is not None:
            yield from self.table.select(names).to_batches(max_chunksize=READ_ROWS)
        elif self.parquet:
            try:
                self.check_row_groups()
                yield from self.parquet_file().iter_batches(READ_ROWS, columns=names, use_threads=False)
            except (pa.ArrowException, OSError) as error:
                raise self.damaged(error) from None
        else:
            yield from self.csv_file.batches({name: csv_type(name) for name in names})

    def chunk(self, table: pa.Table, first: int) -> Chunk:
        """One chunk from its columns."""

        def floats(name: str) -> Floats:
            return as_floats(table.column(name), name, first)

        optional = {
            name: floats(name) if name in self.columns.optional else None for name in ("step", "epsilon")
        }
        rounds = users = None
        if "round" in self.columns.optional:
            rounds = as_whole(table.column("round"), first)
        if "user" in self.columns.optional:
            users = as_names(table.column("user"), first)
        return Chunk(
            first=first,
            reports=np.stack([floats(name) for name in self.columns.reports], axis=1),
            thetas=np.stack([floats(name) for name in self.columns.thetas], axis=1)
            if self.columns.thetas
            else None,
            steps=optional["step"],
            epsilons=optional["epsilon"],
            rounds=rounds,
            users=users,
        )

    def parquet_file(self, coded: tuple[str, ...] = ()) -> Any:
        """The opened file; page checksums are verified where it has them.

        Texts of the columns ``coded`` are read as codes and the different texts, each once.
        """
        import pyarrow.parquet as pq

        try:
            # Not buffered beforehand: that would hold the whole file.
            found = pq.ParquetFile(
                self.on_disk.for_arrow(),
                page_checksum_verification=True,
                pre_buffer=False,
                read_dictionary=list(coded),
            )
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise self.damaged(error) from None
        return found

    def check_row_groups(self) -> None:
        """Refuse row groups that would take much memory when they are unpacked."""
        metadata = self.parquet_file().metadata
        texts = "user" in self.columns.optional and is_text(self.schema.field("user").type)
        coded = self.parquet_file(("user",)) if texts else None
        for at in range(metadata.num_row_groups):
            # Not by column: pyarrow ends the process where the metadata of one is damaged.
            size = metadata.row_group(at).total_byte_size
            if size > LARGEST_ROW_GROUP:
                allowed = f"row groups of at most {LARGEST_ROW_GROUP:,} bytes"
                raise InputError("file", self.place, allowed, f"One has {size:,}: write smaller ones.")
            if coded is None:
                continue
            # A text that stands in the file once may be the user of all rows.
            for batch in coded.iter_batches(1, row_groups=[at], columns=["user"], use_threads=False):
                check_names(batch.column(0).dictionary)
                break

    def damaged(self, error: Exception) -> InputError:
        """The error of a Parquet file that cannot be read."""
        return InputError("file", self.place, "a Parquet file", " ".join(str(error).split()))

    @cached_property
    def csv_file(self) -> CsvFile:
        """The file as CSV."""
        return CsvFile(self.on_disk)

    @property
    def on_disk(self) -> RegularFile:
        """The file of a transcript that is none in memory."""
        assert self.file is not None
        return self.file


def csv_type(name: str) -> pa.DataType:
    """The type that a CSV column is read as."""
    if name == "round":
        return pa.int64()
    # Users may be bytes in any encoding: they are compared only.
    return pa.binary() if name == "user" else pa.float64()
