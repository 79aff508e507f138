"""Records from a Parquet or CSV file."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ldpflow.errors import InputError
from ldpflow.problems.column_file import Unusable, converted, first_unreadable, wording
from ldpflow.problems.data_files import check_data_file, check_encoding, closed
from ldpflow.problems.data_lines import place_of
from ldpflow.random.lockstep import CHUNK, LANES, STRIDE

if TYPE_CHECKING:
    from numpy.typing import NDArray


LARGEST = 256


def digest_of(file: str) -> str:
    """SHA-256 of the file's bytes."""
    check_data_file(file)
    try:
        with open(file, "rb") as source:
            return hashlib.file_digest(source, "sha256").hexdigest()
    except OSError as error:
        raise InputError(
            "problem.file", file, "a Parquet or CSV file that can be read", f"{error.strerror}."
        ) from None


def identified(
    file: str | None, target: str | None, features: tuple[str, ...] | None, sha256: str | None, d: int
) -> tuple[str, int] | None:
    """Digest of the file that a problem names, and how many of its columns make x; None without one.

    Where data files stay closed these are the ``sha256`` and ``d`` that were stored when it was read.

    Raises
    ------
    ValueError
        For settings that do not go together.
    InputError
        If the file is no longer that of ``sha256``, or for its columns (see :func:`columns_of`).
    """
    if file is None:
        if target is not None or features is not None:
            raise ValueError("target and features go with file")
        return None
    if target is None:
        raise ValueError("file needs target, the name of its column y")
    if closed() and sha256 is not None:
        return sha256, d
    digest = digest_of(file)
    if sha256 not in (None, digest):
        raise InputError("problem.file", file, f"the file with SHA-256 {sha256}", "It has changed.")
    return digest, len(columns_of(file, target, features))


def table_of(file: str) -> Any:
    """The file as an Arrow table; .parquet is Parquet, everything else CSV with a header."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    check_data_file(file)
    try:
        if Path(file).suffix.lower() in (".parquet", ".pq"):
            return pq.ParquetFile(file).read()
        check_encoding(file, "problem.file")
        return pa.csv.read_csv(file)
    except (pa.ArrowException, OSError) as error:
        raise InputError("problem.file", file, "a Parquet or CSV file", wording(error, file)) from None


def columns_of(file: str, target: str, features: tuple[str, ...] | None) -> list[str]:
    """Names of the columns that make x.

    Raises
    ------
    InputError
        If a column is missing or there are none or too many.
    """
    return feature_names(table_of(file).column_names, target, features)


def feature_names(names: list[str], target: str, features: tuple[str, ...] | None) -> list[str]:
    """The named features, or all columns but the target, checked."""
    known = ", ".join(names[:20])
    if twice := [name for name in names if names.count(name) > 1]:
        raise InputError("problem.file", twice[0], "column names that differ", "Two columns have this name.")
    if target not in names:
        raise InputError("problem.target", target, "a column of the file", f"It has: {known}.")
    chosen = [name for name in names if name != target] if features is None else list(features)
    for name in chosen:
        if name not in names or name == target:
            raise InputError(
                "problem.features",
                name,
                "columns of the file other than the target",
                f"It has: {known}.",
            )
    if not 1 <= len(chosen) <= LARGEST or len(set(chosen)) < len(chosen):
        raise InputError("problem.features", len(chosen), f"1 to {LARGEST} different columns")
    return chosen


def numbers(table: Any, name: str, file: str) -> NDArray[np.float64]:
    """A column as doubles.

    Raises
    ------
    InputError
        For a missing or infinite value (with its row) or a column that holds no numbers.
    """
    import pyarrow as pa

    column = table[name]
    kind = column.type
    if pa.types.is_string(kind):
        place = first_unreadable(column.fill_null("0").combine_chunks())
        text = Unusable("text that is no number", place + 1)
        raise InputError("problem.file", name, "columns of numbers", text.sentence(file, name))
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise InputError("problem.file", name, "columns of numbers", f"The column '{name}' holds {kind}.")
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    try:
        values = converted(column, 0)
    except Unusable as error:
        raise InputError("problem.file", name, "a column of numbers", error.sentence(file, name)) from None
    bad = np.nonzero(~np.isfinite(values))[0]
    if len(bad):
        raise InputError(
            "problem.file",
            name,
            "columns without missing or infinite values",
            f"The column '{name}' has {len(bad):,}, the first in {place_of(file, int(bad[0]) + 1)}.",
        )
    return values


def read_columns(
    file: str, target: str, features: tuple[str, ...] | None
) -> tuple[list[NDArray[np.float64]], NDArray[np.float64]]:
    """The columns that make x, and y, as they stand in the file.

    Raises
    ------
    InputError
        Naming the column and the record that cannot be used.
    """
    table = table_of(file)
    names = feature_names(table.column_names, target, features)
    if table.num_rows == 0:
        raise InputError("problem.file", file, "at least one record")
    return [numbers(table, name, file) for name in names], numbers(table, target, file)


def read_records(
    file: str,
    target: str,
    features: tuple[str, ...] | None,
    bound: float,
    labels: Literal["binary", "real"],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """x of shape (N, d) with every row scaled to norm ``bound`` (a row of zeros stays), and y.

    Binary labels may be any two numbers; the smaller becomes -1, the larger 1.

    Raises
    ------
    InputError
        Naming the column and the record that cannot be used.
    """

    columns, y = read_columns(file, target, features)
    y = y.copy()
    # Scaled by the largest entry first: squares must not overflow.
    largest = np.max(np.abs(columns), axis=0)
    largest[largest == 0.0] = 1.0
    square = np.zeros(len(y))
    for column in columns:
        scaled = column / largest
        square += scaled * scaled
    size = np.sqrt(square)
    size[size == 0.0] = 1.0
    x = np.empty((len(y), len(columns)))
    for j, column in enumerate(columns):
        x[:, j] = bound * (column / largest / size)
    if labels == "binary":
        values = np.unique(y)
        if len(values) != 2:
            shown = ", ".join(f"{v:g}" for v in values[:5])
            raise InputError(
                "problem.target",
                target,
                "a column with two different values",
                f"It has {len(values):,}: {shown}.",
            )
        y = np.where(y == values[0], -1.0, 1.0)
    return x, y


def draw_data(kernel, state, parameters, planes):  # type: ignore[no-untyped-def]
    """Fill the planes of one chunk with stored records, in every lane's own order (a kernel's function).

    state: records taken so far, then the orders, flat over (place, lane); parameters: the table, row by
    row. Behind its end the last record stands, for no step to use.
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
