"""``ldpflow plan --compare``: the protocols for a quantile, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from ldpflow.cli.tables import plain, print_rows, rounded, short
from ldpflow.report.numbers import distinguishing_columns, with_error

if TYPE_CHECKING:
    from ldpflow.planning import Plan

__all__ = ["print_protocols"]

SETTINGS = ("tau", "epsilon", "n", "level")


LEGEND = (
    "Every number is that of the interval in its row, simulated: of LDP-SGD the one that plan recommends, of "
    "histograms the outer, of rounds Fieller's. half width: the median. coverage: undefined ones are misses."
)


def print_protocols(found: Plan, half_width: float | None, response: float | None = None) -> None:
    """A row per protocol: accuracy at n, what a half width takes; then the cautions."""
    rows = found.rows
    columns: list[Any] = [
        *map(plain, distinguishing_columns(SETTINGS, rows, implied=True)),
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
