"""Tables of the report: methods at a glance, the choice, failures, cells, trajectories, published numbers."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from ldpflow.columns import Summary
from ldpflow.intervals import INTERVAL_METHODS
from ldpflow.published.compare import Comparison
from ldpflow.report.numbers import rounded, short, with_error
from ldpflow.report.results import Results, Row, with_misses
from ldpflow.results.arena import (
    FAILS,
    HOLDS,
    MOST,
    TOLERANCE,
    UNDECIDED,
    Setting,
    judge,
    least_replicates,
    safest,
    standings,
)
from ldpflow.results.columns import summaries_of
from ldpflow.store import cell_id
from ldpflow.store.schema import cell_keys

MAX_TABLE_ROWS = 2000
MOST_FAILED = 50

Text = tuple[str, str]
"""A cell of a table: its text, and the value that it is sorted by."""

Place = tuple[str, str, int]
"""Path (``p`` and its key), cell id and coordinate."""

LOOKED = (
    "coverage_all_n", "coverage_at_stop", "coverage_all_coordinates_failures_as_misses", "joint_coverage",
    "joint_size_mean",
)  # fmt: skip
"""Measures of looks before the end and of all coordinates at once, shown where a run has them."""


def sortable(value: object) -> str:
    """Sort key of a cell; empty where there is no value."""
    return "" if value is None else re.sub(r"\s+", " ", str(value))


def ratio(value: float | None, of: float | None) -> float | None:
    """Quotient of two numbers that a row may lack."""
    return value / of if value is not None and of else None


def diagnostics(results: Results) -> list[Summary]:
    """Diagnostics of the run's methods that are shown beside the measures."""
    declared = summaries_of(results.table.schema)
    return [summary for summary in declared if summary.shown and results.values(summary.name)]


def level_rule(results: Results) -> str:
    """The rule by which a method holds its level, fails, or has too few replicates to say."""
    least = max((least_replicates(level) for level in results.values("level")), default=0)
    return (
        "A method holds its level in a cell if the 95% Monte Carlo interval (Wilson) of its coverage, "
        f"failures counted as misses, begins at most {100 * TOLERANCE:g} points below the level; it fails if "
        "the interval ends lower than that. A method that covers as often as its level says is shown to hold "
        f"it from about {least:,} replicates on. Each cell is judged by itself."
    )


