"""Records from a Parquet or CSV file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from ldpflow.errors import InputError
from ldpflow.problems.data_files import UserTable, closed, digest_of
from ldpflow.random.lockstep import CHUNK, LANES, STRIDE

if TYPE_CHECKING:
    from numpy.typing import NDArray

LARGEST = 256


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
        If the file is no longer that of ``sha256``, or for its columns.
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
    return digest, len(feature_names(UserTable(file), target, features))


def feature_names(table: UserTable, target: str, features: tuple[str, ...] | None) -> list[str]:
    """Names of the columns that make x: the named features, or all columns but the target.

    Raises
    ------
    InputError
        If a column is missing or there are none or too many.
    """
    names, hint = table.schema.names, f"It has: {', '.join(table.schema.names[:20])}."
    if target not in names:
        raise InputError("problem.target", target, "a column of the file", hint)
    chosen = [name for name in names if name != target] if features is None else list(features)
    for name in chosen:
        if name not in names or name == target:
            raise InputError("problem.features", name, "columns of the file other than the target", hint)
    if not 1 <= len(chosen) <= LARGEST or len(set(chosen)) < len(chosen):
        raise InputError("problem.features", len(chosen), f"1 to {LARGEST} different columns")
    return chosen


def read_columns(
    file: str, target: str, features: tuple[str, ...] | None
) -> tuple[list[NDArray[np.float64]], NDArray[np.float64]]:
    """The columns that make x, and y, as they stand in the file.

    Raises
    ------
    InputError
        Naming the column and the record that cannot be used.
    """
    table = UserTable(file)
    names = [*feature_names(table, target, features), target]
    columns = table.columns(names, "problem.file")
    if not len(columns[-1]):
        raise InputError("problem.file", file, "at least one record")
    for name, values in zip(names, columns, strict=True):
        if not np.isfinite(values).all():
            raise table.missing(values, name, "problem.file")
    return columns[:-1], columns[-1]


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
