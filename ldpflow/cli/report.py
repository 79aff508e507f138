"""``ldpflow report`` and ``ldpflow plot``: results as a page and as figures."""

from __future__ import annotations

from typing import Annotated

import typer

from ldpflow.cli.summary import Run, Where
from ldpflow.errors import need, plain_text


def report(
    run: Run,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="FILE", help="The HTML file.", show_default="RUN/report.html"),
    ] = None,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow", help="Of a running sweep: write it again as rows come, until the sweep ends."
        ),
    ] = False,
) -> None:
    """Write a report of a run: one HTML file that opens offline, with everything in it.

    With --follow the page reads itself again in a browser every ten seconds; nothing listens on the network.
    """
    need("report", "altair", "vl_convert")
    from ldpflow.report import page
    from ldpflow.report.results import Results

    if follow:
        typer.echo(f"following {run}: the page is written whenever rows have come; Ctrl-C stops")
        results = page.follow(run, output, lambda place, text: print_written(place, text, "written"))
        print_written(f"{results.store.root}", "", "the sweep has ended")
        return
    results = Results.load(run)
    text = page.report_html(results)
    place = page.write_page(results.store, text, output)
    followed = len({row["path"] for row in results.followed})
    what = [f"{len(results.rows)} cells"] if results.rows or not followed else []
    what += [f"{followed} followed paths"] if followed else []
    print_written(place, text, ", ".join(what))


def print_written(place: str, text: str, what: str) -> None:
    """A line on a page that was written."""
    size = f", {len(text.encode()) / 1e6:.1f} MB" if text else ""
    typer.echo(f"{place}: {what}{size}")


def plot(
    run: Run,
    figure: Annotated[
        str,
        typer.Argument(
            metavar="FIGURE",
            help="coverage, choice, length, relative-length, protocols, zip, heat-map, bias, standard-error "
            "or paper; for trajectories distance, excess-loss, loss, gradient-norm, gradient-error, clipped, "
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
    from ldpflow.report.style import save, suffix_of
    from ldpflow.run import open_run

    chart = open_run(run).plot(figure, x, where)
    output = output or f"{figure}.svg"
    suffix_of(output)
    save(chart, output)
    if "left_out" in chart.usermeta:
        typer.echo(plain_text(chart.usermeta["left_out"]), err=True)
    typer.echo(output)
