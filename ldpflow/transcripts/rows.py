"""Rows of an analysis: one per method, level and coordinate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ldpflow.intervals.record import PathRecord
from ldpflow.transcripts.methods import Wanted

Row = dict[str, Any]

OF_THE_TRUTH = ("joint_covered", "joint_size")
"""Diagnostics that say how an interval relates to the truth, which no transcript has."""

BEFORE = ("n", "level", "coordinate", "estimate", "se", "lower", "upper")


def columns_of(rows: Sequence[Row]) -> list[str]:
    """Columns of a table of the rows: settings and diagnostics that any of the methods has, and the rest."""
    settings = dict.fromkeys(name for row in rows for name in row["own"])
    diagnostics = dict.fromkeys(name for row in rows for name in row["checks"])
    return ["method", *settings, *BEFORE, *diagnostics, "status"]


def rows_of(record: PathRecord, n: int, methods: Sequence[Wanted], levels: Sequence[float]) -> list[Row]:
    """Rows of some methods after n reports, by method, level and coordinate.

    Returns
    -------
    list of dict
        ``own`` has the method's settings, ``checks`` its diagnostics; both are columns too.
    """
    d = len(record.origin)
    found: list[Row] = []
    for wanted in methods:
        if wanted.alone:
            rows = [
                row for j in range(d) for row in method_rows(of_coordinate(record, j), n, wanted, levels, j)
            ]
            found += sorted(rows, key=lambda row: levels.index(row["level"]))
        else:
            found += method_rows(record, n, wanted, levels)
    return found


def of_coordinate(record: PathRecord, j: int) -> PathRecord:
    """The record of one coordinate."""
    one = slice(j, j + 1)
    return replace(
        record,
        origin=record.origin[one],
        prefix_sums=record.prefix_sums[:, one],
        iterates=record.iterates[:, one],
        running_sums={name: sums[:, :, one] for name, sums in record.running_sums.items()},
    )


def method_rows(
    record: PathRecord, n: int, wanted: Wanted, levels: Sequence[float], first: int = 0
) -> list[Row]:
    """Rows of a method, for the coordinates from ``first`` on."""
    method = wanted.method
    result = method.intervals(record, n, levels)
    own = method.model_dump(exclude={"kind"}) | ({"fit": "by quantile"} if wanted.alone else {})
    found = []
    for at, level in enumerate(levels):
        for j in range(len(record.origin)):
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
                "alone": wanted.alone,
                "own": own,
                "checks": checks,
                **own,
                "n": n,
                "level": level,
                "coordinate": first + j,
                "estimate": number(result.estimate[j, 0]),
                "se": None if result.se is None else number(result.se[j, 0]),
                "lower": lower if ok else None,
                "upper": upper if ok else None,
                **checks,
                "status": "ok" if ok else "undefined",
                "asked": wanted.asked,
            }
            found.append(row)
    return found


def number(value: float) -> float | None:
    """A float, None where it is not finite."""
    return float(value) if math.isfinite(value) else None
