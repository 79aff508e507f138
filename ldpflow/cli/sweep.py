"""Commands that compute: ``sweep``, ``replay`` and ``check``."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ldpflow.cli.flags import (
    Axis,
    Format,
    PathKey,
    Run,
    StudyName,
    TableFormat,
    flag,
    flag_parameter,
    parse_settings,
    print_wrapped,
    set_parameters,
)
from ldpflow.columns import counted
from ldpflow.errors import InputError, SweepInterrupted, distinct_failures
from ldpflow.options import Engine, SweepOptions, kind_of

if TYPE_CHECKING:
    import ldpflow.run
    from ldpflow.cli.tables import Sheet
    from ldpflow.engine.loop import RunResult
    from ldpflow.study import Study

DESIGN, PRECISION = "The design *", "How many replicates"
WHERE, LIMITS, SHOWN = "Where it runs", "Limits and faults", "What is shown"

AXES = {
    "n": ("Number of users, such as 1e6.", DESIGN),
    "epsilon": ("Privacy budget.", DESIGN),
    "mu": ("Budget of the Gaussian mechanism (GDP).", DESIGN),
    "tau": ("Level of the quantile.", DESIGN),
    "gamma": ("Step-size exponent.", DESIGN),
    "c": ("Step-size constant.", DESIGN),
    "method": ("Interval method, such as BB, BM, SN or TR (ldpflow list methods).", DESIGN),
    "beta": ("Block exponent of BB.", DESIGN),
    "B": ("Bootstrap replications of BB.", DESIGN),
    "level": ("Nominal coverage.", DESIGN),
    "seed": ("Seed of the study.", DESIGN),
    "replicates": ("Independent paths per cell.", PRECISION),
}
"""Settings of a study that have a flag: text and panel of the flag's help."""

OPTIONS = {
    "target_mcse": (PRECISION, "X"),
    "target_length": (PRECISION, "X"),
    "min_replicates": (PRECISION, "N"),
    "max_replicates": (PRECISION, "N"),
    "engine": (WHERE, None),
    "address": (WHERE, "ADDRESS"),
    "num_cpus": (WHERE, "N"),
    "nice": (WHERE, "N"),
    "fresh": (WHERE, None),
    "max_time": (LIMITS, "T"),
    "max_memory": (LIMITS, "SIZE"),
    "max_in_flight": (LIMITS, "N"),
    "retries": (LIMITS, "N"),
    "verbose": (SHOWN, None),
}
"""Options of a sweep that have a flag: panel of the help and placeholder."""


def flag_parameters() -> Iterator[Parameter]:
    """Parameters for AXES and OPTIONS. Help and defaults of options come from SweepOptions."""
    for name, (text, panel) in AXES.items():
        values = str | None if name in ("seed", "replicates") else Axis
        yield flag_parameter(name, values, None, text, "ID" if name == "method" else "X", panel=panel)
    declarations = {declared.name: declared for declared in fields(SweepOptions)}
    for name, (panel, placeholder) in OPTIONS.items():
        declared = declarations[name]
        details, default = declared.metadata, declared.default
        kind: Any = str if details["read"] else kind_of(declared)
        if name == "engine":
            kind, default = Engine, Engine.auto
        kind = kind if default is not None else kind | None
        more = {"shown": details["shown"] or True, "panel": panel}
        yield flag_parameter(name, kind, default, details["help"], placeholder, **more)


