"""Transcripts in chunks: Parquet, CSV, and tables in memory, one row per report.

The columns are ``report`` and ``theta`` (the question to the user, theta_{i-1}), or ``report_0, report_1,
...`` and ``theta_0, ...`` for a vector. ``epsilon``, ``round``, ``question`` and ``user`` are optional. CSV
is in UTF-8 with a header, one report a line, lines of at most 1 MiB. Memory holds a chunk of rows, and the
block that the file format reads at once. Only regular files are read, and opening never blocks.
"""

from __future__ import annotations

import csv
import hashlib
import math
import os
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
"""Most rows of a chunk."""

FORM = "a Parquet or CSV file"
METADATA = b"ldpflow"
LARGEST_LINE = 2**20
LARGEST_ROW_GROUP = 2**29
"""Most bytes of a row group of a Parquet file when it is unpacked."""

MOST_COORDINATES = 64
"""Most coordinates of theta, as in the problems of a study."""


class RowError(InputError):
    """A row of a transcript that cannot be right. Nothing is computed from the file.

    ``row`` counts from 1, without the header of a CSV file. ``place`` is the file of the row.
    """

    def __init__(
        self, row: int, column: str, value: object, allowed: str, hint: str = "", place: str = ""
    ) -> None:
        self.row = row
        self.column = column
        self.place = place
        super().__init__(f"{place}, row {row:,}, {column}".lstrip(", "), value, allowed, hint)

    def at(self, row: int, place: str = "") -> RowError:
        """The error with the number of the row in its file, and the file."""
        return RowError(row, self.column, self.value, self.allowed, self.hint, place)


# Columns

OPTIONAL = ("epsilon", "round", "user")


@dataclass(frozen=True)
class Columns:
    """Columns of a transcript by role.

    ``reports`` and ``thetas`` have one name, or one for each coordinate. ``thetas`` may be empty. A report
    that is a cell has one column for all coordinates. ``optional`` has epsilon, round, question and user if
    they exist, ``ignored`` all other columns.
    """

    reports: tuple[str, ...]
    thetas: tuple[str, ...]
    optional: tuple[str, ...]
    ignored: tuple[str, ...]

    @property
    def read(self) -> list[str]:
        return [*self.reports, *self.thetas, *self.optional]

    @classmethod
    def of(cls, names: list[str], further: tuple[str, ...] = ()) -> Columns:
        """Assign the columns of a file to their roles."""
        doubled = next((name for name, count in Counter(names).items() if count > 1), None)
        if doubled is not None:
            raise InputError("columns", doubled, "every name once", "The file has it twice.")
        reports, thetas = coordinates("report", names), coordinates("theta", names)
        if not reports:
            hint = f"The file has {list_names(names) or 'none'}."
            raise InputError("columns", None, "a column report (or report_0, report_1, ...)", hint)
        optional = tuple(name for name in (*OPTIONAL, *further) if name in names)
        read = {*reports, *thetas, *optional}
        return cls(reports, thetas, optional, tuple(name for name in names if name not in read))


def list_names(names: Sequence[str]) -> str:
    """Shorten names for a message: at most ten names of at most 40 characters."""
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
    """m consecutive rows of a transcript, with d coordinates. Absent columns are None."""

    first: int  # number of the first row, from 1
    reports: Floats  # shape (m, d), or (m, 1) if a report is a cell, or (m, 0) if it is a text
    thetas: Floats | None  # shape (m, d)
    epsilons: Floats | None  # shape (m,)
    rounds: Any  # shape (m,)
    questions: Any  # shape (m,)
    users: Any  # pyarrow.Array
    texts: Any  # pyarrow.Array of reports that are texts

    def __len__(self) -> int:
        return len(self.reports)


# Values of columns


def as_floats(values: pa.Array, name: str, first: int) -> Floats:
    """Convert numbers of any Arrow type to equal doubles. ``first``: number of the first row."""
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


