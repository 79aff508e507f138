"""``ldpflow explain``: why coverage is what it is."""

from __future__ import annotations

import typer

from ldpflow.cli.summary import Columns, Run, Sort, Where, names_in

__all__ = ["explain"]


def explain(run: Run, where: Where = None, sort: Sort = None, columns: Columns = None) -> None:
    """Explain for every cell why coverage differs from nominal, as a sum.

    The sum has the nominal level; the effects of mean length, variability of length, bias and the shape of
    the estimates' distribution, each alone; what several do together; and the dependence of error and length.
    It adds up to the coverage. For TR and TR-BM it also says what the diagnostics show and what to do. Every
    number is in the summary too.
    """
    from ldpflow.report.numbers import distinguishing_columns, short
    from ldpflow.results.where import chosen
    from ldpflow.run import open_run
    from ldpflow.study.stored import stored_left_out

    opened = open_run(run)
    table = opened.explain(where, names_in(sort))
    rows = table.to_pylist()
    settings = [name for name in table.column_names if name not in ("path", "explanation")]
    names = (
        distinguishing_columns(settings, rows, implied=True)
        if columns is None
        else chosen(table, columns=names_in(columns)).column_names
    )
    for row in rows:
        # B says nothing about a method that has none.
        label = ", ".join(f"{n} {short(row[n])}" for n in names if row[n] is not None)
        typer.echo(f"{label or 'The cell'}: {row['explanation']}")
    typer.echo(
        "± is one Monte Carlo standard error (MCSE), of effects by a jackknife over groups of replicates. "
        "The effect of a property is the coverage that it alone would give, less the level."
    )
    if note := (table.schema.metadata or {}).get(b"note"):
        typer.echo(note.decode())
    for line in stored_left_out(opened.store):
        typer.echo(line)
