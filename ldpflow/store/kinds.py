"""Kinds of stored rows: replicates, of interval methods, and trajectories.

A kind says where its parts lie, which columns they have, what makes them complete, and what their footer
says; everything else is the same for all kinds (see ldpflow.store.dataset).
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ldpflow.columns import Column
from ldpflow.settings import canonical_json
from ldpflow.store.schema import (
    BUNDLED,
    MEASURED,
    Frozen,
    cell_keys,
    cell_set_hash,
    further_columns,
    key_codes,
    schema_of,
    short_hash,
)

Cell = Mapping[str, Any]


class Kind(ABC):
    """A kind of rows.

    Attributes
    ----------
    folder : str
        Of the parts, below the run directory.
    frozen : mapping of str to Column
        Columns that every part has.
    required : tuple of str
        Those without nulls.
    version_name, version : str, int
        How the footer names the version of the columns, and the newest one.
    compression_level : int or None
        Of zstd.
    """

    folder: str
    frozen: Frozen
    required: tuple[str, ...]
    version_name: str
    version: int
    compression_level: int | None = None

    def schema(self, of: Iterable[pa.Schema] = (), further: Iterable[Column] = ()) -> pa.Schema:
        """Schema of several tables of these rows together, and of further columns."""
        own = (column for schema in of for column in further_columns(schema, self.frozen))
        return schema_of([*further, *own], self.frozen)

    @abstractmethod
    def row_keys(self, schema: pa.Schema) -> tuple[str, ...]:
        """Columns that identify a row inside a path, in the order in which the rows of a part are sorted."""

    @abstractmethod
    def cells_in(
        self, table: pa.Table, per_replicate: int, cells: Sequence[Cell] | None
    ) -> Sequence[Cell] | None:
        """The cells that every replicate of a sorted table has; None where they are not alike."""

    @abstractmethod
    def hash_of(self, cells: Sequence[Cell]) -> str:
        """The hash of a set of cells in the name of a part."""

    @abstractmethod
    def footer_of(self, first: int, last: int, cells: Sequence[Cell], rows_per_cell: int) -> dict[str, Any]:
        """Entries of the footer on the rows."""

    @abstractmethod
    def named(self, meta: Mapping[str, Any]) -> tuple[Sequence[Cell], int]:
        """Cells, and rows of each per replicate, that a footer names."""

    def text(self, footer: dict[str, Any]) -> str:
        """A footer as JSON."""
        return canonical_json(footer)


class ReplicateRows(Kind):
    """One row per replicate, cell and coordinate."""

    folder = "replicates"
    frozen = BUNDLED
    required = ("replicate", "n", "method", "level", "coordinate", "status")
    version_name, version = "schema_version", 2
    compression_level = 3

    def row_keys(self, schema: pa.Schema) -> tuple[str, ...]:
        return ("replicate", *cell_keys(schema), "coordinate")

    def cells_in(
        self, table: pa.Table, per_replicate: int, cells: Sequence[Cell] | None
    ) -> Sequence[Cell] | None:
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
        return meta["cells"], int(meta["coordinates"])


class TrajectoryRows(Kind):
    """One row per replicate and checkpoint. A cell is a list of checkpoints, in users or in steps.

    The list is one cell, and not its members, because ``clipped`` is a mean since the checkpoint before.
    """

    folder = "trajectories"
    frozen = MEASURED
    required = ("replicate", "n", "status")
    version_name, version = "trajectory_version", 2

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

    def text(self, footer: dict[str, Any]) -> str:
        return json.dumps(footer, sort_keys=True)


REPLICATE_ROWS = ReplicateRows()
TRAJECTORY_ROWS = TrajectoryRows()
