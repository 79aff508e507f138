"""Reading transcripts in chunks: Parquet, CSV, and tables in memory, one row per report.

Columns ``report`` and ``theta`` (what the user was asked, theta_{i-1}), or ``report_0, report_1, ...`` and
``theta_0, ...`` for a vector; optional ``step``, ``epsilon``, ``round`` and ``user``. Memory is that of
a chunk and of what the file format reads at once.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldpflow.errors import InputError
from ldpflow.transcripts.faults import RowError

__all__ = ["CHUNK", "Chunk", "Columns", "Transcript"]

CHUNK = 2**16
METADATA = b"ldpflow"
READ_ROWS = 2**16
READ_BYTES = 2**20

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
        for name in names:
            if names.count(name) > 1:
                raise InputError("columns", name, "every name once", "The file has it twice.")
        reports, thetas = coordinates("report", names), coordinates("theta", names)
        if not reports:
            hint = f"The file has {', '.join(names[:20]) or 'none'}."
            raise InputError("columns", None, "a column report (or report_0, report_1, ...)", hint)
        optional = tuple(name for name in ("step", "epsilon", "round", "user") if name in names)
        read = (*reports, *thetas, *optional)
        return cls(reports, thetas, optional, tuple(name for name in names if name not in read))


def coordinates(stem: str, names: list[str]) -> tuple[str, ...]:
    """``stem`` alone, or ``stem_0``, ``stem_1``, ... without a gap."""
    numbered = sorted(int(name[len(stem) + 1 :]) for name in names if re.fullmatch(rf"{stem}_\d+", name))
    if stem in names:
        if numbered:
            raise InputError("columns", f"{stem} and {stem}_{numbered[0]}", "one form or the other")
        return (stem,)
    if numbered != list(range(len(numbered))):
        raise InputError("columns", f"{stem}_{numbered[-1]}", f"{stem}_0, {stem}_1, ... without a gap")
    return tuple(f"{stem}_{j}" for j in numbered)


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


@dataclass(frozen=True)
class Transcript:
    """A transcript: a Parquet file, a CSV file or an Arrow table.

    Parameters
    ----------
    place : str
        Path of the file; ``table`` for one in memory.
    table : pyarrow.Table, optional
    """

    place: str
    table: pa.Table | None = None

    @classmethod
    def of(cls, source: object) -> Transcript:
        """From a path, a pyarrow table, or what pyarrow makes one of (pandas, polars, a mapping)."""
        if isinstance(source, Transcript):
            return source
        if isinstance(source, (str, os.PathLike)):
            place = os.fspath(source)
            if not Path(place).is_file():
                raise InputError("file", place, "a Parquet or CSV file")
            return cls(place)
        if isinstance(source, pa.Table):
            return cls("table", source)
        if hasattr(source, "__arrow_c_stream__"):
            return cls("table", pa.table(source))
        if isinstance(source, dict):
            return cls("table", pa.table(source))
        raise InputError("table", type(source).__name__, "a path, an Arrow table or a data frame")

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
        return pa.schema([(name, pa.string()) for name in self.csv_header()])

    @cached_property
    def columns(self) -> Columns:
        """Which columns it has."""
        return Columns.of(self.schema.names)

    @cached_property
    def rows(self) -> int:
        """Number of rows: from the metadata, or from a first pass over a CSV file."""
        if self.table is not None:
            return int(self.table.num_rows)
        if self.parquet:
            return int(self.parquet_file().metadata.num_rows)
        text = dict.fromkeys(self.columns.reports[:1], pa.string())
        return sum(batch.num_rows for batch in self.csv_batches(text))

    def settings(self) -> str | None:
        """TOML that ldpflow wrote into the file's metadata, or None."""
        stored = self.schema.metadata
        if self.table is None and self.parquet:
            stored = self.parquet_file().metadata.metadata
        found = (stored or {}).get(METADATA)
        return None if found is None else found.decode()

    def sha256(self) -> str | None:
        """Digest of the file; None for a table in memory."""
        if self.table is not None:
            return None
        with open(self.place, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def chunks(self, size: int = CHUNK) -> Iterator[Chunk]:
        """The rows in order, ``size`` at a time.

        Raises
        ------
        RowError
            At the first value that is missing or of another type.
        """
        first = 1
        waiting: list[pa.RecordBatch] = []
        count = 0
        for batch in self.batches():
            while batch.num_rows:
                part = batch.slice(0, size - count)
                waiting.append(part)
                count += part.num_rows
                batch = batch.slice(part.num_rows)
                if count == size:
                    yield self.chunk(waiting, first)
                    first += count
                    waiting, count = [], 0
        if count:
            yield self.chunk(waiting, first)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Record batches of the columns that are read, as they come."""
        names = self.columns.read
        if self.table is not None:
            yield from self.table.select(names).to_batches(max_chunksize=READ_ROWS)
        elif self.parquet:
            yield from self.parquet_file().iter_batches(READ_ROWS, columns=names, use_threads=False)
        else:
            yield from self.csv_batches({name: csv_type(name) for name in names})

    def chunk(self, batches: list[pa.RecordBatch], first: int) -> Chunk:
        """One chunk from pieces of batches."""
        table = pa.Table.from_batches(batches)

        def floats(name: str) -> Floats:
            return as_floats(table.column(name), name, first)

        optional = {
            name: floats(name) if name in self.columns.optional else None for name in ("step", "epsilon")
        }
        rounds = users = None
        if "round" in self.columns.optional:
            rounds = as_whole(table.column("round"), first)
        if "user" in self.columns.optional:
            users = table.column("user")
            refuse_nulls(users, "user", first)
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

    def parquet_file(self) -> Any:
        """The opened file; page checksums are verified where it has them."""
        import pyarrow.parquet as pq

        try:
            # Not buffered beforehand: that would hold the whole file.
            return pq.ParquetFile(self.place, page_checksum_verification=True, pre_buffer=False)
        except (pa.ArrowException, OSError) as error:
            reason = " ".join(str(error).split())
            raise InputError("file", self.place, "a Parquet file", reason) from None

    def csv_header(self) -> list[str]:
        """Column names of a CSV file."""
        import csv

        try:
            with open(self.place, encoding="utf-8-sig", newline="") as file:
                header = next(csv.reader(file), [])
        except UnicodeDecodeError as error:
            hint = f"Byte {error.object[error.start]:#04x} at position {error.start} is not."
            raise InputError("file", self.place, "a CSV file in UTF-8", hint) from None
        if not header:
            raise InputError("file", self.place, "a CSV file with a header")
        return [name.strip() for name in header]

    def csv_batches(self, types: dict[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        """Batches of some columns of a CSV file.

        Raises
        ------
        InputError
            At the first value that is not of its column's type, or line with another number of values.
        """
        try:
            yield from self.csv_reader(types)
        except pa.ArrowInvalid as error:
            hint = " ".join(str(error).split())[:300]
            raise self.csv_fault(types) or InputError(
                "file", self.place, "a CSV file with as many values in every line", hint
            ) from None

    def csv_reader(self, types: dict[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        """The same, with pyarrow's errors."""
        from pyarrow import csv

        reader = csv.open_csv(
            self.place,
            read_options=csv.ReadOptions(
                use_threads=False, block_size=READ_BYTES, column_names=self.csv_header(), skip_rows=1
            ),
            convert_options=csv.ConvertOptions(
                column_types=types,
                include_columns=list(types),
                null_values=[""],
                strings_can_be_null=True,
            ),
        )
        yield from reader

    def csv_fault(self, types: dict[str, pa.DataType]) -> RowError | None:
        """The first value of a CSV file that is not of its column's type, if that is what is wrong."""
        import pyarrow.compute as pc

        first = 1
        batches = self.csv_reader(dict.fromkeys(types, pa.string()))
        while True:
            try:
                batch = next(batches)
            except (StopIteration, pa.ArrowInvalid):
                return None
            found: list[tuple[int, str, str]] = []
            for name, kind in types.items():
                texts = batch.column(name)
                try:
                    pc.cast(texts, kind)
                except pa.ArrowInvalid:
                    row = next(i for i, text in enumerate(texts) if not converts(text, kind))
                    found.append((row, name, texts[row].as_py()))
            if found:
                row, name, text = min(found)
                wanted = "a whole number" if pa.types.is_integer(types[name]) else "a number"
                return RowError(first + row, name, text, wanted)
            first += batch.num_rows


def converts(text: pa.Scalar, kind: pa.DataType) -> bool:
    """Whether a text is a value of the type."""
    try:
        text.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def csv_type(name: str) -> pa.DataType:
    """The type that a CSV column is read as."""
    if name == "round":
        return pa.int64()
    return pa.string() if name == "user" else pa.float64()


def refuse_nulls(values: pa.ChunkedArray, name: str, first: int) -> None:
    """Refuse a missing value."""
    if values.null_count:
        row = int(np.flatnonzero(values.is_null().to_numpy())[0])
        raise RowError(first + row, name, None, "a value", "It is missing.")


def as_floats(values: pa.ChunkedArray, name: str, first: int) -> Floats:
    """Numbers of any Arrow type as doubles, exactly."""
    kind = values.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise InputError(f"columns.{name}", str(kind), "a column of numbers")
    refuse_nulls(values, name, first)
    if pa.types.is_boolean(kind):
        values = values.cast(pa.int8())
    try:
        found: Floats = values.cast(pa.float64()).to_numpy()
    except pa.ArrowInvalid:
        whole = values.to_numpy()
        row = int(np.flatnonzero(np.abs(whole.astype(np.float64)) > 2**53)[0])
        raise RowError(first + row, name, int(whole[row]), "a number of at most 53 bits") from None
    return found


def as_whole(values: pa.ChunkedArray, first: int) -> NDArray[np.int64]:
    """Round numbers as integers."""
    refuse_nulls(values, "round", first)
    if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
        raise InputError("columns.round", str(values.type), "a column of whole numbers")
    try:
        found: NDArray[np.int64] = values.cast(pa.int64()).to_numpy()
    except pa.ArrowInvalid:
        numbers = values.cast(pa.float64(), safe=False).to_numpy()
        row = int(np.flatnonzero(~(numbers == np.floor(numbers)) | (np.abs(numbers) > 2**53))[0])
        raise RowError(first + row, "round", float(numbers[row]), "a whole number") from None
    return found
