"""Tables and lines of ``ldpflow plan``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

from ldpflow.cli.tables import (
    Shown,
    fits,
    plain,
    print_rows,
    rich_table,
    rounded,
    short,
    with_error,
)
from ldpflow.report.numbers import distinguishing_columns

if TYPE_CHECKING:
    from ldpflow.planning import Plan


Row = dict[str, Any]

ANSWERS = ("users", "answers_each", "epsilon_per_user")

HIDDEN = ("path", "quantile", "sparsity", "pilot", "pilot_values", *ANSWERS)
DESIGN = ("c", "gamma", "theta0")
FIRST_MEASURE = "standard_error"

ORACLE = (
    "Lengths are those of the oracle, which knows the true variance. Intervals that estimate it differ: "
    "BB and BM are mostly shorter and cover less, SN and TR are longer (--check simulates them)."
)


LEGEND = (
    "Every number is that of the interval in its row, simulated: of LDP-SGD the one that plan recommends, of "
    "histograms the outer, of rounds Fieller's. half width: the median. coverage: undefined ones are misses."
)


def print_source(found: Plan) -> None:
    """The quantiles and 1/f of the law that a plan starts from, by tau."""
    for row in unique(found.rows, "tau"):
        low, high = row["sparsity_low"], row["sparsity_high"]
        ends = f" ({'90%' if row['pilot'] else 'laws tried'}: {low:,.4g} .. {high:,.4g})"
        head = "guessed from the bounds"
        if row["pilot"] is not None:
            head = f"pilot: {row['pilot']}, {row['pilot_values']:,} values"
        scale = f"scale 1/f = {row['sparsity']:,.4g}{ends}"
        typer.echo(f"{head}, {row['tau']:g}-quantile {row['quantile']:,.4g}, {scale}")


def print_plan(
    found: Plan, wanted: str | None, difference: float | None, response_rate: float | None
) -> None:
    """The table of a plan, what its numbers are, cautions and invitations.

    Parameters
    ----------
    found : Plan
    wanted : str or None
        The goal in words, as in ``length 0.01``.
    difference : float or None
        Between two groups.
    response_rate : float or None
    """
    rows = found.rows
    chosen = "half_width_low" in rows[0]  # steps and start were chosen for the reader
    hidden = (*HIDDEN, *DESIGN) if chosen else HIDDEN
    first = list(rows[0])
    names = [name for name in first[: first.index(FIRST_MEASURE)] if name not in hidden]
    settings: list[Shown] = [*map(plain, distinguishing_columns(names, rows, implied=True) or ["n"])]
    in_units = any("length_in_units" in row for row in rows)
    methods = any(row["n_with_method"] is not None for row in rows)
    print_parts(settings, [*measures(chosen, in_units), *goals(wanted, methods, difference)], rows)
    if any(row["length"] is not None for row in rows):
        typer.echo(ORACLE)
    for text in found.cautions:
        typer.echo(text)
    print_users(rows, names, response_rate)
    if wanted is not None and methods:
        apart = [
            name for name in distinguishing_columns(names, rows, implied=True) if name not in ("n", "level")
        ]
        for text in dict.fromkeys(answer(row, wanted, apart, response_rate) for row in rows):
            typer.echo(text)


def print_users(rows: list[Row], names: Sequence[str], response_rate: float | None) -> None:
    """Users, answers of each, the budget of a user and invitations of every row, where that is asked for."""
    several = len({row.get("tau") for row in rows}) > 1
    if response_rate is None and not several:
        return
    apart = [name for name in distinguishing_columns(names, rows, implied=True) if name not in ("n", "level")]
    lines: dict[str, None] = {}
    for row in rows:
        settings = [f"{name} {short(row[name])}" for name in apart if row.get(name) is not None]
        lines[", ".join([*settings, users_text(row, response_rate)])] = None
    for line in lines:
        typer.echo(line)
    if several:
        alone = unique(rows, "tau")
        text = "Every quantile has users of its own"
        if len(alone) == len(rows):
            text += f", {sum(row['users'] for row in rows):,} in all"
            if response_rate is not None:
                text += f" ({sum(row['invitations'] for row in rows):,} invitations)"
            together = sum(row["epsilon_per_user"] or 0.0 for row in alone)
            answers = sum(row["answers_each"] for row in rows)
            text += f"; users who answer about every one would give {answers} answers each"
            text += f" and spend epsilon {together:g}" if together else ""
        typer.echo(f"{text}. --compare has protocols with one report for several quantiles.")
    if response_rate is not None:
        typer.echo("The invitations are enough if answering has nothing to do with the value.")


def users_text(row: Row, response_rate: float | None) -> str:
    """Users of a row, with their answers, budget and invitations."""
    count = row["answers_each"]
    parts = [f"{row['users']:,} users", "1 answer each" if count == 1 else f"{count} answers each"]
    if row["epsilon_per_user"] is not None:
        parts.append(f"epsilon {row['epsilon_per_user']:g} a user")
    if row["invitations"] is not None:
        parts.append(f"{row['invitations']:,} invitations at a response rate of {response_rate:g}")
    return ", ".join(parts)


def answer(row: Row, wanted: str, apart: Sequence[str], response_rate: float | None) -> str:
    """One sentence on the users or reports that the goal takes.

    Parameters
    ----------
    row : dict
    wanted : str
        The goal in words.
    apart : sequence of str
        Settings by which rows differ.
    response_rate : float or None
    """
    names = dict.fromkeys(["epsilon", *apart])
    settings = [f"{name} {short(row[name])}" for name in names if row.get(name) is not None]
    head = ", ".join([f"{wanted} at level {row['level']:g}", *settings])
    if row["n_with_method"] is None:
        oracle = (
            "" if row["n_needed"] is None else f" The oracle's interval takes {row['n_needed']:,} answers."
        )
        return f"{head}: no n at which a recommended method is as short is known.{oracle}"
    text = f"{head}: plan with {row['n_with_method']:,} answers and {row['method_needed']}"
    if row.get("n_with_method_low") is not None:
        low, high = row["n_with_method_low"], row["n_with_method_high"]
        over = "90% of resampled pilots" if row["pilot_values"] is not None else "the laws tried"
        text += f" ({low:,} to {high:,} over {over})"
    if response_rate is not None:
        text += f", {row['invitations_needed']:,} invitations"
    return f"{text}."


def print_parts(settings: list[Shown], others: list[Shown], rows: list[Row]) -> None:
    """One table, or several with the same settings where the terminal is too narrow for one."""
    console = Console()
    parts: list[list[Shown]] = [[]]
    for column in others:
        if parts[-1] and not fits(console, rich_table([*settings, *parts[-1], column], rows)):
            parts.append([])
        parts[-1].append(column)
    for part in parts:
        print_rows([*settings, *part], rows)


def measures(chosen: bool, in_units: bool = False) -> list[Shown]:
    """Columns of what is predicted; of steps and start too where the plan has chosen them.

    With ``in_units`` the length in multiples of the study's unit is among them.
    """
    multiple: Shown = ("length/unit", lambda row: rounded(row.get("length_in_units"), 4))
    design: list[Shown] = [
        ("c", lambda row: rounded(row["c"], 3)),
        ("theta0", lambda row: rounded(row["theta0"], 3)),
    ]
    return [
        *(design if chosen else []),
        ("half width", half_width_text),
        ("length", lambda row: rounded(row["length"], 4)),
        *([multiple] if in_units else []),
        ("SE", lambda row: rounded(row["standard_error"], 4)),
        ("K", lambda row: rounded(row["relaxation_times_planned"], 3)),
        ("bias", bias_text),
        ("covers", covers_text),
        ("verdict", lambda row: (row["arrival"] or "-").replace("_", " ")),
        ("method", lambda row: row["recommended"] or ("-" if row["arrival"] is None else "none")),
    ]


def covers_text(row: Row) -> str:
    """Predicted coverage of the oracle's interval."""
    return "-" if row["coverage_predicted"] is None else f"{row['coverage_predicted']:.2f}"


