"""Tables on a terminal, and as CSV and JSON."""

from __future__ import annotations

import csv
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ldpflow.columns import (
    CAUTIOUS,
    Summary,
    distinguishing_columns,
    no_formula,
    round_text,
    short,
    with_error,
)
from ldpflow.errors import plain_text

if TYPE_CHECKING:
    import pyarrow as pa

Row = dict[str, Any]
Shown = tuple[str, Callable[[Row], str]]


def coverage(row: Row) -> str:
    if row["coverage"] is None:
        return "-"
    error = row["coverage_mcse"]
    return f"{row['coverage']:.3f} ± {'-' if error is None else f'{error:.3f}'}"


MISSES: Shown = (
    "failures\nas misses",
    lambda row: f"{row['coverage_failures_as_misses']:.3f}" if row["failures"] else "-",
)
GAP = 2  # characters between columns
COUNTS = ("replicates", "failures")
POWER: Shown = ("power", lambda row: with_error(row["power"], row["power_mcse"]))
LENGTH: Shown = ("length", lambda row: with_error(row["length_mean"], row["length_mcse"]))
BIAS: Shown = ("bias", lambda row: round_text(row["bias"], 2))
EMPIRICAL_SE: Shown = ("emp. SE", lambda row: round_text(row["empirical_se"], 3))
LOOKED = ("coverage_all_n", "coverage_at_stop")
KINDS = ("problem", "law", "errors", "mechanism", "algorithm", "protocol", "method")
"""Columns that may determine the settings of a row."""


def print_summary(table: pa.Table) -> None:
    """Print a summary: settings that vary as columns, the others in lines above."""
    from ldpflow.results.columns import summaries_of

    rows: list[Row] = table.to_pylist()
    if not rows:
        print("no rows")
        return
    names = table.column_names
    # The path's key follows from the parameters.
    parameters = [name for name in names[: names.index("coverage")] if name not in ("path", "truth")]
    settings = distinguishing_columns([name for name in parameters if name not in COUNTS], rows, implied=True)
    constant = [name for name in parameters if name not in settings and not differs(name, rows)]
    partial = {
        name: owners_of(name, rows)
        for name in parameters
        if name not in (*settings, *constant, *COUNTS)
        and len({repr(row[name]) for row in rows if row[name] is not None}) == 1
    }
    settings += [name for name, owners in partial.items() if owners is None]
    rows.sort(key=lambda row: [(row[name] is not None, row[name]) for name in settings])
    print_constants(rows[0], constant, partial, rows)

    lost = any(map(changes_coverage, rows))
    power = any(row.get("power") is not None for row in rows)
    replicates = [plain("replicates")] if differs("replicates", rows) else []
    failures = [plain("failures")] if lost and differs("failures", rows) else []
    misses = [MISSES] if lost else []
    declared = summaries_of(table.schema)
    checks = [figure(summary.name) for summary in declared if summary.shown and has_value(summary.name, rows)]
    checks += [figure(name) for name in LOOKED if has_value(name, rows)]
    chosen = [plain("level_state"), plain("candidates")] if "level_state" in names else []
    more = [BIAS, EMPIRICAL_SE, *([POWER] if power else []), *checks, *replicates, *failures]
    first_to_go = [*reversed(checks), EMPIRICAL_SE, BIAS, *failures, *replicates, POWER, LENGTH, *misses]
    results = [("coverage", coverage), *chosen, *misses, LENGTH, *more]
    left = print_fitting(list(map(plain, settings)), results, rows, [title for title, _ in first_to_go])
    if any(row["failures"] for row in rows) and (not lost or MISSES[0] in left):
        print(failures_line(rows))
    for line in cautions(rows, declared):
        print(line)


def print_constants(
    row: Row, constant: Sequence[str], partial: dict[str, str | None], rows: Sequence[Row]
) -> None:
    lines = {"": [f"{name}={short(row[name])}" for name in constant if row[name] is not None]}
    for name, owners in partial.items():
        if owners is not None:
            value = next(other[name] for other in rows if other[name] is not None)
            lines.setdefault(f"{owners}: ", []).append(f"{name}={short(value)}")
    console = Console()
    for owners, texts in lines.items():
        if texts:
            console.print(owners + "  ".join(texts), highlight=False, markup=False)


def owners_of(name: str, rows: Sequence[Row]) -> str | None:
    """Kinds whose rows have a setting, as text, or None if it does not depend on the kind."""
    for kind in KINDS:
        having = {row.get(kind) for row in rows if row[name] is not None}
        if None not in having and not having & {row.get(kind) for row in rows if row[name] is None}:
            return ", ".join(sorted(map(str, having)))
    return None


def changes_coverage(row: Row) -> bool:
    """Whether failures lower a coverage by its Monte Carlo standard error or more."""
    error = row["coverage_mcse"]
    lowered = bool(error) and row["coverage"] - row["coverage_failures_as_misses"] < error
    return bool(row["failures"]) and not lowered


def failures_line(rows: Sequence[Row]) -> str:
    failed, total = sum(row["failures"] for row in rows), sum(row["replicates"] for row in rows)
    worst = max(rows, key=lambda row: row["failures"] / row["replicates"])
    both = [(row["coverage"], row["coverage_failures_as_misses"]) for row in rows if row["failures"]]
    changes = [share - counted for share, counted in both if share is not None]
    changed = f"; as misses they lower a coverage by up to {max(changes):.4f}" if changes else ""
    return (
        f"{failed:,} of {total:,} intervals failed, at most {worst['failures']:,} of "
        f"{worst['replicates']:,} in a cell{changed}"
    )


