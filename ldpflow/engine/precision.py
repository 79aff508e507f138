"""Sweeps that stop when they are precise enough.

Replicates come in a fixed schedule: R_0 = ``min_replicates``, then BATCH more at a time, at most
``max_replicates``. A path stops at the first R_k at which the first R_k replicates of all its cells have

    sqrt(p~ (1 - p~) / R) <= target_mcse,   p~ = (x + 2)/(R + 4), x covered of R finished rows,
    sd(length)/(mean(length) sqrt(R)) <= target_length,

as far as a target is given. So the count is a function of the rows: the order of arrival, interruptions and
further replicates of an earlier run do not change it. The variance is taken at p~ (Agresti and Coull 1998):
with the estimate itself a run of luck both ends the sampling and stays in the result.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from ldpflow.engine.batching import gaps
from ldpflow.errors import InputError
from ldpflow.options import SweepOptions
from ldpflow.results.columns import CellRows
from ldpflow.results.summary import stored_cells
from ldpflow.simulators.rows import Batch
from ldpflow.simulators.simulator import PathPlan
from ldpflow.store.part import subtract
from ldpflow.store.run_store import RunStore
from ldpflow.store.schema import cell_id, cell_keys
from ldpflow.study import Study

BATCH = 128
LEAST = 200  # fewer replicates bias what is reported


@dataclass(frozen=True)
class Precision:
    """Target precision of a sweep in every cell: MCSE of coverage, relative MCSE of the mean length.

    ``min_replicates`` and ``max_replicates`` are the first and the last point of the schedule.
    """

    target_mcse: float | None = None
    target_length: float | None = None
    min_replicates: int = 256
    max_replicates: int = 100_000

    def __post_init__(self) -> None:
        if self.min_replicates < LEAST:
            hint = "Stopping on fewer biases the coverage that is reported."
            raise InputError("min_replicates", self.min_replicates, f"at least {LEAST}", hint)
        if not self.min_replicates <= self.max_replicates <= 10**9:
            raise InputError("max_replicates", self.max_replicates, f"{self.min_replicates} to 10^9")

    @classmethod
    def of(cls, options: SweepOptions, study: Study) -> Precision | None:
        """The target of a sweep, or None."""
        if not options.until_precise:
            return None
        if not study.method:
            name = "target_length" if options.target_mcse is None else "target_mcse"
            raise InputError(name, getattr(options, name), "a study with interval methods")
        bounds = {"min_replicates": options.min_replicates, "max_replicates": options.max_replicates}
        given = {name: value for name, value in bounds.items() if value is not None}
        return cls(options.target_mcse, options.target_length, **given)

    def schedule(self, start: int = 0) -> Iterator[int]:
        """The points of the schedule above ``start``."""
        points = chain(range(self.min_replicates, self.max_replicates, BATCH), [self.max_replicates])
        yield from (point for point in points if point > start)

    def distance(self, cell: CellRows) -> float:
        """Largest ratio of an MCSE to its target."""
        cell = cell.finished()
        count = len(cell.ok)
        if count == 0:
            return 0.0
        found = 0.0
        if self.target_mcse is not None:
            found = agresti_coull(int(np.sum(cell.covered)), count) / self.target_mcse
        if self.target_length is not None:
            length = cell.lengths()
            length = length[~np.isnan(length)]
            mean = float(np.mean(length)) if len(length) else 0.0
            if len(length) < 2 or not mean > 0:
                return math.inf
            error = float(np.std(length, ddof=1)) / mean / math.sqrt(len(length))
            found = max(found, error / self.target_length)
        return found

    def expected(self, levels: Iterable[float]) -> int:
        """Replicates of a path if its coverages are the levels; of mean lengths nothing is expected."""
        wanted = 0.0
        if self.target_mcse is not None:
            wanted = max(level * (1 - level) for level in levels) / self.target_mcse**2
        return min(max(self.min_replicates, math.ceil(wanted)), self.max_replicates)

    def earliest(self, cell: CellRows, now: int) -> int:
        """First point after ``now`` at which coverage is precise enough if all further rows hit, or miss."""
        runs = int(cell.replicate[0]) + 1 if len(cell.ok) else 1  # replicates of a row
        finished = cell.finished()
        count, hits = len(finished.ok), int(np.sum(finished.covered))
        point = now
        for point in self.schedule(now):
            if self.target_mcse is None or count == 0:
                break
            more = point // runs - len(cell.ok)
            total = count + more
            best = min(agresti_coull(hits + more, total), agresti_coull(hits, total))
            if best <= self.target_mcse:
                break
        return point

    def next_point(self, cells: Sequence[CellRows], have: int) -> int | None:
        """Number of replicates that a path must have next, or None if it is done.

        ``cells`` are all cells and coordinates of the path, with rows numbered by their last replicate.
        ``have`` is the number of replicates that all of them have, from 0 on; further rows are ignored.
        """
        point = self.min_replicates
        while point <= have:
            here = [cell.where(cell.replicate < point) for cell in cells]
            if point == self.max_replicates or all(self.distance(c) <= 1.0 for c in here):
                return None
            point = max(self.earliest(cell, point) for cell in here)
        return point


def agresti_coull(hits: Any, count: int) -> Any:
    """sqrt(p~ (1 - p~) / R), of one or several numbers of hits."""
    share = (hits + 2) / (count + 4)
    return np.sqrt(share * (1 - share) / count)


def rounds(store: RunStore, study: Study, precision: Precision) -> Iterator[list[Batch]]:
    """Replicates to compute before precision is judged again, until every path is precise enough.

    Each round must be stored before the next is asked for.
    """
    points = dict.fromkeys(study.plans(), 0)
    while points:
        found = {
            plan: precision.next_point(*cells_of_plan(store, plan, precision.max_replicates))
            for plan in points
        }
        points = {plan: point for plan, point in found.items() if point is not None}
        if points:
            yield [gap for plan, point in points.items() for gap in gaps(store, plan, study.seed, point)]


def cells_of_plan(store: RunStore, plan: PathPlan, most: int) -> tuple[list[CellRows], int]:
    """Stored rows of cells under their last replicate, and the replicates that all cells have."""
    runs = {cell_id(cell.columns()): cell.runs for cell in plan.cells}
    finished = store.replicates.finished(plan.simulator.key)
    gaps = {cell: subtract(0, most // count, finished.get(cell, [])) for cell, count in runs.items()}
    starts = {cell: found[0][0] for cell, found in gaps.items() if found}
    # Replicates that do not fill a whole row do not count as missing.
    have = min((runs[cell] * (first + 1) - 1 for cell, first in starts.items()), default=most)
    if 0 in starts.values():
        return [], 0
    rows = []
    for keys, cells in stored_cells(store, plan.simulator.key, set(runs), damaged=[]):
        names = cell_keys(keys.schema)
        for key, cell in zip(keys.select(names).to_pylist(), cells, strict=True):
            count = runs[cell_id(key)]
            rows.append(replace(cell, replicate=(cell.replicate + 1) * count - 1))
    return rows, have
