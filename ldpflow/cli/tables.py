"""Tables on a terminal, and as CSV and JSON."""

from __future__ import annotations

import csv
import json
import math
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ldpflow.columns import CAUTIOUS, Summary
from ldpflow.errors import plain_text
from ldpflow.report.numbers import rounded, short, with_error
from ldpflow.results.columns import summaries_of
from ldpflow.results.extremes import exploded

__all__ = [
    "count_apart",
    "plain",
    "print_csv",
    "print_json",
    "print_rows",
    "print_summary",
    "print_table",
    "print_trajectories",
    "rounded",
    "short",
    "telling",
    "with_error",
]

Row = dict[str, Any]
Shown = tuple[str, Callable[[Row], str]]


def coverage(row: Row) -> str:
    """Coverage in three decimals, as tables print it."""
    if row["coverage"] is None or math.isnan(row["coverage"]):
        return "-"
    error = row["coverage_mcse"]
    shown = "-" if error is None or math.isnan(error) else f"{error:.3f}"
    return f"{row['coverage']:.3f} ± {shown}"


def with_misses(row: Row) -> str:
    """Coverage with failures as misses; nothing to add where nothing failed."""
    value = row.get("coverage_failures_as_misses")
    return "-" if value is None or not row["failures"] else f"{value:.3f}"


MISSES: Shown = ("failures as misses", with_misses)
WIDE = 24  # characters
COUNTS = ("replicates", "failures")
MEASURES: tuple[Shown, ...] = (
    ("coverage", coverage),
    ("length", lambda row: with_error(row["length_mean"], row["length_mcse"])),
    ("bias", lambda row: rounded(row["bias"], 2)),
    ("emp. SE", lambda row: rounded(row["empirical_se"], 3)),
)
POWER: Shown = ("power", lambda row: with_error(row["power"], row["power_mcse"]))
LOOKED = ("coverage_all_n", "coverage_at_stop")


def print_summary(table: pa.Table) -> None:
    """The summary on the terminal: what varies as columns, what does not in one line above."""
    rows: list[Row] = table.to_pylist()
    if not rows:
        print("no rows")
        return
    names = table.column_names
    # The path's key says nothing that the parameters do not say.
    parameters = [name for name in names[: names.index("coverage")] if name != "path"]
    counts = [name for name in COUNTS if differs(name, rows)]
    settings = telling([name for name in parameters if name not in (*COUNTS, "truth")], rows)
    rows.sort(key=lambda row: [(row[name] is not None, row[name]) for name in settings])
    values = {
        name: next((row[name] for row in rows if row[name] is not None), None)
        for name in parameters
        if name not in (*settings, *counts, "truth")
    }
    console = Console()
    console.print(
        "  ".join(f"{name}={short(value)}" for name, value in values.items() if value is not None),
        highlight=False,
        markup=False,
    )

    def columns(measures: Sequence[Shown]) -> list[Shown]:
        return [*map(plain, settings), *measures, *map(plain, counts)]

    # From the first failure on: coverage alone is of the intervals that exist.
    missed = (MISSES,) if any(row["failures"] for row in rows) else ()
    power = () if all(row.get("power") is None for row in rows) else (POWER,)
    declared = summaries_of(table.schema)
    checks = [figure(summary.name) for summary in declared if summary.shown and known(summary.name, rows)]
    checks += [figure(name) for name in LOOKED if known(name, rows)]
    # On a narrow terminal a readable table is worth more than a complete one.
    first, rest = (MEASURES[0], *missed), MEASURES[1:]
    shorter = (*first, *rest, *power)
    for measures in ((*shorter, *checks), shorter, (*first, *rest[:1], *power)):
        shown = rich_table(columns(measures), rows)
        if fits(console, shown):
            break
    show(console, shown)
    if len(measures) < len(shorter) + len(checks):
        left = ["bias", "empirical SE"] if len(measures) < len(shorter) else []
        left += [name for name, _ in checks]
        print(f"(too narrow for {' and '.join(left)}: see --format csv)")
    for line in cautions(rows, declared):
        print(line)


def known(name: str, rows: Sequence[Row]) -> bool:
    """Whether a column has a value."""
    return any(row.get(name) is not None for row in rows)


def figure(name: str) -> Shown:
    """A column of numbers."""
    return name, lambda row: rounded(row[name], 3)


TRAJECTORY_MEASURES = (
    "last_sq", "avg_sq", "last_exc", "avg_exc", "tail_exc", "mean_gradient_norm",
    "output_gradient_norm", "mean_noise_norm", "loss", "clipped", "threshold",
)  # fmt: skip


