"""Files of transcripts: regular ones that are read in several passes, and what is special to CSV.

CSV is in UTF-8 with a header, one report a line, lines of at most 1 MiB.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from io import BufferedReader
from itertools import islice
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ldpflow.documents import open_regular
from ldpflow.errors import InputError
from ldpflow.transcripts.values import RowError

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
