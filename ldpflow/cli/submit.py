"""``ldpflow submit``: run a study as a job of a Ray cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from ldpflow.cli.studies import StudyName

__all__ = ["submit"]

Axis = list[str] | None


def submit(
    study: StudyName,
    out: Annotated[
        str,
        typer.Option(help="Run directory: s3://bucket/run, gs://bucket/run, a shared folder."),
    ],
    address: Annotated[
        str | None,
        typer.Option(
            help="Where the cluster's dashboard listens; RAY_API_SERVER_ADDRESS names another.",
            show_default="http://127.0.0.1:8265",
        ),
    ] = None,
    num_cpus: Annotated[
        int | None,
        typer.Option(min=1, help="Cores to ask the cluster for; it grows by itself without, slower."),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Show what the job prints until it ends.")
    ] = False,
    n: Annotated[Axis, typer.Option("--n", metavar="X", help="Users; 1e6 is fine. *")] = None,
    epsilon: Annotated[Axis, typer.Option("--epsilon", metavar="X", help="Privacy budget. *")] = None,
    replicates: Annotated[str | None, typer.Option(metavar="X", help="Independent paths per cell.")] = None,
    seed: Annotated[str | None, typer.Option(metavar="X", help="Seed of the study.")] = None,
    max_time: Annotated[
        str | None, typer.Option(metavar="T", help="Stop in order after 90s, 45m, 2h or 1h30m.")
    ] = None,
    max_in_flight: Annotated[
        int | None,
        typer.Option(min=1, help="Batches sent out and not yet stored.", show_default="twice the cores"),
    ] = None,
) -> None:
    """Run a study as a job of a Ray cluster; submit it again to continue it.

    The study and this package travel with the job. Flags marked * replace the study's values and may
    be repeated.
    """
    from ldpflow.cluster.jobs import Jobs, cluster_address
    from ldpflow.engine import read_seconds
    from ldpflow.study import load_study

    chosen = load_study(study).replace({"n": n, "epsilon": epsilon, "replicates": replicates, "seed": seed})
    for warning in [*chosen.left_out(), *chosen.warnings()]:
        typer.echo(f"warning: {warning}", err=True)
    options = []
    if max_time is not None:
        read_seconds(max_time)
        options += ["--max-time", max_time]
    if max_in_flight is not None:
        options += ["--max-in-flight", str(max_in_flight)]
    where = cluster_address(address)
    jobs = Jobs(where)
    job = jobs.submit(chosen, out, num_cpus, options)
    there = f" --address {where}" if address is not None else ""
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
        from ldpflow.cli.jobs import follow

        follow(jobs, job)
