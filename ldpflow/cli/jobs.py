"""``ldpflow jobs``: the studies that were submitted to a cluster."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from ldpflow.cli.flags import FlagCommand

if TYPE_CHECKING:
    from ldpflow.cluster.jobs import Jobs, State

jobs = typer.Typer(help="Show status and logs of submitted studies, or stop them.", no_args_is_help=True)

Id = Annotated[str, typer.Argument(metavar="ID", help="The id that ldpflow submit printed.")]
Address = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Dashboard of the cluster; also from RAY_API_SERVER_ADDRESS.",
        show_default="http://127.0.0.1:8265",
    ),
]


@jobs.command(cls=FlagCommand)
def status(
    job: Annotated[
        str | None,
        typer.Argument(metavar="ID", help="The id that ldpflow submit printed; all jobs without it."),
    ] = None,
    address: Address = None,
) -> None:
    """Show the status of a job, or of all jobs."""
    cluster = at(address)
    if job is not None:
        state = cluster.state(job)
        typer.echo(line(state))
        if state.message:
            typer.echo(state.message)
        return
    states = cluster.states()
    for state in states:
        typer.echo(line(state))
    if not states:
        typer.echo(f"no jobs at {cluster.address}", err=True)


@jobs.command(cls=FlagCommand)
def logs(
    job: Id,
    address: Address = None,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Follow the output until the job ends.")
    ] = True,
) -> None:
    """Show the output of a job."""
    cluster = at(address)
    if wait:
        follow(cluster, job)
    else:
        typer.echo(cluster.logs(job), nl=False)


@jobs.command(cls=FlagCommand)
def stop(job: Id, address: Address = None) -> None:
    """Stop a job; finished replicates are kept, and submitting again continues it."""
    cluster = at(address)
    state = cluster.stop(job)
    typer.echo(line(state))
    if not state.over:
        typer.echo(f"not ended yet; see ldpflow jobs status {job}", err=True)
        raise typer.Exit(1)


def at(address: str | None) -> Jobs:
    """The jobs of a cluster."""
    from ldpflow.cluster.jobs import Jobs, cluster_address

    return Jobs(cluster_address(address))


def follow(cluster: Jobs, job: str) -> None:
    """Show what a job prints until it ends; exit with 1 unless it succeeded."""
    try:
        for text in cluster.follow(job):
            typer.echo(text, nl=False)
    except KeyboardInterrupt:
        typer.echo(f"\nthe job goes on: ldpflow jobs logs {job}, ldpflow jobs stop {job}", err=True)
        raise
    state = cluster.state(job)
    typer.echo(line(state), err=True)
    if not state.over:
        typer.echo("the connection was lost and the job goes on", err=True)
    if state.status != "SUCCEEDED":
        raise typer.Exit(1)


def line(state: State) -> str:
    """A job in a line."""
    if state.started is None:
        took = "-"
    else:
        took = f"{(state.ended or time.time()) - state.started:,.0f} s"
    return "  ".join((state.id, state.status, state.study or "-", state.out or "-", took))
