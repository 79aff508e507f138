"""``ldpflow plan``: what n, epsilon and number of replicates a study takes, and whether its paths arrive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ldpflow.cli.studies import bundled
from ldpflow.cli.sweep import Axis, Engine
from ldpflow.errors import InputError

if TYPE_CHECKING:
    from ldpflow.planning import Plan

PILOT, GOAL = (
    {"rich_help_panel": "A pilot's data, or public bounds"},
    {"rich_help_panel": "What the plan is for"},
)
COMPARE = {"rich_help_panel": "Protocols side by side"}


def plan(
    study: Annotated[
        str | None,
        typer.Argument(
            metavar="STUDY",
            help="A .toml file or the name of a bundled study; quickstart unless given.",
            autocompletion=bundled,
        ),
    ] = None,
    n: Annotated[Axis, typer.Option("--n", metavar="X", help="Users. *")] = None,
    epsilon: Annotated[Axis, typer.Option("--epsilon", metavar="X", help="Privacy budget. *")] = None,
    tau: Annotated[Axis, typer.Option("--tau", metavar="X", help="Level of the quantile. *")] = None,
    level: Annotated[Axis, typer.Option("--level", metavar="X", help="Nominal coverage. *")] = None,
    pilot: Annotated[
        str | None, typer.Option(metavar="FILE", help="Parquet or CSV file with pilot data.", **PILOT)
    ] = None,
    column: Annotated[str | None, typer.Option(metavar="NAME", help="Column of that file.", **PILOT)] = None,
    missing: Annotated[
        str | None, typer.Option(metavar="drop", help="Leave out records without a value.", **PILOT)
    ] = None,
    missing_value: Annotated[
        list[float] | None,
        typer.Option(
            metavar="X",
            help="Number that stands for no value, such as -1: left out. May be repeated.",
            show_default=False,
            **PILOT,
        ),
    ] = None,
    jitter: Annotated[
        float | None, typer.Option(help="Width of the noise that users add to their value.", **PILOT)
    ] = None,
    bounds: Annotated[
        tuple[float, float] | None,
        typer.Option(metavar="LOW HIGH", help="Public bounds of the values.", **PILOT),
    ] = None,
    length: Annotated[
        float | None, typer.Option(help="Length wanted: n at each epsilon, epsilon at each n.", **GOAL)
    ] = None,
    half_width: Annotated[float | None, typer.Option(help="The same as a half width.", **GOAL)] = None,
    response_rate: Annotated[
        float | None, typer.Option(help="Share of users who answer: invitations.", **GOAL)
    ] = None,
    difference: Annotated[
        float | None, typer.Option(help="Difference of two groups to detect: users per group.", **GOAL)
    ] = None,
    power: Annotated[float, typer.Option(help="Probability of detecting the difference.", **GOAL)] = 0.8,
    target_mcse: Annotated[
        float | None, typer.Option(help="Monte Carlo SE of coverage wanted: replicates.", **GOAL)
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Compare all protocols for the study's quantiles.", **COMPARE)
    ] = False,
    range: Annotated[
        tuple[float, float] | None,
        typer.Option("--range", metavar="L U", help="Public range of the values.", **COMPARE),
    ] = None,
    scale_guess: Annotated[
        float | None, typer.Option(help="Public guess of the law's scale, for the bins.", **COMPARE)
    ] = None,
    rounds_max: Annotated[int | None, typer.Option(help="Warn above this many rounds.", **COMPARE)] = None,
    bits_max: Annotated[
        float | None, typer.Option(help="Warn above this many bits per user.", **COMPARE)
    ] = None,
    liars: Annotated[
        float | None, typer.Option(help="Share of users who send the worst possible report.", **COMPARE)
    ] = None,
    answer_below: Annotated[
        float | None, typer.Option(help="Response rate of users with values up to the quantile.", **COMPARE)
    ] = None,
    answer_above: Annotated[
        float | None, typer.Option(help="Response rate of users with values above it.", **COMPARE)
    ] = None,
    answers: Annotated[
        int | None, typer.Option(help="Answers per user; the budget is split between them.", **COMPARE)
    ] = None,
    settings: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.toml", help="Write the settings that `analyse` takes, the method among them."
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Simulate 512 replicates, the recommended methods included."),
    ] = False,
    engine: Annotated[Engine, typer.Option(help="Where --check runs.")] = Engine.auto,
) -> None:
    """Predict interval lengths, or the number of users or the budget that a length takes (utility analysis).

    Lengths are those of the oracle, which knows the variance: other methods approach them as n grows. Where
    the path would still depend on its start after n users there is no length, the exit code is 1, and a line
    below the table says what to change. With --check the exit code is 0 only if the recommended method
    covers. With --compare every row is simulated, with or without it.

    Flags marked * replace the study's values and may be repeated.
    """
    given = locals()
    from ldpflow.cli.plan_tables import print_plan, print_protocols, print_replicates, print_source
    from ldpflow.engine import Precision
    from ldpflow.planning import plan as make_plan
    from ldpflow.planning.plans import OPTIONS
    from ldpflow.study.fields import number

    options = {name: given[name] for name in OPTIONS if given.get(name) is not None}
    options |= {
        name: [number(text) for text in given[name]]
        for name in ("tau", "epsilon", "n", "level")
        if given[name]
    }
    own = pilot is not None or bounds is not None
    precision = None if target_mcse is None else Precision(target_mcse)
    found = make_plan(study if own else study or "quickstart", **options)
    if settings is not None:
        write_settings(found, settings)
    if compare:
        print_protocols(found, half_width if length is None else length / 2, response_rate)
        return
    if own:
        print_source(found)
    wanted = None if length is None else f"length {length:g}"
    wanted = wanted if half_width is None else f"half width {half_width:g}"
    print_plan(found, wanted, difference, response_rate)
    if precision is not None and target_mcse is not None:
        print_replicates(sorted({row["level"] for row in found.rows}), target_mcse, precision)
    if check:
        print_checked(found, engine)
    elif found.refused:
        raise typer.Exit(1)


def write_settings(found: Plan, file: str) -> None:
    """Write the settings of a plan's one row for ``analyse``, into a new file."""
    from ldpflow.study.writing import toml_text

    if len(found.rows) > 1:
        raise InputError("settings", file, "nothing but with one row: one tau, epsilon, n and level")
    text = "# How the reports are collected, and the method: for ldpflow analyse.\n"
    text += toml_text(found.analysis_settings())
    try:
        with open(file, "x", encoding="utf-8") as target:
            target.write(text)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError("settings", file, "a new file that can be written", f"{reason}.") from None


def print_checked(found: Plan, engine: Engine) -> None:
    """Simulate the plan and print what was found; exit code 1 unless the recommended method covers."""
    from ldpflow.cli.plan_tables import print_check

    largest = max(row["n"] for row in found.rows)
    if largest > 10**8:
        raise InputError("n", largest, "at most 1e8 with `check`")
    good = found.check(engine.value)
    print_check(found)
    if not good:
        typer.echo("no recommended method is good at every row", err=True)
        raise typer.Exit(1)