def goals(wanted: str | None, methods: bool, difference: float | None) -> list[Shown]:
    """Columns of what reaching a goal takes: with the recommended ``methods`` where known, for the oracle."""
    columns: list[Shown] = []
    if wanted is not None:
        if methods:
            columns.append((f"n for {wanted}", method_text))
        columns += [
            ("oracle's n", lambda row: counted(row["n_needed"], row["arrival_needed"])),
            ("oracle's epsilon", lambda row: reachable(row["epsilon_needed"])),
        ]
    if difference is not None:
        name = f"n per group for {short(difference)}"
        columns.append((name, lambda row: counted(row["n_per_group"], row["arrival_per_group"])))
    return columns


def unique(rows: list[Row], name: str) -> list[Row]:
    """The first row of every value of a column."""
    return list({row[name]: row for row in reversed(rows)}.values())[::-1]


def half_width_text(row: Row) -> str:
    """Half width, with the range that the pilot leaves open."""
    text = rounded(row["half_width"], 4)
    if row.get("half_width_low") is None:
        return text
    source = "laws" if row["pilot_values"] is None else "pilot"
    return f"{text} ({source}: {rounded(row['half_width_low'], 3)} .. {rounded(row['half_width_high'], 3)})"


def bias_text(row: Row) -> str:
    """Predicted bias in standard errors."""
    if row["bias_start"] is None:
        return "-"
    return f"{row['bias_start'] + row['bias_steps']:+.2f} SE"


