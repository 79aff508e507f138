"""``ldpflow plan``: what n, epsilon and number of replicates a study takes, and whether its paths arrive."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ldpflow.cli.studies import bundled
from ldpflow.cli.sweep import Axis, Engine
from ldpflow.errors import InputError

if TYPE_CHECKING:
    from ldpflow.cli.tables import Shown
    from ldpflow.planning import Plan

__all__ = ["plan"]

PILOT, GOAL = "A pilot's data, or public bounds", "What the plan is for"


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
        str | None,
        typer.Option(metavar="FILE", help="Parquet or CSV file with a pilot.", rich_help_panel=PILOT),
    ] = None,
    column: Annotated[
        str | None, typer.Option(metavar="NAME", help="Its column.", rich_help_panel=PILOT)
    ] = None,
    missing: Annotated[
        str | None,
        typer.Option(metavar="drop", help="Leave out records without a value.", rich_help_panel=PILOT),
    ] = None,
    jitter: Annotated[
        float | None,
        typer.Option(help="Width of the noise that users add to their value.", rich_help_panel=PILOT),
    ] = None,
    bounds: Annotated[
        tuple[float, float] | None,
        typer.Option(metavar="LOW HIGH", help="Bounds of the data.", rich_help_panel=PILOT),
    ] = None,
    length: Annotated[
        float | None,
        typer.Option(help="Length wanted: which n at epsilon, which epsilon at n.", rich_help_panel=GOAL),
    ] = None,
    half_width: Annotated[float | None, typer.Option(help="Half of it.", rich_help_panel=GOAL)] = None,
    response_rate: Annotated[
        float | None,
        typer.Option(help="Share of users who answer: how many to invite.", rich_help_panel=GOAL),
    ] = None,
    difference: Annotated[
        float | None,
        typer.Option(help="Between two groups: how many users in each.", rich_help_panel=GOAL),
    ] = None,
    power: Annotated[
        float, typer.Option(help="Probability of finding the difference.", rich_help_panel=GOAL)
    ] = 0.8,
    target_mcse: Annotated[
        float | None,
        typer.Option(help="MCSE of coverage wanted: how many replicates.", rich_help_panel=GOAL),
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Simulate 512 replicates, the recommended methods included."),
    ] = False,
    engine: Annotated[Engine, typer.Option(help="Where --check runs.")] = Engine.ray,
) -> None:
    """Predict lengths, whether paths arrive, and what reaching a target takes.

    Lengths are the oracle's: other methods approach them as n grows. A row whose path does not arrive has
    none, and the exit code is 1; what would do is said below the table. With --check the exit code is 0
    only where the recommended method covers. Flags marked * replace the study's values and may be repeated.
    """
    from ldpflow.cli.tables import print_rows
    from ldpflow.engine import Precision
    from ldpflow.planning import plan as make_plan

    precision = None if target_mcse is None else Precision(target_mcse)
    own = pilot is not None or bounds is not None
    found = make_plan(
        study if own else study or "quickstart",
        pilot=pilot,
        column=column,
        missing=missing,
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
    )
    if own:
        print_source(found, pilot)
    target = length if half_width is None else 2 * half_width
    print_rows(shown(found, target, difference), found.rows)
    for text in found.cautions:
        typer.echo(text)
    if response_rate is not None:
        invited = ", ".join(f"{row['invitations']:,}" for row in unique(found.rows, "invitations"))
        typer.echo(
            f"invitations at a response rate of {response_rate:g}: {invited} (if answering has nothing to "
            "do with the value)"
        )
    if precision is not None and target_mcse is not None:
        print_replicates(sorted({row["level"] for row in found.rows}), target_mcse, precision)
    if not check:
        if found.refused:
            raise typer.Exit(1)
        return
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


def unique(rows: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """The first row of every value of a column."""
    return list({row[name]: row for row in reversed(rows)}.values())[::-1]


def print_source(found: Plan, pilot: str | None) -> None:
    """The quantiles and 1/f of the law, by tau."""
    for row in unique(found.rows, "tau"):
        ends = (
            ""
            if row["sparsity_low"] is None
            else f" (90%: {row['sparsity_low']:,.4g} .. {row['sparsity_high']:,.4g})"
        )
        head = "pilot" if pilot is not None else "guessed from the bounds"
        size = "" if row["pilot_values"] is None else f"{row['pilot_values']:,} values, "
        scale = f"scale 1/f = {row['sparsity']:,.4g}{ends}"
        typer.echo(f"{head}: {size}{row['tau']:g}-quantile {row['quantile']:,.4g}, {scale}")


def shown(found: Plan, target: float | None, difference: float | None) -> list[Shown]:
    """Columns of the table."""
    from ldpflow.cli.tables import plain, rounded, short, telling

    rows = found.rows
    first = list(rows[0])
    settings = [name for name in first[: first.index("half_width")] if name not in HIDDEN]
    columns: list[Shown] = [*map(plain, telling(settings, rows) or ["n"])]
    if "c" in rows[0] and "c" not in settings:
        columns += [
            ("c", lambda row: rounded(row["c"], 3)),
            ("theta0", lambda row: rounded(row["theta0"], 3)),
        ]
    columns += [
        ("half width", half_width_text),
        ("length", lambda row: rounded(row["length"], 4)),
        ("SE", lambda row: rounded(row["standard_error"], 4)),
        ("K", lambda row: rounded(row["relaxation_times_planned"], 3)),
        ("bias", bias_text),
        ("verdict", lambda row: (row["arrival"] or "-").replace("_", " ")),
        ("method", lambda row: row["recommended"] or ("-" if row["arrival"] is None else "none")),
    ]
    if target is not None:
        columns += [
            (f"n for {short(target)}", lambda row: counted(row["n_needed"], row["arrival_needed"])),
            (f"epsilon for {short(target)}", lambda row: reachable(row["epsilon_needed"])),
        ]
    if difference is not None:
        name = f"n per group for {short(difference)}"
        columns.append((name, lambda row: counted(row["n_per_group"], row["arrival_per_group"])))
    return columns


HIDDEN = ("path", "standard_error", "quantile", "sparsity", "pilot_values")


def half_width_text(row: dict[str, Any]) -> str:
    """Half width, with the range that the pilot leaves open."""
    from ldpflow.cli.tables import rounded

    text = rounded(row["half_width"], 4)
    if row.get("half_width_low") is None:
        return text
    return f"{text} (pilot: {rounded(row['half_width_low'], 3)} .. {rounded(row['half_width_high'], 3)})"


def bias_text(row: dict[str, Any]) -> str:
    """Predicted bias in standard errors."""
    if row["bias_start"] is None:
        return "-"
    return f"{row['bias_start'] + row['bias_steps']:+.2f} SE"


def counted(count: int | None, verdict: str | None) -> str:
    """A number of users, and the verdict with them unless they arrive."""
    if count is None:
        return "-"
    return f"{count:,}" if verdict in (None, "arrived") else f"{count:,} ({verdict.replace('_', ' ')})"


def reachable(epsilon: float | None) -> str:
    """A budget; none where no budget is enough."""
    if epsilon is None:
        return "-"
    return "none" if epsilon == math.inf else f"{epsilon:g}"


def print_replicates(levels: list[float], target_mcse: float, precision: Any) -> None:
    """How many replicates a target for the MCSE takes."""
    from ldpflow.engine.precision import stopped_coverage

    for nominal in levels:
        fixed = -(-nominal * (1 - nominal) // target_mcse**2)
        mean, _, taken = stopped_coverage(nominal, precision)
        typer.echo(
            f"MCSE {target_mcse:g} of a coverage of {nominal:g}: {fixed:,.0f} replicates; "
            f"sweep --target-mcse takes {taken:,.0f} on average, bias {mean - nominal:+.5f}"
        )


def print_check(found: Plan) -> None:
    """Predictions beside what the simulation gave."""
    from ldpflow.cli.tables import count_apart, plain, print_rows, rounded, with_error
    from ldpflow.planning.checking import name_of

    rows = [{**row, "method": name_of(row)} for row in found.checked]
    settings = [name for name in rows[0] if name not in ("path", "replicates", "failures")]
    settings = settings[: settings.index("truth")]
    for name in reversed(settings):
        others = [other for other in settings if other != name]
        if name != "method" and count_apart(others, rows) == count_apart(settings, rows):
            settings = others
    print_rows(
        [
            *map(plain, settings),
            ("predicted SE", lambda row: rounded(row["predicted_se"], 4)),
            ("emp. SE", lambda row: with_error(row["empirical_se"], row["empirical_se_mcse"])),
            ("length", lambda row: rounded(row["length_mean"], 4)),
            ("coverage", coverage_text),
            ("", lambda row: row["judgement"]),
        ],
        rows,
    )


def coverage_text(row: dict[str, Any]) -> str:
    """Coverage with failures as misses, and its Wilson interval."""
    name = "coverage_failures_as_misses"
    return f"{row[name]:.3f} [{row[name + '_low']:.3f}, {row[name + '_high']:.3f}]"
