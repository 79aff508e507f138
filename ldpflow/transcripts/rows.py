"""Rows of an analysis: one per method, level and coordinate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ldpflow.intervals import IntervalMethod
from ldpflow.intervals.record import PathRecord

__all__ = ["Row", "columns_of", "rows_of"]

Row = dict[str, Any]

OF_THE_TRUTH = ("joint_covered", "joint_size")
"""Diagnostics that say how an interval relates to the truth, which no transcript has."""

BEFORE = ("n", "level", "coordinate", "estimate", "se", "lower", "upper")


def columns_of(rows: Sequence[Row]) -> list[str]:
    """Columns of a table of the rows: settings and diagnostics that any of the methods has, and the rest."""
    settings = dict.fromkeys(name for row in rows for name in row["own"])
    diagnostics = dict.fromkeys(name for row in rows for name in row["checks"])
    return ["method", *settings, *BEFORE, *diagnostics, "status"]


def rows_of(
    record: PathRecord,
    n: int,
    methods: Sequence[IntervalMethod],
    levels: Sequence[float],
    asked: bool,
) -> list[Row]:
    """Rows of some methods after n reports.

    Returns
    -------
    list of dict
        ``own`` has the method's settings, ``checks`` its diagnostics; both are columns too.
    """
    d = len(record.origin)
    found = []
    for method in methods:
        result = method.intervals(record, n, levels)
        own = method.model_dump(exclude={"kind"})
        for at, level in enumerate(levels):
            for j in range(d):
                lower, upper = (float(limits[at, j, 0]) for limits in (result.lower, result.upper))
                ok = math.isfinite(lower) and math.isfinite(upper)
                checks = {
                    name: number((values[at] if values.ndim == 3 else values)[j, 0])
                    for name, values in result.diagnosis.items()
                    if name not in OF_THE_TRUTH
                }
                row: Row = {
                    "method": method.kind,
                    "settings": method.model_dump_json(),
                    "own": own,
                    "checks": checks,
                    **own,
                    "n": n,
                    "level": level,
                    "coordinate": j,
                    "estimate": number(result.estimate[j, 0]),
                    "se": None if result.se is None else number(result.se[j, 0]),
                    "lower": lower if ok else None,
                    "upper": upper if ok else None,
                    **checks,
                    "status": "ok" if ok else "undefined",
                    "asked": asked,
                }
                found.append(row)
    return found


def number(value: float) -> float | None:
    """A float, None where it is not finite."""
    return float(value) if math.isfinite(value) else None
