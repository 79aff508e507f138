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

Every dataset of a run is Parquet, and its columns keep their names; `ldpflow export RUN -o FILE`
copies them into one file. This page is written by `python docs/tables.py` from what
the components declare; a test checks that it is up to date.

## replicates/: a row per replicate, cell and coordinate

Partitioned by `path` (string `p<key>`, Hive style; a column in the exported table). One row takes some 30
to 50 bytes on disk; the summary takes less than a gigabyte of memory whatever the number of rows, while a
cell has at most 2 million replicates ([how far it scales](scale.md#many-cells)).

{replicates}

Interval methods that are not in every run append columns of their own, in the runs that have them:
settings, which are part of a cell's name, and diagnostics. They are null elsewhere in the run; their unit
and meaning are stored with the column, as metadata of the Arrow field.

{further}

## summary.parquet: a row per cell and coordinate

First the columns of the path, then its settings (see below; null where a kind has none; vectors as JSON
text), then:

{summary}

Then the columns that follow from further diagnostics of the run's methods:

{summaries}

## Derived columns of summary.parquet

Why coverage differs from nominal (`ldpflow explain`) and how long intervals are beside the oracle's;
formulas and references stand in reading-results.md.

{derived}

A study with `[monitor]` ([arena.md](arena.md#looking-before-the-end)) has, last:

{monitored}

## Columns of a path

{paths}

Its settings, by name and by the kinds that have them:

{settings}

## trajectories/: a row per replicate and checkpoint

Of studies with `[trajectory]`; partitioned by `path` like replicates/. Null where a path has no such
number.

{trajectories}

## trajectories.parquet: a row per path, checkpoint and statistic

The table `trajectory_summary` of an exported file. First `path` and the settings of the path as in
summary.parquet, then:

{followed}

`stat` is a column of trajectories/; over many epochs also {means}, at the last step: means along each path
over its checkpoints but the last.

## What follows from the settings of a path

Further columns of both summaries, after the settings, of algorithms that depend on n (docs/momentum.md,
docs/adaptive_clipping.md):

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
            measure = COLUMNS[field.name]
            kind = "int64" if field.type == pa.int64() else "double"
            yield Column(field.name, kind, measure.unit, measure.formula)
        elif field.name != "path":
            yield known[field.name]


def derived() -> Iterable[Column]:
    """What follows from measures."""
    for name, measure in RELATIVE.items():
        yield Column(name, "double", measure.unit, measure.formula)
    for name, (_, unit, meaning) in DIAGNOSIS.items():
        yield Column(name, "double", unit, meaning)
        yield Column(f"{name}_mcse", "double", unit, JACKKNIFE.format(name))
    yield Column("main_cause", "string", "-", "the largest effect, in a word; null where none stands out")


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
