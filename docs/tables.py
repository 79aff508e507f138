"""Write docs/tables.md from the columns that components declare: python docs/tables.py."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from ldpflow.columns import Column
from ldpflow.components.algorithms import ALGORITHMS
from ldpflow.components.intervals import INTERVAL_METHODS
from ldpflow.results.columns import COLUMNS, PATH_COLUMNS, SUMMARY, known_columns, summary_columns
from ldpflow.results.decomposition import DIAGNOSIS
from ldpflow.results.summary import RELATIVE
from ldpflow.results.trajectories import MEANS
from ldpflow.simulators.families import PARTS
from ldpflow.store.schema import BUNDLED, MEASURED

FORMULAS = Path(__file__).with_name("reading-results.md")
JACKKNIFE = "standard error of {} by the delete-a-group jackknife"

PAGE = """---
no-search: true
---

# Columns of all tables

This page has type, unit and meaning of each column of the tables of a run. All tables are Parquet files.
`ldpflow export RUN -o FILE` copies all tables into one DuckDB file, with the same names of columns.
`python docs/tables.py` writes this page from the declarations of the components.

## replicates/: a row per replicate, cell and coordinate

The rows are in one folder per path, `path=p<key>` (Hive style). `run.rows()` and the view `replicates` of an
exported file put the [columns of the path](#columns-of-a-path) and its settings before the columns below.
Other readers join the rows with `paths.parquet` ([in one line](run_directory.md#rows-with-their-settings)).
A row takes some 30 to 50 bytes on disk. The summary takes less than a gigabyte of memory for any number of
rows, if each cell has at most 2 million replicates ([how far it scales](scale.md#many-cells)).

**Undefined intervals have no length.** A replicate without an interval has `covered` = null, and NaN in
`lower`, `upper` and `length`. Polars and DuckDB treat NaN as a number: a mean over NaN is NaN, and a median
may be wrong. For a mean length keep the rows with `status = 'ok'`.

{replicates}

Some interval methods add columns to the runs that use them. These are settings, which identify a cell, and
diagnostics. In rows of other methods they are null. The column `of` names the methods. A table that is read
by PyArrow has unit and meaning in the metadata of the column's field.

{further}

## paths.parquet: a row per path

This table has the [columns of the path](#columns-of-a-path) and its settings. A sweep writes it together with
the summary. In an exported file its name is `paths`.

## summary.parquet: a row per cell and coordinate

The first columns are the [columns of the path](#columns-of-a-path) and its settings. A vector is stored as
JSON text. A setting that the components of the path do not have is null. Then come these columns:

{summary}

Then come summaries of the diagnostics of the methods in the column `of`:

{summaries}

## Derived columns of summary.parquet

These columns explain why coverage differs from the nominal level (`ldpflow explain`), and compare lengths
with those of the oracle. [Reading the results](reading-results.md) has formulas and references.

{derived}

A study with `[monitor]` ([arena.md](arena.md#looking-before-the-end)) has further columns at the end. The
looks of a row are all n of the grid from `first_n` of `[monitor]` to the n of the row. A replicate stops at
the first look at which its interval is shorter than the target length.

{monitored}

## Columns of a path

{paths}

The settings of a path are in the next table. The column `of` names the kinds of component that have the
setting. A symbol such as w*, kappa or T is explained in the help of the component, for example by
`help(lf.LeastSquares)`.

{settings}

## trajectories/: a row per replicate and checkpoint

A study with `[trajectory]` has this table. Its rows are in one folder per path. A number that does not exist
for a path is null.

{trajectories}

## trajectories.parquet: a row per path, checkpoint and statistic

In an exported file the name of this table is `trajectory_summary`. The first columns are `path` and the
settings of the path, as in summary.parquet. Then come these columns:

{followed}

`stat` is the name of a column of trajectories/. Algorithms of many epochs also have the statistics
{means} at the last step. These are means over
all checkpoints of a path before the last.

## What follows from the settings of a path

Some algorithms compute constants from their settings and n ([momentum](momentum.md), [adaptive
clipping](adaptive_clipping.md)). These constants are columns of both summaries, after the settings:

{follows}
"""


MEANINGS = {
    "looks": "number of looks of the row",
    "coverage_all_n": "share that covers at all looks, of the replicates with an interval at all looks",
    "coverage_all_n_failures_as_misses": "share that covers at all looks, of all replicates",
    "stopped_share": "share of replicates that stop at one of the looks",
    "coverage_at_stop": "share of the stopped replicates whose interval covers at the look that stops them",
    "stop_n_mean": "mean n at which replicates stop",
    "stop_n_median": "median n at which replicates stop",
}

UNITS = {"looks": "count", "stop_n_mean": "users", "stop_n_median": "users"}
"""Units of the measures that are no shares."""

SUMMARY_COLUMNS = (
    Column("n", "int64", "users", "users (records) seen"),
    Column("step", "int64", "steps", "steps made"),
    Column("stat", "string", "-", "name of the statistic"),
    Column("replicates", "int64", "count", "number of replicates, diverged ones included"),
    Column("failures", "int64", "count", "number of diverged replicates, which the statistics leave out"),
    Column("mean", "double", "of stat", "mean over the R replicates that did not diverge"),
    Column("mcse", "double", "of stat", "Monte Carlo standard error of the mean, sd / sqrt(R)"),
    Column("q05", "double", "of stat", "5% quantile over the R replicates"),
    Column("q50", "double", "of stat", "median over the R replicates"),
    Column("q95", "double", "of stat", "95% quantile over the R replicates"),
    Column("max", "double", "of stat", "largest value over the R replicates"),
)
"""Columns of the summary of trajectories that are not those of a path."""

THEORY = (
    Column("theory_bound", "double", "of stat", "proved upper bound of the mean; null if there is none"),
    Column(
        "theory_limit",
        "double",
        "of stat",
        "leading term of the mean as n grows, or for `mean_gradient_norm` the rate of the theorem without "
        "its constant; null if there is none",
    ),
)
"""Columns of theory, after the columns of statistics."""


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    lines = [list(head)]
    lines += [[cell.replace("|", "\\|") for cell in row] for row in rows]
    if len(lines) == 1:
        return "None so far."
    lines.insert(1, ["---"] * len(lines[0]))
    return (
        "\n".join("| " + " | ".join(line) + " |" for line in lines)
        .replace("| --- ", "|---")
        .replace("--- |", "---|")
    )


def described(columns: Iterable[Column]) -> str:
    """Declared columns as a table."""
    rows = ((c.name, c.type, c.unit, c.meaning) for c in columns)
    return table(("column", "type", "unit", "meaning"), rows)


def documented() -> dict[str, list[str]]:
    """Formula, unit and meaning of each column of the summary, from docs/reading-results.md."""
    lines = re.findall(r"^\| `(\w+)` \| (.*) \|$", FORMULAS.read_text(encoding="utf-8"), re.MULTILINE)
    return {
        name: [cell.replace("\\|", "|") for cell in re.split(r" (?<!\\)\| ", rest)] for name, rest in lines
    }


def measures() -> Iterable[Column]:
    """The columns of every summary after those of a path."""
    known, page = known_columns(), documented()
    for field in SUMMARY:
        if field.name in COLUMNS:
            formula, unit, _ = page[field.name]
            yield Column(field.name, "int64" if field.type == pa.int64() else "double", unit, formula)
        elif field.name != "path":
            yield known[field.name]


def derived() -> Iterable[Column]:
    """Columns that are computed from measures."""
    page = documented()
    for name in RELATIVE:
        yield Column(name, "double", page[name][1], page[name][0])
    for name in DIAGNOSIS:
        _, unit, meaning = page[name]
        yield Column(name, "double", unit, meaning)
        yield Column(f"{name}_mcse", "double", unit, JACKKNIFE.format(name))
    yield Column(
        "main_cause",
        "string",
        "-",
        "`bias`, `length`, `variability` or `shape`: the effect that explains most of the gap between "
        "coverage and level; `left` if no effect is clear, `none` if there is no gap, null if undefined",
    )


def monitored() -> Iterable[Column]:
    """Further columns of the summary of a study with [monitor]."""
    for name, meaning in MEANINGS.items():
        yield Column(name, "double", UNITS.get(name, "share"), meaning)
        if name not in UNITS:
            yield Column(f"{name}_mcse", "double", "share", f"sqrt(p (1 - p)/R) of {name}")
            for end in ("low", "high"):
                words = f"{'lower' if end == 'low' else 'upper'} end of Wilson's 95% interval for {name}"
                yield Column(f"{name}_{end}", "double", "share", words)


def by_kinds(columns: Iterable[tuple[str, Column]]) -> str:
    """Table of (kind, column). Kinds with an equal declaration of a column share a line."""
    found: dict[Column, list[str]] = {}
    for kind, column in columns:
        found.setdefault(column, []).append(kind)
    rows = [(c.name, c.type, c.unit, ", ".join(kinds), c.meaning) for c, kinds in sorted_items(found)]
    return table(("column", "type", "unit", "of", "meaning"), rows)


def sorted_items(found: dict[Column, list[str]]) -> list[tuple[Column, list[str]]]:
    """Sort the columns so that equal names are neighbours, in the order of first occurrence."""
    names = list(dict.fromkeys(column.name for column in found))
    return sorted(found.items(), key=lambda item: names.index(item[0].name))


def page() -> str:
    """The text of tables.md."""
    further = [
        (kind, column)
        for kind, method in INTERVAL_METHODS.items()
        for column in method.columns()
        if column.name not in BUNDLED
    ]
    settings = [
        (kind, column)
        for kinds in PARTS.values()
        for kind, component in kinds.items()
        for column in component.setting_columns()
    ]
    summaries = [(kind, summary) for kind, column in further for summary in summary_columns([column])]
    follows = [(kind, column) for kind, algorithm in ALGORITHMS.items() for column in algorithm.derived]
    return PAGE.format(
        replicates=described(BUNDLED.values()),
        further=by_kinds(further),
        summary=described(measures()),
        summaries=by_kinds(summaries),
        derived=described(derived()),
        monitored=described(monitored()),
        paths=described(PATH_COLUMNS),
        settings=by_kinds(settings),
        trajectories=described(MEASURED.values()),
        followed=described([*SUMMARY_COLUMNS, *THEORY]),
        means=" and ".join(f"`{name}`" for name in MEANS),
        follows=by_kinds([*follows]),
    )


if __name__ == "__main__":
    Path(__file__).with_suffix(".md").write_text(page(), encoding="utf-8")
