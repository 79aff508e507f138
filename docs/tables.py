"""Writes tables.md from what components declare: python docs/tables.py."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from ldpflow.columns import Column
from ldpflow.components.algorithms import ALGORITHMS
from ldpflow.components.intervals import INTERVAL_METHODS
from ldpflow.results.columns import COLUMNS, PATH_COLUMNS, SUMMARY, known_columns, summary_columns
from ldpflow.results.decomposition import DIAGNOSIS
from ldpflow.results.monitoring import MONITORED
from ldpflow.results.summary import RELATIVE
from ldpflow.results.trajectories import MEANS, SUMMARY_COLUMNS, THEORY
from ldpflow.simulators.families import PARTS
from ldpflow.store.schema import BUNDLED, MEASURED

JACKKNIFE = "standard error of {}, by a jackknife over groups of replicates"

PAGE = """---
no-search: true
---

# Columns of all tables

Type, unit and meaning of each column, table by table. Every table of a run is Parquet.
`ldpflow export RUN -o FILE` copies all into one file, with equal names of columns.
`python docs/tables.py` writes this page from the declarations of the components.

## replicates/: a row per replicate, cell and coordinate

Partitioned by `path` (string `p<key>`, Hive style). `run.rows()` and the view `replicates` of an exported
file put the [columns of the path](#columns-of-a-path) and its settings before these. Other readers join the
rows with `paths.parquet` ([one line](run_directory.md#rows-with-their-settings)). One row takes some 30 to
50 bytes on disk. The summary takes less than a gigabyte of memory for any number of rows, if each cell has
at most 2 million replicates ([how far it scales](scale.md#many-cells)).

**Undefined intervals have no length.** A replicate without an interval has `covered` = null, and NaN in
`lower`, `upper` and `length`. Polars and DuckDB count NaN as a number: a mean over it is NaN, and a median
may be wrong without notice. Keep the rows with `status = 'ok'` for a mean length.

{replicates}

Some interval methods add columns to the runs that use them: settings, which are part of a cell's name, and
diagnostics. In rows of other methods they are null. Unit and meaning are stored as metadata of the Arrow
field.

{further}

## paths.parquet: a row per path

The [columns of the path](#columns-of-a-path) and its settings, written with the summary. An exported file
calls this table `paths`.

## summary.parquet: a row per cell and coordinate

First the [columns of the path](#columns-of-a-path) and its settings (vectors as JSON text; null if a kind
lacks the setting), then:

{summary}

Then summaries of the diagnostics that the run's methods add:

{summaries}

## Derived columns of summary.parquet

They say why coverage differs from nominal (`ldpflow explain`), and compare lengths with the oracle's.
Formulas and references: [reading the results](reading-results.md).

{derived}

A study with `[monitor]` ([arena.md](arena.md#looking-before-the-end)) has these columns last:

{monitored}

## Columns of a path

{paths}

The settings of a path, with the kinds of component (`of`) that have them:

{settings}

## trajectories/: a row per replicate and checkpoint

Only for studies with `[trajectory]`. Partitioned by `path` like replicates/. Null if a path has no such
number.

{trajectories}

## trajectories.parquet: a row per path, checkpoint and statistic

An exported file calls this table `trajectory_summary`. First `path` and the settings of the path as in
summary.parquet, then:

{followed}

`stat` names a column of trajectories/. Runs over many epochs also have {means}, at the last step: the
mean over all checkpoints of a path but the last.

## What follows from the settings of a path

Algorithms that depend on n ([momentum](momentum.md), [adaptive clipping](adaptive_clipping.md)) add these
columns to both summaries, after the settings:

{follows}
"""


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


def measures() -> Iterable[Column]:
    """The columns of every summary after those of a path."""
    known = known_columns()
    for field in SUMMARY:
        if field.name in COLUMNS:
            formula, unit = COLUMNS[field.name]
            yield Column(field.name, "int64" if field.type == pa.int64() else "double", unit, formula)
        elif field.name != "path":
            yield known[field.name]


def derived() -> Iterable[Column]:
    """What follows from measures."""
    for name, (formula, unit) in RELATIVE.items():
        yield Column(name, "double", unit, formula)
    for name, (_, unit, meaning) in DIAGNOSIS.items():
        yield Column(name, "double", unit, meaning)
        yield Column(f"{name}_mcse", "double", unit, JACKKNIFE.format(name))
    yield Column(
        "main_cause",
        "string",
        "-",
        "bias, length, variability or shape: the effect with the largest part in the gap; "
        "left: none is clear; none: no gap; null: undefined",
    )


def by_kinds(columns: Iterable[tuple[str, Column]]) -> str:
    """Columns of several kinds: those that are declared alike stand in one line."""
    found: dict[Column, list[str]] = {}
    for kind, column in columns:
        found.setdefault(column, []).append(kind)
    rows = [(c.name, c.type, c.unit, ", ".join(kinds), c.meaning) for c, kinds in sorted_items(found)]
    return table(("column", "type", "unit", "of", "meaning"), rows)


def sorted_items(found: dict[Column, list[str]]) -> list[tuple[Column, list[str]]]:
    """Columns of one name together, in the order in which names come."""
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
        monitored=described(MONITORED),
        paths=described(PATH_COLUMNS),
        settings=by_kinds(settings),
        trajectories=described(MEASURED.values()),
        followed=described([*SUMMARY_COLUMNS, *THEORY]),
        means=" and ".join(f"`{name}`" for name in MEANS),
        follows=by_kinds([*follows]),
    )


if __name__ == "__main__":
    Path(__file__).with_suffix(".md").write_text(page(), encoding="utf-8")
