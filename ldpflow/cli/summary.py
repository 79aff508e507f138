"""``ldpflow summary``: the result table of a run."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from ldpflow.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

Run = Annotated[str, typer.Argument(metavar="RUN", help="Run directory, e.g. runs/quickstart.")]


Where = Annotated[
    str | None,
    typer.Option(metavar="CONDITION", help="Only rows that meet it: \"method == 'BB' and n >= 1e5\"."),
]
Sort = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", help="Sort by it; -COLUMN: largest first. May be repeated."),
]
Columns = Annotated[
    list[str] | None, typer.Option(metavar="COLUMN", help="Columns to show, separated by commas.")
]


def names_in(texts: list[str] | None) -> list[str] | None:
    """Names of columns, one or several with commas in a text."""
    return None if texts is None else [name.strip() for text in texts for name in text.split(",")]


class Format(StrEnum):
    """Output formats of a table."""

    table = "table"
    csv = "csv"
    json = "json"


def summary(
    run: Run,
    form: Annotated[
        Format, typer.Option("--format", help="csv and json have every column at full precision.")
    ] = Format.table,
    null: Annotated[
        float | None, typer.Option(help="Null value of theta: adds power, the share of intervals without it.")
    ] = None,
    best: Annotated[
        bool,
        typer.Option(
            "--best", help="Only the best row of every problem, mechanism, n, level and coordinate."
        ),
    ] = False,
    where: Where = None,
    sort: Sort = None,
    columns: Columns = None,
) -> None:
    """Show coverage, length, bias and standard error of every cell of a run.

    A run without intervals has errors of trajectories instead; the table shows their last step.

    --best chooses among algorithms, step sizes and interval methods: of the rows that hold their level
    (failures counted as misses, lower end of the 95% Monte Carlo interval at most 2 points below it) the one
    with the shortest intervals, or else the one with the highest coverage, and says which.
    """
    from ldpflow.cli.tables import print_csv, print_json, print_summary, print_table, print_trajectories
    from ldpflow.results.where import chosen

    show = {Format.table: print_summary, Format.csv: print_csv, Format.json: print_json}[form]
    table = read_summary(run)
    if table.num_rows == 0 and (trajectories := read_trajectories(run)).num_rows:
        if best:
            raise InputError("best", True, "a run with intervals", "It has trajectories alone.")
        print_trajectories(trajectories) if form is Format.table else show(trajectories)
        return
    if null is not None:
        from ldpflow.results.summary import stored_summary
        from ldpflow.store import RunStore

        table = stored_summary(RunStore(run), null, damaged="refuse")
    table = chosen(table, where)
    if best:
        from ldpflow.results.arena import best_rows
        from ldpflow.store import RunStore

        table = best_rows(RunStore(run), table)
    table = chosen(table, sort=names_in(sort))
    if columns is None:
        show(table)
        if form is Format.table:
            if best:
                print(BEST_OF_MANY)
            print_left_out(run)
    elif form is Format.table:
        print_table(chosen(table, columns=names_in(columns)))
    else:
        show(chosen(table, columns=names_in(columns)))


BEST_OF_MANY = (
    "Each row is the best of its candidates on the replicates that chose it: run it again with another seed "
    "before its numbers are used (ldpflow sweep --seed)."
)


def print_left_out(run: str) -> None:
    """Lines on what the study asks for and what makes no rows."""
    from ldpflow.errors import plain_text
    from ldpflow.store import RunStore
    from ldpflow.study.stored import stored_left_out

    for line in stored_left_out(RunStore(run)):
        print(plain_text(line))


def read_summary(run: str) -> pa.Table:
    """The summary of a run directory."""
    from ldpflow.run import open_run

    return open_run(run).summary()


def read_trajectories(run: str) -> pa.Table:
    """The trajectories of a run directory over its replicates; no rows where it has none."""
    import pyarrow as pa

    from ldpflow.store import RunStore

    table = RunStore(run).read_trajectory_summary()
    return pa.table({}) if table is None else table