def print_trajectories(table: pa.Table) -> None:
    """Trajectories at the last step of every path: what tells paths apart, and means with their MCSE."""
    rows: list[Row] = table.to_pylist()
    last: dict[str, int] = {}
    for row in rows:
        last[row["path"]] = max(last.get(row["path"], 0), row["step"])
    wide: dict[str, Row] = {}
    for row in rows:
        if row["step"] == last[row["path"]]:
            wide.setdefault(row["path"], row)[row["stat"]] = with_error(row["mean"], row["mcse"])
    if not wide:
        print("no rows")
        return
    paths = list(wide.values())
    names = table.column_names[1 : table.column_names.index("step")]
    settings: list[str] = []
    # Each only if it adds to what tells paths apart: N, and what follows from others, comes last.
    for name in ("problem", "algorithm", "noise", "order", "epsilon", "dimension", "n", *names):
        if name in names and count_apart([*settings, name], paths) > max(1, count_apart(settings, paths)):
            settings.append(name)
    paths.sort(key=lambda row: [(row[name] is not None, row[name]) for name in settings])
    stats = [stat for stat in TRAJECTORY_MEASURES if any(stat in row for row in paths)]
    console = Console()
    while True:
        columns: list[Shown] = [plain(name) for name in settings]
        columns += [(stat, lambda row, stat=stat: row.get(stat, "-")) for stat in stats]  # type: ignore[misc]
        shown = rich_table(columns, paths)
        if fits(console, shown) or len(stats) < 2:
            break
        stats.pop()
    show(console, shown)


def cautions(rows: Sequence[Row], declared: Sequence[Summary]) -> list[str]:
    """Cautions about methods, one line per method and reason."""
    lines = []
    for method in sorted({row["method"] for row in rows}):
        for summary in declared:
            shares = [row.get(summary.name) for row in rows if row["method"] == method]
            high = [share for share in shares if share is not None and share > CAUTIOUS]
            if summary.caution and high:
                lines.append(
                    f"{method}: {summary.caution} in up to {max(high):.0%} of the replicates of {len(high)} "
                    f"of {len(shares)} rows: see ldpflow explain"
                )
        wild = sum(exploded(row) for row in rows if row["method"] == method)
        if wild:
            lines.append(
                f"{method}: mean length is over 1000 times the median in {wild} rows: paths explode there"
            )
    return lines


def differs(name: str, rows: Sequence[Row]) -> bool:
    """Whether a column varies; by repr, since a setting may be a list."""
    return count_apart([name], rows) > 1


def telling(names: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """The settings that tell the rows apart.

    One that varies only because some rows do not have it (B, where BM stands beside BB), and a long text
    (coefficients beside their number d), is left out as long as the rows differ in the others.
    """
    kept = [name for name in names if differs(name, rows)]
    for name in list(kept):
        others = [other for other in kept if other != name]
        single = len({repr(row[name]) for row in rows if row[name] is not None}) == 1
        wide = any(len(short(row[name])) > WIDE for row in rows)
        if (single or wide) and count_apart(others, rows) == count_apart(kept, rows):
            kept = others
    return kept


def count_apart(names: Sequence[str], rows: Sequence[Row]) -> int:
    """Number of distinct rows in these columns."""
    return len({tuple(repr(row[name]) for name in names) for row in rows})


def plain(name: str) -> Shown:
    """A column of settings."""
    return name, lambda row: short(row[name])


def print_rows(columns: Sequence[Shown], rows: Sequence[Row]) -> None:
    """Any rows as a table."""
    show(Console(), rich_table(columns, rows))


def rich_table(columns: Sequence[Shown], rows: Sequence[Row]) -> Table:
    """Right-aligned columns without frames."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for title, _ in columns:
        table.add_column(Text(plain_text(title)), justify="right", no_wrap=True)
    for row in rows:
        # As text: a value in brackets would be markup.
        table.add_row(*(Text(plain_text(form(row))) for _, form in columns))
    return table


def fits(console: Console, table: Table) -> bool:
    """Whether the table can be shown without cutting; a file has no width."""
    return not bounded(console) or width_of(table) <= console.width


def width_of(table: Table) -> int:
    """Width of a table that is not cut."""
    return Console(width=10_000).measure(table).maximum


def bounded(console: Console) -> bool:
    """Whether somebody looks through a window of some width."""
    return console.is_terminal or "COLUMNS" in os.environ


def show(console: Console, table: Table) -> None:
    """Print a table, never narrower than its content where there is no window."""
    if not bounded(console):
        console = Console(width=max(width_of(table), 80))
    console.print(table)


def print_table(table: pa.Table) -> None:
    """A table as it is, every column."""
    print_rows([plain(name) for name in table.column_names], table.to_pylist())


def print_csv(table: pa.Table) -> None:
    """Every column; floats by repr, nothing for null."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(map(no_formula, table.column_names))
    writer.writerows(map(no_formula, row.values()) for row in table.to_pylist())


def no_formula(value: object) -> object:
    """A text that no spreadsheet takes for a formula; other values as they are."""
    if not isinstance(value, str):
        return value
    shown = plain_text(value)
    return "'" + shown if shown.startswith(("=", "+", "-", "@")) else shown


def print_json(table: pa.Table) -> None:
    """A list of objects, one per row; null for NaN, which JSON does not have."""
    rows = [
        {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}
        for row in table.to_pylist()
    ]
    print(json.dumps(rows, indent=1))
