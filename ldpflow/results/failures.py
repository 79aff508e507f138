"""Failed replicates of a run by cause: the path diverged, or the method has no interval there."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from ldpflow.intervals import INTERVAL_METHODS
from ldpflow.store import RunStore, cell_id
from ldpflow.store.dataset import Damaged

Place = tuple[str, str, int]
"""Path (``p`` and its key), cell id and coordinate."""


def diverged_counts(store: RunStore, paths: Collection[str], *, damaged: Damaged) -> dict[Place, int]:
    """Replicates whose status is ``diverged``, by cell and coordinate of some paths.

    Reads one column of the parts; of replicates that two parts hold it counts both.
    """
    found: dict[Place, int] = {}
    for path in paths:
        parts = store.replicates.scan(path.removeprefix("p"), damaged=damaged)
        for part, table in store.replicates.loaded(parts, ["status"], damaged=damaged):
            width = len(part.cells) * part.rows_per_cell
            counts = (table["status"].to_numpy() == "diverged").reshape(-1, width).sum(axis=0)
            for at in np.flatnonzero(counts).tolist():
                cell, coordinate = divmod(at, part.rows_per_cell)
                place = (path, cell_id(part.cells[cell]), coordinate)
                found[place] = found.get(place, 0) + int(counts[at])
    return found


def why_failed(row: Mapping[str, Any], diverged: int) -> str:
    """Reason why a cell's replicates have no interval: how many paths diverged, and the method's own reason.

    Parameters
    ----------
    row : mapping
        A row of the summary.
    diverged : int
        Of its failures, those whose path diverged.
    """
    diverged = min(diverged, row["failures"])
    undefined = row["failures"] - diverged
    found = [f"{diverged:,} diverged"] if diverged else []
    if undefined:
        method = INTERVAL_METHODS.get(row["method"])
        reason = "" if method is None else method.undefined_where
        found.append(f"{undefined:,} undefined" + (f": {reason}" if reason else ""))
    return "; ".join(found)
