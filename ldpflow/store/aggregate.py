"""Aggregator: combines batches of rows into parts, with running statistics for progress and stopping.

Reported results do not use these statistics: the summary is computed from the stored rows.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldpflow.columns import Column
from ldpflow.store.dataset import check_equal, of_cells
from ldpflow.store.part import CompleteRows, PartMeta, Ranges, arrange, subtract, union
from ldpflow.store.run_store import RunStore
from ldpflow.store.schema import (
    FINISHED,
    REPLICATE_ROWS,
    cell_id,
    cell_keys,
    cell_set_hash,
    further_columns,
    schema_of,
)

COUNTS = ("replicates", "failures", "covered")
SUMS = ("length_sum", "length_sumsq")


def statistics_schema(further: Iterable[Column] = ()) -> pa.Schema:
    """Schema of :meth:`Aggregator.statistics`. ``covered`` and the sums are over FINISHED rows."""
    rows = schema_of(further)
    return pa.schema(
        [
            ("path", pa.string()),
            *(rows.field(name) for name in (*cell_keys(rows), "coordinate")),
            *((name, pa.int64()) for name in COUNTS),
            *((name, pa.float64()) for name in SUMS),
        ]
    )


class Published(NamedTuple):
    """Stored range of replicates (``last`` exclusive) of a path and a set of cells."""

    path_key: str
    first: int
    last: int
    cell_set: str


@dataclass(eq=False)
class Pending:
    """Batch of rows that is not published yet."""

    rows: CompleteRows
    meta: PartMeta
    since: float
    cell_set: str
    nbytes: int


@dataclass
class PathState:
    """State of one path in the aggregator."""

    pending: list[Pending] = field(default_factory=list)
    # Totals of all pending batches, an upper bound of every group of adjacent ones.
    rows: int = 0
    nbytes: int = 0
    since: float = float("inf")
    received: dict[str, Ranges] = field(default_factory=dict)
    published: dict[str, Ranges] = field(default_factory=dict)
    statistics: dict[tuple[str, int], NDArray[np.float64]] = field(default_factory=dict)
    keys: dict[str, dict[str, Any]] = field(default_factory=dict)
    further: tuple[Column, ...] = ()

    def keep(self, pending: list[Pending]) -> None:
        self.pending = pending
        self.rows = sum(batch.rows.table.num_rows for batch in pending)
        self.nbytes = sum(batch.nbytes for batch in pending)
        self.since = min((batch.since for batch in pending), default=float("inf"))

    def append(self, batch: Pending) -> None:
        self.pending.append(batch)
        self.rows += batch.rows.table.num_rows
        self.nbytes += batch.nbytes
        self.since = min(self.since, batch.since)


class Aggregator:
    """Collector of batches of rows, which publishes them as parts.

    Parameters
    ----------
    root : str, path or RunStore
    max_rows, max_bytes : int
        Minimum size of adjacent batches of one cell set to be published together.
    max_age : float
        Maximum age of a batch in seconds. An older batch is published by the next call.
    clock : callable
        Clock with monotonic seconds.

    Notes
    -----
    A batch that is added twice is counted and published once. This holds for a new aggregator too: the first
    batch of a path reads the stored rows. Rows that are added again must equal the stored ones.
    """

    def __init__(
        self,
        root: str | os.PathLike[str] | RunStore,
        max_rows: int = 200_000,
        max_bytes: int = 32 * 2**20,
        max_age: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.store = root if isinstance(root, RunStore) else RunStore(root)
        self.max_rows = max_rows
        self.max_bytes = max_bytes
        self.max_age = max_age
        self.clock = clock
        self.paths: dict[str, PathState] = {}

    def add(self, path_key: str, first: int, last: int, table: pa.Table, meta: PartMeta) -> list[Published]:
        """Add a batch of complete rows. Returns the ranges that are published now, of all batches.

        ``last`` is exclusive. A stored batch counts as published now.

        Raises
        ------
        ValueError
            If the rows are not complete, or not of these replicates.
        InputError
            If rows differ from the stored ones. Nothing of this batch is added.
        StorageError
            If a part cannot be written. The next call tries its batches again.
        """
        rows = arrange(REPLICATE_ROWS, table)
        if (rows.first, rows.last) != (first, last):
            raise ValueError(f"rows are of replicates {rows.first} to {rows.last}, not {first} to {last}")
        state = self._state(path_key)
        stored = [
            cell for cell in rows.cells if not subtract(first, last, state.published.get(cell_id(cell), []))
        ]
        if stored:
            self._compare(path_key, rows, stored)
        if len(stored) == len(rows.cells):
            known = [Published(path_key, first, last, cell_set_hash(stored))]
            return known + self.publish_due()
        if stored:
            rows = rows.without(stored)
        if self._count(path_key, state, rows):
            cell_set = cell_set_hash(rows.cells)
            state.append(Pending(rows, meta, self.clock(), cell_set, rows.table.nbytes))
        return self.publish_due()

    def publish_due(self) -> list[Published]:
        return self._publish(everything=False)

    def flush(self) -> list[Published]:
        return self._publish(everything=True)

    def statistics(self) -> pa.Table:
        """Counts and sums per (path, cell, coordinate) of stored and pending rows.

        The schema is :func:`statistics_schema`. ``replicates`` includes failures.
        """
        found = []
        for path_key, state in self.paths.items():
            for (cell, coordinate), sums in state.statistics.items():
                row: dict[str, Any] = {"path": f"p{path_key}", **state.keys[cell]}
                row["coordinate"] = coordinate
                row.update(zip(COUNTS, map(int, sums), strict=False))
                row.update(zip(SUMS, sums[len(COUNTS) :].tolist(), strict=True))
                found.append(row)
        further = [column for state in self.paths.values() for column in state.further]
        return pa.Table.from_pylist(found, schema=statistics_schema(further))

    def _state(self, path_key: str) -> PathState:
        if path_key not in self.paths:
            state = PathState()
            state.published = self.store.replicates.finished(path_key)
            state.received = dict(state.published)
            if state.published:
                for stored in self.store.replicates.iterate(path_key, damaged=[]):
                    tally(state, stored)
            self.paths[path_key] = state
        return self.paths[path_key]

    def _compare(self, path_key: str, rows: CompleteRows, cells: Sequence[Mapping[str, Any]]) -> None:
        """Refuse rows of these cells that differ from the stored ones."""
        within = rows.first, rows.last
        stored = self.store.replicates.read(path_key, within=within, damaged=[]).drop_columns("path")
        again = "rows computed again", of_cells(rows.table, cells)
        check_equal(REPLICATE_ROWS, ("stored rows", of_cells(stored, cells)), again)

    def _count(self, path_key: str, state: PathState, rows: CompleteRows) -> bool:
        """Add new rows to the statistics. Returns whether there are any."""
        fresh = np.zeros((rows.last - rows.first, len(rows.cells), rows.rows_per_cell), dtype=bool)
        for at, cell in enumerate(map(cell_id, rows.cells)):
            before = state.received.get(cell, [])
            for a, b in subtract(rows.first, rows.last, before):
                fresh[a - rows.first : b - rows.first, at] = True
            state.received[cell] = union([*before, (rows.first, rows.last)])
        if not fresh.any():
            return False
        tally(state, rows.table.filter(pa.array(fresh.reshape(-1))))
        return True

    def _publish(self, everything: bool) -> list[Published]:
        now = self.clock()
        published = []
        for path_key, state in self.paths.items():
            if not (everything or self._due(state.rows, state.nbytes, now - state.since)):
                continue
            for run in group_adjacent(state.pending):
                size = sum(batch.rows.table.num_rows for batch in run)
                nbytes = sum(batch.nbytes for batch in run)
                age = now - min(batch.since for batch in run)
                if not (everything or self._due(size, nbytes, age)):
                    continue
                rows = CompleteRows.concatenate([batch.rows for batch in run])
                self.store.replicates.publish(path_key, rows, run[0].meta)
                # After the write: a failed write must leave the batches pending.
                gone = set(map(id, run))
                state.keep([batch for batch in state.pending if id(batch) not in gone])
                span = (rows.first, rows.last)
                for cell in map(cell_id, rows.cells):
                    state.published[cell] = union([*state.published.get(cell, []), span])
                published.append(Published(path_key, *span, run[0].cell_set))
        return published

    def _due(self, rows: int, nbytes: int, age: float) -> bool:
        return rows >= self.max_rows or nbytes >= self.max_bytes or age >= self.max_age


def group_adjacent(pending: list[Pending]) -> list[list[Pending]]:
    """Group batches of one cell set with consecutive replicates."""
    runs: list[list[Pending]] = []
    for batch in sorted(pending, key=lambda batch: (batch.cell_set, batch.rows.first)):
        before = runs[-1][-1] if runs else None
        if before and (before.cell_set, before.rows.last) == (batch.cell_set, batch.rows.first):
            runs[-1].append(batch)
        else:
            runs.append([batch])
    return runs


def tally(state: PathState, rows: pa.Table) -> None:
    ok = pc.is_in(rows["status"], pa.array(FINISHED))
    length = pc.if_else(ok, pc.subtract(rows["upper"], rows["lower"]), 0.0)
    cell_names = cell_keys(rows.schema)
    state.further = tuple({c: None for c in (*state.further, *further_columns(rows.schema))})
    keys = [*cell_names, "coordinate"]
    columns = {
        **{name: rows[name] for name in keys},
        "failures": pc.cast(pc.invert(ok), pa.int64()),
        "covered": pc.cast(pc.if_else(ok, rows["covered"], False), pa.int64()),
        "length_sum": length,
        "length_sumsq": pc.multiply(length, length),
    }
    grouped = (
        pa.table(columns)
        .group_by(keys, use_threads=False)
        .aggregate([([], "count_all"), *((name, "sum") for name in (*COUNTS[1:], *SUMS))])
    )
    for row in grouped.to_pylist():
        key = {name: row[name] for name in cell_names if row[name] is not None}
        cell = cell_id(key)
        state.keys[cell] = key
        sums = np.array([row["count_all"], *(row[f"{name}_sum"] for name in (*COUNTS[1:], *SUMS))])
        at = (cell, row["coordinate"])
        state.statistics[at] = state.statistics.get(at, np.zeros(len(sums))) + sums
