"""Find the rows that a run lacks, and cut them into batches of about five seconds of work or less."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from ldpflow.numerics.streams import LANES
from ldpflow.simulators.rows import Batch
from ldpflow.simulators.simulator import Cell, PathPlan, by_runs
from ldpflow.store.part import intersect, subtract
from ldpflow.store.run_store import RunStore
from ldpflow.store.schema import cell_id

GRID = 64  # a larger batch has a multiple of this number of replicates
TARGET_SECONDS = 5.0  # wanted CPU time of a batch; LANES replicates of a long path take more
TAIL = 2  # number of last batches per core that are cut once more
TAIL_SECONDS = 0.5  # CPU time of each piece of these last batches


def gaps(store: RunStore, plan: PathPlan, seed: int, replicates: int) -> list[Batch]:
    """Ranges of replicates without rows or trajectories, as batches.

    A range of missing rows is one batch with its trajectories if all of these are missing too.
    """
    found = cell_gaps(store, plan, seed, replicates)
    if not plan.checkpoints:
        return found
    stored = store.trajectories.finished(plan.simulator.key)
    missing = subtract(0, replicates, stored.get(cell_id({"checkpoints": plan.checkpoints}), []))
    together = []
    for at, m in enumerate(found):
        if m.cells[0].runs == 1 and intersect(missing, m.first, m.last) == [(m.first, m.last)]:
            found[at] = replace(m, checkpoints=plan.checkpoints)
            together.append((m.first, m.last))
    alone = [span for a, b in missing for span in subtract(a, b, together)]
    return [*found, *(Batch(plan.simulator, seed, a, b, (), (), plan.checkpoints) for a, b in alone)]


def cell_gaps(store: RunStore, plan: PathPlan, seed: int, replicates: int) -> list[Batch]:
    """Ranges of missing rows of intervals, each with the cells that lack these rows."""
    finished = store.replicates.finished(plan.simulator.key)
    found: list[Batch] = []
    for runs, cells in by_runs(plan.cells).items():
        rows = replicates // runs
        stored = {cell: intersect(finished.get(cell_id(cell.columns()), []), 0, rows) for cell in cells}
        ends = {end for ranges in stored.values() for span in ranges for end in span}
        for first, last in pairwise(sorted({0, rows, *ends})):
            lacking = tuple(cell for cell in cells if subtract(first, last, stored[cell]))
            if lacking:
                others = [cell for cell in cells if cell not in lacking]
                witnesses = witness(plan, lacking, others)
                found.append(Batch(plan.simulator, seed, first, last, lacking, witnesses))
    return found


def witness(plan: PathPlan, missing: Sequence[Cell], stored: Sequence[Cell]) -> tuple[Cell, ...]:
    """Choose at most one stored cell whose rows are computed again and compared with the stored rows.

    The cell has the largest n that does not make the path longer, because its estimate depends on all steps
    up to n. Among the cells of that n it is the cheapest one.
    """

    def cost(cell: Cell) -> tuple[float, ...]:
        found = plan.simulator.cost(plan.simulator.needs((cell,)), 1)
        return -cell.n, found.seconds, found.bytes

    longest = max(cell.n for cell in missing)
    return tuple(sorted((cell for cell in stored if cell.n <= longest), key=cost)[:1])


@dataclass(frozen=True)
class BatchRange:
    """Batches of one simulator. They end at multiples of ``size``, so that a resumed sweep has equal batches.

    Batches are made one by one during the iteration, because there may be a million batches.
    """

    missing: Batch
    first: int
    last: int
    size: int

    def starts(self) -> range:
        return range(self.first // self.size * self.size, self.last, self.size)

    def __len__(self) -> int:
        return len(self.starts())

    def __iter__(self) -> Iterator[Batch]:
        for start in self.starts():
            first, last = max(start, self.first), min(start + self.size, self.last)
            yield replace(self.missing, first=first, last=last)

    @property
    def steps(self) -> int:
        return self.missing.cost.steps * (self.last - self.first)


def cut(missing: Sequence[Batch], cores: int) -> list[BatchRange]:
    """Cut missing rows into batches, long batches first.

    A batch takes about TARGET_SECONDS, or less if there would be fewer than 16 batches per core. Batches end
    at multiples of GRID. Batches of long paths and the last batches end at multiples of LANES.
    """
    total = sum(m.cost.seconds * (m.last - m.first) for m in missing)
    # With 16 batches per core the cores end at about the same time.
    target = min(TARGET_SECONDS, total / (16.0 * cores))
    found = []
    for m in sorted(missing, key=lambda m: -m.cost.seconds):
        wanted = target / max(m.cost.seconds, 1e-12)
        size = LANES if wanted < GRID else int(wanted) // GRID * GRID
        found.append(BatchRange(m, m.first, m.last, size))
    return cut_tail(sorted(found, key=batch_seconds, reverse=True), cores)


def batch_seconds(run: BatchRange) -> float:
    return run.missing.cost.seconds * min(run.size, run.last - run.first)


def cut_tail(found: Sequence[BatchRange], cores: int) -> list[BatchRange]:
    """Cut the last batches once more, so that all cores end at about the same time."""
    bodies: list[BatchRange] = []
    tails: list[BatchRange] = []
    left = TAIL * cores
    for run in reversed(found):
        count = min(len(run), left)
        left -= count
        wanted = TAIL_SECONDS / max(run.missing.cost.seconds, 1e-12)
        size = min(run.size, max(1, int(wanted) // LANES) * LANES)
        middle = max(run.first, run.starts()[-count]) if count else run.last
        if count:
            tails.append(replace(run, first=middle, size=size))
        if count < len(run):
            bodies.append(replace(run, last=middle))
    return bodies[::-1] + sorted(tails, key=batch_seconds, reverse=True)