def as_texts(values: pa.Array, first: int) -> pa.Array:
    """Reports that are texts of bits, as bytes."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if not is_text(values.type):
        raise InputError("columns.report", str(values.type), "a column of texts of 0 and 1")
    if pa.types.is_string_view(values.type):
        values = values.cast(pa.large_string())
    return check_present(values, "report", first, "a text of 0 and 1").cast(pa.large_binary())


def as_names(values: pa.Array, first: int) -> pa.Array:
    kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if not is_text(kind) and not is_number(kind):
        raise InputError("columns.user", str(values.type), "a column of texts or numbers")
    return check_present(values, "user", first, "a user")


def check_present(values: pa.Array, name: str, first: int, allowed: str) -> pa.Array:
    if values.null_count:
        raise RowError(first + pc.index(values.is_null(), True).as_py(), name, None, allowed)
    return values


def is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def is_text(kind: pa.DataType) -> bool:
    names = ("string", "large_string", "string_view", "binary", "large_binary")
    return any(getattr(pa.types, f"is_{name}")(kind) for name in names)


def stack(columns: Mapping[str, Floats], names: Sequence[str]) -> Floats:
    return np.stack([columns[name] for name in names], axis=1)


# Files


def state_of(file: BufferedReader) -> tuple[int, ...]:
    found = os.fstat(file.fileno())
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def arrow_table(source: Any, field: str, column: str | None = None) -> pa.Table:
    """Convert a data frame or a mapping of columns to an Arrow table, or only one ``column`` of it."""
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
    """A transcript: a Parquet file, a CSV file or an Arrow table."""

    place: str  # path of the file, or ``table`` for a table in memory
    table: pa.Table | None = None
    state: tuple[int, ...] = ()  # device, inode, size and time of change when the file was opened first
    texts: tuple[str, ...] = ("user",)  # columns of texts; those of a CSV file stay bytes, in any encoding
    further: tuple[str, ...] = ()  # further optional columns, such as ``question`` for a protocol

    @classmethod
    def of(cls, source: object) -> Transcript:
        """Open a path, a pyarrow table, or data that pyarrow converts (pandas, polars, a mapping)."""
        if isinstance(source, Transcript):
            return source
        if isinstance(source, (str, bytes, os.PathLike)):
            place = os.fsdecode(source)
            with open(open_regular(place, "file", FORM), "rb") as file:
                return cls(place, state=state_of(file))
        return cls("table", arrow_table(source, "table"))

    def open(self) -> BufferedReader:
        """Open the file again. Refuse it if it has changed."""
        file = open(open_regular(self.place, "file", FORM), "rb")
        if state_of(file) == self.state:
            return file
        file.close()
        raise self.error("a file that does not change while it is read", "Take a copy.")

    def for_arrow(self) -> pa.NativeFile:
        """Open the file in Arrow, whose threads read ahead and must not call Python."""
        with self.open() as file:
            return pa.OSFile(f"/proc/self/fd/{file.fileno()}")

    def error(self, allowed: str, hint: str = "") -> InputError:
        return InputError("file", self.place, allowed, hint)

    @cached_property
    def parquet(self) -> bool:
        return self.place.lower().endswith((".parquet", ".pq"))

    @cached_property
    def schema(self) -> pa.Schema:
        """Names and types of the columns. All columns of a CSV file are texts."""
        if self.table is not None:
            return self.table.schema
        if self.parquet:
            return self.parquet_file().schema_arrow
        return pa.schema([(name, pa.string()) for name in self.csv_names])

    @cached_property
    def columns(self) -> Columns:
        return Columns.of(self.schema.names, self.further)

    @cached_property
    def rows(self) -> int:
        """Number of rows. A CSV file is read to count them."""
        if self.table is not None:
            return int(self.table.num_rows)
        if self.parquet:
            return int(self.parquet_file().metadata.num_rows)
        return sum(batch.num_rows for batch in self.batches())

    def settings(self) -> str | None:
        """TOML that ldpflow wrote into the metadata of the file or table, or None."""
        in_memory = self.table is not None or not self.parquet
        stored = self.schema.metadata if in_memory else self.parquet_file().metadata.metadata
        found = (stored or {}).get(METADATA)
        return None if found is None else decode_text(found, "file", self.place, "settings in its metadata")

    def chunks(self, first: int = 1) -> Iterator[Chunk]:
        """Read the rows in order, at most 65,536 at a time. ``first``: number of the first row.

        Raises
        ------
        RowError
            At a value that cannot be read.
        """
        for batch in self.batches():
            for start in range(0, batch.num_rows, CHUNK):
                chunk = self.chunk(batch.slice(start, CHUNK), first)
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
        columns, bits = self.columns, "report" in self.texts
        found = {name: as_floats(batch[name], name, first) for name in columns.read if name not in self.texts}
        return Chunk(
            first=first,
            reports=np.empty((batch.num_rows, 0)) if bits else stack(found, columns.reports),
            thetas=stack(found, columns.thetas) if columns.thetas else None,
            epsilons=found.get("epsilon"),
            rounds=found.get("round"),
            questions=found.get("question"),
            users=as_names(batch["user"], first) if "user" in columns.optional else None,
            texts=as_texts(batch["report"], first) if bits else None,
        )

    def parquet_file(self, coded: Sequence[str] = ()) -> Any:
        """Open the file with Arrow. ``coded``: columns to be read as codes and a dictionary of texts."""
        import pyarrow.parquet as pq

        try:
            # Not buffered beforehand: that would hold the whole file.
            checked: Any = {"page_checksum_verification": True, "pre_buffer": False}
            return pq.ParquetFile(self.for_arrow(), read_dictionary=list(coded), **checked)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise self.damaged(error) from None

    def check_row_groups(self) -> None:
        metadata = self.parquet_file().metadata
        # The sizes of columns are not read: if they are damaged, pyarrow ends the process.
        sizes = [metadata.row_group(at).total_byte_size for at in range(metadata.num_row_groups)]
        if max(sizes, default=0) > LARGEST_ROW_GROUP:
            raise self.error(f"row groups of at most {LARGEST_ROW_GROUP:,} bytes", f"One has {max(sizes):,}.")

    def damaged(self, error: Exception) -> InputError:
        return self.error("a Parquet file", " ".join(str(error).split()))

    @cached_property
    def header(self) -> bytes:
        with self.open() as file:
            (line,) = file.read(LARGEST_LINE + 1).splitlines(keepends=True)[:1] or [b""]
        if len(line) > LARGEST_LINE:
            raise self.error(f"a CSV file with a header of at most {LARGEST_LINE:,} bytes")
        return line

    @cached_property
    def csv_names(self) -> list[str]:
        line = decode_text(self.header, "file", self.place, "a CSV file").rstrip("\r\n")
        try:
            names = next(csv.reader([line], strict=True), [])
        except csv.Error as error:
            raise self.error("a CSV file with a header", f"In its first line: {error}.") from None
        if not names:
            raise self.error("a CSV file with a header")
        return [name.strip() for name in names]

    def csv_batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Read some columns in batches, up to a line that cannot be read."""
        from pyarrow.csv import ConvertOptions, ReadOptions, open_csv

        if os.path.getsize(self.place) == len(self.header):
            return
        conversion = ConvertOptions(
            column_types={name: pa.binary() if name in self.texts else pa.float64() for name in columns},
            include_columns=columns,
            null_values=[""],
            strings_can_be_null=True,
        )
        # Without threads an error of Arrow names the row.
        reading = ReadOptions(use_threads=False, block_size=LARGEST_LINE, column_names=self.csv_names)
        try:
            with self.for_arrow() as file:
                file.seek(len(self.header))
                yield from open_csv(file, reading, convert_options=conversion)
        except pa.ArrowInvalid as error:
            raise self.csv_error(str(error)) from None

    def csv_error(self, reason: str) -> InputError:
        """Error of the row that Arrow's message names, or else of the file."""
        if bad := re.match(r"In CSV column #(\d+): Row #(\d+): .*: invalid value '(.*)'", reason, re.DOTALL):
            return RowError(int(bad[2]), self.csv_names[int(bad[1])], bad[3], "a number")
        if ragged := re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", reason):
            row, expected, found = map(int, ragged.groups())
            return RowError(row, "number of values", found, f"{expected}, one for each name of the header")
        allowed = f"a CSV file with lines of at most {LARGEST_LINE:,} bytes"
        return self.error(allowed, f"{' '.join(reason.split())[:300]}.")


