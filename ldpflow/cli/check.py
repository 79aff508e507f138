"""``ldpflow check``: is a run whole."""

from __future__ import annotations

from typing import Annotated

import typer

from ldpflow.cli.summary import Run
from ldpflow.options import Engine
from ldpflow.errors import plain_text


def check(
    run: Run,
    repair: Annotated[
        bool, typer.Option("--repair", help="Set bad parts aside and compute them again.")
    ] = False,
    engine: Annotated[Engine, typer.Option(help="Where --repair computes.")] = Engine.auto,
    recompute: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="Compute a random share of the replicates again, e.g. 0.01."),
    ] = None,
) -> None:
    """Check that a run is complete and unchanged, and that its summary follows from its rows.

    Checksums find changed bytes, missing rows and rows that are stored twice. Rows that were edited and saved
    with new checksums break a rule that every row obeys, or differ from what --recompute computes.
    """
    from ldpflow.engine import check_run, repair_run

    findings, counts = check_run(run, recompute)
    for finding in findings:
        typer.echo(plain_text(finding.what))
    if findings and repair:
        repair_run(run, engine=engine.value)
        findings, counts = check_run(run)
        for finding in findings:
            typer.echo(plain_text(f"after the repair: {finding.what}"))
    verdict = "all is well" if not findings else f"{len(findings):,} findings"
    typer.echo(f"{counts['parts']:,} parts, {counts['rows']:,} rows: {verdict}")
    if findings:
        raise typer.Exit(1)
