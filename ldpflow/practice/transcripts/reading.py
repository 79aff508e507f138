"""Transcripts in chunks: Parquet, CSV, and tables in memory, one row per report.

Columns ``report`` and ``theta`` (the question to the user, theta_{i-1}), or ``report_0, report_1, ...`` and
``theta_0, ...`` for a vector; optional ``step``, ``epsilon``, ``round`` and ``user``. CSV is in UTF-8 with a
header, one report a line, lines of at most 1 MiB. Memory holds a chunk, and the block that the file format
reads at once. Only regular files are read, and opening never blocks.
"""

from __future__ import annotations

import csv
import hashlib
import os
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BufferedReader
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldpflow.documents import decode_text, open_regular
from ldpflow.errors import InputError, plain_text

Floats = NDArray[np.float64]

CHUNK = 2**16
"""Rows at a time."""

FORM = "a Parquet or CSV file"
METADATA = b"ldpflow"
LARGEST_LINE = 2**20
LARGEST_ROW_GROUP = 2**29
"""Most bytes of a row group of a Parquet file when it is unpacked."""

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
        Value found there.
    allowed : str
        Values expected, in words.
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

    ``reports`` and ``thetas`` have one name, or one per coordinate; thetas may be empty. A report that is a
    cell is one number for all coordinates. ``optional`` are those of step, epsilon, round and user.
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
            hint = f"The file has {list_names(names) or 'none'}."
            raise InputError("columns", None, "a column report (or report_0, report_1, ...)", hint)
        optional = tuple(name for name in ("step", "epsilon", "round", "user") if name in names)
        read = {*reports, *thetas, *optional}
        return cls(reports, thetas, optional, tuple(name for name in names if name not in read))