@dataclass(frozen=True)
class Joined:
    """Transcripts of one collection, its parts, read in order. Row numbers go on from part to part."""

    parts: tuple[Transcript, ...]

    @classmethod
    def of(cls, source: object) -> Joined:
        """Open one source for :meth:`Transcript.of`, or a list of sources."""
        parts = [Transcript.of(each) for each in (source if isinstance(source, (list, tuple)) else [source])]
        if not parts:
            raise InputError("file", None, FORM)
        states = [part.state for part in parts]
        for at, part in enumerate(parts):
            if part.state and part.state in states[:at]:
                raise part.error("every file once")
            if len(parts) > 1 and part.table is not None:
                parts[at] = replace(part, place=f"table {at + 1}")
        return cls(tuple(parts))

    @property
    def place(self) -> str:
        places = [part.place for part in self.parts]
        return places[0] if len(places) == 1 else f"{len(places):,} files ({list_names(places)})"

    @cached_property
    def columns(self) -> Columns:
        first, *others = self.parts
        for part in others:
            if set(part.columns.read) != set(first.columns.read):
                found = f"{list_names(part.columns.read)} in {part.place}"
                raise InputError("columns", found, f"{list_names(first.columns.read)}, as in {first.place}")
        return first.columns

    @cached_property
    def offsets(self) -> list[int]:
        """Number of rows before each part, and last the number of all rows."""
        found = [0]
        for part in self.parts:
            try:
                found.append(found[-1] + part.rows)
            except RowError as error:
                raise error.at(error.row, self.name(part)) from None
        return found

    def name(self, part: Transcript) -> str:
        """File of a part in a message, empty for a single table in memory."""
        return "" if part.table is not None and len(self.parts) == 1 else part.place

    def find(self, row: int) -> tuple[int, str]:
        """Number of a row in its file, and the file."""
        at = max(bisect_right(self.offsets[:-1], row - 1) - 1, 0)
        return row - self.offsets[at], self.name(self.parts[at])

    def sha256(self) -> str | None:
        """Digest of the bytes of all files, one after the other; None for tables in memory."""
        digest = hashlib.sha256()
        for part in self.parts:
            if part.table is not None:
                return None
            with part.open() as file:
                while block := file.read(2**20):
                    digest.update(block)
        return digest.hexdigest()

    def chunks(self) -> Iterator[Chunk]:
        for part, offset in zip(self.parts, self.offsets, strict=False):
            yield from part.chunks(offset + 1)


