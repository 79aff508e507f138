"""One numeric column of a Parquet or CSV file, with a message for every fault.

Records are data of people: no message and no result of this module shows a value of the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ldpflow.errors import InputError
from ldpflow.problems.data_files import check_data_file, check_encoding
from ldpflow.problems.data_lines import place_of, ragged

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray


MOST = 10_000_000
"""Most values of a column."""

EXACT = 2.0**53  # integers up to here are doubles
FIELDS = ("problem.file", "problem.column")
SAMPLE = 10_000  # records that show whether a column of text is mostly numbers
NUMBER = r"^\W*\d[\d,.' ]*([eE][+-]?\d+)?\W*$"  # with a currency, or signs that group digits
MISSING = ("", "NA", "N/A", "#N/A", "NaN", "nan", "null", "NULL", "None", "none", "-")


@dataclass(frozen=True, eq=False)
class Column:
    """Values of a column, in the order of the file.

    Parameters
    ----------
    name : str
    values : ndarray of float, shape (N,)
        Finite.
    dropped : int
        Records without a value that were left out.
    """

    name: str
    values: NDArray[np.float64]
    dropped: int


def read_column(
    file: str, column: str | None = None, *, drop: bool = False, fields: tuple[str, str] = FIELDS
) -> Column:
    """Read one numeric column.

    Parameters
    ----------
    file : str
        Parquet by its extension (.parquet, .pq); everything else is CSV with a header, in UTF-8.
    column : str, optional
        May be left out where one column is numeric and no other one holds mostly numbers.
    drop : bool
        Leave out records without a finite value, which are an error otherwise.
    fields : (str, str)
        What messages call the file and the column.

    Raises
    ------
    InputError
        Naming the file or column, what is wrong with it and the first record where that is so.
    """
    import pyarrow as pa

    parquet = checked_file(file, fields[0])
    try:
        schema = schema_of(file, parquet)
        name = chosen(schema, column, fields, parquet)
        if column is None:
            refuse_others(name, first_rows(file, parquet), fields)
        parts = list(parquet_parts(file, name) if parquet else text_parts(file, name))
    except (pa.ArrowException, OSError) as error:
        raise InputError(fields[0], file, "a Parquet or CSV file", wording(error, file)) from None
    except TooMany as error:
        raise InputError(
            fields[0], f"{error.args[0]:,} records", f"at most {MOST:,}", "Give a random sample of them."
        ) from None
    except Unusable as error:
        raise InputError(fields[1], name, "a column of numbers", error.sentence(file, name)) from None
    return finite_column(name, parts, drop, fields, lambda record: place_of(file, record))


def table_column(
    table: pa.Table, column: str | None = None, *, drop: bool = False, fields: tuple[str, str] = FIELDS
) -> Column:
    """One numeric column of a table in memory; arguments and faults as of :func:`read_column`."""
    name = chosen(table.schema, column, fields, True)
    if column is None:
        refuse_others(name, table.slice(0, SAMPLE), fields)
    if table.num_rows > MOST:
        raise InputError(fields[0], f"{table.num_rows:,} records", f"at most {MOST:,}")
    parts, start = [], 0
    try:
        for batch in table.select([name]).to_batches():
            parts.append(converted(batch.column(0), start))
            start += batch.num_rows
    except Unusable as error:
        raise InputError(fields[1], name, "a column of numbers", error.sentence(None, name)) from None
    return finite_column(name, parts, drop, fields, lambda record: f"record {record:,}")


def finite_column(
    name: str,
    parts: list[NDArray[np.float64]],
    drop: bool,
    fields: tuple[str, str],
    place: Callable[[int], str],
) -> Column:
    """The column of values that were read; ``place`` says where a record stands."""
    import numpy as np

    values = np.concatenate(parts) if parts else np.empty(0)
    bad = ~np.isfinite(values)
    count = int(bad.sum())
    if count and not drop:
        raise InputError(
            fields[1],
            name,
            "a column without missing or infinite values",
            f"It has {count:,} of them, the first in {place(int(bad.argmax()) + 1)}; "
            'missing = "drop" leaves such records out.',
        )
    values = values[~bad] if count else values
    if len(np.unique(values)) < 3:
        found = f"It has {len(np.unique(values))} in {len(values):,} records."
        raise InputError(fields[1], name, "a column with at least three different values", found)
    return Column(name, values, count)


class TooMany(Exception):
    """More records than a column may have."""


class Unusable(Exception):
    """Value of a column that is not a number, and the number of its record, from 1."""

    def __init__(self, what: str, record: int) -> None:
        super().__init__(what, record)
        self.what, self.record = what, record

    def sentence(self, file: str | None, column: str) -> str:
        """Sentence on what is wrong with a column, and where."""
        place = f"record {self.record:,}" if file is None else place_of(file, self.record)
        return f"Column {column!r} has {self.what}, in {place}."


def checked_file(file: str, field: str) -> bool:
    """Whether the file is Parquet; a readable regular file, and UTF-8 if it is text."""
    check_data_file(file, field)
    try:
        parquet = Path(file).suffix.lower() in (".parquet", ".pq")
        if not parquet:
            check_encoding(file, field)
        return parquet
    except OSError as error:
        raise InputError(
            field, file, "a Parquet or CSV file that can be read", f"{error.strerror}."
        ) from None


def schema_of(file: str, parquet: bool) -> Any:
    """Names and types of the columns."""
    import pyarrow.csv
    import pyarrow.parquet as pq

    if parquet:
        return pq.read_schema(file)
    with pyarrow.csv.open_csv(file) as reader:
        return reader.schema


def text_options(file: str, name: str) -> dict[str, Any]:
    """Options that read one column of a CSV file as text, an empty line of a single column as no value."""
    import pyarrow as pa
    import pyarrow.csv

    alone = len(schema_of(file, parquet=False).names) == 1
    return {
        "parse_options": pyarrow.csv.ParseOptions(ignore_empty_lines=not alone),
        "convert_options": pyarrow.csv.ConvertOptions(
            include_columns=[name], column_types={name: pa.string()}
        ),
    }


def column_names(file: str) -> list[str]:
    """Names of the columns of a file that :func:`read_column` could read."""
    return list(schema_of(file, checked_file(file, FIELDS[0])).names)


def chosen(schema: Any, column: str | None, fields: tuple[str, str], parquet: bool) -> str:
    """The column that is meant, one whose type can hold numbers; in a CSV file texts are read later."""
    import pyarrow as pa

    names = list(schema.names)
    known = ", ".join(map(repr, names[:20]))
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise InputError(fields[0], twice[0], "column names that differ", "Two columns have this name.")
    numeric = [name for name in names if is_number(schema.field(name).type)]
    if column is None:
        if len(numeric) != 1:
            raise InputError(
                fields[1],
                None,
                "the name of a column",
                f"It has {len(numeric)} numeric columns; all are: {known}.",
            )
        return str(numeric[0])
    if column not in names:
        raise InputError(fields[1], column, "a column of the file", f"It has: {known}.")
    kind = schema.field(column).type
    if parquet and column not in numeric and not pa.types.is_null(kind):
        raise InputError(fields[1], column, "a column of numbers", f"Column {column!r} holds {kind}.")
    return column


def first_rows(file: str, parquet: bool) -> Any:
    """The first records of a file, columns as their types are inferred."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    if parquet:
        batches = pq.ParquetFile(file).iter_batches(batch_size=SAMPLE)
        return next(batches, pa.RecordBatch.from_pylist([]))
    with pyarrow.csv.open_csv(file) as reader:
        return reader.read_next_batch()


