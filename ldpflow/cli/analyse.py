"""``ldpflow analyse``: intervals from private reports that were really collected."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ldpflow.cli.summary import Format
from ldpflow.errors import InputError, need

if TYPE_CHECKING:
    from ldpflow.transcripts.result import Analysis


def analyse(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Transcript: Parquet, or CSV with a header.")],
    settings: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.toml",
            help="How the reports were collected.",
            show_default="the transcript's name with .toml, if it is there",
        ),
    ] = None,
    tau: Annotated[float | None, typer.Option(help="Level of the quantile.")] = None,
    mechanism: Annotated[str | None, typer.Option(help="Mechanism on the users' devices.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Budget per report.")] = None,
    mu: Annotated[float | None, typer.Option(help="Budget per report under Gaussian noise.")] = None,
    gamma: Annotated[float | None, typer.Option(help="Exponent of the steps c i^-gamma.")] = None,
    c: Annotated[float | None, typer.Option(help="Constant of the steps.")] = None,
    theta0: Annotated[
        list[float] | None, typer.Option(help="Start of the iterates; of a vector one for each coordinate.")
    ] = None,
    final_theta: Annotated[
        list[float] | None, typer.Option(help="theta after the last report; of a vector one for each.")
    ] = None,
    n: Annotated[
        str | None, typer.Option("--n", metavar="X", help="Users: the reports that the file must have.")
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Interval method; repeatable.", show_default="all"),
    ] = None,
    level: Annotated[
        list[float] | None, typer.Option(help="Nominal coverage; repeatable.", show_default="0.9")
    ] = None,
    origin: Annotated[
        float | None, typer.Option(help="Point around which sums are computed.", show_default="theta0")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of BB's multipliers.", show_default="0")] = None,
    form: Annotated[
        Format, typer.Option("--format", help="csv and json have full precision.")
    ] = Format.table,
    html: Annotated[str | None, typer.Option(metavar="FILE", help="Write a page with figures too.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 on any flag.")] = False,
) -> None:
    """Compute confidence intervals from collected private reports (a transcript).

    This is post-processing: it needs no raw data and adds no noise. Settings that the file's metadata has may
    be left out; a contradiction is an error.
    """
    from ldpflow.cli.privacy import whole
    from ldpflow.transcripts.analysis import analyse as compute
    from ldpflow.transcripts.collection import merged, read_settings

    given = {
        "problem": {"tau": tau},
        "mechanism": {"kind": mechanism, "epsilon": epsilon, "mu": mu},
        "algorithm": {
            "gamma": gamma,
            "c": c,
            "theta0": one_or_all(theta0),
            "final_theta": one_or_all(final_theta),
        },
        "n": whole(n, "n"),
        "method": [{"kind": kind} for kind in method] if method else None,
        "level": level or None,
        "origin": origin,
        "seed": seed,
    }
    if settings is None and os.path.lexists(f"{file}.toml"):
        settings = f"{file}.toml"
        typer.echo(f"settings: {settings}", err=True)
    tables = merged(without_nothing(given), read_settings(settings) if settings else {}, str(settings))
    found = compute(file, tables)
    {Format.table: print_table, Format.csv: print_csv, Format.json: print_json}[form](found)
    if html is not None:
        write_page(found, html)
    code = found.exit_code(strict)
    if code:
        raise typer.Exit(code)


def one_or_all(values: list[float] | None) -> float | list[float] | None:
    """A single number for a flag that was given once."""
    return values[0] if values and len(values) == 1 else values or None


def without_nothing(given: dict[str, Any]) -> dict[str, Any]:
    """The settings that were given."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        if isinstance(value, dict):
            inner = {k: v for k, v in value.items() if v is not None}
            if inner:
                found[name] = inner
        elif value is not None:
            found[name] = value
    return found


def print_table(analysis: Analysis) -> None:
    """A table of the intervals, the verdict, and the methods paragraph."""
    import textwrap

    from ldpflow.cli.tables import print_rows
    from ldpflow.transcripts.wording import coordinate_name, label, methods_paragraph, verdict_lines

    def shown(name: str, digits: int = 7) -> Any:
        return lambda row: "-" if row.get(name) is None else f"{row[name]:.{digits}g}"

    rows = analysis.asked
    columns: list[Any] = [("method", lambda row: label(row, rows))]
    if len({row["level"] for row in rows}) > 1:
        columns.append(("level", lambda row: f"{row['level']:g}"))
    if len(analysis.verdicts) > 1:
        columns.append(("estimated", lambda row: coordinate_name(analysis, row["coordinate"])))
    columns += [(name, shown(name)) for name in ("estimate", "lower", "upper")]
    columns += [
        ("SE", shown("se", 4)),
        ("K", shown("relaxation_times", 4)),
        ("lack of fit", shown("lack_of_fit", 3)),
        ("status", lambda row: row["status"]),
    ]
    print_rows(columns, rows)
    for line in verdict_lines(analysis):
        typer.echo(line)
    typer.echo()
    typer.echo(textwrap.fill(methods_paragraph(analysis), 96))


def print_csv(analysis: Analysis) -> None:
    """The rows at full precision."""
    from ldpflow.cli.tables import write_csv
    from ldpflow.transcripts.methods import columns_of

    write_csv(columns_of(analysis.asked), analysis.asked)


def print_json(analysis: Analysis) -> None:
    """Everything at full precision."""
    import json

    from ldpflow.transcripts.wording import as_dict

    typer.echo(json.dumps(as_dict(analysis), indent=2, allow_nan=False))


def write_page(analysis: Analysis, file: str) -> None:
    """The page."""

    need("report", "altair", "vl_convert")
    from ldpflow.report.analysis_page import analysis_html

    try:
        Path(file).write_text(analysis_html(analysis), encoding="utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError("html", file, "a file that can be written", f"{reason}.") from None
