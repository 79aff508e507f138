"""Write the data of docs/which_protocol_table.md from runs of the studies ``protocols-*``.

    python -m docs.protocols_table RUN [RUN ...]

There is one row per law, tau, epsilon and n, and one column per protocol. The unit of an RMSE is the standard
error of the efficiency bound. The unit of a length is the length of the oracle.
"""

from __future__ import annotations

import csv
import math
import sys
from pathlib import Path
from typing import Any

import ldpflow as lf
from ldpflow.components.problems.laws import Law
from ldpflow.numerics import constants
from ldpflow.results.protocol_curves import bit_variance

PROTOCOLS = ("sgd", "rounds", "haar", "tree", "hrr", "oue", "grr", "thresholds")
Z90 = constants.normal_quantile(0.95)
DATA = Path(__file__).parent / "data" / "which_protocol"


def bound_error(row: dict[str, Any]) -> float:
    """Standard error of the efficiency bound, in the unit of the data."""
    law = Law(row["law"], row["location"], row["scale"], shape=row["shape"])
    variance = bit_variance(row["tau"], row["epsilon"]) / row["n"]
    return math.sqrt(variance) / law.density_at_quantile(row["tau"])


def name_of(row: dict[str, Any]) -> str:
    """Name of the column that shows a row of the summary."""
    return row["protocol"] or "sgd"


def error_text(row: dict[str, Any]) -> str:
    """Text of the RMSE, its Monte Carlo error and the number of bins."""
    rmse = math.sqrt(row["mse"])
    unit = bound_error(row)
    text = f"{rmse / unit:.2f} ({row['mse_mcse'] / (2 * rmse) / unit:.2f})"
    return text if row["bins"] is None else f"{text} k{row['bins']}"


def cover_text(rows: list[dict[str, Any]]) -> str:
    """Text of the coverage, the length and the coverage of the outer interval."""
    first = next((row for row in rows if row["limits"] == "line"), rows[0])
    length = "-"
    if first["length_median"] is not None:
        length = f"{first['length_median'] / (2 * Z90 * bound_error(first)):.2f}"
    parts = [f"{first['coverage_failures_as_misses']:.3f}", length]
    parts += [f"{row['coverage_failures_as_misses']:.3f}" for row in rows if row["limits"] == "outer"]
    return " / ".join(parts)


def main(runs: list[str]) -> None:
    """Write the tables."""
    cells: dict[tuple[Any, ...], dict[str, list[dict[str, Any]]]] = {}
    for run in runs:
        for row in lf.open_run(run).summary().to_pylist():
            key = (row["law"], row["tau"], row["epsilon"], row["n"])
            cells.setdefault(key, {}).setdefault(name_of(row), []).append(row)
    for name, text in (("errors", lambda rows: error_text(rows[0])), ("coverage", cover_text)):
        with open(DATA / f"{name}.csv", "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["law", "tau", "eps", "n", *PROTOCOLS])
            for (law, tau, epsilon, n), found in sorted(cells.items(), key=lambda item: order(item[0])):
                setting = [law, f"{tau:g}", f"{epsilon:g}", f"1e{math.log10(n):.0f}"]
                writer.writerow([*setting, *(text(found[protocol]) for protocol in PROTOCOLS)])


def order(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Sort key that puts the laws in the order of the studies."""
    return (("normal", "exponential", "lognormal").index(key[0]), *key[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
