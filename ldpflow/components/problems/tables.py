"""Tables of users: Parquet and CSV files, and tables in memory.

Files named .parquet or .pq are Parquet. All others are CSV with a header, in UTF-8. Records are personal
data, so error messages have the number of the first faulty record, and no value of it.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ldpflow.documents import open_regular
from ldpflow.errors import InputError
from ldpflow.numerics.streams import CHUNK, LANES, STRIDE

MOST_FEATURES = 256

LARGEST_BYTES = 4 * 2**30  # of a data file
MOST_VALUES = 10_000_000  # of a column of :func:`read_column`
EXACT = 2.0**53  # integers up to here are doubles
TOO_LONG = "an integer beyond 2^53 that no double holds"
FIELDS = ("problem.file", "problem.column")
AT_ONCE = 10_000  # records that are read at once
MISSING = ("", "NA", "N/A", "#N/A", "NaN", "nan", "null", "NULL", "None", "none", "-")

SERIAL = pyarrow.csv.ReadOptions(use_threads=False)  # with threads, errors of Arrow do not name the row

CLOSED: ContextVar[bool] = ContextVar("data files stay closed", default=False)


@contextmanager
def close_data_files() -> Iterator[None]:
    """Context in which opening a data file is an error. Settings of a foreign run may name any file."""
    token = CLOSED.set(True)
    try:
        yield
    finally:
        CLOSED.reset(token)


def check_data_file(file: str, field: str = FIELDS[0]) -> None:
    """Refuse a file that is not regular or is too large, and inside :func:`close_data_files` any file."""
    if CLOSED.get():
        raise InputError(field, file, "no data file: the run is read without it")
    descriptor = open_regular(file, field, "a Parquet or CSV file that can be read")
    size = os.fstat(descriptor).st_size
    os.close(descriptor)
    if size > LARGEST_BYTES:
        hint = f"It has {size:,}: give a random sample of its records."
        raise InputError(field, file, f"at most {LARGEST_BYTES:,} bytes", hint)


class Unusable(Exception):
    """Error that describes values which are no numbers."""


@dataclass(frozen=True, eq=False)
class UserTable:
    """A file of a user, or a table in memory. ``field`` is the name of the source in messages."""

    source: str | pa.Table
    field: str = FIELDS[0]

    @cached_property
    def parquet(self) -> bool:
        """Whether columns have their final types. Columns of a CSV file are read as text."""
        return isinstance(self.source, pa.Table) or Path(self.source).suffix.lower() in (".parquet", ".pq")

    @cached_property
    def schema(self) -> pa.Schema:
        """Names and types of the columns. Types of a CSV file are guessed from its first block."""
        if isinstance(self.source, str):
            check_data_file(self.source, self.field)
        try:
            if isinstance(self.source, pa.Table):
                schema = self.source.schema
            elif self.parquet:
                schema = pq.read_schema(self.source)
            else:
                with open(self.source, encoding="utf-8") as source:
                    source.read(1)  # fails for UTF-16, which Arrow reads without an error
                with pyarrow.csv.open_csv(self.source, SERIAL) as reader:
                    schema = reader.schema
                if pa.binary() in schema.types:  # Arrow's type for texts in another encoding
                    raise UnicodeError
            names = schema.names
        except (pa.ArrowException, OSError, UnicodeError) as error:
            raise self.format_error(error) from None
        twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
        if twice:
            raise InputError(self.field, twice[0], "column names that differ", "Two columns have this name.")
        return schema

    @property
    def column_list(self) -> str:
        return ", ".join(map(repr, self.schema.names[:20]))

    def batches(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        """Read the columns in batches of records, as text from CSV.

        In a file with one column, an empty line is a record without a value.
        """
        if isinstance(self.source, pa.Table):
            yield from self.source.select(names).to_batches(AT_ONCE)
        elif self.parquet:
            yield from pq.ParquetFile(self.source).iter_batches(AT_ONCE, columns=names)
        else:
            inferred = {name: self.schema.field(name).type for name in names}
            types = {
                name: kind if pa.types.is_boolean(kind) else pa.string() for name, kind in inferred.items()
            }
            options = pyarrow.csv.ConvertOptions(include_columns=names, column_types=types)
            parse = pyarrow.csv.ParseOptions(ignore_empty_lines=len(self.schema.names) > 1)
            with pyarrow.csv.open_csv(self.source, SERIAL, parse, options) as reader:
                yield from reader

    def columns(self, names: list[str], field: str, most: int | None = None) -> list[NDArray[np.float64]]:
        """Read columns as doubles. A missing value is NaN."""
        parts: dict[str, list[NDArray[np.float64]]] = {name: [np.empty(0)] for name in names}
        start, name = 0, ""
        try:
            for batch in self.batches(names):
                end = start + batch.num_rows
                if most is not None and end > most:
                    hint = "Give a random sample of them."
                    raise InputError(self.field, f"{end:,} records", f"at most {most:,}", hint)
                for name in names:
                    parts[name].append(to_doubles(batch.column(name), start))
                start = end
        except (pa.ArrowException, OSError) as error:
            raise self.format_error(error) from None
        except Unusable as error:
            hint = f"Column {name!r} has {error}."
            raise InputError(field, name, "a column of numbers", hint) from None
        return [np.concatenate(parts[name]) for name in names]

    def missing_error(self, values: NDArray[np.float64], name: str, field: str, end: str = ".") -> InputError:
        bad = np.flatnonzero(~np.isfinite(values))
        hint = f"It has {len(bad):,} of them, the first in record {bad[0] + 1:,}{end}"
        return InputError(field, name, "a column without missing or infinite values", hint)

    def format_error(self, error: Exception) -> InputError:
        """Error with the message of Arrow, or with another one if the message may quote values."""
        line = str(error).splitlines()[0] if str(error) else type(error).__name__
        hint = f"{line.rstrip('.')}." if ":" not in line and "'" not in line else "It cannot be parsed."
        if isinstance(error, UnicodeError) or "error to string: invalid UTF8 data" in line:
            hint = "It is in another encoding: save it as UTF-8."
        elif ragged := re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", line):
            row, columns, found = map(int, ragged.groups())
            rank = f"Row {row:,}, counted from the header without empty lines,"
            hint = f"{rank} has {found} columns, the header {columns}."
        file = self.source if isinstance(self.source, str) else None
        return InputError(self.field, file, "a Parquet or CSV file", hint)


def to_doubles(column: Any, start: int) -> NDArray[np.float64]:
    """Convert a batch to doubles. ``start`` is the number of earlier records, for messages."""
    kind = column.type
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return parse_texts(column, start)
    if pa.types.is_boolean(kind):
        column, kind = column.cast(pa.int8()), pa.int8()
    if not is_numeric(kind):
        raise Unusable(f"values of type {kind}")
    try:
        values = column.cast(pa.float64())
    except pa.ArrowInvalid:
        raise Unusable(TOO_LONG) from None
    return np.asarray(values.fill_null(np.nan).to_numpy(zero_copy_only=False))


def parse_texts(column: Any, start: int) -> NDArray[np.float64]:
    text = pc.utf8_trim_whitespace(column.cast(pa.string()))
    absent = pc.is_in(text, value_set=pa.array(MISSING)).fill_null(True)
    text = pc.if_else(absent, pa.scalar(None, pa.string()), text)
    values: NDArray[np.float64]
    try:
        values = text.cast(pa.float64()).fill_null(np.nan).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        if len(text) == 1:
            raise Unusable(f"text that is no number, in record {start + 1:,}") from None
        middle = len(text) // 2
        return np.concatenate([parse_texts(text[:middle], start), parse_texts(text[middle:], start + middle)])
    integers = pc.match_substring_regex(text, r"^[+-]?\d+$").fill_null(False).to_numpy(zero_copy_only=False)
    if (np.abs(values[integers]) >= EXACT).any():
        raise Unusable(TOO_LONG)
    return values


def is_numeric(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


@dataclass(frozen=True, eq=False)
class DataColumn:
    """Finite values of a column in the order of the file. ``dropped`` counts the records without one."""

    name: str
    values: NDArray[np.float64]
    dropped: int
    sha256: str | None = None  # of the file's bytes


def read_column(
    source: str | pa.Table,
    column: str | None = None,
    *,
    drop: bool = False,
    fields: tuple[str, str] = FIELDS,
    count_column: str | None = None,
) -> DataColumn:
    """Read one numeric column of a file or of a table in memory.

    ``column`` may be None if the table has one column. Records without a finite value are an error. With
    ``drop`` they are left out. ``fields`` are the names of file and column in messages. ``count_column`` is
    the name of a column with the number of records of each row.
    """
    table = UserTable(source, fields[0])
    name = choose_column(table, column, fields[1])
    (values,) = table.columns([name], fields[1], MOST_VALUES)
    finite = np.isfinite(values)
    if not finite.all() and not drop:
        remedy = '; missing = "drop" leaves such records out.'
        raise table.missing_error(values, name, fields[1], remedy)
    if count_column is not None:
        counts = read_counts(table, count_column, fields[1].replace("column", "count_column"))
        values, finite = np.repeat(values, counts), np.repeat(finite, counts)
    dropped = len(values) - int(finite.sum())
    values = values[finite] if dropped else values
    different = len(np.unique(values))
    if different < 3:
        hint = f"It has {different} in {len(values):,} records."
        raise InputError(fields[1], name, "a column with at least three different values", hint)
    return DataColumn(name, values, dropped)


def read_counts(table: UserTable, column: str, field: str) -> NDArray[np.int64]:
    choose_column(table, column, field)
    (counts,) = table.columns([column], field, MOST_VALUES)
    bad = np.flatnonzero(~((counts >= 0) & (counts == np.floor(counts))))
    if len(bad):
        hint = f"Row {bad[0] + 1:,} has another value."
        raise InputError(field, column, "a column of whole numbers >= 0", hint)
    if counts.sum() > MOST_VALUES:
        raise InputError(field, f"{counts.sum():,.0f} records", f"at most {MOST_VALUES:,}")
    return counts.astype(np.int64)


def choose_column(table: UserTable, column: str | None, field: str) -> str:
    """Name of the column to read. The only column of a table need not be named."""
    kinds = dict(zip(table.schema.names, table.schema.types, strict=True))
    if column is None and len(kinds) == 1:
        (column,) = kinds
    if column is None or column not in kinds:
        raise InputError(field, column, "a column of the file", f"It has: {table.column_list}.")
    kind = kinds[column]
    if table.parquet and not (is_numeric(kind) or pa.types.is_null(kind)):
        raise InputError(field, column, "a column of numbers", f"Column {column!r} holds {kind}.")
    return column


def identify_file(problem: Any, most: int = MOST_FEATURES) -> tuple[str, int] | None:
    """Digest of a problem's file and number of its columns that make x. None without a file.

    Inside :func:`close_data_files` both are read from the settings of the problem.
    """
    if problem.file is None:
        if problem.target is not None or problem.features is not None:
            raise ValueError("target and features go with file")
        return None
    if problem.target is None:
        raise ValueError("file needs target, the name of its column y")
    if CLOSED.get() and problem.sha256 is not None:
        return problem.sha256, problem.dimension
    digest = check_digest(problem.file, problem.sha256)
    return digest, len(feature_names(UserTable(problem.file), problem.target, problem.features, most))


def check_digest(file: str, sha256: str | None, field: str = FIELDS[0]) -> str:
    """SHA-256 of a file's bytes. A file with another digest than ``sha256`` is refused."""
    check_data_file(file, field)
    with open(file, "rb") as source:
        digest = hashlib.file_digest(source, "sha256").hexdigest()
    if sha256 not in (None, digest):
        raise InputError(field, file, f"the file with SHA-256 {sha256}", "It has changed.")
    return digest