def refuse_others(name: str, sample: Any, fields: tuple[str, str]) -> None:
    """Refuse to choose a column where another one, of text, holds mostly numbers.

    One word among the numbers makes a column text, and an identifier the only numeric one.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    others = []
    for at, field in enumerate(sample.schema):
        if not (pa.types.is_string(field.type) or pa.types.is_large_string(field.type)):
            continue
        text = pc.utf8_trim_whitespace(sample.column(at).cast(pa.string()))
        text = text.filter(pc.invert(pc.is_in(text, value_set=pa.array([*MISSING, None], pa.string()))))
        numbers = pc.sum(pc.match_substring_regex(text, NUMBER)).as_py() or 0
        if numbers > len(text) / 2:
            others.append(field.name)
    if others:
        raise InputError(
            fields[1],
            None,
            "the name of a column",
            f"{name!r} is numeric; mostly numbers, with text among them: {', '.join(map(repr, others))}.",
        )


def is_number(kind: Any) -> bool:
    """Whether an Arrow type holds numbers."""
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def parquet_parts(file: str, name: str) -> Iterator[NDArray[np.float64]]:
    """The values of a Parquet column, NaN where there is none."""
    import pyarrow.parquet as pq

    source = pq.ParquetFile(file)
    if source.metadata.num_rows > MOST:
        raise TooMany(source.metadata.num_rows)
    start = 0
    for batch in source.iter_batches(columns=[name]):
        yield converted(batch.column(0), start)
        start += batch.num_rows


def converted(column: Any, start: int) -> NDArray[np.float64]:
    """Integers, floating-point numbers or decimals as doubles; ``start`` records came before."""
    import numpy as np
    import pyarrow as pa

    kind = column.type
    missing = float("nan")
    if pa.types.is_null(kind):
        return np.full(len(column), missing)
    values: NDArray[np.float64]
    if pa.types.is_floating(kind):
        values = column.cast(pa.float64()).fill_null(missing).to_numpy(zero_copy_only=False)
        return values
    if pa.types.is_decimal(kind):
        values = column.cast(pa.float64(), safe=False).fill_null(missing).to_numpy(zero_copy_only=False)
        if kind.precision > 15:  # up to 15 digits survive a double
            given = column.to_pylist()
            inexact = (
                i for i, v in enumerate(given) if v is not None and Decimal(repr(float(values[i]))) != v
            )
            refuse_first(inexact, start, "a decimal number that no double holds")
        return values
    large = column.cast(pa.float64(), safe=False).fill_null(missing)
    values = large.to_numpy(zero_copy_only=False)
    suspects = np.flatnonzero(np.abs(values) >= EXACT)
    inexact = (int(i) for i in suspects if int(values[i]) != column[int(i)].as_py())
    refuse_first(inexact, start, "an integer beyond 2^53 that no double holds")
    return values


def refuse_first(places: Iterator[int], start: int, what: str) -> None:
    """Raise for the first of the places, if there is one."""
    first = next(places, None)
    if first is not None:
        raise Unusable(what, start + first + 1)


def text_parts(file: str, name: str) -> Iterator[NDArray[np.float64]]:
    """The values of a CSV column, NaN where there is none."""
    import pyarrow.csv

    start = 0
    with pyarrow.csv.open_csv(file, **text_options(file, name)) as reader:
        for batch in reader:
            if start + batch.num_rows > MOST:
                raise TooMany(start + batch.num_rows)
            yield parsed(batch.column(0), start)
            start += batch.num_rows


def parsed(column: Any, start: int) -> NDArray[np.float64]:
    """Texts as doubles."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    text = pc.utf8_trim_whitespace(column)
    absent = pc.is_in(text, value_set=pa.array(MISSING)).fill_null(True)
    text = pc.if_else(absent, pa.scalar(None, pa.string()), text)
    values: NDArray[np.float64]
    try:
        values = text.cast(pa.float64()).fill_null(float("nan")).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        refuse_first(iter([first_unreadable(text)]), start, "text that is no number")
    suspects = np.flatnonzero(np.isfinite(values) & (np.abs(values) >= EXACT))
    inexact = (
        int(i)
        for i in suspects
        if re.fullmatch(r"[+-]?\d+", item := text[int(i)].as_py()) and int(item) != int(values[i])
    )
    refuse_first(inexact, start, "an integer beyond 2^53 that no double holds")
    return values


def first_unreadable(text: Any) -> int:
    """Place of the first text that Arrow reads as no number; there is one. By halving."""
    import pyarrow as pa

    first, count = 0, len(text)
    while count > 1:
        half = count // 2
        try:
            text.slice(first, half).cast(pa.float64())
            first, count = first + half, count - half
        except pa.ArrowInvalid:
            count = half
    return first


def wording(error: Exception, file: str) -> str:
    """Arrow's message about a file, without the values that it quotes."""
    line = str(error).splitlines()[0] if str(error) else type(error).__name__
    if re.search(r"Expected \d+ columns, got \d+", line) and (said := ragged(file)):
        return said
    return f"{line.rstrip('.')}." if ":" not in line and "'" not in line else "It cannot be parsed."
