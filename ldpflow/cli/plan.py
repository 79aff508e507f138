"""``ldpflow plan``: what n, epsilon and number of replicates a study takes, and whether its paths arrive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ldpflow.cli.studies import bundled
from ldpflow.cli.sweep import Axis, Engine
from ldpflow.errors import InputError

if TYPE_CHECKING:
    from ldpflow.planning import Plan


COMPARE = "Protocols side by side"
PILOT, GOAL = "A pilot's data, or public bounds", "What the plan is for"


Study = Annotated[
    str | None,
    typer.Argument(
        metavar="STUDY",
        help="A .toml file or the name of a bundled study; quickstart unless given.",
        autocompletion=bundled,
    ),
]
NOption = Annotated[Axis, typer.Option("--n", metavar="X", help="Users. *")]
Epsilon = Annotated[Axis, typer.Option("--epsilon", metavar="X", help="Privacy budget. *")]
Tau = Annotated[Axis, typer.Option("--tau", metavar="X", help="Level of the quantile. *")]
Level = Annotated[Axis, typer.Option("--level", metavar="X", help="Nominal coverage. *")]
Pilot = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Parquet or CSV file with pilot data.", rich_help_panel=PILOT),
]
Column = Annotated[
    str | None, typer.Option(metavar="NAME", help="Column of that file.", rich_help_panel=PILOT)
]
Missing = Annotated[
    str | None,
    typer.Option(metavar="drop", help="Leave out records without a value.", rich_help_panel=PILOT),
]
MissingValue = Annotated[
    list[float] | None,
    typer.Option(
        "--missing-value",
        metavar="X",
        help="Number that stands for no value, such as -1: left out. May be repeated.",
        rich_help_panel=PILOT,
        show_default=False,
    ),
]
Jitter = Annotated[
    float | None,
    typer.Option(help="Width of the noise that users add to their value.", rich_help_panel=PILOT),
]
Bounds = Annotated[
    tuple[float, float] | None,
    typer.Option(metavar="LOW HIGH", help="Public bounds of the values.", rich_help_panel=PILOT),
]
Length = Annotated[
    float | None,
    typer.Option(help="Length wanted: n at each epsilon, epsilon at each n.", rich_help_panel=GOAL),
]
HalfWidth = Annotated[float | None, typer.Option(help="The same as a half width.", rich_help_panel=GOAL)]
ResponseRate = Annotated[
    float | None,
    typer.Option(help="Share of users who answer: invitations.", rich_help_panel=GOAL),
]
Difference = Annotated[
    float | None,
    typer.Option(help="Difference of two groups to detect: users per group.", rich_help_panel=GOAL),
]
Power = Annotated[float, typer.Option(help="Probability of detecting the difference.", rich_help_panel=GOAL)]
TargetMcse = Annotated[
    float | None,
    typer.Option(help="Monte Carlo SE of coverage wanted: replicates.", rich_help_panel=GOAL),
]
Compare = Annotated[
    bool,
    typer.Option(
        "--compare", help="Compare all protocols for the study's quantiles.", rich_help_panel=COMPARE
    ),
]
Range = Annotated[
    tuple[float, float] | None,
    typer.Option("--range", metavar="L U", help="Public range of the values.", rich_help_panel=COMPARE),
]
ScaleGuess = Annotated[
    float | None,
    typer.Option(help="Public guess of the law's scale, for the bins.", rich_help_panel=COMPARE),
]
RoundsMax = Annotated[int | None, typer.Option(help="Warn above this many rounds.", rich_help_panel=COMPARE)]
BitsMax = Annotated[
    float | None, typer.Option(help="Warn above this many bits per user.", rich_help_panel=COMPARE)
]
Liars = Annotated[
    float | None,
    typer.Option(help="Share of users who send the worst possible report.", rich_help_panel=COMPARE),
]
AnswerBelow = Annotated[
    float | None,
    typer.Option(
        help="Response rate of users with values up to the quantile.",
        rich_help_panel=COMPARE,
    ),
]
AnswerAbove = Annotated[
    float | None, typer.Option(help="Response rate of users with values above it.", rich_help_panel=COMPARE)
]
Answers = Annotated[
    int | None,
    typer.Option(help="Answers per user; the budget is split between them.", rich_help_panel=COMPARE),
]
Settings = Annotated[
    str | None,
    typer.Option(metavar="FILE.toml", help="Write the settings that `analyse` takes, the method among them."),
]
Check = Annotated[
    bool,
    typer.Option("--check", help="Simulate 512 replicates, the recommended methods included."),
]
EngineOption = Annotated[Engine, typer.Option(help="Where --check runs.")]


def plan(
    study: Study = None,
    n: NOption = None,
    epsilon: Epsilon = None,
    tau: Tau = None,
    level: Level = None,
    pilot: Pilot = None,
    column: Column = None,
    missing: Missing = None,
    missing_value: MissingValue = None,
    jitter: Jitter = None,
    bounds: Bounds = None,
    length: Length = None,
    half_width: HalfWidth = None,
    response_rate: ResponseRate = None,
    difference: Difference = None,
    power: Power = 0.8,
    target_mcse: TargetMcse = None,
    compare: Compare = False,
    range: Range = None,
    scale_guess: ScaleGuess = None,
    rounds_max: RoundsMax = None,
    bits_max: BitsMax = None,
    liars: Liars = None,
    answer_below: AnswerBelow = None,
    answer_above: AnswerAbove = None,
    answers: Answers = None,
    settings: Settings = None,
    check: Check = False,
    engine: EngineOption = Engine.auto,
) -> None:
    """Predict interval lengths, or the number of users or the budget that a length takes (utility analysis).

    Lengths are those of the oracle, which knows the variance: other methods approach them as n grows. Where
    the path would still depend on its start after n users there is no length, the exit code is 1, and a line
    below the table says what to change. With --check the exit code is 0 only if the recommended method
    covers. With --compare every row is simulated, with or without it.

    Flags marked * replace the study's values and may be repeated.
    """
    from ldpflow.cli.plan_protocols import print_protocols
    from ldpflow.cli.plan_tables import print_plan, print_replicates, print_source
    from ldpflow.engine import Precision
    from ldpflow.planning import plan as make_plan

    comparison: dict[str, Any] = {
        "range": range,
        "scale_guess": scale_guess,
        "rounds_max": rounds_max,
        "bits_max": bits_max,
        "liars": liars,
        "answer_below": answer_below,
        "answer_above": answer_above,
        "answers": answers,
    }
    precision = None if target_mcse is None else Precision(target_mcse)
    own = pilot is not None or bounds is not None
    found = make_plan(
        study if own else study or "quickstart",
        pilot=pilot,
        column=column,
        missing=missing,
        missing_value=missing_value,
        jitter=jitter,
        bounds=bounds,
        tau=read(tau),
        epsilon=read(epsilon),
        n=read(n),
        level=read(level),
        length=length,
        half_width=half_width,
        response_rate=response_rate,
        difference=difference,
        power=power,
        compare=compare,
        **{name: value for name, value in comparison.items() if value is not None},
    )
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
        checked(found, engine)
    elif found.refused:
        raise typer.Exit(1)


def write_settings(found: Plan, file: str) -> None:
    """Write the settings of a plan's one row for ``analyse``, into a new file."""
    from ldpflow.planning import ProtocolsPlan
    from ldpflow.study.writing import toml_text

    if isinstance(found, ProtocolsPlan) or len(found.rows) > 1:
        raise InputError("settings", file, "nothing but with one row: one tau, epsilon, n and level")
    text = "# How the reports are collected, and the method: for ldpflow analyse.\n"
    text += toml_text(found.analysis_settings())
    try:
        with open(file, "x", encoding="utf-8") as target:
            target.write(text)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError("settings", file, "a new file that can be written", f"{reason}.") from None


def checked(found: Plan, engine: Engine) -> None:
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


def read(texts: Any) -> list[Any] | None:
    """Values of a repeated flag as numbers."""
    from ldpflow.study.fields import number

    return None if texts is None else [number(text) for text in texts]
