"""``ldpflow plan --compare``: the protocols for a quantile, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from ldpflow.cli.tables import plain, print_rows, rounded, short, telling
from ldpflow.report.numbers import with_error

if TYPE_CHECKING:
    from ldpflow.planning import Plan

__all__ = ["print_protocols"]

SETTINGS = ("tau", "epsilon", "n", "level")


LEGEND = (
    "half width: z times the simulated RMSE (sgd: {sgd}). by formula: from the asymptotic variance. "
    "efficiency: the bound's variance over the mean squared error, 1 at best; S/V: the same by formula. "
    "coverage: of the protocol's own interval, undefined ones as misses; of sgd the oracle's."
)


def print_protocols(found: Plan, half_width: float | None, response: float | None = None) -> None:
    """A row per protocol: accuracy at n, what a half width takes; then the cautions."""
    rows = found.rows
    columns: list[Any] = [
        *map(plain, telling(SETTINGS, rows)),
        ("protocol", protocol),
        ("rounds", lambda row: f"{row['rounds']:,}"),
        ("bits", lambda row: rounded(row["bits"], 3)),
        ("needs", lambda row: row["needs"]),
        ("half width", lambda row: rounded(row["half_width"], 3)),
        ("by formula", lambda row: rounded(row["half_width_formula"], 3)),
    ]
    if half_width is not None:
        columns += [
            (f"n for {short(half_width)}", lambda row: count(row["n_needed"])),
            (f"ε for {short(half_width)}", lambda row: budget(row["epsilon_needed"])),
        ]
    columns += [
        ("efficiency", lambda row: share(row["efficiency"])),
        ("S/V", lambda row: share(row["efficiency_formula"])),
        ("coverage", coverage),
    ]
    print_rows(columns, rows)
    simulated = any(row["protocol"] == "sgd" and row["coverage"] is not None for row in rows)
    typer.echo(LEGEND.format(sgd="simulated too" if simulated else "by formula; --check simulates it"))
    if response is not None and response < 1.0:
        typer.echo(f"n counts the users who are asked; a share of {response:g} of them answers")
    for text in found.cautions:
        typer.echo(text)


def protocol(row: dict[str, Any]) -> str:
    """Its kind, with the number of bins of a histogram or the rounds of a search."""
    if row["bins"] is not None:
        return f"{row['protocol']} (k = {row['bins']})"
    return f"{row['protocol']} (T = {row['rounds']})" if row["protocol"] == "rounds" else row["protocol"]


def count(users: int | None) -> str:
    """A number of users."""
    return "none" if users is None else f"{users:,}"


def budget(epsilon: float | None) -> str:
    """A budget; none where no budget is enough."""
    return "none" if epsilon is None else f"{epsilon:g}"


def share(value: float | None) -> str:
    """An efficiency; a dash where it was not simulated."""
    return "-" if value is None else f"{value:.3f}"


def coverage(row: dict[str, Any]) -> str:
    """Simulated coverage of the protocol's interval."""
    if row["coverage"] is None:
        return "-"
    return with_error(row["coverage"], row["coverage_mcse"])
