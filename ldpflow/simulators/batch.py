"""One batch of replicates of one path, from seed to rows. Plain: no Ray, no files."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldpflow.intervals import IntervalMethod
from ldpflow.intervals.interval import columns_of
from ldpflow.intervals.record import PathRecord
from ldpflow.random.lockstep import LANES
from ldpflow.simulators.cell import Cell
from ldpflow.simulators.one_pass import kernel_of, run_path
from ldpflow.simulators.path import Path
from ldpflow.simulators.trajectories import trajectories_of
from ldpflow.store.schema import schema_of

__all__ = ["Batch", "BatchResult", "Recording", "simulate"]


@dataclass(frozen=True)
class Batch:
    """Replicates ``first`` to ``last`` (exclusive) of a path, and what is wanted from them.

    ``cells`` and ``checkpoints`` (users, or steps where an algorithm counts those, at which the
    trajectory is kept): one of them may be empty.
    ``witnesses`` are cells whose rows are stored already: they are computed again to be compared.
    """

    path: Path
    seed: int
    first: int
    last: int
    cells: tuple[Cell, ...]
    witnesses: tuple[Cell, ...] = ()
    checkpoints: tuple[int, ...] = ()

    @property
    def steps(self) -> int:
        """Steps to simulate, over all replicates."""
        users = max([*(cell.n for cell in self.cells), *self.checkpoints])
        longest = self.path.steps(users)
        return longest * (self.last - self.first)


@dataclass(frozen=True)
class BatchResult:
    """The rows of a batch (schema of the store, sorted by replicate) and what they cost.

    ``kernel_seconds`` is CPU time spent in the recursion, ``seconds`` that of the whole batch.
    """

    rows: pa.Table
    steps: int
    kernel_seconds: float
    seconds: float
    trajectories: pa.Table | None = None


@dataclass(frozen=True)
class Recording:
    """What the cells of a path need from a kernel."""

    times: list[int]
    marked: list[int]
    sums: list[str]

    @classmethod
    def of(cls, path: Path, cells: Sequence[Cell], checkpoints: Sequence[int] = ()) -> Recording:
        """Union over the cells and checkpoints."""
        times: set[int] = {path.steps(n) for n in checkpoints}
        if path.algorithm.averages_tail():
            times |= {t // 2 for t in times if t > 1}
        marked: set[int] = set()
        sums: set[str] = set()
        for (n, method), _ in methods_of(cells):
            steps = path.algorithm.steps(n)
            times.update(method.times(steps, path.algorithm).tolist())
            needed = method.running_sums(path.problem.dimension)
            if needed:
                marked.update(method.marked_times(steps, path.algorithm, path.problem.dimension))
                sums.update(needed)
        return cls(sorted(times | marked), sorted(marked), sorted(sums))


def methods_of(
    cells: Sequence[Cell],
) -> list[tuple[tuple[int, IntervalMethod], list[Cell]]]:
    """Cells that differ in level only, together; in the order in which they come."""
    return [(key, list(group)) for key, group in groupby(cells, key=lambda cell: (cell.n, cell.method))]


def simulate(batch: Batch) -> BatchResult:
    """Run a batch.

    The rows depend on the seed, the path, the replicate and the cell only: not on the batch, nor on
    the other cells.
    """
    started = time.thread_time()
    cells = batch.cells + batch.witnesses
    recording = Recording.of(batch.path, cells, batch.checkpoints)
    # Compiling is not what a step costs.
    kernel_of(batch.path, tuple(recording.sums))
    tables = [rows_schema(cells).empty_table()]
    followed = []
    kernel_seconds = 0.0
    for first in range(batch.first, batch.last, LANES):
        replicates = range(first, min(first + LANES, batch.last))
        before = time.thread_time()
        record = run_path(
            batch.path, batch.seed, replicates, recording.times, recording.marked, recording.sums
        )
        kernel_seconds += time.thread_time() - before
        # A diverged replicate's infinities are expected and end up in its status.
        with np.errstate(all="ignore"):
            if cells:
                tables.append(rows_of(record, cells))
            if batch.checkpoints:
                followed.append(trajectories_of(record, batch.checkpoints))
    return BatchResult(
        rows=pa.concat_tables(tables).combine_chunks(),
        steps=batch.steps,
        kernel_seconds=kernel_seconds,
        seconds=time.thread_time() - started,
        trajectories=pa.concat_tables(followed).combine_chunks() if followed else None,
    )


def rows_schema(cells: Sequence[Cell]) -> pa.Schema:
    """Schema of the rows of these cells: further columns are those that their methods declare."""
    return schema_of(columns_of(cell.method for cell in cells))


def rows_of(record: PathRecord, cells: Sequence[Cell]) -> pa.Table:
    """The rows of one record: by replicate, then in the cells' order, then by coordinate."""
    d = len(record.origin)
    count = len(record.replicates)
    shape = (len(cells), d, count)
    columns = {name: np.empty(shape) for name in ("estimate", "se", "lower", "upper")}
    checks = {column.name for cell in cells for column in cell.method.diagnostics}
    columns |= {name: np.full(shape, np.nan) for name in checks}
    diverged = np.empty(shape, dtype=bool)
    at = 0
    for (n, method), group in methods_of(cells):
        result = method.intervals(record, n, [cell.level for cell in group])
        here = slice(at, at + len(group))
        at += len(group)
        steps = record.path.algorithm.steps(n)
        columns["estimate"][here] = result.estimate
        columns["se"][here] = np.nan if result.se is None else result.se
        columns["lower"][here] = result.lower
        columns["upper"][here] = result.upper
        for name, values in result.diagnosis.items():
            if name not in {column.name for column in method.diagnostics}:
                raise ValueError(f"{type(method).__name__} returns {name!r}, which is not in its diagnostics")
            columns[name][here] = values
        finite = np.isfinite(record.sums_at(np.array([steps]))[0])
        # One coordinate that overflows spoils the replicate's others at the next step.
        diverged[here] = ~finite.all(axis=0)
    return table_of(record, cells, columns, diverged)


