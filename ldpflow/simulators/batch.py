"""One batch of replicates of one simulator, from seed to rows. Plain: no Ray, no files."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ldpflow.random.lockstep import LANES
from ldpflow.simulators.cell import Cell
from ldpflow.simulators.rows import rows_of, rows_schema
from ldpflow.simulators.simulator import Simulator
from ldpflow.simulators.turns import turn


@dataclass(frozen=True)
class Batch:
    """Rows ``first`` to ``last`` (exclusive) of a simulator, and what is wanted in them.

    A row is a replicate, or :attr:`runs` consecutive ones. ``cells`` and ``checkpoints`` (users, or
    steps where an algorithm counts those, at which the trajectory is kept): one of them may be empty.
    ``witnesses`` are cells whose rows are stored already: they are computed again to be compared.
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
        """Consecutive replicates that make one row, the same number in all cells."""
        return next((cell.runs for cell in (*self.cells, *self.witnesses)), 1)

    @property
    def rows(self) -> int:
        """Rows to store, those of trajectories included."""
        per_replicate = self.simulator.dimension * len(self.cells) + len(self.checkpoints)
        return (self.last - self.first) * per_replicate

    @property
    def steps(self) -> int:
        """Steps to simulate, over all replicates."""
        request = self.simulator.needs(self.cells, self.checkpoints)
        return self.simulator.cost(request, self.runs * (self.last - self.first)).steps


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


@turn()
def simulate(batch: Batch) -> BatchResult:
    """Run a batch, LANES rows at a time.

    The rows depend on the seed, the simulator, the replicate and the cell only: not on the batch, nor
    on the other cells.
    """
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
        # A diverged replicate's infinities are expected and end up in its status.
        with np.errstate(all="ignore"):
            if cells:
                tables.append(rows_of(record, cells))
            if batch.checkpoints:
                followed.append(batch.simulator.trajectories(record, batch.checkpoints))
    return BatchResult(
        rows=pa.concat_tables(tables).combine_chunks(),
        steps=batch.steps,
        kernel_seconds=kernel_seconds,
        seconds=time.thread_time() - started,
        trajectories=pa.concat_tables(followed).combine_chunks() if followed else None,
    )
