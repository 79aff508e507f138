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
        method = INTERVAL_METHODS[columns["method"]].from_values(columns)
        return cls(columns["n"], method, columns["level"])

    def columns(self) -> dict[str, Any]:
        """The key columns of the cell's rows; settings a method does not have are absent."""
        settings = self.method.setting_values()
        return {"n": self.n, "method": self.method.kind, **settings, "level": self.level}


@dataclass(frozen=True)
class PathPlan:
    """A path, and the cells and the checkpoints of the trajectory that a study wants from it."""

    path: Path
    cells: tuple[Cell, ...]
    checkpoints: tuple[int, ...] = ()
