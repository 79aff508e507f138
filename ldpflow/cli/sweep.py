"""``ldpflow sweep``: run a study."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ldpflow.cli.flags import METHODS, settings_given
from ldpflow.cli.studies import StudyName
from ldpflow.errors import InputError

if TYPE_CHECKING:
    from ldpflow.engine import Planned, RunResult
    from ldpflow.study import Study

__all__ = ["Engine", "sweep"]

PLAN_LINES = 12


class Engine(StrEnum):
    """Where the batches run."""

    auto = "auto"
    threads = "threads"
    ray = "ray"
    serial = "serial"


Axis = list[str] | None


DESIGN, PRECISION = "The design *", "How many replicates"
WHERE, LIMITS, SHOWN = "Where it runs", "Limits and faults", "What is shown"


def design(flag: str, help: str, metavar: str = "X") -> Any:
    """A flag that replaces values of the study, and may be repeated."""
    return typer.Option(flag, metavar=metavar, help=help, rich_help_panel=DESIGN)


NOption = Annotated[Axis, design("--n", "Users; 1e6 is fine.")]
Epsilon = Annotated[Axis, design("--epsilon", "Privacy budget.")]
Mu = Annotated[Axis, design("--mu", "Budget of the Gaussian mechanism (GDP).")]
Tau = Annotated[Axis, design("--tau", "Level of the quantile.")]
Gamma = Annotated[Axis, design("--gamma", "Step-size exponent.")]
COption = Annotated[Axis, design("--c", "Step-size constant.")]
Method = Annotated[Axis, design("--method", f"Interval method: {METHODS}.", "ID")]
Beta = Annotated[Axis, design("--beta", "Block exponent of BB.")]
BOption = Annotated[Axis, design("--B", "Bootstrap replications of BB.")]
Level = Annotated[Axis, design("--level", "Nominal coverage.")]
Settings = Annotated[Axis, design("--set", "Any setting: mechanism.epsilon=0.5,2.", "NAME=X")]
Seed = Annotated[str | None, typer.Option(metavar="X", help="Seed of the study.", rich_help_panel=DESIGN)]
Replicates = Annotated[
    str | None,
    typer.Option(metavar="X", help="Independent paths per cell.", rich_help_panel=PRECISION),
]
TargetMcse = Annotated[
    float | None,
    typer.Option(
        metavar="X", help="Replicates until every coverage has this MCSE.", rich_help_panel=PRECISION
    ),
]
TargetLength = Annotated[
    float | None,
    typer.Option(
        metavar="X", help="The same for the relative MCSE of every length.", rich_help_panel=PRECISION
    ),
]
MinReplicates = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="With a target: the fewest replicates.",
        show_default="256",
        rich_help_panel=PRECISION,
    ),
]
MaxReplicates = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="With a target: the most replicates.",
        show_default="100000",
        rich_help_panel=PRECISION,
    ),
]
Out = Annotated[
    str | None,
    typer.Option(
        metavar="RUN",
        help="Run directory; an existing one is continued.",
        show_default="runs/<name of the study>",
        rich_help_panel=WHERE,
    ),
]
EngineOption = Annotated[
    Engine,
    typer.Option(help="auto: threads, or Ray for more than a minute of work.", rich_help_panel=WHERE),
]
Address = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Ray cluster to join: auto, or HOST:6379; see submit for HTTP.",
        rich_help_panel=WHERE,
    ),
]
NumCpus = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="Cores for a local Ray; with --address, cores to ask for.",
        show_default="all",
        rich_help_panel=WHERE,
    ),
]
Nice = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=0,
        max=19,
        help="Niceness of a local Ray's workers; 0 shares a busy machine equally.",
        show_default="15",
        rich_help_panel=WHERE,
    ),
]
Fresh = Annotated[
    bool,
    typer.Option("--fresh", help="Move an old run aside and start over.", rich_help_panel=WHERE),
]
MaxTime = Annotated[
    str | None,
    typer.Option(metavar="T", help="Stop after this time: 90s, 45m, 2h, 1h30m.", rich_help_panel=LIMITS),
]
MaxMemory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Stop above this memory, Ray included: 8G.",
        rich_help_panel=LIMITS,
    ),
]
MaxInFlight = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="Most batches under way at a time.",
        show_default="twice the cores",
        rich_help_panel=LIMITS,
    ),
]
Retries = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=0,
        max=1000,
        help="How often to repeat a batch whose worker died.",
        rich_help_panel=LIMITS,
    ),
]
MaxFailed = Annotated[
    float | None,
    typer.Option(
        metavar="X",
        help="Exit with 1 if a larger share of rows failed.",
        show_default="no limit",
        rich_help_panel=LIMITS,
    ),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Print the expected time and run nothing.", rich_help_panel=SHOWN),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress, no summary.", rich_help_panel=SHOWN)]
NoProgress = Annotated[bool, typer.Option("--no-progress", help="No progress.", rich_help_panel=SHOWN)]
Verbose = Annotated[bool, typer.Option("--verbose", help="Show Ray's own log.", rich_help_panel=SHOWN)]


def sweep(
    study: StudyName = "quickstart",
    n: NOption = None,
    epsilon: Epsilon = None,
    mu: Mu = None,
    tau: Tau = None,
    gamma: Gamma = None,
    c: COption = None,
    method: Method = None,
    beta: Beta = None,
    b: BOption = None,
    level: Level = None,
    settings: Settings = None,
    seed: Seed = None,
    replicates: Replicates = None,
    target_mcse: TargetMcse = None,
    target_length: TargetLength = None,
    min_replicates: MinReplicates = None,
    max_replicates: MaxReplicates = None,
    out: Out = None,
    engine: EngineOption = Engine.auto,
    address: Address = None,
    num_cpus: NumCpus = None,
    nice: Nice = None,
    fresh: Fresh = False,
    max_time: MaxTime = None,
    max_memory: MaxMemory = None,
    max_in_flight: MaxInFlight = None,
    retries: Retries = 3,
    max_failed: MaxFailed = None,
    dry_run: DryRun = False,
    quiet: Quiet = False,
    no_progress: NoProgress = False,
    verbose: Verbose = False,
) -> None:
    """Run a study and write its rows and summary; run it again to continue it.

    Flags of the design (*) replace the study's values. Repeated, they give a list: --epsilon 0.5 --epsilon 2.
    """
    from ldpflow.study import load_study

    if max_failed is not None and not 0 <= max_failed <= 1:
        raise InputError("max_failed", max_failed, "a share in [0, 1]")
    flags: dict[str, Any] = {
        "n": n,
        "epsilon": epsilon,
        "mu": mu,
        "tau": tau,
        "gamma": gamma,
        "c": c,
        "method": method,
    }
    flags |= {"beta": beta, "B": b, "level": level, "replicates": replicates, "seed": seed}
    chosen = load_study(study).replace(settings_given(settings)).replace(flags)
    targets = targets_of(replicates, target_mcse, target_length, min_replicates, max_replicates)
    if dry_run:
        from ldpflow.cli.dry_run import print_prediction
        from ldpflow.sweeps import cautions

        for text in cautions(chosen):
            print_caution(text)
        print_prediction(chosen, engine.value, num_cpus)
        return

    ended, interrupted = swept(
        chosen,
        out,
        quiet,
        executor=engine.value,
        address=address,
        num_cpus=num_cpus,
        nice=nice,
        keep_ray=True,  # results are shown first; Ray takes seconds to stop
        max_time=max_time,
        max_memory=max_memory,
        max_in_flight=max_in_flight,
        retries=retries,
        fresh=fresh,
        progress=not (quiet or no_progress),
        verbose=verbose,
        **targets,
    )
    if not quiet and not interrupted:
        print_results(chosen, ended, None if any(targets.values()) else chosen.replicates)
    print_troubles(chosen, ended)
    leave(ended, interrupted, max_failed)


def targets_of(
    replicates: str | None,
    target_mcse: float | None,
    target_length: float | None,
    min_replicates: int | None,
    max_replicates: int | None,
) -> dict[str, Any]:
    """The precision asked for, which cannot stand beside a number of replicates."""
    from ldpflow.sweeps import wanted_precision

    targets: dict[str, Any] = {
        "target_mcse": target_mcse,
        "target_length": target_length,
        "min_replicates": min_replicates,
        "max_replicates": max_replicates,
    }
    if wanted_precision(**targets) is not None and replicates is not None:
        raise InputError("replicates", replicates, "nothing where a target decides")
    return targets


def swept(study: Study, out: str | None, quiet: bool, **options: Any) -> tuple[RunResult, bool]:
    """Run the sweep: its result, and whether it was interrupted."""
    from ldpflow.cli import leave_at_once
    from ldpflow.engine import connection
    from ldpflow.errors import SweepInterrupted
    from ldpflow.sweeps import sweep as compute

    connection.when_stuck = lambda lost: leave_at_once(f"{lost}; run the same command again to continue")

    if not quiet:
        options |= {"on_engine": print_note, "on_plan": print_plan}
    try:
        result = compute(study, out, allow_failures=True, on_caution=print_caution, **options).result
        assert result is not None
        return result, False
    except SweepInterrupted as stopped:
        return stopped.result, True


def print_note(text: str) -> None:
    """A line on standard error: above the live display, which takes what goes through sys.stderr."""
    print(text, file=sys.stderr)


def print_caution(text: str) -> None:
    """One line on a study that runs all the same."""
    typer.echo(f"warning: {text}", err=True)


def leave(result: RunResult, interrupted: bool, max_failed: float | None) -> None:
    """End with an exit code of its own where the sweep was interrupted, or too much failed."""
    if interrupted:
        raise typer.Exit(130)
    if max_failed is not None and result.failed_share > max_failed:
        typer.echo(
            f"{result.failures:,} rows failed, a share of {result.failed_share:.3g} > {max_failed}",
            err=True,
        )
        raise typer.Exit(1)
    if result.failed_batches:
        raise typer.Exit(1)


def print_troubles(study: Study, result: RunResult) -> None:
    """Batches that failed, and why the sweep stopped before its end."""
    for failed in result.failed_batches:
        typer.echo(f"failed: {failed}", err=True)
    if result.failures and result.failed_share == 1.0:
        typer.echo(
            f"all {result.failures:,} rows are undefined or diverged: ldpflow explain {result.out}", err=True
        )
    if result.stopped is not None:
        typer.echo(
            f"stopped: {result.stopped}; {done_so_far(study, result)} are in {result.out}. "
            "Run the same command again to continue.",
            err=True,
        )


def done_so_far(study: Study, result: RunResult) -> str:
    """One sentence on the replicates that a stopped sweep has stored."""
    done = f"{result.done_replicates:,} of {result.wanted_replicates:,} replicates"
    if result.paths == 1:
        return done
    return f"{done} ({result.complete_paths:,} of {result.paths:,} paths complete)"


def print_results(study: Study, result: RunResult, wanted: int | None) -> None:
    """The tables of a run, what was computed of it, and where its files are."""
    from ldpflow.cli.summary import read_summary, read_trajectories
    from ldpflow.cli.tables import print_summary, print_trajectories, replicates_in_words

    root = result.out
    table = read_summary(root) if study.method else read_trajectories(root)
    (print_summary if study.method else print_trajectories)(table)
    if study.trajectory is not None:
        typer.echo(f"trajectories in {root}/trajectories, summary in {root}/trajectories.parquet")
    computed = f"computed in {result.wall_seconds:.1f} s" if result.batches else "nothing was computed"
    typer.echo(
        f"{replicates_in_words(table, wanted)}; {computed}; "
        f"rows in {root}/replicates, summary in {root}/summary.parquet"
    )


def print_plan(paths: Sequence[Planned]) -> None:
    """Print how many rows are reused and how many computed, where there are both."""
    reused = sum(path.reused for path in paths)
    if reused == 0:
        return
    computed = sum(path.computed for path in paths)
    print_note(f"rows: {reused:,} reused, {computed:,} to compute")
    if computed == 0:
        return
    for path in paths[:PLAN_LINES]:
        ranges = ", ".join(
            f"replicates {first} to {last - 1}" + (f" of {cells} cells" if cells else "")
            for first, last, cells in path.ranges[:3]
        )
        more = ", ..." if len(path.ranges) > 3 else ""
        settings = f" ({path.settings})" if path.settings else ""
        print_note(
            f"  {path.path}{settings}: {path.reused:,} reused"
            + (f", computed: {ranges}{more}" if ranges else ""),
        )
    if len(paths) > PLAN_LINES:
        print_note(f"  and {len(paths) - PLAN_LINES:,} paths more")
