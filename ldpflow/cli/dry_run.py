"""``ldpflow sweep --dry-run``: what a study would take."""

from __future__ import annotations

import typer

from ldpflow.study import Study


def print_prediction(study: Study, engine: str, num_cpus: int | None) -> None:
    """Print the size of a study and the time it is expected to take on this machine."""
    from ldpflow.engine.choice import cores_of
    from ldpflow.engine.prediction import predict

    plans = study.plans()
    cores = cores_of(engine, num_cpus)
    prediction = predict(plans, study.replicates, cores, engine)
    cells = sum(len(plan.cells) for plan in plans)
    speeds = sorted(prediction.nanoseconds)
    typer.echo(
        f"{study.name}: {len(plans)} paths, {cells} cells, {study.replicates:,} replicates; "
        f"{prediction.steps:.3g} steps"
    )
    typer.echo(
        f"{speeds[0]:.2f} to {speeds[-1]:.2f} ns per step and replicate on one core, measured now"
        if speeds[0] != speeds[-1]
        else f"{speeds[0]:.2f} ns per step and replicate on one core, measured now"
    )
    typer.echo(
        f"CPU time: {duration(prediction.kernel_seconds)} in recursions, "
        f"{duration(prediction.interval_seconds)} in intervals and trajectories"
    )
    typer.echo(
        f"expected: {duration(prediction.wall_seconds)} with --engine {prediction.engine} on "
        f"{cores} core{'s' if cores > 1 else ''}; nothing was run"
    )


def duration(seconds: float) -> str:
    """Seconds in the unit that a person would use."""
    for limit, unit, name in ((120, 1, "s"), (7200, 60, "min"), (172800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / unit:.1f} {name}"
    return f"{seconds / 86400:.1f} days"
