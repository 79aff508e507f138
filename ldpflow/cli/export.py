"""``ldpflow export``: results for other programs."""

from __future__ import annotations

from typing import Annotated

import typer

from ldpflow.cli.summary import Run
from ldpflow.errors import need


def export(
    run: Run,
    output: Annotated[str, typer.Option("-o", "--output", metavar="FILE", help="A DuckDB file to write.")],
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write a run as one DuckDB file, with views of coverage and of the best methods."""
    need("report", "duckdb", "altair", "vl_convert")
    from ldpflow.report.export import export_duckdb
    from ldpflow.report.results import Results

    export_duckdb(Results.load(run), output, replace=force)
    typer.echo(
        f"{output}: tables summary, replicates, trajectories, trajectory_summary, sessions; "
        "views coverage, best, best_beta, lost, running_coverage"
    )
