"""``ldpflow verify``: a run against published numbers."""

from __future__ import annotations

from typing import Annotated

import typer

from ldpflow.cli.summary import Run, read_summary

__all__ = ["verify"]


def verify(
    run: Run,
    against: Annotated[str, typer.Option(help="Name of the published tables.")] = "dette-graw",
) -> None:
    """Compare a run with published numbers; exit with 1 if they disagree.

    z = (ours - printed) / sqrt(SE^2 + printed SE^2 + half unit^2/3); p is Holm-adjusted over all
    numbers.
    """
    from dataclasses import asdict

    from ldpflow.cli.tables import plain, print_rows, rounded
    from ldpflow.published.compare import compare

    comparison = compare(read_summary(run), against)
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
    for cell in comparison.missing:
        typer.echo(
            f"not compared: table {cell.table}, {cell.problem}, tau = {cell.tau}, coordinate "
            f"{cell.coordinate}, {cell.method}, n = {cell.n}: {cell.reason}"
        )
    verdict = "agree" if comparison.passed else "DISAGREE" if rows else "nothing to compare"
    typer.echo(
        f"{len(rows)} numbers compared with {comparison.name}, {len(comparison.missing)} published "
        f"cells not compared; Holm test at {comparison.level_of_test:.0%}: {verdict}"
    )
    if not comparison.passed:
        raise typer.Exit(1)
