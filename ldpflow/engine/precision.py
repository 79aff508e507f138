"""Sweeps that stop when their results have a target precision.

The numbers of replicates R_k have a fixed schedule: R_0 = ``min_replicates``, R_k = R_{k-1} + BATCH, at most
``max_replicates``. A path stops at the first R_k at which the first R_k replicates of all its cells have

    sqrt(p~ (1 - p~) / R) <= target_mcse,   p~ = (x + 2)/(R + 4), x covered of R finished rows,
    sd(length)/(mean(length) sqrt(R)) <= target_length,

for each target that is given. This R_k follows from the rows alone: it does not depend on the order in which
rows come, on interruptions or on further replicates of an earlier run. The variance is that at p~ (Agresti
and Coull 1998). With x / R in place of p~, a few replicates that all cover would end the sampling too early.
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
LEAST = 200  # stopping with fewer replicates biases the coverage


@dataclass(frozen=True)
class Precision:
    """Target precision of every cell of a sweep.

    ``target_mcse`` is the largest MCSE of coverage, ``target_length`` the largest relative MCSE of the mean
    length. If one of them is None, there is no such target. The schedule begins at ``min_replicates`` and
    ends at ``max_replicates``.
    """

    target_mcse: float | None = None
    target_length: float | None = None
    min_replicates: int = 256
    max_replicates: int = 100_000

    def __post_init__(self) -> None:
        if self.min_replicates < LEAST:
            raise InputError("min_replicates", self.min_replicates, f"at least {LEAST}")
        if not self.min_replicates <= self.max_replicates <= 10**9:
            raise InputError("max_replicates", self.max_replicates, f"{self.min_replicates} to 10^9")

    @classmethod
    def of(cls, options: SweepOptions, study: Study) -> Precision | None:
        """Make the target of a sweep from its options. None without a target."""
        if not options.until_precise:
            return None
        if not study.method:
            name = "target_length" if options.target_mcse is None else "target_mcse"
            raise InputError(name, getattr(options, name), "a study with interval methods")
        bounds = {"min_replicates": options.min_replicates, "max_replicates": options.max_replicates}
        given = {name: value for name, value in bounds.items() if value is not None}
        return cls(options.target_mcse, options.target_length, **given)

    def schedule(self, start: int = 0) -> Iterator[int]:
        """Iterate over the numbers of replicates of the schedule above ``start``."""
        points = chain(range(self.min_replicates, self.max_replicates, BATCH), [self.max_replicates])
        yield from (point for point in points if point > start)

    def distance(self, cell: CellRows) -> float:
        """Largest ratio of an MCSE to its target. 0 without finished rows, inf if lengths have no MCSE."""
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
        """Expected replicates of a path whose coverages equal the levels. Ignores ``target_length``."""
        target = math.inf if self.target_mcse is None else self.target_mcse
        wanted = max(level * (1 - level) for level in levels) / target**2
        return min(max(self.min_replicates, math.ceil(wanted)), self.max_replicates)

    def earliest(self, cell: CellRows, now: int) -> int:
        """First point of the schedule after ``now`` at which the MCSE of coverage can meet its target.

        The MCSE is smallest if all further rows cover the truth, or if no further row covers it.
        """
        runs = int(cell.replicate[0]) + 1 if len(cell.ok) else 1  # replicates per row
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
        """Number of replicates to compute next for a path, or None if the path can stop.

        ``cells`` has the rows of each cell and coordinate of the path, numbered by their last replicate. All
        cells have the first ``have`` replicates. Later replicates are ignored.
        """
        point = self.min_replicates
        while point <= have:
            here = [cell.where(cell.replicate < point) for cell in cells]
            if point == self.max_replicates or all(self.distance(c) <= 1.0 for c in here):
                return None
            point = max(self.earliest(cell, point) for cell in here)
        return point


def agresti_coull(hits: Any, count: int) -> Any:
    """sqrt(p~ (1 - p~) / R) for one or several x = ``hits``, R = ``count``."""
    share = (hits + 2) / (count + 4)
    return np.sqrt(share * (1 - share) / count)


def rounds(store: RunStore, study: Study, precision: Precision) -> Iterator[list[Batch]]:
    """Iterate over lists of missing batches until every path can stop.

    The caller must store the rows of a list before it takes the next list.
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
    """Arguments of :meth:`Precision.next_point` from the stored rows of a path."""
    runs = {cell_id(cell.columns()): cell.runs for cell in plan.cells}
    finished = store.replicates.finished(plan.simulator.key)
    gaps = {cell: subtract(0, most // count, finished.get(cell, [])) for cell, count in runs.items()}
    starts = {cell: found[0][0] for cell, found in gaps.items() if found}
    # If a row of several replicates is missing, all its replicates but the last count as stored.
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