def table_of(
    record: PathRecord,
    cells: Sequence[Cell],
    columns: dict[str, NDArray[np.float64]],
    diverged: NDArray[np.bool_],
) -> pa.Table:
    """Assemble the store's columns from arrays of shape (cells, d, replicates)."""
    truth = np.broadcast_to(record.origin[None, :, None], diverged.shape)
    lower, upper = columns["lower"], columns["upper"]
    undefined = ~(np.isfinite(lower) & np.isfinite(upper))
    failed = diverged | undefined
    lower[failed] = np.nan
    upper[failed] = np.nan
    covered = (lower <= truth) & (truth <= upper)
    status = np.where(diverged, 2, np.where(undefined, 1, 0)).astype(np.int8)

    def flat(values: NDArray[np.generic]) -> NDArray[np.generic]:
        return np.ascontiguousarray(values.transpose(2, 0, 1)).reshape(-1)

    per_cell = [cell.columns() for cell in cells]
    index = flat(np.broadcast_to(np.arange(len(cells))[:, None, None], diverged.shape))
    coordinate = flat(np.broadcast_to(np.arange(diverged.shape[1])[None, :, None], diverged.shape))
    replicate = flat(np.broadcast_to(record.replicates[None, None, :], diverged.shape))
    names = pa.array(["ok", "undefined", "diverged"])
    given = ("estimate", "lower", "upper")
    optional = {name: flat(values) for name, values in columns.items() if name not in given}
    data = {
        "replicate": pa.array(replicate),
        "coordinate": pa.array(coordinate),
        "truth": pa.array(flat(truth)),
        "estimate": pa.array(flat(columns["estimate"])),
        **{name: pa.array(v, mask=~np.isfinite(v)) for name, v in optional.items()},
        "lower": pa.array(flat(lower)),
        "upper": pa.array(flat(upper)),
        "covered": pa.array(flat(covered), mask=flat(failed)),
        "length": pa.array(flat(upper - lower)),
        "status": names.take(pa.array(flat(status))),
    }
    arrays = []
    schema = rows_schema(cells)
    for field in schema:
        if field.name in data:
            arrays.append(data[field.name].cast(field.type))
        else:
            values = pa.array([cell.get(field.name) for cell in per_cell], type=field.type)
            arrays.append(values.take(pa.array(index)))
    return pa.Table.from_arrays(arrays, schema=schema)