def feature_names(
    table: UserTable, target: str, features: tuple[str, ...] | None, most: int = MOST_FEATURES
) -> list[str]:
    names, hint = table.schema.names, f"It has: {table.column_list}."
    if target not in names:
        raise InputError("problem.target", target, "a column of the file", hint)
    chosen = [name for name in names if name != target] if features is None else list(features)
    for name in chosen:
        if name not in names or name == target:
            raise InputError("problem.features", name, "columns of the file other than the target", hint)
    if not 1 <= len(chosen) <= most or len(set(chosen)) < len(chosen):
        raise InputError("problem.features", len(chosen), f"1 to {most} different columns")
    return chosen


def read_columns(
    file: str, target: str, features: tuple[str, ...] | None, most: int | None = None
) -> tuple[list[NDArray[np.float64]], NDArray[np.float64]]:
    table = UserTable(file)
    names = [*feature_names(table, target, features), target]
    columns = table.columns(names, "problem.file", most)
    if not len(columns[-1]):
        raise InputError("problem.file", file, "at least one record")
    for name, values in zip(names, columns, strict=True):
        if not np.isfinite(values).all():
            raise table.missing_error(values, name, "problem.file")
    return columns[:-1], columns[-1]


def check_two_values(y: NDArray[np.float64], target: str | None) -> NDArray[np.float64]:
    values = np.unique(y)
    if len(values) != 2:
        hint = f"It has {len(values):,}."
        raise InputError("problem.target", target, "a column with two different values", hint)
    return values


