"""Jobs of a Ray cluster: ``submit`` and ``jobs``."""

from __future__ import annotations

from inspect import signature
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ldpflow.cli.flags import FlagCommand, StudyName, flag, print_wrapped, set_parameters
from ldpflow.cli.sweep import sweep
from ldpflow.options import SweepOptions

if TYPE_CHECKING:
    from ldpflow.engine.jobs import Jobs

jobs = typer.Typer(help="Show status and logs of submitted studies, or stop them.", no_args_is_help=True)

Id = Annotated[str, typer.Argument(metavar="ID", help="The id that ldpflow submit printed.")]
Address = Annotated[
    str | None,
    flag("Dashboard of the cluster; also from RAY_API_SERVER_ADDRESS.", "URL", shown="http://127.0.0.1:8265"),
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
    cluster = connect(address)
    if job is not None:
        state = cluster.state(job)
        typer.echo(cluster.line_of(state))
        if state.message:
            typer.echo(state.message)
        return
    states = cluster.states()
    for state in states:
        typer.echo(cluster.line_of(state))
    if not states:
        typer.echo(f"no jobs at {cluster.address}", err=True)


@jobs.command(cls=FlagCommand)
def logs(
    job: Id,
    address: Address = None,
    wait: Annotated[bool, flag("Follow the output until the job ends.", name="--wait/--no-wait")] = True,
) -> None:
    """Show the output of a job."""
    cluster = connect(address)
    if wait:
        follow(cluster, job)
    else:
        typer.echo(cluster.logs(job), nl=False)


@jobs.command(cls=FlagCommand)
def stop(job: Id, address: Address = None) -> None:
    """Stop a job; finished replicates are kept, and submitting again continues it."""
    cluster = connect(address)
    state = cluster.stop(job)
    typer.echo(cluster.line_of(state))
    if not state.status.is_terminal():
        typer.echo(f"not ended yet; see ldpflow jobs status {job}", err=True)
        raise typer.Exit(1)


def connect(address: str | None) -> Jobs:
    from ldpflow.engine.jobs import Jobs, cluster_address

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
    typer.echo(cluster.line_of(state), err=True)
    if not state.status.is_terminal():
        typer.echo("the connection was lost and the job goes on", err=True)
    if state.status != "SUCCEEDED":
        raise typer.Exit(1)


def submit(
    study: StudyName,
    out: Annotated[str, flag("Run directory: s3://bucket/run, gs://bucket/run or a shared folder.", "RUN")],
    address: Address = None,
    num_cpus: Annotated[
        int | None, flag("Cores to request at once; the cluster grows slower without.", "N", min=1)
    ] = None,
    wait: Annotated[bool, flag("Follow the output until the job ends.", name="--wait/--no-wait")] = False,
    **flags: Any,
) -> None:
    """Run a study as a job of a Ray cluster; submit it again to continue it.

    The study and this package are sent with the job. Flags of the design (*) replace the study's values and
    may be repeated.
    """
    from ldpflow.study import load_study

    chosen = load_study(study).replace({name: flags[name] for name in DESIGN})
    for warning in [*chosen.left_out(), *chosen.warnings()]:
        print_wrapped(f"warning: {warning}")
    limits = {name: flags[name] for name in LIMITS if flags[name] is not None}
    SweepOptions(**limits)
    pairs = [(f"--{name.replace('_', '-')}", str(value)) for name, value in limits.items()]
    options = list(chain.from_iterable(pairs))
    cluster = connect(address)
    job = cluster.submit(chosen, out, num_cpus, options)
    there = f" --address {cluster.address}" if address is not None else ""
    typer.echo(job)
    typer.echo(
        f"follow:  ldpflow jobs logs {job}{there}\n"
        f"state:   ldpflow jobs status {job}{there}\n"
        f"stop:    ldpflow jobs stop {job}{there}\n"
        "resume:  the same ldpflow submit again\n"
        f"results: ldpflow summary {out}",
        err=True,
    )
    if wait:
        follow(cluster, job)


DESIGN = ("n", "epsilon", "replicates", "seed")
LIMITS = ("max_time", "max_in_flight")
*OWN, _ = signature(submit, eval_str=True).parameters.values()
set_parameters(submit, [*OWN, *(signature(sweep).parameters[name] for name in (*DESIGN, *LIMITS))])