def print_fitting(
    settings: Sequence[Shown],
    results: Sequence[Shown],
    rows: Sequence[Row],
    first_to_go: Sequence[str],
    elsewhere: str = "see --format csv",
) -> list[str]:
    """Print a table with all settings and as many results as the window is wide; the titles left out.

    ``first_to_go``: titles of results that may be left out, in this order, and ``elsewhere`` how to see them.
    """
    console = Console()
    width = {title: width_of(rich_table([(title, form)], rows)) for title, form in (*settings, *results)}
    kept, left = dict(results), []
    for title in first_to_go:
        taken = [width[name] + GAP for name in (*dict(settings), *kept)]
        if not limits_width(console) or sum(taken) - GAP <= console.width:
            break
        if kept.pop(title, None) is not None:
            left.append(title)
    show(console, rich_table([*settings, *kept.items()], rows))
    if left:
        names = ", ".join(title.replace("\n", " ") for title in left)
        print(f"(too narrow for {names}: {elsewhere})")
    return left


def count_replicates(table: pa.Table, wanted: int | None) -> str:
    """Say how many cells or followed paths a summary has, and how many replicates.

    ``wanted``: what the study asks for. A summary uses all replicates, so more are pointed out.
    """
    if table.num_rows == 0:
        return "no replicates"
    cells = "coverage" in table.column_names
    count = table.num_rows if cells else len(table["path"].unique())
    each = table["replicates"].to_pylist()
    least, most = (f"{value:,}" for value in (min(each), max(each)))
    words = f"{count:,} {'cell' if cells else 'path'}{'' if count == 1 else 's'} with {least}"
    words += f" to {most} replicates" if most != least else " replicates"
    beyond = wanted is not None and max(each) > wanted
    return f"{words}, all that are stored (asked for: {wanted:,})" if beyond else words


def has_value(name: str, rows: Sequence[Row]) -> bool:
    return any(row.get(name) is not None for row in rows)


def figure(name: str) -> Shown:
    return name, lambda row: round_text(row[name], 3)


TRAJECTORY_MEASURES = (
    "last_sq", "avg_sq", "last_exc", "avg_exc", "tail_exc", "mean_gradient_norm",
    "output_gradient_norm", "mean_noise_norm", "loss", "clipped", "threshold",
)  # fmt: skip


def print_trajectories(table: pa.Table) -> None:
    """Print trajectories at the last step of every path: varying settings, means with their MCSE."""
    from ldpflow.results.trajectories import last_rows

    wide: dict[str, Row] = {}
    for row in last_rows(table.to_pylist()):
        wide.setdefault(row["path"], row)[row["stat"]] = with_error(row["mean"], row["mcse"])
    if not wide:
        print("no rows")
        return
    paths = list(wide.values())
    names = table.column_names[1 : table.column_names.index("step")]
    # N, and what follows from others, comes last.
    order = ("problem", "algorithm", "noise", "order", "epsilon", "dimension", "n", *names)
    settings = distinguishing_columns([n for n in dict.fromkeys(order) if n in names], paths)
    paths.sort(key=lambda row: [(row[name] is not None, row[name]) for name in settings])
    stats = [stat for stat in TRAJECTORY_MEASURES if any(stat in row for row in paths)]
    results: list[Shown] = [(stat, lambda row, stat=stat: row.get(stat, "-")) for stat in stats]  # type: ignore[misc]
    print_fitting(list(map(plain, settings)), results, paths, stats[:0:-1])


def cautions(rows: Sequence[Row], declared: Sequence[Summary]) -> list[str]:
    """Cautions about methods, one line per method and reason."""
    from ldpflow.results.measures import has_exploded

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
        wild = sum(has_exploded(row) for row in rows if row["method"] == method)
        if wild:
            lines.append(
                f"{method}: mean length is over 1000 times the median in {wild} rows: paths explode there"
            )
    return lines


def differs(name: str, rows: Sequence[Row]) -> bool:
    """Whether a column varies; compared by repr, since a setting may be a list."""
    return len({repr(row[name]) for row in rows}) > 1


def plain(name: str) -> Shown:
    return name, lambda row: short(row[name])


def print_rows(columns: Sequence[Shown], rows: Sequence[Row]) -> None:
    show(Console(), rich_table(columns, rows))


def rich_table(columns: Sequence[Shown], rows: Sequence[Row]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for title, _ in columns:
        table.add_column(Text(plain_text(title)), justify="right", no_wrap=True)
    for row in rows:
        # As text: a value in brackets would be markup.
        table.add_row(*(Text(plain_text(form(row))) for _, form in columns))
    return table


def fits(console: Console, table: Table) -> bool:
    """Whether the table can be printed without wrapping."""
    return not limits_width(console) or width_of(table) <= console.width


def width_of(table: Table) -> int:
    return Console(width=10_000).measure(table).maximum


def limits_width(console: Console) -> bool:
    return console.is_terminal or "COLUMNS" in os.environ


def show(console: Console, table: Table) -> None:
    """Print a table at least as wide as its content: a window wraps lines and cuts no number."""
    Console(width=max(width_of(table), console.width)).print(table)


def print_table(table: pa.Table) -> None:
    print_rows([plain(name) for name in table.column_names], table.to_pylist())


def print_csv(table: pa.Table) -> None:
    write_csv(table.column_names, table.to_pylist())


def write_csv(names: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(map(no_formula, names))
    writer.writerows([no_formula(row.get(name)) for name in names] for row in rows)


def print_json(table: pa.Table) -> None:
    """Print a list of objects, one per row; NaN, which JSON lacks, is null."""
    rows = [
        {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}
        for row in table.to_pylist()
    ]
    print(json.dumps(rows, indent=1))
