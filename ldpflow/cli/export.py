"""``ldpflow export`` and ``ldpflow watch``: results for other programs, and for a browser."""

from __future__ import annotations

from typing import Annotated

import typer

from ldpflow.cli.summary import Run
from ldpflow.errors import need

__all__ = ["export", "watch"]


def export(
    run: Run,
    output: Annotated[str, typer.Option("-o", "--output", metavar="FILE", help="A DuckDB file to write.")],
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write a run as one DuckDB file, with views of coverage and of the best methods."""
    need("report", "duckdb", "altair", "vl_convert", "jinja2")
    from ldpflow.report.export import export_duckdb
    from ldpflow.report.results import Results

    export_duckdb(Results.load(run), output, replace=force)
    typer.echo(
        f"{output}: tables summary, replicates, trajectories, trajectory_summary, sessions; "
        "views coverage, best, best_beta, lost, running_coverage"
    )


def watch(
    run: Run,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any free port.")] = 8765,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    allow_remote: Annotated[
        bool,
        typer.Option(
            "--allow-remote",
            help="Let other machines read the results; no encryption, no passwords.",
        ),
    ] = False,
) -> None:
    """Serve a live report of a run to a browser while a sweep runs."""
    need("report", "altair", "vl_convert", "jinja2")
    from ldpflow.report.serve import server
    from ldpflow.store import RunStore

    RunStore(run)  # refuses a name that no run can have, while one that comes later may be watched
    with server(run, host, port, allow_remote) as live:
        shown = "127.0.0.1" if host == "localhost" else f"[{host.strip('[]')}]" if ":" in host else host
        typer.echo(f"http://{shown}:{live.server_port}/ shows {run}; Ctrl-C stops")
        try:
            live.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            typer.echo("stopped")
