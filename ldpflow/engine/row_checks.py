"""Rows against themselves: what the columns of a row say of each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldpflow.errors import LdpflowError
from ldpflow.intervals import INTERVAL_METHODS
from ldpflow.simulators.cell import Cell
from ldpflow.store import Part
from ldpflow.store.schema import FINISHED, REPLICATE_ROWS, Kind

STATUSES = (*FINISHED, "undefined", "diverged")
Fault = tuple[str, NDArray[np.bool_]]


def row_reason(kind: Kind, table: pa.Table) -> str | None:
    """The first row that cannot have come from a simulation, and why; None if there is none."""
    faults = interval_faults(table) if kind is REPLICATE_ROWS else trajectory_faults(table)
    for what, where in faults:
        if where.any():
            row = table.slice(int(where.argmax()), 1).to_pylist()[0]
            at = ", ".join(
                f"{name} {row[name]}" for name in ("replicate", "n", "method", "step") if name in row
            )
            return f"{what} ({at}; {int(where.sum()):,} rows)"
    return None


def interval_faults(table: pa.Table) -> Iterator[Fault]:
    """Rules of rows of interval methods, and the rows that break them."""
    status = table["status"].to_numpy(zero_copy_only=False)
    yield f"a status is none of {', '.join(STATUSES)}", ~np.isin(status, STATUSES)
    done, ok = np.isin(status, FINISHED), status == "ok"
    lower, upper, truth, length = (values(table[n]) for n in ("lower", "upper", "truth", "length"))
    by_coordinate = np.empty(len(truth))
    coordinate = table["coordinate"].to_numpy()
    for at in np.unique(coordinate):
        by_coordinate[coordinate == at] = truth[coordinate == at][0]
    yield (
        "the truth is not that of the other rows",
        ~np.equal(truth, by_coordinate) & ~np.isnan(by_coordinate),
    )
    limits = np.isfinite(lower) & np.isfinite(upper)
    yield "limits are not finite though it finished", done & ~limits
    yield "there are limits though it did not finish", ~done & ~(np.isnan(lower) & np.isnan(upper))
    yield "the lower limit is above the upper one", done & (lower > upper)
    covered = table["covered"]
    known = pc.is_valid(covered).to_numpy(zero_copy_only=False)
    yield "covered is given or absent against its status", known != done
    said = covered.fill_null(False).to_numpy(zero_copy_only=False)
    yield "covered is not what limits and truth say", done & (said != ((lower <= truth) & (truth <= upper)))
    with np.errstate(invalid="ignore", over="ignore"):
        yield "length is not upper - lower", ok & ~(length == upper - lower)
    yield "there is a length though its status is not ok", ~ok & ~np.isnan(length)
    yield "n is not positive", values(table["n"]) < 1
    level = values(table["level"])
    yield "a level is not between 0 and 1", ~((level > 0) & (level < 1))


def trajectory_faults(table: pa.Table) -> Iterator[Fault]:
    """Rules of rows of trajectories, and the rows that break them."""
    status = table["status"].to_numpy(zero_copy_only=False)
    yield "a status is neither ok nor diverged", ~np.isin(status, ("ok", "diverged"))
    for name in table.column_names:
        if name.endswith("_sq") or name.endswith("_norm"):
            yield f"{name} is negative", values(table[name]) < 0
    yield "n or step is negative", (values(table["n"]) < 0) | (values(table["step"]) < 0)


def values(column: pa.ChunkedArray) -> NDArray[Any]:
    """A column as doubles, NaN for null."""
    filled: NDArray[Any] = column.cast(pa.float64()).fill_null(np.nan).to_numpy(zero_copy_only=False)
    return filled


def cell_reason(part: Part) -> str | None:
    """Reason why a method of the part's version has no such cells, or None."""
    plugins = any(str(name).startswith("plugin") for name in part.meta.get("versions", {}))
    for cell in part.cells:
        method = INTERVAL_METHODS.get(str(cell.get("method")))
        bundled = method is not None and method.__module__.startswith("ldpflow.")
        if "method" not in cell or (plugins and not bundled):
            continue  # a plug-in's method of that name may be another one here
        try:
            Cell.from_columns({**cell})
        except (LdpflowError, KeyError, ValueError, TypeError):
            return f"no interval method has the settings {cell}"
    return None
