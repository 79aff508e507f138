"""Stored rows of a cell, and the columns of a summary."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldpflow.columns import Column, Summary
from ldpflow.components.algorithms import ALGORITHMS
from ldpflow.components.intervals import INTERVAL_METHODS
from ldpflow.store.schema import BUNDLED, SUMMARY_RATES, arrow_field, cell_keys, declared_columns, schema_of
from ldpflow.study import GROUPS

Floats = NDArray[np.float64]

VALUES = ("truth", "estimate", "se", "lower", "upper", "covered", "length")
"""Columns of numbers that the rows of every method have."""


def group_keys(schema: pa.Schema) -> tuple[str, ...]:
    """Columns that identify a row of the summary: those of a cell, and the coordinate."""
    return ("path", *cell_keys(schema), "coordinate")


def diagnostics_of(schema: pa.Schema) -> list[Column]:
    return [column for column in declared_columns(schema).values() if column.summaries]


@dataclass(frozen=True)
class CellRows:
    """The rows of one cell and coordinate, sorted by replicate. Each row is made of ``runs`` replicates."""

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
    """Diagnostics of the method, with NaN for missing values."""
    runs: int = 1

    def where(self, kept: NDArray[np.bool_]) -> CellRows:
        rows = {name: values[kept] for name, values in vars(self).items() if isinstance(values, np.ndarray)}
        checks = {column: values[kept] for column, values in self.diagnostics.items()}
        return CellRows(**rows, diagnostics=checks, runs=self.runs)

    def finished(self) -> CellRows:
        """The rows with an interval: their status is one of store.schema.FINISHED."""
        return self if self.ok.all() else self.where(self.ok)

    def has_se(self) -> bool:
        return len(self.se) > 0 and not bool(np.isnan(self.se).any())

    def lengths(self) -> Floats:
        """Lengths, made equal if they differ by the rounding of the limits alone.

        The length of an interval that ends at a public range is NaN.
        """
        length = self.length
        if len(length) == 0 or np.isnan(length).any():
            return length
        limits = np.maximum(np.abs(self.lower), np.abs(self.upper))
        if np.ptp(length) <= 4 * np.finfo(float).eps * limits.max():
            return np.full_like(length, np.median(length))
        return length


def floats(column: pa.ChunkedArray) -> Floats:
    values: Floats = column.combine_chunks().cast(pa.float64()).to_numpy(zero_copy_only=False)
    return values


PRIVACY_UNIT = (
    "the unit whose change is hidden: a `record` of a local mechanism, or a `record (replacement)` of a data "
    "set; null if nothing is private"
)
NEIGHBOURING = "difference between two inputs that must be hard to tell apart; null if nothing is private"
HORIZON = "n of a path that depends on n, or N of a data set; null if one path serves every n"

PATH_COLUMNS: tuple[Column, ...] = (
    Column("path", "string", "-", "the letter `p` and the key of the path, as in the name of its folder"),
    Column("problem", "string", "-", "kind of problem"),
    Column("dimension", "int64", "coordinates", "length of theta", symbol="d", title="dimension"),
    Column("mechanism", "string", "-", "kind of mechanism"),
    Column("epsilon", "double", "nats", "epsilon of the guarantee; null if the notion has no epsilon"),
    Column("mu", "double", "-", "mu of the guarantee; null if the notion has no mu"),
    Column("delta", "double", "-", "delta of the guarantee; null if the notion has no delta"),
    Column("privacy_notion", "string", "-", "notion of privacy: `eps-LDP`, `mu-GDP (local)`, ..., `none`"),
    Column("privacy_unit", "string", "-", PRIVACY_UNIT),
    Column("neighbouring", "string", "-", NEIGHBOURING),
    Column("algorithm", "string", "-", "kind of algorithm"),
    Column("horizon", "int64", "records", HORIZON, symbol="n"),
)
"""Columns of every path, before its settings."""


def known_columns(*schemas: pa.Schema) -> dict[str, Column]:
    """Declarations, by name, of the columns of paths, settings, derived numbers, rows and these schemas.

    Of several columns with one name the first with a symbol is taken, or else the first.
    """
    components = [component for registry in GROUPS.values() for component in registry.values()]
    found: dict[str, Column] = {}
    for column in (
        *PATH_COLUMNS,
        *BUNDLED.values(),
        *(column for component in components for column in component.setting_columns()),
        *(column for algorithm in ALGORITHMS.values() for column in algorithm.derived),
        *(column for schema in schemas for column in declared_columns(schema).values()),
    ):
        if column.name not in found or (column.symbol and not found[column.name].symbol):
            found[column.name] = column
    return found


BUNDLED_SUMMARIES = {
    summary.name: summary
    for kind in INTERVAL_METHODS.values()
    for column in kind.diagnostics
    for summary in column.summaries
    if column.name in BUNDLED
}
"""Summaries of the diagnostics for which every run has columns, in the order of the summary."""


def summary_columns(further: Iterable[Column]) -> list[Column]:
    return [
        Column(s.name, "double", "share" if s.is_share else s.unit, s.meaning, summaries=(s,))
        for column in further
        for s in column.summaries
    ]


COLUMNS: tuple[str, ...] = (
    *("truth", "replicates", "failures"),
    *(f"{name}{end}" for name in SUMMARY_RATES for end in ("", "_mcse", "_low", "_high")),
    *("length_mean", "length_mcse", "length_cv"),
    *("length_q05", "length_q25", "length_median", "length_q75", "length_q95"),
    *(f"{name}{end}" for name in ("bias", "relative_bias", "empirical_se") for end in ("", "_mcse")),
    *(f"{name}{end}" for name in ("skewness", "mse", "model_se") for end in ("", "_mcse")),
    *("relative_error_model_se", "relative_error_model_se_mcse"),
    *BUNDLED_SUMMARIES,
)
"""Measures of a summary in the order of its columns, null if undefined (docs/reading-results.md)."""

COUNTS = ("replicates", "failures")


def summaries_of(schema: pa.Schema) -> list[Summary]:
    declared = [summary for column in declared_columns(schema).values() for summary in column.summaries]
    bundled = [summary for name, summary in BUNDLED_SUMMARIES.items() if name in schema.names]
    return [*bundled, *(summary for summary in declared if summary.name in schema.names)]


def summary_schema(further: Iterable[Column] = ()) -> pa.Schema:
    further = tuple(further)
    rows = schema_of(further)
    return pa.schema(
        [
            ("path", pa.string()),
            *(rows.field(name) for name in group_keys(rows) if name != "path"),
            *((name, pa.int64() if name in COUNTS else pa.float64()) for name in COLUMNS),
            *map(arrow_field, summary_columns(further)),
        ]
    )


SUMMARY = summary_schema()
"""Schema of the summary of a run without plug-ins."""
