"""Columns of the stored rows of a run, and ids of their cells.

The columns of the first interval methods are frozen: new parts have them all, in one fixed order, so that old
runs stay readable. Later methods and methods of plug-ins append nullable columns for their settings and
diagnostics. The declaration of such a column is in the metadata of its Arrow field. The id of a cell consists
of the settings that are not null, so further columns do not change the ids of old cells.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldpflow.columns import TYPES, Column, index_columns
from ldpflow.components.algorithms import ALGORITHMS
from ldpflow.components.intervals import INTERVAL_METHODS
from ldpflow.components.mechanisms import MECHANISMS
from ldpflow.settings import canonical_json

THETA = "unit of theta"

CORE = (
    Column("replicate", "int64", "index", "number of the replicate, from 0"),
    Column("n", "int64", "users", "sample size", title="users", logarithmic=True, identifies=True),
    Column("method", "string", "-", "interval method", identifies=True),
    Column("level", "double", "share", "nominal coverage", identifies=True),
    Column("coordinate", "int32", "index", "coordinate of theta, from 0"),
    Column("truth", "double", THETA, "theta*"),
    Column("estimate", "double", THETA, "centre of the interval"),
    Column("se", "double", THETA, "standard error of the method; null if it has none"),
    Column("lower", "double", THETA, "lower limit; NaN without an interval"),
    Column("upper", "double", THETA, "upper limit; NaN without an interval"),
    Column("covered", "bool", "-", "whether lower <= truth <= upper; null without an interval"),
    Column("length", "double", THETA, "upper - lower; NaN if status is not ok"),
    Column(
        "status",
        "string",
        "-",
        "`ok`, `range_end` (a limit is an end of the public range), `undefined` (there is no interval) or "
        "`diverged` (the path is not finite)",
    ),
)
"""Columns of the rows of all interval methods."""

FINISHED = ("ok", "range_end")
"""Statuses of rows with an interval."""

FROZEN = (
    "replicate", "n", "method", "beta", "B", "multiplier", "M", "level", "coordinate", "truth", "estimate",
    "se", "lower", "upper", "covered", "length", "status",
    # Since version 2: regression on the transcript and its diagnostics.
    "degree", "burn_in", "variance", "relaxation_times", "condition", "lack_of_fit",
)  # fmt: skip
"""Frozen columns of replicates, in order. Further columns follow them."""

SQUARE, LOSS, GRADIENT = f"({THETA})^2", "loss", "unit of the gradient"

TRAJECTORY_CORE = (
    Column("replicate", "int64", "index", "number of the replicate, from 0"),
    Column("n", "int64", "users", "users (records) seen so far; all N records for algorithms of many epochs"),
    Column("step", "int64", "steps", "steps made"),
    Column("last_sq", "double", SQUARE, "squared distance to theta* of the last iterate theta_n"),
    Column("avg_sq", "double", SQUARE, "squared distance to theta* of the average of theta_1, ..., theta_n"),
    Column(
        "avg_pre_sq",
        "double",
        SQUARE,
        "squared distance to theta* of the average of theta_0, ..., theta_{n-1}",
    ),
    Column("last_exc", "double", LOSS, "excess loss F(theta_n) - F(theta*)"),
    Column("avg_exc", "double", LOSS, "excess loss of the average of theta_1, ..., theta_n"),
    Column("tail_exc", "double", LOSS, "excess loss of the average of the second half of the iterates"),
    Column("loss", "double", LOSS, "empirical risk F(theta_t) over the data set"),
    Column("gradient_norm", "double", GRADIENT, "norm of the gradient of the empirical risk at theta_t"),
    Column("error_norm", "double", GRADIENT, "norm of the error of the private gradient estimate"),
    Column("noise_norm", "double", GRADIENT, "norm of the noise in the private gradient estimate"),
    Column("output_loss", "double", LOSS, "empirical risk at the output, a random iterate"),
    Column(
        "output_gradient_norm", "double", GRADIENT, "norm of the gradient of the empirical risk at the output"
    ),
    Column("status", "string", "-", "`ok`, or `diverged` (values are NaN)"),
)
"""Columns of the rows of all trajectories. Columns that do not apply to a path are null."""

TRAJECTORY_FROZEN = (*(column.name for column in TRAJECTORY_CORE[:-1]), "clipped", "threshold", "status")

ARROW = {name: pa.type_for_alias(name) for name in TYPES}

DECLARATION = b"ldpflow"
"""Metadata key of an Arrow field for the declaration of a column that is not frozen."""

Frozen = Mapping[str, Column]
"""Frozen columns of a kind of rows, by name and in order."""


def in_order(names: Iterable[str], columns: Iterable[Column]) -> Frozen:
    found = index_columns(columns)
    return {name: found[name] for name in names}


BUNDLED = in_order(
    FROZEN, [*CORE, *(column for kind in INTERVAL_METHODS.values() for column in kind.columns())]
)
"""Frozen columns of replicates."""

MEASURED = in_order(
    TRAJECTORY_FROZEN,
    [
        *TRAJECTORY_CORE,
        *(column for kind in ALGORITHMS.values() for column in kind.measures),
        *(column for kind in MECHANISMS.values() for column in kind.measures),
    ],
)
"""Frozen columns of trajectories."""


def arrow_field(column: Column, frozen: Frozen = BUNDLED) -> pa.Field:
    """Arrow field of a column, with the declaration if the column is not frozen."""
    declaration = None if column.name in frozen else {DECLARATION: column.to_json()}
    return pa.field(column.name, ARROW[column.type], metadata=declaration)


def schema_of(further: Iterable[Column] = (), frozen: Frozen = BUNDLED) -> pa.Schema:
    return pa.schema([arrow_field(c, frozen) for c in index_columns([*frozen.values(), *further]).values()])


REPLICATES = schema_of()
"""Schema of replicates with the frozen columns alone. ``path`` is the Hive partition, not a column."""

TRAJECTORIES = schema_of(frozen=MEASURED)
"""Schema of trajectories with the frozen columns alone."""

STATISTICS = tuple(name for name in TRAJECTORY_FROZEN if name not in ("replicate", "n", "step", "status"))
"""Statistics of a trajectory at a checkpoint."""

MEANS = {"mean_gradient_norm": "gradient_norm", "mean_noise_norm": "noise_norm"}
"""Statistics of a summary of trajectories that are means along a path, and the columns that they average. A
mean is over all checkpoints but the last. These checkpoints are the midpoints of equal parts of the steps."""

CELL_KEYS: tuple[str, ...] = tuple(name for name, column in BUNDLED.items() if column.identifies)
"""Frozen columns that identify a cell within a path."""


def declared_columns(schema: pa.Schema, frozen: Frozen = BUNDLED) -> dict[str, Column]:
    """Declarations of the columns of a schema, by name. Leaves out columns without a declaration."""
    found = {}
    for field in schema:
        declaration = (field.metadata or {}).get(DECLARATION)
        if field.name in frozen:
            found[field.name] = frozen[field.name]
        elif declaration is not None:
            column = Column.from_json(declaration)
            if (column.name, ARROW[column.type]) != (field.name, field.type):
                raise ValueError(f"column {field.name} ({field.type}) is declared as {column.name}")
            found[field.name] = column
    return found


def further_columns(schema: pa.Schema, frozen: Frozen = BUNDLED) -> tuple[Column, ...]:
    return tuple(column for name, column in declared_columns(schema, frozen).items() if name not in frozen)


def cell_keys(schema: pa.Schema) -> tuple[str, ...]:
    """Columns that identify a cell: frozen ones, then further settings."""
    return (*CELL_KEYS, *(column.name for column in further_columns(schema) if column.identifies))


def cell_columns(cell: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a cell that are not null, in their stored types and order."""
    if wrong := [name for name in cell if name in BUNDLED and name not in CELL_KEYS]:
        raise ValueError(f"not key columns of a cell: {sorted(wrong)}")
    columns = {}
    for name in (*CELL_KEYS, *(name for name in cell if name not in CELL_KEYS)):
        value = cell.get(name)
        if name in CELL_KEYS and value is not None:
            # An integer beta and its stored float must have equal ids.
            columns[name] = TYPES[BUNDLED[name].type](value)
        elif value is not None:
            columns[name] = tuple(value) if isinstance(value, list) else value
    return columns