# The checks of a row are, in this order: epsilon, the report, round, and theta. theta must follow from the
# row before: theta_i = theta_{i-1} - eta_i A_i, with eta_i the size of step i and A_i the private gradient
# that the report gives. This check finds a row that was lost, doubled, moved or edited, files in another
# order, and reports that were collected under another design. Reading ends at the first fault.

TOLERANCE = 1e-9
ROUNDING = 8 * 2.0**-52
DEVIATIONS = 5.0
OTHER_DESIGN = "Was the row collected under another design?"


def earliest(*faults: RowError | None) -> RowError | None:
    return min((fault for fault in faults if fault is not None), key=lambda fault: fault.row, default=None)


def whole_number_error(chunk: Chunk, column: str, values: Floats, least: int, most: int) -> RowError | None:
    bad = (values != np.floor(values)) | (values < least) | (values > most)
    allowed = "0 or 1" if (least, most) == (0, 1) else f"a whole number from {least} to {most}"
    return first_error(chunk, column, values, bad, allowed, OTHER_DESIGN)


def epsilon_error(chunk: Chunk, epsilon: float | None) -> RowError | None:
    if chunk.epsilons is None:
        return None
    wanted = np.nan if epsilon is None else epsilon
    bad = ~(np.abs(chunk.epsilons - wanted) <= TOLERANCE * abs(wanted))
    allowed = "no budget" if epsilon is None else f"{epsilon!r}, as the design or the other rows have"
    return first_error(chunk, "epsilon", chunk.epsilons, bad, allowed)


def first_error(
    chunk: Chunk, column: str, values: NDArray[Any], bad: NDArray[np.bool_], allowed: str, hint: str = ""
) -> RowError | None:
    if not bad.any():
        return None
    row = int(np.argmax(bad))
    return RowError(chunk.first + row, column, values[row].item(), allowed, hint)


def theta_error(row: int, asked: Floats, at: tuple[int, int], wanted: Floats) -> RowError:
    """Error of the theta ``asked[at]``, which is not the ``wanted`` one."""
    column = "theta" if len(wanted) == 1 else f"theta_{at[1]}"
    allowed = f"{float(wanted[at[1]])!r}, which follows from the row before"
    hint = "A row is missing, doubled or changed, theta has fewer than 17 digits, or the design is another."
    return RowError(row, column, float(asked[at]), allowed, "It is not theta0." if row == 1 else hint)


def odd_shares(
    names: Sequence[str], ones: NDArray[Any], asked: NDArray[Any], low: float, high: float
) -> list[str]:
    """Sentences on shares that are five standard deviations below ``low`` or above ``high``."""
    asked = np.maximum(asked, 1.0)
    shares, reach = ones / asked, DEVIATIONS / np.sqrt(asked)
    least = np.maximum(low - reach * math.sqrt(low * (1.0 - low)), 0.0)
    most = np.minimum(high + reach * math.sqrt(high * (1.0 - high)), 1.0)
    return [
        f"the share of {names[j]} is {shares[j]:.4f}; with this randomiser it lies in "
        f"[{least[j]:.4f}, {most[j]:.4f}]"
        for j in np.flatnonzero((shares < least) | (shares > most)).tolist()
    ]


def answer_oddities(counts: NDArray[np.int64], p: float) -> list[str]:
    """Sentences on odd shares of the k answers of randomised response, each true with probability p.

    Whatever the values of the users, each answer has a probability between (1 - p)/(k - 1) and p. A share
    that is five standard deviations outside is no error, but raises the flag ``odd_reports``: the devices may
    have another mechanism, or reports were made up.
    """
    names, low = [f"reports {answer}" for answer in range(len(counts))], (1.0 - p) / (len(counts) - 1)
    rows = np.full(len(counts), counts.sum())
    if len(counts) == 2:  # the share of ones determines that of zeros
        return odd_shares(["ones"], counts[1:], rows[1:], low, p)
    return odd_shares(names, counts, rows, low, p)
