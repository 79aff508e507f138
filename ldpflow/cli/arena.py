"""``ldpflow arena``: which interval method to use, as a page."""

from __future__ import annotations

from typing import Annotated

import typer

from ldpflow.cli.summary import Run, Where
from ldpflow.errors import need

__all__ = ["arena"]


def arena(
    run: Run,
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="FOLDER", help="Folder of the page.")
    ] = "site",
    where: Where = None,
) -> None:
    """Write a page that recommends an interval method for every setting of a run.

    Of the methods that hold their level, with failures counted as misses, it recommends the one with the
    shortest intervals. Each setting has a sortable table, a figure of coverage against length, paired
    differences, the share of the coverage gap that is bias, and what each method needs.
    """
    need("report", "altair", "vl_convert", "jinja2")
    from ldpflow.run import open_run

    for file in open_run(run).arena(output, where=where):
        typer.echo(file)
