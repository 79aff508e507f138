"""Command ``submit``: run a study as a job of a Ray cluster."""

from __future__ import annotations

import os
from inspect import signature
from typing import Annotated, Any

import typer

from ldpflow.cli.flags import StudyName, flag, print_wrapped, set_parameters
from ldpflow.cli.sweep import sweep
from ldpflow.options import SweepOptions


def submit(
    study: StudyName,
    out: Annotated[str, flag("Run directory: s3://bucket/run, gs://bucket/run or file:///FOLDER.", "RUN")],
    address: Annotated[
        str | None,
        flag(
            "Dashboard of the cluster. RAY_API_SERVER_ADDRESS sets it too.",
            "URL",
            shown="http://127.0.0.1:8265",
        ),
    ] = None,
    num_cpus: Annotated[
        int | None, flag("Cores to request at once: an autoscaling cluster then grows faster.", "N", min=1)
    ] = None,
    **flags: Any,
) -> None:
    """Run a study as a job of a Ray cluster. Submit it again to continue it.

    The job contains the study and this package. Flags of the design (*) replace values of the study. All of
    them except --seed and --replicates may be repeated.
    """
    from ldpflow.engine.jobs import Jobs, cluster_address
    from ldpflow.study import load_study

    chosen = load_study(study).replace({name: flags[name] for name in DESIGN})
    for warning in [*chosen.left_out(), *chosen.warnings()]:
        print_wrapped(f"warning: {warning}")
    given = {"num_cpus": num_cpus} | {name: flags[name] for name in LIMITS}
    limits = {name: value for name, value in given.items() if value is not None}
    SweepOptions(**limits)
    options = [f"--{name.replace('_', '-')}={value}" for name, value in limits.items()]
    ray_job = "ray job" if "RAY_AUTH_MODE" in os.environ else "RAY_AUTH_MODE=token ray job"
    cluster = Jobs(cluster_address(address))
    job = cluster.submit(chosen, out, options)
    there = f"{job} --address {cluster.address}"
    typer.echo(job)
    typer.echo(
        f"follow:  {ray_job} logs {there} --follow\n"
        f"state:   {ray_job} status {there}\n"
        f"stop:    {ray_job} stop {there}\n"
        "resume:  the same ldpflow submit again\n"
        f"results: ldpflow summary {out}",
        err=True,
    )


DESIGN = ("n", "epsilon", "replicates", "seed")
LIMITS = ("max_time", "max_in_flight")
*OWN, _ = signature(submit, eval_str=True).parameters.values()
set_parameters(submit, [*OWN, *(signature(sweep).parameters[name] for name in (*DESIGN, *LIMITS))])
