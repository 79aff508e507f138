"""Transcripts in chunks: Parquet, CSV, and tables in memory, one row per report.

Columns ``report`` and ``theta`` (what the user was asked, theta_{i-1}), or ``report_0, report_1, ...`` and
``theta_0, ...`` for a vector; optional ``step``, ``epsilon``, ``round`` and ``user``. CSV is in UTF-8 with a
header, one report a line, lines of at most 1 MiB. Memory is that of a chunk and of what the file format reads
at once. A file is opened without waiting and must be a regular one.
"""

from __future__ import annotations

import csv
import hashlib
import os
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from io import BufferedReader
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldpflow.documents import decode_text, open_regular
from ldpflow.errors import InputError

Floats = NDArray[np.float64]

CHUNK = 2**16
"""Rows at a time."""

FORM = "a Parquet or CSV file"
METADATA = b"ldpflow"
LARGEST_LINE = 2**20
LARGEST_ROW_GROUP = 2**29
"""Most bytes of a row group of a Parquet file when it is unpacked."""

LONGEST_NAME = 1000
"""Most bytes of a user's name."""

MOST_COORDINATES = 64
"""Most coordinates of theta, as in the problems of a study."""


class RowError(InputError):
    """A row of a transcript cannot be right; nothing is computed from the file.

    Parameters
    ----------
    row : int
        From 1, the header of a CSV file not counted.
    column : str
    value : object
        What was found there.
    allowed : str
        What was expected.
    hint : str, optional
    """

    def __init__(self, row: int, column: str, value: object, allowed: str, hint: str = "") -> None:
        self.row = row
        self.column = column
        super().__init__(f"row {row:,}, {column}", value, allowed, hint)

    def __reduce__(self) -> tuple[type, Any]:
        return (type(self), (self.row, self.column, self.value, self.allowed, self.hint))


# Columns


@dataclass(frozen=True)
class Columns:
    """Columns of a transcript by role.

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
        return [*self.reports, *self.thetas, *self.optional]

    @classmethod
    def of(cls, names: list[str]) -> Columns:
        """Assign the columns of a file to their roles.

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
    """Columns ``stem``, or ``stem_0``, ``stem_1``, ... without a gap."""
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
        parts: dict[str, Any] = {
            name: None if values is None else values[:end]
            for name, values in vars(self).items()
            if name != "first"
        }
        return Chunk(self.first, **parts)


# Values of columns


def refuse_nulls(values: pa.ChunkedArray, name: str, first: int) -> None:
    if values.null_count:
        row = int(np.flatnonzero(values.is_null().to_numpy())[0])
        raise RowError(first + row, name, None, "a value")


def as_floats(values: pa.ChunkedArray, name: str, first: int) -> Floats:
    """Convert numbers of any Arrow type to doubles, exactly."""
    kind = values.type
    if not (is_number(kind) or pa.types.is_boolean(kind)):
        raise InputError(f"columns.{name}", str(kind), "a column of numbers")
    refuse_nulls(values, name, first)
    if pa.types.is_boolean(kind):
        values = values.cast(pa.int8())
    try:
        found: Floats = values.cast(pa.float64()).to_numpy()
    except pa.ArrowInvalid:
        whole = values.to_numpy()
        row = int(np.argmax((whole > 2**53) | (whole < -(2**53))))
        raise RowError(first + row, name, int(whole[row]), "a number of at most 53 bits") from None
    return found


def as_whole(values: pa.ChunkedArray, name: str, first: int) -> NDArray[np.int64]:
    """Convert whole numbers of any Arrow type to integers."""
    found = as_floats(values, name, first)
    bad = ~((found == np.floor(found)) & (np.abs(found) <= 2.0**53))
    if bad.any():
        row = int(np.argmax(bad))
        raise RowError(first + row, name, float(found[row]), "a whole number")
    return found.astype(np.int64)


def as_names(values: pa.ChunkedArray, name: str, first: int) -> pa.Array:
    kind = values.type
    value_kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not is_text(value_kind) and not is_number(value_kind):
        raise InputError(f"columns.{name}", str(kind), "a column of texts or numbers")
    refuse_nulls(values, name, first)
    return values.combine_chunks()