def read_records(
    file: str, target: str, features: tuple[str, ...] | None, bound: float, labels: Literal["binary", "real"]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """x of shape (N, d) with every row scaled to norm ``bound``, and y of shape (N,).

    A row of zeros stays as it is. For binary labels the smaller value of y becomes -1, and the larger 1.
    """
    columns, y = read_columns(file, target, features)
    # Rows are divided by their largest entry first, so that squares do not overflow.
    largest = np.max(np.abs(columns), axis=0)
    largest[largest == 0.0] = 1.0
    square = np.zeros(len(y))
    for column in columns:
        scaled = column / largest
        square += scaled * scaled
    size = np.sqrt(square)
    size[size == 0.0] = 1.0
    x = np.column_stack([bound * (column / largest / size) for column in columns])
    if labels == "binary":
        y = np.where(y == check_two_values(y, target)[0], -1.0, 1.0)
    return x, y


def draw_data(kernel, state, parameters, planes):  # type: ignore[no-untyped-def]
    """Fill ``planes``, CHUNK draws of each column, with stored records in the order of each lane.

    ``state`` has the number of records drawn before, then the orders, flat over (place, lane). ``parameters``
    has the records row by row. Draws after the last record repeat this record. No step uses them.
    """
    first = np.int64(state[0])
    count = (state.shape[0] - 1) // LANES
    for k in range(CHUNK):
        place = min(first + k, count - 1)
        for lane in range(LANES):
            row = np.int64(state[1 + place * LANES + lane])
            for j in range(kernel.D + 1):
                planes[j * STRIDE + k * LANES + lane] = parameters[row * (kernel.D + 1) + j]
    state[0] = np.uint64(first + CHUNK)