def list_names(names: Sequence[str]) -> str:
    """Names in a message, shortened: there may be many, of any length."""
    shown = ", ".join(plain_text(name if len(name) <= 40 else f"{name[:40]}...") for name in names[:10])
    return shown if len(names) <= 10 else f"{shown} and {len(names) - 10:,} more"


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
    reports : ndarray, shape (m, d), or (m, 1) if a report is a cell
    thetas : ndarray, shape (m, d), or None
    steps, epsilons, rounds : ndarray, shape (m,), or None
    users : pyarrow.Array, or None
    """

    first: int
    reports: Floats
    thetas: Floats | None
    steps: Floats | None
    epsilons: Floats | None
    rounds: Floats | None
    users: Any

    def __len__(self) -> int:
        return len(self.reports)


# Values of columns


def as_floats(values: pa.Array, name: str, first: int) -> Floats:
    """Convert numbers of any Arrow type to doubles, exactly; ``first`` is the number of the first row."""
    kind = values.type
    if not (is_number(kind) or pa.types.is_boolean(kind)):
        raise InputError(f"columns.{name}", str(kind), "a column of numbers")
    try:
        found: Floats = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        raise InputError(f"columns.{name}", str(kind), "numbers of at most 53 bits") from None
    bad = ~np.isfinite(found)
    if bad.any():
        row = int(np.argmax(bad))
        raise RowError(first + row, name, values[row].as_py(), "a finite number")
    return found


def as_names(values: pa.Array, name: str, first: int) -> pa.Array:
    kind = values.type
    value_kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not is_text(value_kind) and not is_number(value_kind):
        raise InputError(f"columns.{name}", str(kind), "a column of texts or numbers")
    if values.null_count:
        raise RowError(first + pc.index(values.is_null(), True).as_py(), name, None, "a user")
    return values


def is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def is_text(kind: pa.DataType) -> bool:
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(is_kind(kind) for is_kind in kinds)


# Files


def state_of(file: BufferedReader) -> tuple[int, ...]:
    found = os.fstat(file.fileno())
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def numbers(texts: pa.Array, name: str, first: int) -> pa.Array:
    """Texts of a column of a CSV file as doubles; users stay bytes, in any encoding."""
    if name == "user":
        return texts
    if (found := as_numbers(texts)) is not None:
        return found
    at = bisect_left(range(len(texts)), True, key=lambda k: as_numbers(texts[: k + 1]) is None)
    raise RowError(first + at, name, texts[at].as_py().decode("utf-8", "backslashreplace"), "a number")


def as_numbers(texts: pa.Array) -> pa.Array | None:
    try:
        return pc.cast(pc.ascii_trim_whitespace(pc.cast(texts, pa.string())), pa.float64())
    except pa.ArrowInvalid:
        return None


def arrow_table(source: Any, field: str, column: str | None = None) -> pa.Table:
    """The Arrow table of a data frame or a mapping of columns, or of one ``column`` of it.

    Raises
    ------
    InputError
        If it is neither, or Arrow cannot read it. Names ``field``.
    """
    if isinstance(source, pa.Table):
        return source
    kind, mapping = type(source).__name__, isinstance(source, Mapping)
    if not mapping and not hasattr(source, "__arrow_c_stream__"):
        allowed = "a file, a data frame of pandas or polars, an Arrow table, or columns by name"
        raise InputError(field, kind, allowed)
    names = list(map(str, source if mapping else getattr(source, "columns", ())))
    if column is not None and column not in names:
        raise InputError("column", column, "a column of the data frame", f"It has: {list_names(names)}.")
    try:
        if column is not None:
            source = {column: source[column]} if mapping else source[[column]]
        return pa.table(dict(source) if mapping else source)
    except (pa.ArrowException, TypeError, ValueError):
        raise InputError(field, kind, "columns of one length, each of one kind of values") from None


@dataclass(frozen=True)
class Transcript:
    """A transcript: a Parquet file, a CSV file or an Arrow table.

    Parameters
    ----------
    place : str
        Path of the file; ``table`` for one in memory.
    table : pyarrow.Table, optional
    state : tuple of int
        Device, inode, size and time of change of the file when it was opened first.
    """

    place: str
    table: pa.Table | None = None
    state: tuple[int, ...] = ()

    @classmethod
    def of(cls, source: object) -> Transcript:
        """From a path, a pyarrow table, or data that pyarrow converts (pandas, polars, a mapping)."""
        if isinstance(source, Transcript):
            return source
        if isinstance(source, (str, bytes, os.PathLike)):
            place = os.fsdecode(source)
            with open(open_regular(place, "file", FORM), "rb") as file:
                return cls(place, state=state_of(file))
        return cls("table", arrow_table(source, "table"))

    def open(self) -> BufferedReader:
        """The file, opened anew."""
        file = open(open_regular(self.place, "file", FORM), "rb")
        if state_of(file) == self.state:
            return file
        file.close()
        raise self.error("a file that does not change while it is read", "Take a copy.")

    def for_arrow(self) -> pa.NativeFile:
        """The file, opened by Arrow itself: its threads read ahead and must not call Python."""
        with self.open() as file:
            return pa.OSFile(f"/proc/self/fd/{file.fileno()}")

    def error(self, allowed: str, hint: str = "") -> InputError:
        return InputError("file", self.place, allowed, hint)

    @cached_property
    def parquet(self) -> bool:
        return self.place.lower().endswith((".parquet", ".pq"))

    @cached_property
    def schema(self) -> pa.Schema:
        """Names and types; all columns of a CSV file are texts."""
        if self.table is not None:
            return self.table.schema
        if self.parquet:
            return self.parquet_file().schema_arrow
        return pa.schema([(name, pa.string()) for name in self.csv_names])

    @cached_property
    def columns(self) -> Columns:
        return Columns.of(self.schema.names)

    @cached_property
    def rows(self) -> int:
        """Number of rows: from the metadata, or of the lines of a CSV file, all of which are read."""
        if self.table is not None:
            return int(self.table.num_rows)
        if self.parquet:
            return int(self.parquet_file().metadata.num_rows)
        return sum(batch.num_rows for batch in self.batches())

    def settings(self) -> str | None:
        """TOML that ldpflow wrote into the file's metadata, or None."""
        stored = self.schema.metadata
        if self.table is None and self.parquet:
            stored = self.parquet_file().metadata.metadata
        found = (stored or {}).get(METADATA)
        return None if found is None else decode_text(found, "file", self.place, "settings in its metadata")

    def sha256(self) -> str | None:
        """Digest of the file; None for a table in memory."""
        if self.table is not None:
            return None
        with self.open() as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def chunks(self, size: int = CHUNK) -> Iterator[Chunk]:
        """The rows in order, at most ``size`` at a time.

        Raises
        ------
        RowError
            At a value that cannot be read.
        """
        first = 1
        for batch in self.batches():
            for start in range(0, batch.num_rows, size):
                chunk = self.chunk(batch.slice(start, size), first)
                yield chunk
                first += len(chunk)

    def batches(self) -> Iterator[pa.RecordBatch]:
        names = self.columns.read
        if self.table is not None:
            yield from self.table.select(names).to_batches(max_chunksize=CHUNK)
        elif self.parquet:
            # Texts are read as codes: one long text may be the user of all rows.
            texts = "user" in names and is_text(self.schema.field("user").type)
            try:
                self.check_row_groups()
                file = self.parquet_file(coded=("user",) if texts else ())
                yield from file.iter_batches(CHUNK, columns=names, use_threads=False)
            except (pa.ArrowException, OSError) as error:
                raise self.damaged(error) from None
        else:
            yield from self.csv_batches(names)

    def chunk(self, batch: pa.RecordBatch, first: int) -> Chunk:

        def optional(name: str, convert: Any = as_floats) -> Any:
            return convert(batch[name], name, first) if name in self.columns.optional else None

        def matrix(names: tuple[str, ...]) -> Floats:
            return np.stack([as_floats(batch[name], name, first) for name in names], axis=1)

        return Chunk(
            first=first,
            reports=matrix(self.columns.reports),
            thetas=matrix(self.columns.thetas) if self.columns.thetas else None,
            steps=optional("step"),
            epsilons=optional("epsilon"),
            rounds=optional("round"),
            users=optional("user", as_names),
        )

    def parquet_file(self, coded: tuple[str, ...] = ()) -> Any:
        """The opened file; page checksums are verified if it has them.

        Columns ``coded`` are read as codes and a dictionary of their texts.
        """
        import pyarrow.parquet as pq

        try:
            # Not buffered beforehand: that would hold the whole file.
            return pq.ParquetFile(
                self.for_arrow(),
                page_checksum_verification=True,
                pre_buffer=False,
                read_dictionary=list(coded),
            )
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise self.damaged(error) from None

    def check_row_groups(self) -> None:
        metadata = self.parquet_file().metadata
        # Not by column: pyarrow ends the process if the metadata of one is damaged.
        sizes = [metadata.row_group(at).total_byte_size for at in range(metadata.num_row_groups)]
        if max(sizes, default=0) > LARGEST_ROW_GROUP:
            allowed = f"row groups of at most {LARGEST_ROW_GROUP:,} bytes"
            raise InputError("file", self.place, allowed, f"One has {max(sizes):,}: write smaller ones.")

    def damaged(self, error: Exception) -> InputError:
        return self.error("a Parquet file", " ".join(str(error).split()))

    @cached_property
    def header(self) -> bytes:
        with self.open() as file:
            found = re.match(rb"[^\r\n]*(\r\n|\r|\n)?", file.read(LARGEST_LINE + 1))
        assert found is not None
        if len(found[0]) > LARGEST_LINE:
            raise self.error(f"a CSV file with a header of at most {LARGEST_LINE:,} bytes")
        return found[0]

    @cached_property
    def csv_names(self) -> list[str]:
        try:
            line = self.header.decode("utf-8-sig").rstrip("\r\n")
            names = next(csv.reader([line], strict=True), [])
        except UnicodeDecodeError as error:
            hint = f"Byte {error.object[error.start]:#04x} at position {error.start} is not."
            raise self.error("a CSV file in UTF-8", hint) from None
        except csv.Error as error:
            raise self.error("a CSV file with a header", f"In its first line: {error}.") from None
        if not names:
            raise self.error("a CSV file with a header")
        return [name.strip() for name in names]

    def csv_batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Batches of some columns, up to a line with the wrong number of values, or one that is no number."""
        from pyarrow.csv import ConvertOptions, ParseOptions, ReadOptions, open_csv

        if os.path.getsize(self.place) == len(self.header):
            return
        ragged: list[RowError] = []

        def skip(row: Any) -> str:
            allowed = f"{row.expected_columns}, one for each name of the header"
            ragged.append(RowError(row.number, "number of values", row.actual_columns, allowed))
            return "error"

        # Read as texts first, to find the row of the first one that is no number.
        conversion = ConvertOptions(
            column_types=dict.fromkeys(columns, pa.binary()),
            include_columns=columns,
            null_values=[""],
            strings_can_be_null=True,
        )
        reading = ReadOptions(use_threads=False, block_size=LARGEST_LINE, column_names=self.csv_names)
        first = 1
        try:
            with self.for_arrow() as file:
                file.seek(len(self.header))
                for texts in open_csv(file, reading, ParseOptions(invalid_row_handler=skip), conversion):
                    yield pa.record_batch({name: numbers(texts[name], name, first) for name in columns})
                    first += texts.num_rows
        except pa.ArrowInvalid as error:
            if ragged:
                raise ragged[0] from None
            reason = " ".join(str(error).split())[:300]
            allowed = f"a CSV file with lines of at most {LARGEST_LINE:,} bytes"
            raise self.error(allowed, f"{reason}.") from None
