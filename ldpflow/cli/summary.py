"""``ldpflow summary``: the result table of a run."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from ldpflow.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Run", "read_summary", "read_trajectories", "summary"]

Run = Annotated[str, typer.Argument(metavar="RUN", help="Run directory, e.g. runs/quickstart.")]


class Format(StrEnum):
    """How a table is printed."""

    table = "table"
    csv = "csv"
    json = "json"


def summary(
    run: Run,
    form: Annotated[
        Format, typer.Option("--format", help="csv and json have every column at full precision.")
    ] = Format.table,
    null: Annotated[
        float | None, typer.Option(help="Value of theta to reject: adds power, from the rows.")
    ] = None,
) -> None:
    """Show coverage, length, bias and standard error of every cell of a run.

    Of a run without intervals: its trajectories, the table at their last step.
    """
    from ldpflow.cli.tables import print_csv, print_json, print_summary, print_trajectories

    show = {Format.table: print_summary, Format.csv: print_csv, Format.json: print_json}[form]
    table = read_summary(run)
    if table.num_rows == 0 and (told := read_trajectories(run)).num_rows:
        print_trajectories(told) if form is Format.table else show(told)
        return
    if null is not None:
        from ldpflow.results.summary import stored_summary
        from ldpflow.store import RunStore

        table = stored_summary(RunStore(run), null)
    show(table)


def read_summary(run: str) -> pa.Table:
    """The summary of a run directory."""
    import pyarrow as pa

    from ldpflow.store import RunStore

    try:
        table = RunStore(run).read_summary()
    except (pa.ArrowException, OSError) as error:
        raise InputError("run", run, "a run directory with a readable summary", str(error)) from None
    if table is None:
        raise InputError("run", run, "a run directory with a summary", "Nothing finished there.")
    return table


def read_trajectories(run: str) -> pa.Table:
    """The trajectories of a run directory over its replicates; no rows where it has none."""
    import pyarrow as pa

    from ldpflow.store import RunStore

    table = RunStore(run).read_trajectory_summary()
    return pa.table({}) if table is None else table
