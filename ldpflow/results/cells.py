"""Stored rows, cut into cells: what every measure is computed from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldpflow.columns import Column
from ldpflow.store.schema import cell_keys, declared_columns

Floats = NDArray[np.float64]

VALUES = ("truth", "estimate", "se", "lower", "upper", "covered", "length")
"""Numbers that the rows of every method have."""


def group_keys(schema: pa.Schema) -> tuple[str, ...]:
    """A cell: one row of the summary."""
    return ("path", *cell_keys(schema), "coordinate")


def diagnostics_of(schema: pa.Schema) -> list[Column]:
    """The columns of stored rows that are diagnostics of interval methods."""
    return [column for column in declared_columns(schema).values() if column.summaries]


@dataclass(frozen=True)
class CellRows:
    """The rows of one cell and coordinate, sorted by replicate; arrays of shape (replicates,).

    ``diagnostics`` holds what the method says about its own soundness, by declaration, NaN where it has
    no value; that of other methods may be absent. A row is made of ``runs`` consecutive replicates: row r of
    r runs, ..., (r + 1) runs - 1.

    Raises
    ------
    ValueError
        If the truth differs between replicates.
    """

    replicate: NDArray[np.int64]
    truth: Floats
    estimate: Floats
    se: Floats
    lower: Floats
    upper: Floats
    covered: Floats
    length: Floats
    ok: NDArray[np.bool_]
    diagnostics: Mapping[Column, Floats] = field(default_factory=dict)
    runs: int = 1

    def __post_init__(self) -> None:
        if np.any(self.truth != self.truth[:1]):
            raise ValueError("the truth of a cell differs between replicates")

    def where(self, kept: NDArray[np.bool_]) -> CellRows:
        """Some of the rows."""
        rows = {name: values[kept] for name, values in vars(self).items() if isinstance(values, np.ndarray)}
        checks = {column: values[kept] for column, values in self.diagnostics.items()}
        return CellRows(**rows, diagnostics=checks, runs=self.runs)

    def finished(self) -> CellRows:
        """The rows that have an interval (see store.schema.FINISHED)."""
        return self if self.ok.all() else self.where(self.ok)

    def has_se(self) -> bool:
        """Whether the method has a standard error of its own."""
        return len(self.se) > 0 and not bool(np.isnan(self.se).any())

    def lengths(self) -> Floats:
        """Lengths; exactly equal ones where they differ by the rounding of the limits alone.

        NaN where an interval ends at a public range: such a length measures nothing.
        """
        length = self.length
        if len(length) == 0 or np.isnan(length).any():
            return length
        limits = np.maximum(np.abs(self.lower), np.abs(self.upper))
        if np.ptp(length) <= 4 * np.finfo(float).eps * limits.max():
            return np.full_like(length, np.median(length))
        return length


def floats(column: pa.ChunkedArray) -> Floats:
    """The column as float64, null as NaN."""
    cast = column.combine_chunks().cast(pa.float64())
    values: Floats = cast.to_numpy(zero_copy_only=False)
    return values
