"""``ldpflow sweep``: run a study."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from ldpflow.cli.flags import settings_given
from ldpflow.cli.studies import StudyName
from ldpflow.errors import InputError

if TYPE_CHECKING:
    from ldpflow.engine import Planned, Precision
    from ldpflow.study import Study

__all__ = ["Engine", "sweep"]

PLAN_LINES = 12
CAUTION_LINES = 6


class Engine(StrEnum):
    """Where the batches run."""

    auto = "auto"
    threads = "threads"
    ray = "ray"
    serial = "serial"


Axis = list[str] | None


def sweep(
    study: StudyName = "quickstart",
    n: Annotated[Axis, typer.Option("--n", metavar="X", help="Users; 1e6 is fine. *")] = None,
    epsilon: Annotated[Axis, typer.Option("--epsilon", metavar="X", help="Privacy budget. *")] = None,
    mu: Annotated[
        Axis, typer.Option("--mu", metavar="X", help="Budget of the Gaussian mechanism (GDP). *")
    ] = None,
    tau: Annotated[Axis, typer.Option("--tau", metavar="X", help="Level of the quantile. *")] = None,
    gamma: Annotated[Axis, typer.Option("--gamma", metavar="X", help="Step-size exponent. *")] = None,
    c: Annotated[Axis, typer.Option("--c", metavar="X", help="Step-size constant. *")] = None,
    method: Annotated[
        Axis, typer.Option("--method", metavar="ID", help="Interval method, as ldpflow list shows them. *")
    ] = None,
    beta: Annotated[Axis, typer.Option("--beta", metavar="X", help="Block exponent of BB. *")] = None,
    b: Annotated[Axis, typer.Option("--B", metavar="X", help="Bootstrap replications of BB. *")] = None,
    level: Annotated[Axis, typer.Option("--level", metavar="X", help="Nominal coverage. *")] = None,
    settings: Annotated[
        Axis, typer.Option("--set", metavar="NAME=X", help="Any setting: mechanism.epsilon=0.5,2. *")
    ] = None,
    replicates: Annotated[str | None, typer.Option(metavar="X", help="Independent paths per cell.")] = None,
    target_mcse: Annotated[
        float | None,
        typer.Option(help="Add replicates until the MCSE of every coverage is this small."),
    ] = None,
    target_length: Annotated[
        float | None,
        typer.Option(help="The same for the relative MCSE of every mean length."),
    ] = None,
    min_replicates: Annotated[
        int | None, typer.Option(help="With a target: at least so many.", show_default="256")
    ] = None,
    max_replicates: Annotated[
        int | None, typer.Option(help="With a target: at most so many.", show_default="100000")
    ] = None,
    seed: Annotated[str | None, typer.Option(metavar="X", help="Seed of the study.")] = None,
    out: Annotated[
        str | None,
        typer.Option(
            help="Run directory; an existing one is continued.",
            show_default="runs/<name of the study>",
        ),
    ] = None,
    engine: Annotated[
        Engine, typer.Option(help="auto: threads of this process, or Ray for work of minutes.")
    ] = Engine.auto,
    address: Annotated[
        str | None,
        typer.Option(help="Ray cluster to join: auto, or HOST:6379; see submit for HTTP."),
    ] = None,
    num_cpus: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Cores for a local Ray; with --address, cores to ask for.",
            show_default="all",
        ),
    ] = None,
    max_in_flight: Annotated[
        int | None,
        typer.Option(min=1, help="Batches sent out and not yet stored.", show_default="twice the cores"),
    ] = None,
    retries: Annotated[
        int,
        typer.Option(min=0, max=1000, help="How often Ray runs a batch again whose worker died."),
    ] = 3,
    max_time: Annotated[
        str | None, typer.Option(metavar="T", help="Stop in order after 90s, 45m, 2h or 1h30m.")
    ] = None,
    max_memory: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Stop in order above 8G on this machine, Ray included."),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Move an old run aside and start over.")] = False,
    max_failed: Annotated[
        float | None, typer.Option(help="Exit with 1 if a larger share of the rows failed.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress, no summary.")] = False,
    no_progress: Annotated[bool, typer.Option("--no-progress", help="No progress.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Let Ray's own log through.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what it would take, and run nothing.")
    ] = False,
) -> None:
    """Run a study and write its rows and summary; run it again to continue it.

    Flags marked * replace the study's values and may be repeated: --epsilon 0.5 --epsilon 2.
    """
    from ldpflow.study import load_study

    if max_failed is not None and not 0 <= max_failed <= 1:
        raise InputError("--max-failed", max_failed, "a share in [0, 1]")
    flags = {
        "n": n,
        "epsilon": epsilon,
        "mu": mu,
        "tau": tau,
        "gamma": gamma,
        "c": c,
        "method": method,
        "beta": beta,
        "B": b,
        "level": level,
        "replicates": replicates,
        "seed": seed,
    }
    chosen = load_study(study).replace(settings_given(settings)).replace(flags)
    precision = wanted_precision(replicates, target_mcse, target_length, min_replicates, max_replicates)
    for warning in [*chosen.warnings(), *lines_of(chosen)]:
        typer.echo(f"warning: {warning}", err=True)

    if dry_run:
        from ldpflow.cli.dry_run import print_prediction

        print_prediction(chosen, engine.value, num_cpus)
        return

    from ldpflow.cli.progress import reporter
    from ldpflow.engine import limits, read_bytes, read_seconds, run_study
    from ldpflow.engine.interrupts import Interrupts

    passed = limits(
        None if max_time is None else read_seconds(max_time),
        None if max_memory is None else read_bytes(max_memory),
    )
    root = out if out is not None else f"runs/{chosen.name}"
    wanted = len(chosen.plans()) * chosen.replicates
    with Interrupts() as interrupted, reporter(quiet or no_progress, wanted) as report:
        result = run_study(
            chosen,
            root,
            engine=engine.value,
            address=address,
            num_cpus=num_cpus,
            on_engine=None if quiet else partial(typer.echo, err=True),
            on_event=report,
            on_plan=None if quiet else print_plan,
            should_stop=lambda: interrupted() or passed(),
            retries=retries,
            max_in_flight=max_in_flight,
            fresh=fresh,
            verbose=verbose,
            precision=precision,
        )
    if not quiet and interrupted() is None:
        from ldpflow.cli.summary import read_summary, read_trajectories
        from ldpflow.cli.tables import print_summary, print_trajectories

        if chosen.method:
            print_summary(read_summary(root))
        elif chosen.trajectory is not None:
            print_trajectories(read_trajectories(root))
        if chosen.trajectory is not None:
            typer.echo(f"trajectories in {root}/trajectories, summary in {root}/trajectories.parquet")
        typer.echo(
            f"{result.finished_replicates:,} replicates in {result.wall_seconds:.1f} s; "
            f"rows in {root}/replicates, summary in {root}/summary.parquet"
        )
    for failed in result.failed_batches:
        typer.echo(f"failed: {failed}", err=True)
    if result.stopped is not None:
        typer.echo(
            f"stopped: {result.stopped}; {result.finished_replicates:,} of "
            f"{chosen.replicates:,} replicates of every cell are in {root}, and what else finished. "
            "Run the same command again to continue.",
            err=True,
        )
    if interrupted() is not None:
        raise typer.Exit(130)
    if max_failed is not None and result.failed_share > max_failed:
        typer.echo(
            f"{result.failures:,} rows failed, a share of {result.failed_share:.3g} > {max_failed}",
            err=True,
        )
        raise typer.Exit(1)
    if result.failed_batches:
        raise typer.Exit(1)


def wanted_precision(
    replicates: str | None,
    target_mcse: float | None,
    target_length: float | None,
    min_replicates: int | None,
    max_replicates: int | None,
) -> Precision | None:
    """The targets that the flags name, or None where none does."""
    from ldpflow.engine import Precision

    limits = {"min_replicates": min_replicates, "max_replicates": max_replicates}
    given = {name: value for name, value in limits.items() if value is not None}
    if target_mcse is None and target_length is None:
        for name, value in given.items():
            raise InputError(f"--{name.replace('_', '-')}", value, "a sweep with --target-mcse")
        return None
    if replicates is not None:
        raise InputError("--replicates", replicates, "nothing where a target decides")
    return Precision(target_mcse, target_length, **given)


def print_plan(paths: Sequence[Planned]) -> None:
    """What is reused and what is computed, where there is both."""
    reused = sum(path.reused for path in paths)
    if reused == 0:
        return
    computed = sum(path.computed for path in paths)
    typer.echo(f"rows: {reused:,} reused, {computed:,} to compute", err=True)
    if computed == 0:
        return
    for path in paths[:PLAN_LINES]:
        ranges = ", ".join(
            f"replicates {first} to {last - 1}" + (f" of {cells} cells" if cells else "")
            for first, last, cells in path.ranges[:3]
        )
        more = ", ..." if len(path.ranges) > 3 else ""
        settings = f" ({path.settings})" if path.settings else ""
        typer.echo(
            f"  {path.path}{settings}: {path.reused:,} reused"
            + (f", computed: {ranges}{more}" if ranges else ""),
            err=True,
        )
    if len(paths) > PLAN_LINES:
        typer.echo(f"  and {len(paths) - PLAN_LINES:,} paths more", err=True)


def lines_of(study: Study) -> list[str]:
    """A line for each of the first paths that do not arrive; the study runs all the same."""
    from ldpflow.planning import arrival_cautions

    found = arrival_cautions(study)
    if len(found) <= CAUTION_LINES:
        return found
    return [*found[:CAUTION_LINES], f"and {len(found) - CAUTION_LINES:,} paths more: see ldpflow plan"]
