"""Values of the columns of a transcript: numbers, rounds and users; the first row that is wrong is named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldpflow.errors import InputError

LONGEST_NAME = 1000
"""Most bytes of a user's name."""

Floats = NDArray[np.float64]


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


def refuse_nulls(values: pa.ChunkedArray, name: str, first: int) -> None:
    """Refuse a missing value."""
    if values.null_count:
        row = int(np.flatnonzero(values.is_null().to_numpy())[0])
        raise RowError(first + row, name, None, "a value")


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
        row = int(np.argmax((whole > 2**53) | (whole < -(2**53))))
        raise RowError(first + row, name, int(whole[row]), "a number of at most 53 bits") from None
    return found


def as_whole(values: pa.ChunkedArray, first: int) -> NDArray[np.int64]:
    """Round numbers as integers."""
    kind = values.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise InputError("columns.round", str(kind), "a column of whole numbers")
    refuse_nulls(values, "round", first)
    if pa.types.is_floating(kind):
        numbers = values.cast(pa.float64()).to_numpy()
        bad = ~((numbers == np.floor(numbers)) & (np.abs(numbers) < 2.0**63))
    else:
        numbers = values.to_numpy()
        bad = numbers > 2**63 - 1
    if bad.any():
        row = int(np.argmax(bad))
        raise RowError(first + row, "round", numbers[row].item(), "a whole number")
    result: NDArray[np.int64] = numbers.astype(np.int64)
    return result


def as_names(values: pa.ChunkedArray, first: int) -> pa.Array:
    """Names or numbers of users."""
    kind = values.type
    value_kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if (
        not is_text(value_kind)
        and not pa.types.is_integer(value_kind)
        and not pa.types.is_floating(value_kind)
    ):
        raise InputError("columns.user", str(kind), "a column of texts or numbers")
    refuse_nulls(values, "user", first)
    return values.combine_chunks()


def is_text(kind: pa.DataType) -> bool:
    """Whether a type is one of texts or bytes."""
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(is_kind(kind) for is_kind in kinds)


def short_names(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches, up to the first user with a long name: a chunk of long names would fill the memory.

    Raises
    ------
    RowError
        After the rows before it.
    """
    first = 1
    for batch in batches:
        at = first_long(batch.column("user")) if "user" in batch.schema.names else None
        yield batch if at is None else batch.slice(0, at)
        if at is not None:
            allowed = f"a name of at most {LONGEST_NAME:,} bytes"
            raise RowError(first + at, "user", "a longer text", allowed)
        first += batch.num_rows


def first_long(users: pa.Array) -> int | None:
    """Place of the first name that is too long."""
    if pa.types.is_dictionary(users.type):
        check_names(users.dictionary)
        return None
    if not is_text(users.type):
        return None
    at = pc.index(pc.greater(pc.binary_length(users), LONGEST_NAME), True).as_py()
    return None if at < 0 else int(at)


def check_names(names: pa.Array) -> None:
    """Refuse names, of which each may belong to many rows, where one is too long.

    Raises
    ------
    InputError
    """
    if is_text(names.type) and (pc.max(pc.binary_length(names)).as_py() or 0) > LONGEST_NAME:
        raise InputError("columns.user", "a longer text", f"names of at most {LONGEST_NAME:,} bytes")
