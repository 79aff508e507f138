"""Write the data of docs/ties.md from runs of the studies in examples/salary.

    python docs/ties_table.py RUN [RUN ...]

There is a row for each quantile and method. Bias, empirical SE and median length are in dollars, at the
largest n.
"""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import ldpflow as lf

FILE = Path(__file__).parent / "data" / "ties" / "coverage.csv"
JITTERS = (None, 1000.0)


def level_of(row: dict[str, Any]) -> float:
    """Level of the quantile of a row: ``tau``, or the one of ``taus`` at the row's coordinate."""
    return float(row["tau"] if row.get("tau") is not None else json.loads(row["taus"])[row["coordinate"]])


def name_of(row: dict[str, Any]) -> str:
    """Protocol of a row, or its interval method if it has no protocol."""
    if row.get("protocol"):
        return str(row["protocol"])
    return f"cells, {row['method']}" if row["mechanism"] == "cells" else str(row["method"])


def texts(rows: list[dict[str, Any]]) -> list[str]:
    """Texts of bias and SE, coverage at every n, and length.

    ``rows`` has one row per n, for one quantile, method and jitter.
    """
    ordered = sorted(rows, key=lambda row: int(row["n"]))
    last = ordered[-1]
    error = f"{last['bias']:+,.0f} ± {last['empirical_se']:,.0f}"
    covered = " / ".join(f"{row['coverage_failures_as_misses']:.2f}" for row in ordered)
    return [error, covered, f"{last['length_median']:,.0f}"]


def main(runs: list[str]) -> None:
    """Write the table."""
    cells: dict[tuple[float, str], dict[float | None, list[dict[str, Any]]]] = {}
    for run in runs:
        for row in lf.open_run(run).summary().to_pylist():
            cells.setdefault((level_of(row), name_of(row)), {}).setdefault(row["jitter"], []).append(row)
    FILE.parent.mkdir(exist_ok=True)
    with open(FILE, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        titles = ("bias ± SE", "coverage", "length")
        writer.writerow(["tau", "method", *titles, *(f"{title}, jitter" for title in titles)])
        for (tau, name), found in sorted(cells.items()):
            writer.writerow(
                [f"{tau:g}", name, *(text for jitter in JITTERS for text in texts(found[jitter]))]
            )


if __name__ == "__main__":
    main(sys.argv[1:])