def sweep(
    study: StudyName = "quickstart",
    *,
    settings: Annotated[
        Axis, flag("Any setting: mechanism.epsilon=0.5,2.", "NAME=X", panel=DESIGN, name="--set")
    ] = None,
    out: Annotated[
        str | None,
        flag(
            "Run directory. An existing run is continued.",
            "RUN",
            shown="runs/<name of the study>",
            panel=WHERE,
        ),
    ] = None,
    dry_run: Annotated[
        bool, flag("Print the expected time and run nothing.", name="--dry-run", panel=SHOWN)
    ] = False,
    quiet: Annotated[bool, flag("No progress, no summary.", name="--quiet", panel=SHOWN)] = False,
    no_progress: Annotated[bool, flag("No progress.", name="--no-progress", panel=SHOWN)] = False,
    **flags: Any,
) -> None:
    """Run a study and write its rows and summary. Run the command again to continue the sweep.

    Flags of the design (*) replace values of the study. Repeat a flag for several values: --epsilon 0.5
    --epsilon 2.
    """
    from ldpflow.study import load_study

    design = {name: flags[name] for name in AXES}
    changes = {name: v[0] if len(v) == 1 else v for name, v in parse_settings(settings).items()}
    chosen = load_study(study).replace(changes).replace(design)
    given = {name: flags[name] for name in OPTIONS} | {"engine": flags["engine"].value}
    options = SweepOptions(**given, keep_ray=True)  # Ray takes seconds to stop: print results first
    if options.until_precise and design["replicates"] is not None:
        raise InputError("replicates", design["replicates"], "cannot be used with a target")
    if dry_run:
        from ldpflow.sweeps import cautions

        for text in cautions(chosen):
            print_caution(text)
        print_prediction(chosen, options)
        return
    from ldpflow import sweeps
    from ldpflow.cli import leave_at_once
    from ldpflow.engine import ray_executor

    ray_executor.when_stuck = lambda lost: leave_at_once(f"{lost}; {options.again} to continue")
    on_plan, on_engine = (None, None) if quiet else (print_plan, print_note)
    progress = not (quiet or no_progress)
    try:
        run = sweeps.run_sweep(chosen, out, options, progress, on_plan, on_engine, print_caution)
    except SweepInterrupted as stopped:
        print_troubles(stopped.result, options.again)
        raise typer.Exit(130) from None
    result = run.result
    assert result is not None
    if not quiet:
        print_results(chosen, run, result, options.until_precise)
    print_troubles(result, options.again)
    if result.failed_batches:
        raise typer.Exit(1)


first, *others = signature(sweep, eval_str=True).parameters.values()
set_parameters(sweep, [first, *flag_parameters(), *others[:-1]])


def print_note(text: str) -> None:
    """Print a line on standard error. The live display redirects sys.stderr and prints it above itself."""
    print(text, file=sys.stderr)


def print_caution(text: str) -> None:
    flagged = re.sub(r"`(out|fresh)`", r"--\1", text)
    print_wrapped(f"warning: {flagged}")


def print_prediction(study: Study, options: SweepOptions) -> None:
    from ldpflow.cli.tables import span
    from ldpflow.engine.precision import Precision
    from ldpflow.engine.prediction import cores_of, predict
    from ldpflow.results.arena import enough_in_words, least_replicates, probability_to_hold

    precision, plans = Precision.of(options, study), study.plans()
    replicates = study.replicates if precision is None else precision.expected(study.level)
    about = "" if precision is None else "about " if precision.target_length is None else "at least "
    cores = cores_of(options.engine, options.num_cpus)
    prediction = predict(plans, replicates, cores, options.engine)
    cells = sum(len(plan.cells) for plan in plans)
    typer.echo(
        f"{study.name}: {counted(len(plans), 'path')}, {counted(cells, 'cell')}, "
        f"{about}{replicates:,} replicates; {prediction.steps:.3g} steps\n"
        f"{span(prediction.nanoseconds)} ns per step and replicate on one core, measured now\n"
        f"CPU time: {duration(prediction.kernel_seconds)} in recursions, "
        f"{duration(prediction.interval_seconds)} in intervals and trajectories\n"
        f"expected: {duration(prediction.wall_seconds)} with --engine {prediction.engine} on "
        f"{counted(cores, 'core')}; nothing was run"
    )
    level = max(study.level, key=least_replicates, default=0.0)
    if study.method and replicates < least_replicates(level):
        chance = probability_to_hold(level, replicates)
        words = f"With {replicates:,} replicates the probability is {chance:.0%}."
        print_wrapped(f"{enough_in_words([level])}. {words}", sys.stdout)


