"""``ldpflow sweep --dry-run``: what a study would take.

``ldpflow check``: is a run whole.

``ldpflow sweep``: run a study.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ldpflow.cli.flags import METHODS, StudyName, settings_given
from ldpflow.cli.results import Run
from ldpflow.errors import InputError, plain_text
from ldpflow.options import Engine, SweepOptions
from ldpflow.study import Study

if TYPE_CHECKING:
    from ldpflow.engine.loop import Planned, RunResult
    from ldpflow.study import Study


def print_prediction(study: Study, engine: str, num_cpus: int | None) -> None:
    """Print the size of a study and the time it is expected to take on this machine."""
    from ldpflow.engine.prediction import cores_of, predict

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


def check(
    run: Run,
    repair: Annotated[
        bool, typer.Option("--repair", help="Set bad parts aside and compute them again.")
    ] = False,
    engine: Annotated[Engine, typer.Option(help="Where --repair computes.")] = Engine.auto,
    recompute: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="Compute a random share of the replicates again, e.g. 0.01."),
    ] = None,
) -> None:
    """Check that a run is complete and unchanged, and that its summary follows from its rows.

    Checksums find changed bytes, missing rows and rows that are stored twice. Rows that were edited and saved
    with new checksums break a rule that every row obeys, or differ from what --recompute computes.
    """
    from ldpflow.engine.check import check_run, repair_run

    findings, counts = check_run(run, recompute)
    for finding in findings:
        typer.echo(plain_text(finding.what))
    if findings and repair:
        repair_run(run, engine=engine.value)
        findings, counts = check_run(run)
        for finding in findings:
            typer.echo(plain_text(f"after the repair: {finding.what}"))
    verdict = "all is well" if not findings else f"{len(findings):,} findings"
    typer.echo(f"{counts['parts']:,} parts, {counts['rows']:,} rows: {verdict}")
    if findings:
        raise typer.Exit(1)


PLAN_LINES = 12


OPTIONS = {declared.name: declared for declared in fields(SweepOptions)}


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


def flag(name: str, panel: str, metavar: str | None = None, **more: Any) -> Any:
    """A flag for an option of a sweep, with its help, bounds and default."""
    declared = OPTIONS[name].metadata
    bounds = {}
    if declared["kind"] is int:
        bounds = {"min": declared["least"]} | ({"max": declared["most"]} if declared["most"] < 1e9 else {})
    shown = {} if declared["shown"] is None else {"show_default": declared["shown"]}
    text = declared["help"].replace("`address`", "--address")
    names = [f"--{name}"] if declared["kind"] is bool else []  # without a --no-{name}
    option: Any = typer.Option
    return option(*names, metavar=metavar, help=text, rich_help_panel=panel, **bounds, **shown, **more)


Seed = Annotated[str | None, typer.Option(metavar="X", help="Seed of the study.", rich_help_panel=DESIGN)]
Replicates = Annotated[
    str | None,
    typer.Option(metavar="X", help="Independent paths per cell.", rich_help_panel=PRECISION),
]
TargetMcse = Annotated[float | None, flag("target_mcse", PRECISION, "X")]
TargetLength = Annotated[float | None, flag("target_length", PRECISION, "X")]
MinReplicates = Annotated[int | None, flag("min_replicates", PRECISION, "N")]
MaxReplicates = Annotated[int | None, flag("max_replicates", PRECISION, "N")]
Out = Annotated[
    str | None,
    typer.Option(
        metavar="RUN",
        help="Run directory; an existing one is continued.",
        show_default="runs/<name of the study>",
        rich_help_panel=WHERE,
    ),
]
EngineOption = Annotated[Engine, flag("engine", WHERE)]
Address = Annotated[str | None, flag("address", WHERE, "ADDRESS")]
NumCpus = Annotated[int | None, flag("num_cpus", WHERE, "N")]
Nice = Annotated[int | None, flag("nice", WHERE, "N")]
Fresh = Annotated[bool, flag("fresh", WHERE)]
MaxTime = Annotated[str | None, flag("max_time", LIMITS, "T")]
MaxMemory = Annotated[str | None, flag("max_memory", LIMITS, "SIZE")]
MaxInFlight = Annotated[int | None, flag("max_in_flight", LIMITS, "N")]
Retries = Annotated[int, flag("retries", LIMITS, "N")]
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
Verbose = Annotated[bool, flag("verbose", SHOWN)]


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
    options = SweepOptions(
        engine=engine.value,
        address=address,
        num_cpus=num_cpus,
        nice=nice,
        keep_ray=True,  # results are shown first; Ray takes seconds to stop
        fresh=fresh,
        target_mcse=target_mcse,
        target_length=target_length,
        min_replicates=min_replicates,
        max_replicates=max_replicates,
        max_time=max_time,  # type: ignore[arg-type]  # a text is read
        max_memory=max_memory,  # type: ignore[arg-type]
        max_in_flight=max_in_flight,
        retries=retries,
        verbose=verbose,
    )
    if options.until_precise and replicates is not None:
        raise InputError("replicates", replicates, "nothing where a target decides")
    if dry_run:
        from ldpflow.sweeps import cautions

        for text in cautions(chosen):
            print_caution(text)
        print_prediction(chosen, engine.value, num_cpus)
        return

    ended, interrupted = run_sweep(chosen, out, options, quiet, not (quiet or no_progress))
    if not quiet and not interrupted:
        print_results(chosen, ended, None if options.until_precise else chosen.replicates)
    print_troubles(chosen, ended)
    leave(ended, interrupted, max_failed)


def run_sweep(
    study: Study, out: str | None, options: SweepOptions, quiet: bool, progress: bool
) -> tuple[RunResult, bool]:
    """Run the sweep: its result, and whether it was interrupted."""
    from ldpflow import sweeps
    from ldpflow.cli import leave_at_once
    from ldpflow.engine import ray_executor
    from ldpflow.errors import SweepInterrupted

    ray_executor.when_stuck = lambda lost: leave_at_once(f"{lost}; run the same command again to continue")
    on_plan, on_engine = (None, None) if quiet else (print_plan, print_note)
    try:
        result = sweeps.run_sweep(study, out, options, progress, on_plan, on_engine, print_caution).result
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
    from ldpflow.cli.results import read_summary, read_trajectories
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