def glance(results: Results, settings: Sequence[Setting]) -> list[dict[str, Any]]:
    """One row per series: the range of its coverage, failures as misses, and of its length over the cells."""
    best = [setting.best.row["series"] for setting in settings if setting.best is not None]
    found = []
    for series in dict.fromkeys(row["series"] for row in results.rows):
        rows = [with_misses(row) for row in results.rows if row["series"] == series]
        known = [row for row in rows if row["coverage"] is not None]
        states = [judge(row) for row in known]
        lengths = [ratio(row["length_mean"], row["oracle_length"]) for row in rows]
        failed, total = sum(row["failures"] for row in rows), sum(row["replicates"] for row in rows)
        found.append(
            {
                "series": series,
                "cells": str(len(rows)),
                "coverage": span([row["coverage"] for row in known], 3),
                **{state: str(states.count(state)) for state in (HOLDS, UNDECIDED, FAILS)},
                "recommended": str(best.count(series)),
                "length": span([length for length in lengths if length is not None], 2),
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


def choices(results: Results, settings: Sequence[Setting]) -> dict[str, Any] | None:
    """Recommended method of every setting, settings down and n across; None for a run of one method."""
    if len({row["series"] for row in results.rows}) < 2:
        return None
    names = results.varying(without=("n",))
    across = sorted({setting.keys["n"] for setting in settings})
    down: dict[str, dict[int, dict[str, str]]] = {}
    for setting in settings:
        if setting.reference is not None:
            label = results.names.settings(dict(setting.reference.row), names) or "all"
            down.setdefault(label, {})[setting.keys["n"]] = choice(setting)
    rows = [(label, [found.get(n) for n in across]) for label, found in down.items()]
    everywhere = safest(standings(settings))
    return {
        "n": [short(n) for n in across],
        "rows": rows[:MAX_TABLE_ROWS],
        "safest": everywhere,
        "length": rounded(everywhere.length, 3) if everywhere is not None else "",
        "most": f"{100 * MOST:g}",
    }


def choice(setting: Setting) -> dict[str, str]:
    """The recommended method of a setting, or the nearest to its level."""
    entry = setting.reference
    assert entry is not None
    none = UNDECIDED if setting.undecided else "none holds its level"
    return {
        "method": entry.label if setting.best else f"{none}; nearest {entry.label}",
        "numbers": f"{entry.coverage:.3f} at {entry.length:.2f}",
        "kind": "good" if setting.best else "open" if setting.undecided else "bad",
    }


def failures(results: Results) -> dict[str, Any]:
    """Cells with failed replicates, the most failed first, and why they failed."""
    rows = [row for row in results.rows if row["failures"]]
    rows.sort(key=lambda row: -row["failures"] / row["replicates"])
    names = results.varying()
    shown = rows[:MOST_FAILED]
    diverged = diverged_counts(results, dict.fromkeys(row["path"] for row in shown))
    keys = cell_keys(results.table.schema)

    def place(row: Row) -> Place:
        return row["path"], cell_id({name: row.get(name) for name in keys}), row["coordinate"]

    head = ["method", "failed", "coverage, failures as misses", "coverage of the others", "why"]
    return {
        "total": f"{sum(row['replicates'] for row in results.rows):,}",
        "failed": f"{sum(row['failures'] for row in rows):,}",
        "head": [*(results.names.label(name) for name in names), *head],
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
        "left": len(rows) - len(shown),
    }


def diverged_counts(results: Results, paths: Collection[str]) -> dict[Place, int]:
    """Replicates whose status is ``diverged``, by cell and coordinate of some paths.

    Reads one column of the parts; of replicates that two parts hold it counts both.
    """
    found: dict[Place, int] = {}
    for path in paths:
        rows = results.store.replicates
        parts = rows.scan(path.removeprefix("p"), damaged=results.damaged)
        for part, table in rows.loaded(parts, ["status"], damaged=results.damaged):
            width = len(part.cells) * part.rows_per_cell
            counts = (table["status"].to_numpy() == "diverged").reshape(-1, width).sum(axis=0)
            for at in np.flatnonzero(counts).tolist():
                cell, coordinate = divmod(at, part.rows_per_cell)
                place = (path, cell_id(part.cells[cell]), coordinate)
                found[place] = found.get(place, 0) + int(counts[at])
    return found


def why_failed(row: Mapping[str, Any], diverged: int) -> str:
    """Why a cell's replicates have no interval: how many paths diverged, and the method's own reason."""
    diverged = min(diverged, row["failures"])
    undefined = row["failures"] - diverged
    found = [f"{diverged:,} diverged"] if diverged else []
    if undefined:
        method = INTERVAL_METHODS.get(row["method"])
        reason = "" if method is None else method.undefined_where
        found.append(f"{undefined:,} undefined" + (f": {reason}" if reason else ""))
    return "; ".join(found)


def cell_table(results: Results) -> dict[str, Any]:
    """All cells: text and what to sort by, for every column."""
    settings = [n for n in dict.fromkeys(("problem", *results.varying())) if len(results.values(n)) > 1]
    own = [n for n in results.method_settings if len(results.values(n)) > 1]
    lost = any(row["failures"] for row in results.rows)
    shown = [summary.name for summary in diagnostics(results)]
    checks = [*shown, *(name for name in LOOKED if name not in shown and results.values(name))]
    head = [
        *(results.names.label(n) for n in (*settings, "method", *own)),
        "coverage ± MCSE",
        "level*",
        *(["failures as misses"] if lost else []),
        "length ± MCSE",
        "length / oracle",
        "bias ± MCSE",
        "emp. SE",
        "SE error",
        "replicates",
        "failed",
        *checks,
    ]
    rows = results.rows[:MAX_TABLE_ROWS]
    return {
        "head": head,
        "rows": [cells(row, [*settings, "method", *own], checks, lost) for row in rows],
        "left": len(results.rows) - len(rows),
    }


def cells(row: Row, settings: Sequence[str], checks: Sequence[str], lost: bool) -> list[Text]:
    """One row of the table; with the coverage of all replicates where some are lost in the run."""

    def measured(name: str, digits: int | None = None, error: float | None = None) -> Text:
        text = with_error(row[name], error) if digits is None else rounded(row[name], digits)
        return text, sortable(row[name])

    relative, error = ratio(row["length_mean"], row["oracle_length"]), row["relative_error_model_se"]
    state = "-" if row["coverage_failures_as_misses"] is None else judge(row)
    length_mcse = row["length_mcse"]
    if length_mcse and row["length_mean"] and length_mcse < 1e-12 * abs(row["length_mean"]):
        length_mcse = 0.0  # rounding of equal numbers: the oracle's lengths do not vary
    return [
        *((short(row[name]), sortable(row[name])) for name in settings),
        measured("coverage", error=row["coverage_mcse"]),
        (state, state),
        *([measured("coverage_failures_as_misses", 3)] if lost else []),
        measured("length_mean", error=length_mcse),
        ("-" if relative is None else f"{relative:.3f}", sortable(relative)),
        measured("bias", error=row["bias_mcse"]),
        measured("empirical_se", 3),
        ("-" if error is None else f"{100 * error:+.1f}%", sortable(error)),
        *((f"{row[name]:,}", sortable(row[name])) for name in ("replicates", "failures")),
        *(measured(name, 3) for name in checks),
    ]


def followed_table(results: Results) -> dict[str, Any]:
    """Every path at its last checkpoint, a row per statistic, and which bounds a mean is above."""
    rows = results.followed
    last: dict[str, int] = {}
    for row in rows:
        last[row["path"]] = max(last.get(row["path"], 0), row["step"])
    ends = [row for row in rows if row["step"] == last[row["path"]]]
    names, meanings = results.path_varying, results.meanings
    place = {stat: i for i, stat in enumerate(meanings)}
    ends.sort(key=lambda r: ([(r[k] is not None, r[k]) for k in names], place[r["stat"]]))
    bounded = [r for r in rows if r["theory_bound"] is not None and r["mean"] is not None]
    above = [r for r in bounded if r["mean"] > r["theory_bound"]]
    stats = [stat for stat in meanings if any(r["stat"] == stat for r in ends)]
    head = [
        "n",
        "step",
        "statistic",
        "mean ± MCSE",
        "5%",
        "median",
        "95%",
        "mean / bound",
        "mean / leading term",
    ]
    return {
        "head": [*(results.names.label(n) for n in names), *head, "replicates", "diverged"],
        "rows": [end_of_path(row, names) for row in ends[:MAX_TABLE_ROWS]],
        "left": max(len(ends) - MAX_TABLE_ROWS, 0),
        "bounded": f"{len(bounded):,}" if bounded else "",
        "above": f"{len(above):,}" if above else "",
        "diverged": f"{sum(r['failures'] for r in ends if r['stat'] == stats[0]):,}",
        "meaning": [(stat, meanings[stat]) for stat in stats],
    }


def end_of_path(row: Row, names: Sequence[str]) -> list[Text]:
    """One row of the table of trajectories."""
    found = [(short(row[k]), sortable(row[k])) for k in (*names, "n", "step", "stat")]
    found.append((with_error(row["mean"], row["mcse"]), sortable(row["mean"])))
    numbers = [row[k] for k in ("q05", "q50", "q95")]
    numbers += [ratio(row["mean"], row[f"theory_{kind}"]) for kind in ("bound", "limit")]
    found += [(rounded(number, 3), sortable(number)) for number in numbers]
    return found + [(f"{row[k]:,}", sortable(row[k])) for k in ("replicates", "failures")]


COMPARED = (
    "table",
    "τ",
    "coordinate",
    "method",
    "n",
    "measure",
    "ours",
    "SE",
    "printed",
    "SE",
    "z",
    "adj. p",
)


def comparison_table(comparison: Comparison) -> dict[str, Any]:
    """Verdict and numbers of a comparison with a publication."""
    rows = [
        [
            *(f"{r.table}", f"{r.tau:g}", f"{r.coordinate}", r.method, short(r.n), r.measure),
            *(rounded(r.ours, 4), rounded(r.ours_se, 2), rounded(r.printed, 4), rounded(r.printed_se, 2)),
            *(f"{r.z:.2f}", f"{r.p_adjusted:.3f}"),
        ]
        for r in comparison.rows
    ]
    return {
        "name": comparison.name,
        "verdict": comparison.verdict,
        "refuted": comparison.refuted,
        "power": [f"{line[0].upper()}{line[1:]}." for line in comparison.power()],
        "level": f"{comparison.level_of_test:.0%}",
        "head": COMPARED,
        "rows": rows,
        "missing": len(comparison.missing),
    }
