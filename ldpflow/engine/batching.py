"""Cutting a study into batches: about a second to ten of work each, smaller towards the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ldpflow.cell import Cell
from ldpflow.path import Path
from ldpflow.random.lockstep import LANES
from ldpflow.simulate import Batch

__all__ = ["GRID", "Missing", "cut"]

GRID = 64  # replicate ranges are multiples of this
TARGET_SECONDS = 5.0
TAIL = 2  # batches per core at the end that are cut once more,
TAIL_SECONDS = 0.5  # to about this length
# A first guess, replaced by what the run measures: ns per step, replicate and coordinate.
NANOSECONDS_PER_COORDINATE = 3.0


@dataclass(frozen=True)
class Missing:
    """Replicates ``first`` to ``last`` (exclusive) of a path that lack ``cells``.

    Where the path runs again over replicates that have other cells already, ``witnesses`` holds one
    of those, to be computed again and compared with what is stored.
    """

    path: Path
    first: int
    last: int
    cells: tuple[Cell, ...]
    witnesses: tuple[Cell, ...] = ()
    checkpoints: tuple[int, ...] = ()

    def steps(self) -> int:
        """Steps of one replicate."""
        users = max([*(cell.n for cell in self.cells), *self.checkpoints])
        return self.path.steps(users)

    def seconds(self) -> float:
        """Rough CPU time of one replicate."""
        records = max([*(cell.n for cell in self.cells), *self.checkpoints])
        records *= 1 + self.path.algorithm.perturbed_paths()
        return records * self.path.problem.dimension * NANOSECONDS_PER_COORDINATE * 1e-9


def cut(missing: Sequence[Missing], seed: int, cores: int) -> list[Batch]:
    """Batches of all that is missing, long ones first.

    Each takes about TARGET_SECONDS, or less where that would leave the last core to finish alone;
    never less than one row of lanes. Ranges start on the replicate grid, except for long paths and
    at the end, where they start on multiples of the lanes.
    """
    total = sum(m.seconds() * (m.last - m.first) for m in missing)
    # With 16 batches per core the last one to finish costs a few per cent at most.
    target = min(TARGET_SECONDS, total / (16.0 * cores))
    batches = []
    for m in sorted(missing, key=lambda m: -m.seconds()):
        wanted = target / max(m.seconds(), 1e-12)
        size = LANES if wanted < GRID else int(wanted) // GRID * GRID
        batches += [(m, *piece) for piece in pieces(m.first, m.last, size)]
    batches.sort(key=lambda b: -(b[2] - b[1]) * b[0].seconds())
    # The last ones smaller still: all cores end at about the same time.
    body, tail = batches[: -TAIL * cores], batches[-TAIL * cores :]
    for m, first, last in tail:
        wanted = TAIL_SECONDS / max(m.seconds(), 1e-12)
        size = max(1, int(wanted) // LANES) * LANES
        body += [(m, *piece) for piece in pieces(first, last, size)]
    return [
        Batch(m.path, seed, first, last, m.cells, m.witnesses, m.checkpoints)
        for m, first, last in body
    ]


def pieces(first: int, last: int, size: int) -> list[tuple[int, int]]:
    """Ranges that make up ``first`` to ``last``, bounded by multiples of the size.

    So a range that is resumed is cut alike.
    """
    found = []
    while first < last:
        end = min((first // size + 1) * size, last)
        found.append((first, end))
        first = end
    return found
