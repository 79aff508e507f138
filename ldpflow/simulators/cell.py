"""A cell of a simulator: n, interval method and level; one row of results per replicate and coordinate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from ldpflow.errors import InputError
from ldpflow.intervals import INTERVAL_METHODS, IntervalMethod


@dataclass(frozen=True)
class Cell:
    """One cell of a simulator.

    Parameters
    ----------
    n : int
        Users.
    method : IntervalMethod
    level : float in (0, 1)
        Nominal coverage.
    """

    n: int
    method: IntervalMethod
    level: float

    @property
    def runs(self) -> int:
        """Consecutive replicates that make one row: row r takes r runs, ..., (r + 1) runs - 1."""
        return self.method.runs(self.level)

    @classmethod
    def from_columns(cls, columns: dict[str, Any]) -> Cell:
        """The cell that has these key columns; absent and null settings are left out."""
        kind = INTERVAL_METHODS.get(columns["method"])
        if kind is None:
            needed = f"It defines method {columns['method']}."
            raise InputError("plugin", None, "the plug-in of the run", needed)
        method = kind.from_values(columns)
        return cls(columns["n"], method, columns["level"])

    def columns(self) -> dict[str, Any]:
        """The key columns of the cell's rows; settings a method does not have are absent."""
        settings = self.method.setting_values()
        return {"n": self.n, "method": self.method.kind, **settings, "level": self.level}


def methods_of(cells: Sequence[Cell]) -> list[tuple[tuple[int, Any], list[Cell]]]:
    """Cells that differ in level only, together; in the order in which they come."""
    return [(key, list(group)) for key, group in groupby(cells, key=lambda cell: (cell.n, cell.method))]


def by_runs(cells: Iterable[Cell]) -> dict[int, tuple[Cell, ...]]:
    """Cells by how many replicates make one of their rows; each number of them has batches of its own."""
    found: dict[int, tuple[Cell, ...]] = {}
    for cell in cells:
        found[cell.runs] = (*found.get(cell.runs, ()), cell)
    return found
