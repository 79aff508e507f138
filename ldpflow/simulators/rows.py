"""Rows of a batch of replicates of one simulator.

Threads that compute batches run kernels in parallel, and only one thread at a time runs Python code. So
components and plug-ins need not be thread-safe, and they may change mpmath's global precision.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldpflow.components.intervals.interval import IntervalMethod, Intervals, columns_of
from ldpflow.components.intervals.record import Record, TruthRefused
from ldpflow.components.problems.transform import Transform, inverse, slope
from ldpflow.errors import LdpflowError
from ldpflow.numerics.streams import LANES
from ldpflow.settings import source_file
from ldpflow.simulators.simulator import Cell, Cost, Simulator
from ldpflow.store.schema import schema_of

TURN = threading.Lock()  # held by the thread that runs Python code of batches
HELD = threading.local()  # attribute ``turn``: whether this thread holds the lock


@contextmanager
def turn() -> Iterator[None]:
    """Hold the lock on Python code of batches."""
    with TURN:
        HELD.turn = True
        try:
            yield
        finally:
            HELD.turn = False


def run_kernel(kernel: Callable[..., None], *arguments: Any) -> None:
    """Run compiled code without the lock."""
    if not getattr(HELD, "turn", False):
        kernel(*arguments)
        return
    TURN.release()
    try:
        kernel(*arguments)
    finally:
        TURN.acquire()


@lru_cache(maxsize=8)  # all batches of a path have equal cells
def rows_schema(cells: tuple[Cell, ...]) -> pa.Schema:
    return schema_of(columns_of(cell.method for cell in cells))


@lru_cache(maxsize=8)
def settings_of(cells: tuple[Cell, ...], names: tuple[str, ...]) -> pa.RecordBatch:
    """Values of the columns ``names``, which depend on the cell alone, with one row per cell."""
    per_cell = [cell.columns() for cell in cells]
    fields = [rows_schema(cells).field(name) for name in names]
    values = [
        pa.array([columns.get(field.name) for columns in per_cell], type=field.type) for field in fields
    ]
    return pa.RecordBatch.from_arrays(values, schema=pa.schema(fields))


def methods_of(cells: Sequence[Cell]) -> list[tuple[tuple[int, Any], list[Cell]]]:
    """Group consecutive cells by n and method."""
    return [(key, list(group)) for key, group in groupby(cells, key=lambda cell: (cell.n, cell.method))]


def rows_of(record: Record, cells: Sequence[Cell], transform: Transform = None) -> pa.Table:
    """Rows of a record, sorted by replicate, cell and coordinate.

    If a row uses several replicates, column ``replicate`` has the number of the row. ``transform`` is the
    scale of the record, or None. Truth, estimates and limits are converted by its inverse, standard errors
    by the delta method at the estimate. Diagnostics of methods stay on the scale of the record.
    """
    d, runs = len(record.truth), cells[0].runs
    rows = record.replicates[::runs] // runs
    count = len(rows)
    shape = (len(cells), d, count)
    columns = {name: np.empty(shape) for name in ("estimate", "se", "lower", "upper")}
    checks = {column.name for cell in cells for column in cell.method.diagnostics}
    columns |= {name: np.full(shape, np.nan) for name in checks}
    diverged = np.empty(shape, dtype=bool)
    at = 0
    without_truth = record.without_truth()
    for (n, method), group in methods_of(cells):
        levels = [cell.level for cell in group]
        try:
            result = method.intervals(record if method.reads_truth() else without_truth, n, levels)
        except TruthRefused as error:
            raise LdpflowError(f"{place_of(method)}: {error}") from None
        if (fault := fault_in(method, result, (len(group), d, count))) is not None:
            raise LdpflowError(f"{place_of(method)}: {fault}")
        here = slice(at, at + len(group))
        at += len(group)
        columns["estimate"][here] = result.estimate
        columns["se"][here] = np.nan if result.se is None else result.se
        columns["lower"][here] = result.lower
        columns["upper"][here] = result.upper
        for name, values in result.diagnosis.items():
            columns[name][here] = values
        diverged[here] = ~method.finite(record, n, levels).reshape(count, runs).all(axis=1)
    truth = record.truth
    if transform is not None:
        columns["se"] = columns["se"] * slope(transform, columns["estimate"])
        back = {name: inverse(transform, columns[name]) for name in ("estimate", "lower", "upper")}
        columns, truth = columns | back, inverse(transform, truth)
    return table_of(truth, rows, cells, columns, diverged)


def fault_in(method: IntervalMethod, found: object, shape: tuple[int, int, int]) -> str | None:
    """Fault in the result of a method, or None. ``shape`` is (levels, d, rows)."""
    if not isinstance(found, Intervals):
        return f"intervals() returned a {type(found).__name__}; it has to be an lf.Intervals"
    declared = {column.name for column in method.diagnostics}
    for name in found.diagnosis:
        if name not in declared:
            return f"intervals() returns {name!r}, which is not in its diagnostics"
    names = ("estimate", "se", "lower", "upper")
    for name, value in ({name: getattr(found, name) for name in names} | found.diagnosis).items():
        allowed = (shape,) if name in ("lower", "upper") else (shape[1:], shape)
        absent = value is None and name == "se"
        if not absent and np.shape(value) not in allowed:
            return f"{name} has shape {np.shape(value)}; it has to be {' or '.join(map(str, allowed))}"
    return "a lower limit lies above the upper one" if (found.lower > found.upper).any() else None


def place_of(method: IntervalMethod) -> str:
    return f"{source_file(type(method))}: {type(method).__name__}"


def table_of(
    truth: NDArray[np.float64],
    rows: NDArray[np.int64],
    cells: Sequence[Cell],
    columns: dict[str, NDArray[np.float64]],
    diverged: NDArray[np.bool_],
) -> pa.Table:
    """Make a table with the columns of the store from arrays of shape (cells, d, rows)."""
    theta = np.broadcast_to(truth[None, :, None], diverged.shape)
    lower, upper = columns["lower"], columns["upper"]
    range_end = columns["range_end"] > 0.0 if "range_end" in columns else np.zeros_like(diverged)
    undefined = ~(np.isfinite(lower) & np.isfinite(upper))
    failed = diverged | undefined
    lower[failed] = upper[failed] = np.nan
    covered = (lower <= theta) & (theta <= upper)
    status = np.where(diverged, 2, np.where(undefined, 1, np.where(range_end, 3, 0))).astype(np.int8)
    length = np.where(range_end, np.nan, upper - lower)

    def flat(values: NDArray[np.generic]) -> NDArray[np.generic]:
        return np.ascontiguousarray(values.transpose(2, 0, 1)).reshape(-1)

    cell_of_row = pa.array(flat(np.broadcast_to(np.arange(len(cells))[:, None, None], diverged.shape)))
    names = pa.array(["ok", "undefined", "diverged", "range_end"])
    given = ("estimate", "lower", "upper")
    optional = {name: flat(values) for name, values in columns.items() if name not in given}
    data: dict[str, Any] = {
        "replicate": flat(np.broadcast_to(rows[None, None, :], diverged.shape)),
        "coordinate": flat(np.broadcast_to(np.arange(diverged.shape[1])[None, :, None], diverged.shape)),
        "truth": flat(theta),
        **{name: flat(columns[name]) for name in given},
        **{name: pa.array(v, mask=~np.isfinite(v)) for name, v in optional.items()},
        "covered": pa.array(flat(covered), mask=flat(failed)),
        "length": flat(length),
        "status": names.take(pa.array(flat(status))),
    }
    schema = rows_schema(tuple(cells))
    others = tuple(name for name in schema.names if name not in data)
    settings = settings_of(tuple(cells), others).take(cell_of_row)
    data |= {name: settings.column(name) for name in others}
    return pa.table({name: data[name] for name in schema.names}, schema=schema)


@dataclass(frozen=True)
class Batch:
    """Rows ``first`` to ``last`` (exclusive) of a simulator, each made of :attr:`runs` replicates.

    The rows of ``witnesses`` are stored already, and computed again to compare them.
    """

    simulator: Simulator[Any, Any]
    seed: int
    first: int
    last: int
    cells: tuple[Cell, ...]
    witnesses: tuple[Cell, ...] = ()
    checkpoints: tuple[int, ...] = ()

    @property
    def runs(self) -> int:
        """Replicates per row, equal for all cells."""
        return next((cell.runs for cell in (*self.cells, *self.witnesses)), 1)

    @property
    def rows(self) -> int:
        per_replicate = self.simulator.dimension * len(self.cells) + len(self.checkpoints)
        return (self.last - self.first) * per_replicate

    @cached_property
    def cost(self) -> Cost:
        """Cost of a row of each cell."""
        return self.simulator.cost(self.simulator.needs(self.cells, self.checkpoints), self.runs)

    @property
    def steps(self) -> int:
        return self.cost.steps * (self.last - self.first)


@dataclass(frozen=True)
class BatchResult:
    """Rows and trajectories of a batch in the schema of the store, with kernel and total CPU time."""

    rows: pa.Table
    kernel_seconds: float
    seconds: float
    trajectories: pa.Table | None = None


@turn()
def simulate(batch: Batch) -> BatchResult:
    """Run a batch, LANES rows at a time. A row depends on seed, simulator, replicate and cell alone."""
    started = time.thread_time()
    cells = batch.cells + batch.witnesses
    request = batch.simulator.needs(cells, batch.checkpoints)
    batch.simulator.prepare(request)
    tables = [rows_schema(cells).empty_table()]
    followed = []
    kernel_seconds = 0.0
    runs = batch.runs
    for first in range(batch.first, batch.last, LANES):
        replicates = range(first * runs, min(first + LANES, batch.last) * runs)
        before = time.thread_time()
        record = batch.simulator.run(batch.seed, replicates, request)
        kernel_seconds += time.thread_time() - before
        # A diverged replicate has infinities, and its status says so.
        with np.errstate(all="ignore"):
            if cells:
                tables.append(rows_of(record, cells, batch.simulator.parts()["problem"].own_scale()))
            if batch.checkpoints:
                followed.append(batch.simulator.trajectories(record, batch.checkpoints))
    return BatchResult(
        rows=pa.concat_tables(tables).combine_chunks(),
        kernel_seconds=kernel_seconds,
        seconds=time.thread_time() - started,
        trajectories=pa.concat_tables(followed).combine_chunks() if followed else None,
    )