def is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def is_text(kind: pa.DataType) -> bool:
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(is_kind(kind) for is_kind in kinds)


def short_names(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches up to the first user with a long name: a chunk of long names would fill the memory."""
    first = 1
    for batch in batches:
        at = first_long_name(batch.column("user")) if "user" in batch.schema.names else -1
        if at >= 0:
            yield batch.slice(0, at)
            allowed = f"a name of at most {LONGEST_NAME:,} bytes"
            raise RowError(first + at, "user", "a longer text", allowed)
        yield batch
        first += batch.num_rows


def first_long_name(users: pa.Array) -> int:
    """Place of the first name that is too long; -1 if none is."""
    if pa.types.is_dictionary(users.type):
        check_names(users.dictionary)
        return -1
    if not is_text(users.type):
        return -1
    return int(pc.index(pc.greater(pc.binary_length(users), LONGEST_NAME), True).as_py())


def check_names(names: pa.Array) -> None:
    """Refuse a long name in a dictionary, where it may belong to many rows."""
    if is_text(names.type) and (pc.max(pc.binary_length(names)).as_py() or 0) > LONGEST_NAME:
        raise InputError("columns.user", "a longer text", f"names of at most {LONGEST_NAME:,} bytes")


# Files


@dataclass(frozen=True)
class RegularFile:
    """A transcript on the disk.

    Parameters
    ----------
    place : str
        Path.
    state : tuple of int
        Device, inode, size and time of change when it was opened first.
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
        """Descriptor of the file, opened anew."""
        descriptor = open_regular(self.place, "file", FORM)
        if state_of(descriptor) == self.state:
            return descriptor
        os.close(descriptor)
        raise self.error("a file that does not change while it is read", "Take a copy.")

    def for_python(self) -> BufferedReader:
        return open(self.descriptor(), "rb")

    def for_arrow(self) -> pa.NativeFile:
        """The file, opened by Arrow: it reads ahead in threads, which must not need Python."""
        descriptor = self.descriptor()
        try:
            return pa.OSFile(f"/proc/self/fd/{descriptor}")
        finally:
            os.close(descriptor)

    def error(self, allowed: str, hint: str = "") -> InputError:
        return InputError("file", self.place, allowed, hint)


def state_of(descriptor: int) -> tuple[int, ...]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


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
        with self.file.for_python() as file:
            found = re.match(rb"[^\r\n]*(\r\n|\r|\n)?", file.read(LARGEST_LINE + 1))
        assert found is not None
        if len(found[0]) > LARGEST_LINE:
            raise self.file.error(f"a CSV file with a header of at most {LARGEST_LINE:,} bytes")
        return found[0]

    @cached_property
    def names(self) -> list[str]:
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

    def batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Batches of some columns up to the first line that is wrong, which is raised after them."""
        from pyarrow.csv import ConvertOptions, ParseOptions, ReadOptions, open_csv

        if not self.rows:
            return
        ragged: list[RowError] = []

        def skip(row: Any) -> str:
            if not ragged:
                allowed = f"{row.expected_columns}, one for each name of the header"
                ragged.append(RowError(row.number, "number of values", row.actual_columns, allowed))
            return "skip"

        # Texts at first, so that the row of the first one that is no number is known.
        conversion = ConvertOptions(
            column_types=dict.fromkeys(columns, pa.binary()),
            include_columns=columns,
            null_values=[""],
            strings_can_be_null=True,
        )
        reading = ReadOptions(use_threads=False, block_size=LARGEST_LINE, column_names=self.names)
        done = 0
        try:
            with self.file.for_arrow() as file:
                file.seek(len(self.header))
                parsing = ParseOptions(invalid_row_handler=skip)
                for texts in open_csv(file, reading, parsing, conversion):
                    # The reader is ahead of its batches: the ragged line may be in a later one.
                    if ragged:
                        texts = texts.slice(0, ragged[0].row - 1 - done)
                    fault = first_fault(texts, done + 1)
                    sound = texts if fault is None else texts.slice(0, fault.row - 1 - done)
                    values = [convert_column(sound.column(name), name) for name in columns]
                    yield pa.RecordBatch.from_arrays(values, columns)
                    if fault is not None:
                        raise fault
                    done += texts.num_rows
                    if ragged and done == ragged[0].row - 1:
                        break
        except pa.ArrowInvalid as error:
            if not ragged:
                reason = " ".join(str(error).split())[:300]
                allowed = f"a CSV file with lines of at most {LARGEST_LINE:,} bytes"
                raise self.file.error(allowed, f"{reason}.") from None
        if ragged:
            raise ragged[0]


def csv_type(name: str) -> pa.DataType:
    if name == "round":
        return pa.int64()
    # Users may be bytes in any encoding: they are compared only.
    return pa.binary() if name == "user" else pa.float64()


def convert_column(texts: pa.Array, name: str) -> pa.Array:
    """Texts of a column of a CSV file as values of its type."""
    kind = csv_type(name)
    if pa.types.is_binary(kind):
        return texts
    return pc.cast(pc.ascii_trim_whitespace(pc.cast(texts, pa.string())), kind)


def first_fault(texts: pa.RecordBatch, first: int) -> RowError | None:
    """The first text that is no value of its column's type; ``first`` is the number of the first row."""
    found: list[RowError] = []
    for name in texts.schema.names:
        column = texts.column(name)
        if is_readable(column, name):
            continue
        at = bisect_left(range(len(column)), True, key=lambda k: not is_readable(column[: k + 1], name))
        shown = column[at].as_py().decode("utf-8", "backslashreplace")
        allowed = "a whole number" if name == "round" else "a number"
        found.append(RowError(first + at, name, shown, allowed))
    return min(found, key=lambda fault: fault.row, default=None)


def is_readable(texts: pa.Array, name: str) -> bool:
    try:
        convert_column(texts, name)
    except pa.ArrowInvalid:
        return False
    return True


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
        """Names and types; all columns of a CSV file are texts."""
        if self.table is not None:
            return self.table.schema
        if self.parquet:
            return self.parquet_file().schema_arrow
        return pa.schema([(name, pa.string()) for name in self.csv_file.names])

    @cached_property
    def columns(self) -> Columns:
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
        wrong: RowError | None = None
        batches = short_names(self.batches())
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
            yield from self.table.select(names).to_batches(max_chunksize=CHUNK)
        elif self.parquet:
            try:
                self.check_row_groups()
                yield from self.parquet_file().iter_batches(CHUNK, columns=names, use_threads=False)
            except (pa.ArrowException, OSError) as error:
                raise self.damaged(error) from None
        else:
            yield from self.csv_file.batches(names)

    def chunk(self, table: pa.Table, first: int) -> Chunk:

        def optional(name: str, convert: Any) -> Any:
            return convert(table.column(name), name, first) if name in self.columns.optional else None

        def matrix(names: tuple[str, ...]) -> Floats:
            return np.stack([as_floats(table.column(name), name, first) for name in names], axis=1)

        return Chunk(
            first=first,
            steps=optional("step", as_floats),
            epsilons=optional("epsilon", as_floats),
            rounds=optional("round", as_whole),
            users=optional("user", as_names),
            reports=matrix(self.columns.reports),
            thetas=matrix(self.columns.thetas) if self.columns.thetas else None,
        )

    def parquet_file(self, coded: tuple[str, ...] = ()) -> Any:
        """The opened file; page checksums are verified where it has them.

        Texts of the columns ``coded`` are read as codes and the different texts, each once.
        """
        import pyarrow.parquet as pq

        assert self.file is not None
        try:
            # Not buffered beforehand: that would hold the whole file.
            found = pq.ParquetFile(
                self.file.for_arrow(),
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
        return InputError("file", self.place, "a Parquet file", " ".join(str(error).split()))

    @cached_property
    def csv_file(self) -> CsvFile:
        assert self.file is not None
        return CsvFile(self.file)
