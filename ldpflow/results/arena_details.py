"""Details of a method in the arena beside its row of the summary: differences to the best, and needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ldpflow.intervals import INTERVAL_METHODS
from ldpflow.random.lockstep import LANES
from ldpflow.results.arena import Setting
from ldpflow.results.cells import CellRows, group_keys
from ldpflow.results.comparison import compared
from ldpflow.results.paired import Contrast
from ldpflow.results.stored import stored_cells
from ldpflow.simulators.cell import Cell
from ldpflow.store import RunStore

__all__ = ["Needs", "differences", "needs_of"]


@dataclass(frozen=True)
class Needs:
    """Memory and running sums that a method needs of one run of the algorithm.

    Parameters
    ----------
    bytes : int
        Prefix sums and iterates at the times that it asks for.
    sums : str
        Names of the running sums; empty where prefix sums are enough.
    """

    bytes: int
    sums: str


def needs_of(simulator: Any, columns: Mapping[str, Any]) -> Needs | None:
    """The needs of a cell by its key columns; None where its code is not known here."""
    if columns["method"] not in INTERVAL_METHODS or not hasattr(simulator, "needs"):
        return None
    cell = Cell.from_columns(dict(columns))
    request = simulator.needs((cell,))
    return Needs(simulator.memory(request) // LANES, ", ".join(request.sums))


def differences(
    store: RunStore, summary: pa.Table, settings: Sequence[Setting]
) -> dict[tuple[Any, ...], Contrast]:
    """Every method against its setting's reference, by the key columns of its row of the summary.

    The rows of one path are held at a time.
    """
    names = group_keys(summary.schema)
    by_path: dict[str, list[Setting]] = {}
    for setting in settings:
        by_path.setdefault(setting.keys["path"], []).append(setting)
    found = {}
    for path, own in by_path.items():
        cells = cells_of_path(store, path)
        for setting in own:
            base = setting.reference
            if base is None:
                continue
            reference = cells.get(place(base.row, names))
            for entry in setting.entries:
                cell = cells.get(place(entry.row, names))
                if entry is not base and cell is not None and reference is not None:
                    found[place(entry.row, names)] = compared(cell, reference)
    return found


def cells_of_path(store: RunStore, path: str) -> dict[tuple[Any, ...], CellRows]:
    """The rows of all cells of a path."""
    pieces = stored_cells(store, path.removeprefix("p"), damaged="refuse")
    return {
        place(key, keys.column_names): cell
        for keys, cells in pieces
        for key, cell in zip(keys.to_pylist(), cells, strict=True)
    }


def place(row: Mapping[str, Any], names: Iterable[str]) -> tuple[Any, ...]:
    """Key of a row of the summary; nulls are left out."""
    return tuple(sorted((name, row[name]) for name in names if row.get(name) is not None))
