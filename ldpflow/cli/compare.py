"""``ldpflow compare``: cells of a run against each other, paired by replicate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from ldpflow.cli.summary import Columns, Run, Sort, Where, names_in

__all__ = ["compare"]


def compare(
    run: Run,
    by: Annotated[
        str,
        typer.Option(help="What to compare: method, mechanism, algorithm, or one of their settings."),
    ] = "method",
    baseline: Annotated[
        str | None, typer.Option(help="Value to compare with.", show_default="the first")
    ] = None,
    where: Where = None,
    sort: Sort = None,
    columns: Columns = None,
) -> None:
    """Compare methods on the same paths, or mechanisms, budgets and step sizes on the same users.

    Replicates are paired: the difference of coverages has McNemar's standard error, and the ratio of
    mean lengths has one by the delta method. A replicate without an interval counts as a miss; where there
    are any, a column shows their shares in both cells. Methods that use several paths per interval (PAR,
    HULC) share no replicates with the others: they are compared unpaired, and a column says so.
    """
    from ldpflow.cli.tables import plain, print_fitting, print_table, with_error
    from ldpflow.report.numbers import distinguishing_columns
    from ldpflow.results.where import chosen
    from ldpflow.run import open_run

    table = chosen(open_run(run).compare(by, baseline), where, names_in(sort))
    if columns is not None:
        print_table(chosen(table, columns=names_in(columns)))
        return
    rows = table.to_pylist()
    measures = table.column_names[table.column_names.index("vs") :]
    settings = distinguishing_columns(
        [n for n in table.column_names if n not in measures], rows, implied=True
    )
    print_fitting(
        [*map(plain, settings), plain("vs")],
        [
            (
                "coverage difference",
                lambda r: with_error(r["coverage_difference"], r["coverage_difference_mcse"]),
            ),
            ("length ratio", lambda r: with_error(r["length_ratio"], r["length_ratio_mcse"])),
            *undefined(rows),
            ("only this", lambda r: str(r["only_this"])),
            ("only vs", lambda r: str(r["only_baseline"])),
            ("pairs", lambda r: str(r["pairs"]) if r["paired"] else "unpaired"),
        ],
        rows,
        ["only vs", "only this", "pairs", "undefined, vs", "length ratio"],
        "--columns shows any",
    )


def undefined(rows: list[dict[str, Any]]) -> list[tuple[str, Callable[[dict[str, Any]], str]]]:
    """The column of shares without an interval; none where all are defined."""
    if not any(row["undefined"] or row["undefined_baseline"] for row in rows):
        return []
    return [("undefined, vs", lambda row: f"{row['undefined']:.1%}, {row['undefined_baseline']:.1%}")]