def duration(seconds: float) -> str:
    for limit, unit, name in ((120, 1, "s"), (7200, 60, "min"), (172800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / unit:.1f} {name}"
    return f"{seconds / 86400:.1f} days"


def print_plan(reused: int, computed: int) -> None:
    if reused:
        print_note(f"rows: {reused:,} reused, {computed:,} to compute")


def print_results(study: Study, run: ldpflow.run.Run, result: RunResult, until_precise: bool) -> None:
    from ldpflow.cli.sheets import summary_sheet, trajectory_sheet
    from ldpflow.study.plugins import plugin_flags
    from ldpflow.study.stored import stored_notes

    out = shlex.quote(run.out)
    if study.method:
        table = run.summary()
        sheet = summary_sheet(table, f"ldpflow summary {out} --all")
        last = f"Next: ldpflow report {out}{plugin_flags(study.components())}"
        notes = [*sheet.notes, *stored_notes(run.store), *([last] if table.num_rows else [])]
        replace(sheet, notes=notes).show(every=False)
    else:
        trajectory_sheet(run.trajectories()).show()
    computed = f"computed in {result.wall_seconds:.1f} s" if result.batches else "nothing was computed"
    done = "at least " * until_precise + counted(result.finished_replicates, "replicate")
    print_wrapped(f"{done}; {computed}; rows in {run.out}", sys.stdout)


def print_troubles(result: RunResult, again: str) -> None:
    for failed in distinct_failures(result.failed_batches):
        print_note(f"failed: {failed}")  # not wrapped: it has a command to copy
    if result.failures and result.failed_share == 1.0:
        print_wrapped(f"all {result.failures:,} rows are undefined or diverged: ldpflow explain {result.out}")
    if result.stopped is not None:
        from ldpflow.engine.run import progress_text

        done = f"{progress_text(vars(result))} are in {result.out}"
        print_wrapped(f"stopped: {result.stopped}; {done}. {again.capitalize()} to continue.")


def replay(
    run: Run,
    replicate: Annotated[int, flag("Index of the replicate.", min=0)],
    path: PathKey = None,
    last: Annotated[int | None, flag("Last replicate of several.", shown="--replicate", min=0)] = None,
    form: TableFormat = Format.table,
) -> None:
    """Compute replicates again and compare them with the stored rows bit by bit."""
    from ldpflow.run import open_run

    replayed = open_run(run).replay(path, replicate, last)
    if replayed.stored.num_rows == 0:
        typer.echo(f"{replayed.computed.num_rows:,} rows computed; nothing is stored to compare them with")
        return
    replay_sheet(replayed).show(form)
    if not replayed.equal:
        raise typer.Exit(1)


def replay_sheet(replayed: ldpflow.run.Replay) -> Sheet:
    """Sheet of computed and stored values, one line per value. Equal diagnostics are left out."""
    from ldpflow.cli.tables import Sheet, plain
    from ldpflow.store.schema import STATISTICS, cell_keys

    columns = replayed.computed.column_names
    computed, stored = replayed.computed.to_pylist(), replayed.stored.to_pylist()
    keys = dict.fromkeys(("replicate", *cell_keys(replayed.computed.schema), "step", "coordinate"))
    varying = [key for key in keys if key in columns and len({row[key] for row in computed + stored}) > 1]
    lines = []
    for ours, theirs in zip(computed, stored, strict=False):
        for name in columns:
            values = exact_text(ours[name]), exact_text(theirs[name])
            printed = name in VALUES or (name in STATISTICS and ours[name] is not None)
            if name not in keys and (printed or values[0] != values[1]):
                mark = "" if values[0] == values[1] else "DIFFERENT"
                line = {"value": name, "computed": values[0], "stored": values[1], "": mark}
                lines.append({key: ours[key] for key in varying} | line)
    names = [*varying, "value", "computed", "stored", ""]
    verdict = "equal, bit for bit" if replayed.equal else "DIFFERENT"
    return Sheet(lines, list(map(plain, names)), names=names, notes=[verdict])


def exact_text(value: Any) -> str:
    """Text of a value. Floats with equal bits, including NaN, have equal texts."""
    return repr(value) if isinstance(value, float) else "-" if value is None else str(value)


VALUES = ("estimate", "se", "lower", "upper", "covered", "status")
"""Values of a row that ``replay`` prints even if they are equal."""


def check(
    run: Run,
    repair: Annotated[bool, flag("Move bad parts aside and compute them again.", name="--repair")] = False,
    engine: Annotated[Engine, flag("Where --repair computes.")] = Engine.auto,
    recompute: Annotated[
        float | None, flag("Compute a random share of the replicates again, e.g. 0.01.", "SHARE")
    ] = None,
) -> None:
    """Check that a run is complete and unchanged, and that its summary follows from its rows.

    It finds changed bytes by checksums, missing rows, and rows that are stored twice. Edited rows with new
    checksums are found if they break a rule for rows, or if --recompute computes other values.
    """
    from ldpflow.engine.check import repair_run
    from ldpflow.run import open_run

    opened = open_run(run)
    found = opened.check(recompute)
    for finding in found.findings:
        typer.echo(finding.what)
    if found.findings and repair:
        repair_run(run, engine=engine.value)
        found = opened.check()
        for finding in found.findings:
            typer.echo(f"after the repair: {finding.what}")
    typer.echo(found.verdict)
    if not found.passed:
        raise typer.Exit(1)
