"""``ldpflow report`` and ``ldpflow plot``: results as a page and as figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ldpflow.cli.summary import Run, Where
from ldpflow.errors import InputError, need, plain_text

__all__ = ["plot", "report"]


def report(
    run: Run,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="FILE", help="The HTML file.", show_default="RUN/report.html"),
    ] = None,
) -> None:
    """Write a report of a run: one HTML file that opens offline, with everything in it."""
    need("report", "altair", "vl_convert", "jinja2")
    from ldpflow.report.page import report_html
    from ldpflow.report.results import Results

    results = Results.load(run)
    text = report_html(results)
    if output is None:
        results.store.publish("report.html", text.encode())
        output = f"{run.rstrip('/')}/report.html"
    else:
        try:
            Path(output).write_text(text, encoding="utf-8")
        except OSError as error:
            reason = error.strerror or str(error)
            raise InputError("-o", output, "a file that can be written", f"{reason}.") from None
    followed = len({row["path"] for row in results.followed})
    what = [f"{len(results.rows)} cells"] if results.rows or not followed else []
    what += [f"{followed} followed paths"] if followed else []
    typer.echo(f"{output}: {', '.join(what)}, {len(text.encode()) / 1e6:.1f} MB")


def plot(
    run: Run,
    figure: Annotated[
        str,
        typer.Argument(
            metavar="FIGURE",
            help="coverage, length, relative-length, protocols, zip, heat-map, bias, standard-error or "
            "paper; for trajectories distance, excess-loss, loss, gradient-norm, gradient-error, clipped, "
            "threshold, rates or risk.",
        ),
    ],
    x: Annotated[
        str,
        typer.Option(
            help="The factor on the axis: n, beta, epsilon, ...; for trajectories n or step; for rates n, "
            "epsilon, dimension or epochs."
        ),
    ] = "n",
    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="svg, png, pdf or json.",
            show_default="FIGURE.svg",
        ),
    ] = None,
    where: Where = None,
) -> None:
    """Draw one figure of a run into a file, for papers and slides."""
    need("report", "altair", "vl_convert")
    from ldpflow.report.saving import save, suffix_of
    from ldpflow.run import open_run

    chart = open_run(run).plot(figure, x, where)
    output = output or f"{figure}.svg"
    suffix_of(output)
    save(chart, output)
    if "left_out" in chart.usermeta:
        typer.echo(plain_text(chart.usermeta["left_out"]), err=True)
    typer.echo(output)
