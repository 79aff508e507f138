"""``ldpflow verify``: a run against published numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from ldpflow.cli.summary import Run

if TYPE_CHECKING:
    from ldpflow.published.compare import MissingCell


def verify(
    run: Run,
    against: Annotated[str, typer.Option(help="Name of the published tables.")] = "dette-graw",
) -> None:
    """Compare a run with published numbers; exit with 1 if they are refuted or cannot be compared.

    The rows are checked and the numbers computed from them. A summary that differs from its rows is
    named and counts as a failure.

    z = (ours - printed) / sqrt(SE^2 + printed SE^2 + half unit^2/3); p is Holm-adjusted over all
    numbers.
    """
    from dataclasses import asdict

    from ldpflow.cli.tables import plain, print_rows, rounded
    from ldpflow.run import open_run

    comparison = open_run(run).verify(against)
    rows = [asdict(row) for row in comparison.rows]
    if rows:
        print_rows(
            [
                *(plain(name) for name in ("table", "tau", "coordinate", "method", "n", "measure")),
                ("ours", lambda row: rounded(row["ours"], 4)),
                ("printed", lambda row: rounded(row["printed"], 4)),
                ("z", lambda row: f"{row['z']:.2f}"),
                ("adj. p", lambda row: f"{row['p_adjusted']:.3f}"),
            ],
            rows,
        )
    for line in grouped(comparison.missing):
        typer.echo(line)
    typer.echo(
        f"{len(rows)} numbers compared with {comparison.name}, {len(comparison.missing)} published "
        f"cells not compared; Holm test at {comparison.level_of_test:.0%}: {comparison.verdict}"
    )
    for line in (*comparison.power(), *comparison.findings):
        typer.echo(line)
    if not comparison.passed:
        raise typer.Exit(1)


def grouped(missing: Sequence[MissingCell]) -> Iterator[str]:
    """One line for published cells of a table that are missing for one reason."""
    groups: dict[tuple[int, str, float, str], list[MissingCell]] = {}
    for cell in missing:
        key = (cell.table, cell.problem, cell.tau, cell.reason)
        groups.setdefault(key, []).append(cell)
    for (table, problem, tau, reason), cells in groups.items():
        methods = ", ".join(dict.fromkeys(cell.method for cell in cells))
        sizes = ", ".join(f"{n:.0e}".replace("e+0", "e") for n in sorted({c.n for c in cells}))
        yield (
            f"not compared: table {table}, {problem}, tau = {tau}, {methods}, n = {sizes} "
            f"({len(cells)} cells): {reason}"
        )
