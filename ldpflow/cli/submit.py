"""``ldpflow submit``: run a study as a job of a Ray cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from ldpflow.cli.studies import StudyName

Axis = list[str] | None


def submit(
    study: StudyName,
    out: Annotated[
        str,
        typer.Option(
            metavar="RUN", help="Run directory: s3://bucket/run, gs://bucket/run or a shared folder."
        ),
    ],
    address: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Dashboard of the cluster; also from RAY_API_SERVER_ADDRESS.",
            show_default="http://127.0.0.1:8265",
        ),
    ] = None,
    num_cpus: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Cores to request at once; the cluster grows slower without."),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Follow the output until the job ends.")
    ] = False,
    n: Annotated[Axis, typer.Option("--n", metavar="X", help="Users; 1e6 is fine. *")] = None,
    epsilon: Annotated[Axis, typer.Option("--epsilon", metavar="X", help="Privacy budget. *")] = None,
    replicates: Annotated[str | None, typer.Option(metavar="X", help="Independent paths per cell.")] = None,
    seed: Annotated[str | None, typer.Option(metavar="X", help="Seed of the study.")] = None,
    max_time: Annotated[
        str | None, typer.Option(metavar="T", help="Stop after this time: 90s, 45m, 2h, 1h30m.")
    ] = None,
    max_in_flight: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Most batches under way.", show_default="twice the cores"),
    ] = None,
) -> None:
    """Run a study as a job of a Ray cluster; submit it again to continue it.

    The study and this package are sent with the job. Flags marked * replace the study's values and may
    be repeated.
    """
    from ldpflow.cluster.jobs import Jobs, cluster_address
    from ldpflow.options import SweepOptions
    from ldpflow.study import load_study

    chosen = load_study(study).replace({"n": n, "epsilon": epsilon, "replicates": replicates, "seed": seed})
    for warning in [*chosen.left_out(), *chosen.warnings()]:
        typer.echo(f"warning: {warning}", err=True)
    SweepOptions(max_time=max_time, max_in_flight=max_in_flight)  # type: ignore[arg-type]
    options = [] if max_time is None else ["--max-time", max_time]
    options += [] if max_in_flight is None else ["--max-in-flight", str(max_in_flight)]
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
