"""A cell inside a path: n, interval method and level; one row of the result table per coordinate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ldpflow.intervals import INTERVAL_METHODS, IntervalMethod
from ldpflow.simulators.path import Path

__all__ = ["Cell", "PathPlan"]


@dataclass(frozen=True)
class Cell:
    """One cell of a path.

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

    @classmethod
    def from_columns(cls, columns: dict[str, Any]) -> Cell:
        """The cell that has these key columns; absent and null settings are left out."""
        kind = INTERVAL_METHODS[columns["method"]]
        settings = {
            name: columns[name]
            for name in kind.model_fields
            if name != "kind" and columns.get(name) is not None
        }
        return cls(columns["n"], kind(**settings), columns["level"])

    def columns(self) -> dict[str, Any]:
        """The key columns of the cell's rows; settings a method does not have are absent."""
        settings = self.method.model_dump()
        return {"n": self.n, "method": settings.pop("kind"), **settings, "level": self.level}


@dataclass(frozen=True)
class PathPlan:
    """A path, and the cells and the checkpoints of the trajectory that a study wants from it."""

    path: Path
    cells: tuple[Cell, ...]
    checkpoints: tuple[int, ...] = ()
