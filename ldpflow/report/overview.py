"""Every method at a glance, the replicates that have no interval, and the progress of a run."""

from __future__ import annotations

from typing import Any

from ldpflow.report.numbers import rounded, short, with_error
from ldpflow.report.results import Results, with_misses
from ldpflow.results.arena import FAILS, HOLDS, UNDECIDED, judge
from ldpflow.results.failures import diverged_counts, why_failed
from ldpflow.store import cell_id
from ldpflow.store.schema import cell_keys
from ldpflow.study.stored import stored_study

__all__ = ["failures", "glance", "progress"]

MOST_ROWS = 50


def glance(results: Results) -> list[dict[str, Any]]:
    """One row per series: the range of its coverage, failures as misses, and of its length over the cells."""
    found = []
    for series in dict.fromkeys(row["series"] for row in results.rows):
        rows = [with_misses(row) for row in results.rows if row["series"] == series]
        known = [row for row in rows if row["coverage"] is not None]
        states = [judge(row) for row in known]
        measured = [row for row in rows if row["length_mean"] is not None and row["oracle_length"]]
        failed = sum(row["failures"] for row in rows)
        total = sum(row["replicates"] for row in rows)
        found.append(
            {
                "series": series,
                "cells": str(len(rows)),
                "coverage": span([row["coverage"] for row in known], 3),
                **{state: str(states.count(state)) for state in (HOLDS, UNDECIDED, FAILS)},
                "length": span([row["length_mean"] / row["oracle_length"] for row in measured], 2),
                "failures": f"{failed:,} ({failed / total:.1%})" if failed else "0",
            }
        )
    return found


def span(values: list[float], decimals: int) -> str:
    """Smallest to largest."""
    if not values:
        return "-"
    low, high = f"{min(values):.{decimals}f}", f"{max(values):.{decimals}f}"
    return low if low == high else f"{low} to {high}"


def failures(results: Results) -> dict[str, Any]:
    """Cells with failed replicates, the most failed first, and why they failed."""
    rows = [row for row in results.rows if row["failures"]]
    rows.sort(key=lambda row: -row["failures"] / row["replicates"])
    names = results.varying()
    total = sum(row["replicates"] for row in results.rows)
    shown = rows[:MOST_ROWS]
    diverged = diverged_counts(
        results.store, dict.fromkeys(row["path"] for row in shown), damaged=results.damaged
    )
    keys = cell_keys(results.table.schema)

    def place(row: dict[str, Any]) -> tuple[str, str, int]:
        return row["path"], cell_id({name: row.get(name) for name in keys}), row["coordinate"]

    return {
        "total": f"{total:,}",
        "failed": f"{sum(row['failures'] for row in rows):,}",
        "head": [
            *(results.names.label(name) for name in names),
            "method",
            "failed",
            "coverage, failures as misses",
            "coverage of the others",
            "why",
        ],
        "rows": [
            [
                *(short(row[name]) for name in names),
                row["series"],
                f"{row['failures']:,} of {row['replicates']:,}",
                rounded(row["coverage_failures_as_misses"], 3),
                with_error(row["coverage"], row["coverage_mcse"]),
                why_failed(row, diverged.get(place(row), 0)),
            ]
            for row in shown
        ],
        "left": max(len(rows) - MOST_ROWS, 0),
    }


def progress(results: Results) -> str:
    """Progress of a run: the replicates of all paths of its study, started or not."""
    from ldpflow.engine.reached import reached

    state = "Running, or interrupted" if results.running else "Finished"
    study = stored_study(results.store)
    if study is None:
        return f"{state}."
    found = reached(study, results.table, results.trajectories)
    done, wanted = found["done_replicates"], found["wanted_replicates"]
    paths = f" ({found['complete_paths']:,} of {found['paths']:,} paths complete)"
    return f"{state}: {done:,} of {wanted:,} replicates{paths if found['paths'] > 1 else ''}."