def cell_id(cell: Mapping[str, Any]) -> str:
    """Canonical JSON of the settings of a cell that are not null."""
    items = ((k, tuple(v) if isinstance(v, list) else v, type(v)) for k, v in cell.items())
    return id_of(tuple(items))


@lru_cache(maxsize=2**16)
def id_of(items: tuple[tuple[str, Any, type], ...]) -> str:
    # Cached, since every batch needs ids. The arguments contain types, because 1 == 1.0 == True in Python.
    return canonical_json(cell_columns({name: value for name, value, _ in items}))


def cell_set_hash(cells: Iterable[Mapping[str, Any]]) -> str:
    """First 12 hex digits of SHA-256 over the sorted cell ids."""
    return short_hash("\n".join(sorted({cell_id(cell) for cell in cells})))


def short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def conform(table: pa.Table, schema: pa.Schema = REPLICATES) -> pa.Table:
    """Convert a table to a schema without loss. Absent columns are null."""
    if unknown := set(table.column_names) - set(schema.names):
        raise ValueError(f"columns that are not in the schema: {sorted(unknown)}")
    if table.schema.equals(schema, check_metadata=True):
        return table
    arrays = [
        table[field.name].cast(field.type)
        if field.name in table.column_names
        else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def key_codes(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Integer codes of the values of a column. Equal values, nulls and NaNs have equal codes."""
    codes = column.combine_chunks().dictionary_encode().indices
    return np.asarray(codes.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64))


Cell = Mapping[str, Any]


class Kind:
    """Kind of rows, with a folder in the run. This class is for rows per replicate, cell and coordinate."""

    folder = "replicates"
    frozen = BUNDLED
    required: tuple[str, ...] = ("replicate", "n", "method", "level", "coordinate", "status")
    """Columns without nulls."""
    version_name, version = "schema_version", 2
    """Name in the footer for the version of the columns, and the newest version."""
    compression_level: int | None = 3

    def schema(self, of: Iterable[pa.Schema] = (), further: Iterable[Column] = ()) -> pa.Schema:
        """Common schema of tables with the schemas ``of``, and of ``further`` columns."""
        own = (column for schema in of for column in further_columns(schema, self.frozen))
        return schema_of([*further, *own], self.frozen)

    def row_keys(self, schema: pa.Schema) -> tuple[str, ...]:
        """Columns that identify a row within a path. The rows of a part are sorted by them."""
        return ("replicate", *cell_keys(schema), "coordinate")

    def cells_in(
        self, table: pa.Table, per_replicate: int, cells: Sequence[Cell] | None
    ) -> Sequence[Cell] | None:
        """Cells of each replicate of a sorted table, or None if the replicates have different cells."""
        coordinates = int(np.max(table["coordinate"].to_numpy())) + 1
        if per_replicate % coordinates:
            return None
        keys = cell_keys(table.schema)
        for name in keys:
            codes = key_codes(table[name]).reshape(-1, per_replicate)
            if np.any(codes != codes[0]):
                return None
        if np.any(table["coordinate"].to_numpy().reshape(-1, coordinates) != np.arange(coordinates)):
            return None
        heads: list[dict[str, Any]] = table.slice(0, per_replicate).select(keys).to_pylist()
        return heads[::coordinates]

    def hash_of(self, cells: Sequence[Cell]) -> str:
        return cell_set_hash(cells)

    def footer_of(self, first: int, last: int, cells: Sequence[Cell], rows_per_cell: int) -> dict[str, Any]:
        return {"first": first, "last": last, "cells": list(cells), "coordinates": rows_per_cell}

    def named(self, meta: Mapping[str, Any]) -> tuple[Sequence[Cell], int]:
        """Cells of a footer, and rows per cell and replicate."""
        return meta["cells"], int(meta["coordinates"])


class TrajectoryRows(Kind):
    """Rows per replicate and checkpoint. A cell is the list of all checkpoints, in users or in steps."""

    folder = "trajectories"
    frozen = MEASURED
    required = ("replicate", "n", "status")
    version_name, version = "trajectory_version", 2
    compression_level = None

    def row_keys(self, schema: pa.Schema) -> tuple[str, ...]:
        return ("replicate", "n", "step")

    def cells_in(
        self, table: pa.Table, per_replicate: int, cells: Sequence[Cell] | None
    ) -> Sequence[Cell] | None:
        assert cells is not None
        (cell,) = cells
        return cells if per_replicate == len(cell["checkpoints"]) else None

    def hash_of(self, cells: Sequence[Cell]) -> str:
        (cell,) = cells
        return short_hash(json.dumps(list(cell["checkpoints"])))

    def footer_of(self, first: int, last: int, cells: Sequence[Cell], rows_per_cell: int) -> dict[str, Any]:
        (cell,) = cells
        return {"checkpoints": list(cell["checkpoints"])}

    def named(self, meta: Mapping[str, Any]) -> tuple[Sequence[Cell], int]:
        return [{"checkpoints": meta["checkpoints"]}], len(meta["checkpoints"])


REPLICATE_ROWS = Kind()
TRAJECTORY_ROWS = TrajectoryRows()


SUMMARY_RATES = (
    "coverage", "failure_share", "coverage_failures_as_misses", "lower_miss", "upper_miss",
    "bias_eliminated_coverage", "power",
)  # fmt: skip
"""Shares in the summary, each with its MCSE and a confidence interval."""

SUMMARY_MEANS = (
    "length", "bias", "relative_bias", "empirical_se", "skewness", "mse", "model_se",
    "relative_error_model_se", "length_relative", "standardised_bias", "length_ratio", "bias_effect",
    "length_effect", "variability_effect", "shape_effect", "coverage_together", "coverage_left",
)  # fmt: skip
"""Measures in the summary, each with its MCSE."""

SUMMARY_OTHERS = (
    "path", "problem", "mechanism", "algorithm", "protocol", "dimension", "privacy_notion", "privacy_unit",
    "neighbouring",
    "horizon", "replicates", "failures", "null", "length_mean", "length_cv", "length_q05", "length_q25",
    "length_median", "length_q75", "length_q95", "oracle_length", "main_cause", "explanation", "kind", "stat",
    "mean", "mcse", "q05", "q50", "q95", "max", "theory_bound", "theory_limit",
)  # fmt: skip

RESERVED = frozenset(
    {
        *(column.name for column in (*CORE, *TRAJECTORY_CORE)),
        *(f"{name}{end}" for name in SUMMARY_RATES for end in ("", "_mcse", "_low", "_high")),
        *(f"{name}{end}" for name in SUMMARY_MEANS for end in ("", "_mcse")),
        *SUMMARY_OTHERS,
    }
)
"""Columns of rows, trajectories and summaries that no component may declare."""