def counted(count: int | None, verdict: str | None) -> str:
    """A number of users, and the verdict with them unless they arrive."""
    if count is None:
        return "-"
    return f"{count:,}" if verdict in (None, "arrived") else f"{count:,} ({verdict.replace('_', ' ')})"


def method_text(row: Row) -> str:
    """Users for the goal with the recommended method, and its name."""
    if row["n_with_method"] is None:
        return "-"
    return f"{row['n_with_method']:,} ({row['method_needed']})"


def reachable(epsilon: float | None) -> str:
    """A budget; none where no budget is enough."""
    if epsilon is None:
        return "-"
    return "none" if epsilon == math.inf else f"{epsilon:g}"


def print_replicates(levels: list[float], target_mcse: float, precision: Any) -> None:
    """Print the number of replicates for a target MCSE."""
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
    from ldpflow.planning.checking import name_of

    rows = [{**row, "method": name_of(row)} for row in found.checked]
    settings = [name for name in rows[0] if name not in ("path", "replicates", "failures")]
    settings = settings[: settings.index("truth")]
    apart = {"method", *distinguishing_columns(settings, rows)}
    settings = [name for name in settings if name in apart]
    print_parts(
        [*map(plain, settings)],
        [
            ("coverage", coverage_text),
            ("", lambda row: row["judgement"]),
            ("length", lambda row: rounded(row["length_mean"], 4)),
            ("predicted SE", lambda row: rounded(row["predicted_se"], 4)),
            ("emp. SE", lambda row: with_error(row["empirical_se"], row["empirical_se_mcse"])),
        ],
        rows,
    )


def coverage_text(row: Row) -> str:
    """Coverage with failures as misses, and its Wilson interval."""
    name = "coverage_failures_as_misses"
    return f"{row[name]:.3f} [{row[name + '_low']:.3f}, {row[name + '_high']:.3f}]"


def print_protocols(found: Plan, half_width: float | None, response: float | None = None) -> None:
    """A row per protocol: accuracy at n, what a half width takes; then the cautions."""
    rows = found.rows
    columns: list[Any] = [
        *map(plain, distinguishing_columns(("tau", "epsilon", "n", "level"), rows, implied=True)),
        ("protocol", protocol),
        ("rounds", lambda row: f"{row['rounds']:,}"),
        ("bits", lambda row: rounded(row["bits"], 3)),
        ("needs", lambda row: row["needs"]),
        ("users", lambda row: f"{row['users']:,}"),
        ("answers each", lambda row: str(row["answers"])),
        ("ε a user", lambda row: f"{row['epsilon']:g}"),
        ("interval", lambda row: row["interval"] or "-"),
        ("half width", lambda row: rounded(row["half_width"], 3)),
        ("coverage", coverage),
    ]
    if half_width is not None:
        columns += [
            (f"n for {short(half_width)}", users_needed),
            (f"ε for {short(half_width)}", lambda row: budget(row["epsilon_needed"])),
        ]
    print_rows(columns, rows)
    typer.echo(LEGEND)
    asked = "n counts the users who are asked, users those who answer about a quantile"
    if response is not None and response < 1.0:
        asked += f" (a share of {response:g}, if answering has nothing to do with the value)"
    typer.echo(asked)
    for text in found.cautions:
        typer.echo(text)


def protocol(row: dict[str, Any]) -> str:
    """Its kind, with the number of bins of a histogram or the rounds of a search."""
    if row["bins"] is not None:
        return f"{row['protocol']} (k = {row['bins']})"
    return f"{row['protocol']} (T = {row['rounds']})" if row["protocol"] == "rounds" else row["protocol"]


def users_needed(row: dict[str, Any]) -> str:
    """Users for the half width, with the interval where it is another one than at n."""
    if row["n_needed"] is None:
        return "none"
    other = "" if row["interval_needed"] == row["interval"] else f" ({row['interval_needed']})"
    return f"{row['n_needed']:,}{other}"


def budget(epsilon: float | None) -> str:
    """A budget; none where no budget is enough."""
    return "none" if epsilon is None else f"{epsilon:g}"


def coverage(row: dict[str, Any]) -> str:
    """Simulated coverage of the protocol's interval."""
    if row["coverage"] is None:
        return "-"
    return with_error(row["coverage"], row["coverage_mcse"])
