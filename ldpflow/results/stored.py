"""Cells of a stored run, a few at a time: what can be measured without holding a path.

The rows of a part are sorted by replicate, and every replicate has every cell of the part, so that
the place of a value follows from the footer: nothing is sorted, and keys are read once, to be checked.
A cell's values must be together (for medians, and for sums that do not depend on the parts); the cells
of a path need not be. Each group of cells takes one pass over the parts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import chain, groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldpflow.columns import Column
from ldpflow.results.cells import VALUES, CellRows, Floats, diagnostics_of, floats, group_keys
from ldpflow.store import Part, RunStore, UnreadablePart, cell_id
from ldpflow.store.dataset import Damaged, Dataset, each_once, overlapping
from ldpflow.store.part import Ranges, union
from ldpflow.store.schema import FINISHED, cell_keys

HELD_ROWS = 5 * 2**20
"""Rows held at a time, of as many cells as that are; of one cell and coordinate where it has more."""


def stored_cells(
    store: RunStore,
    path_key: str | None = None,
    wanted: Collection[str] | None = None,
    *,
    damaged: Damaged,
) -> Iterator[tuple[pa.Table, list[CellRows]]]:
    """Cells of one path or of all, at most :data:`HELD_ROWS` rows at a time.

    Parameters
    ----------
    store : RunStore
    path_key : str, optional
        All paths unless given.
    wanted : collection of str, optional
        Ids of cells; all unless given.
    damaged : "refuse" or list
        What is done about parts that cannot be used, as of :meth:`ldpflow.store.Dataset.scan`.

    Yields
    ------
    keys : pyarrow.Table
        Columns :func:`group_keys`, a row per cell and coordinate; sorted, among those that have the
        same replicates.
    cells : list of CellRows
        In the same order.

    Raises
    ------
    InputError
        If a part cannot be used and that is refused, or a row is stored twice with different values
        (names both parts).
    """
    for key in store.replicates.path_keys() if path_key is None else [path_key]:
        yield from PathReader(store.replicates, key, damaged).pieces(wanted)


class PathReader:
    """The parts of one path, and which of them have turned out to be unusable."""

    def __init__(self, dataset: Dataset, key: str, damaged: Damaged) -> None:
        self.dataset, self.key, self.damaged = dataset, key, damaged
        self.parts = dataset.scan(key, damaged=damaged)
        self.cells = {part.name: [cell_id(cell) for cell in part.cells] for part in self.parts}
        self.runs = {cell: count for part in self.parts for cell, count in part.runs.items()}
        self.checked: set[str] = set()
        schema = dataset.schema(self.parts)
        self.checks = diagnostics_of(schema)
        self.cell_keys = cell_keys(schema)
        names = group_keys(schema)[1:]
        self.keys = pa.schema([("path", pa.string()), *(schema.field(name) for name in names)])

    def drop(self, part: Part, reason: str) -> None:
        """Leave a part out from here on."""
        self.parts.remove(part)
        self.dataset.leave_out(UnreadablePart(part.name, reason), self.damaged)

    def pieces(self, wanted: Collection[str] | None) -> Iterator[tuple[pa.Table, list[CellRows]]]:
        """See :func:`stored_cells`."""
        shared = overlapping(self.parts)
        doubled = [part for part in self.parts if part.name in shared]
        for _ in each_once(self.loaded(doubled), self.dataset.load):
            pass  # raises where repeated rows differ
        for ranges, keys in self.alike(wanted):
            size = sum(last - first for first, last in ranges)
            count = max(HELD_ROWS // size, 1)
            for at in range(0, keys.num_rows, count):
                # Not bound to a name: two pieces would be held while the next one is made.
                yield self.piece(ranges, size, keys.slice(at, count))

    def alike(self, wanted: Collection[str] | None) -> Iterator[tuple[Ranges, pa.Table]]:
        """Replicates, and the keys of the cells and coordinates that have them."""
        spans: dict[str, list[tuple[int, int]]] = {}
        known = {}
        for part in self.parts:
            for name, cell in zip(self.cells[part.name], part.cells, strict=True):
                if wanted is None or name in wanted:
                    spans.setdefault(name, []).append((part.first, part.last))
                    known[name] = [
                        {"path": f"p{self.key}", **cell, "coordinate": at} for at in range(part.rows_per_cell)
                    ]
        ranges = {name: union(found) for name, found in spans.items()}
        for have, names in groupby(sorted(ranges, key=ranges.__getitem__), key=ranges.__getitem__):
            keys = pa.Table.from_pylist([row for name in names for row in known[name]], schema=self.keys)
            yield have, keys.sort_by([(name, "ascending") for name in self.keys.names])

    def piece(self, ranges: Ranges, size: int, keys: pa.Table) -> tuple[pa.Table, list[CellRows]]:
        """The rows of these cells and coordinates, all of which have the same replicates."""
        heads = [{name: row[name] for name in self.cell_keys} for row in keys.to_pylist()]
        units = list(zip(map(cell_id, heads), keys["coordinate"].to_pylist(), strict=True))
        names = {cell for cell, _ in units}
        parts = [part for part in self.parts if names & set(self.cells[part.name])]
        shape = (len(units), size)
        present, ok = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
        values: dict[str, Floats] = {name: np.empty(shape) for name in VALUES if name != "truth"}
        truths = np.full(len(units), np.nan)
        checks: dict[Column, dict[int, Floats]] = {}
        starts = dict(zip(ranges, np.cumsum([0, *(b - a for a, b in ranges)]).tolist(), strict=False))
        for part, table in self.rows(parts):
            inside = next(span for span in ranges if span[0] <= part.first < span[1])
            first = starts[inside] + part.first - inside[0]
            here = slice(first, first + part.last - part.first)
            place = {cell: at * part.rows_per_cell for at, cell in enumerate(self.cells[part.name])}
            to = run([at for at, (cell, _) in enumerate(units) if cell in place])
            columns = run([place[cell] + coordinate for cell, coordinate in units if cell in place])
            width = len(place) * part.rows_per_cell
            truth = floats(table["truth"]).reshape(-1, width)[0, columns]
            if np.any((truth != truths[to]) & ~np.isnan(truths[to])):
                self.drop(part, "its truth is not that of other parts")
                continue
            truths[to] = truth
            for name, found in values.items():
                found[to, here] = floats(table[name]).reshape(-1, width)[:, columns].T
            for check in self.checks:
                if check.name in table.column_names and table[check.name].null_count < table.num_rows:
                    new = floats(table[check.name]).reshape(-1, width)[:, columns]
                    known = checks.setdefault(check, {})
                    for at in np.flatnonzero(~np.isnan(new).all(axis=0)).tolist():
                        unit = at + to.start if isinstance(to, slice) else to[at]
                        if unit not in known:
                            known[unit] = np.full(size, np.nan)
                        known[unit][here] = new[:, at]
            fine = pc.is_in(table["status"], value_set=pa.array(FINISHED)).to_numpy()
            ok[to, here] = fine.reshape(-1, width)[:, columns].T
            present[to, here] = True
        # What all replicates share takes no memory.
        absent = np.broadcast_to(np.nan, size)
        held = values | {"ok": ok, "replicate": np.broadcast_to(numbers(ranges), shape)}
        held["truth"] = np.broadcast_to(truths[:, None], shape)
        # A part that its footer promised may be unreadable, and its rows absent.
        some = present.any(axis=1)
        cells = []
        for at in np.flatnonzero(some).tolist():
            kept = slice(None) if present[at].all() else present[at]
            own = {name: found[at][kept] for name, found in held.items()}
            said = {check: known.get(at, absent)[kept] for check, known in checks.items()}
            runs = self.runs.get(units[at][0], 1)
            cells.append(CellRows(**own, diagnostics=said, runs=runs))
        return keys.filter(pa.array(some)), cells

    def rows(self, parts: list[Part]) -> Iterator[tuple[Part, pa.Table]]:
        """The parts that can be used: whole and checked the first time, then values alone."""
        names = (*VALUES, *(check.name for check in self.checks), "status")
        new = [part for part in parts if part.name not in self.checked]
        old = [part for part in parts if part.name in self.checked]
        for part, table in chain(self.loaded(new), self.loaded(old, names)):
            if part.name not in self.checked and (reason := fault(table, part)) is not None:
                self.drop(part, reason)
                continue
            self.checked.add(part.name)
            yield part, table

    def loaded(
        self, parts: list[Part], columns: Sequence[str] | None = None
    ) -> Iterator[tuple[Part, pa.Table]]:
        """Parts and their rows; those that cannot be read are left out from here on."""
        bad: list[UnreadablePart] = []
        yield from self.dataset.loaded(parts, columns, damaged=bad)
        for one in bad:
            self.drop(next(part for part in self.parts if part.name == one.name), one.reason)


def fault(table: pa.Table, part: Part) -> str | None:
    """Reason why the rows of a part cannot be summarised, or None."""
    finished = pc.is_in(table["status"], value_set=pa.array(FINISHED))
    if not pc.all(pc.equal(pc.is_valid(table["covered"]), finished)).as_py():
        return "covered is given or absent against its status"
    truth = floats(table["truth"]).reshape(part.last - part.first, -1)
    return "the truth of a cell differs between replicates" if np.any(truth != truth[:1]) else None


def numbers(ranges: Ranges) -> NDArray[np.int64]:
    """The replicates of ranges, in order."""
    return np.concatenate([np.arange(first, last) for first, last in ranges])


def run(indices: list[int]) -> list[int] | slice:
    """Indices that follow each other as a slice, which costs no copy."""
    first, last = indices[0], indices[-1]
    return slice(first, last + 1) if indices == list(range(first, last + 1)) else indices
