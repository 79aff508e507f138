"""``ldpflow explain``: why coverage is what it is."""

from __future__ import annotations

import typer

from ldpflow.cli.summary import Run, read_summary

__all__ = ["explain"]


def explain(run: Run) -> None:
    """Say for every cell why coverage differs from nominal, one sentence each.

    Effects of bias, mean length, variability of length and non-normality, each with the coverage
    that it alone would give, then together, and what is left. Then, for TR and TR-BM, what the fit
    says against itself, and what to do about it. Every number is in the summary too.
    """
    from ldpflow.cli.tables import short, telling
    from ldpflow.results import group_keys, stored_cells
    from ldpflow.results.diagnosis import cautions, diagnose
    from ldpflow.store import RunStore
    from ldpflow.store.schema import columns_of

    summary = read_summary(run)
    parameters = summary.column_names[: summary.column_names.index("truth")]
    rows = summary.to_pylist()
    names = telling([n for n in parameters if n != "path"], rows)
    why = {
        tuple(key.values()): diagnose(cell, key["level"]).sentence()
        for keys, cells in stored_cells(RunStore(run))
        for key, cell in zip(keys.to_pylist(), cells, strict=True)
    }
    columns = columns_of(summary.schema).values()
    vectors = {row["path"] for row in rows if row["coordinate"] > 0}
    for row in rows:
        # B says nothing about a method that has none.
        label = ", ".join(f"{n} {short(row[n])}" for n in names if row[n] is not None)
        sentence = why[tuple(row[name] for name in group_keys(summary.schema))]
        said = [sentence, *cautions(row, columns, row["path"] in vectors)]
        typer.echo(f"{label or 'The cell'}: {' '.join(said)}")
