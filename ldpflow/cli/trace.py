"""``ldpflow trace``: one path as n grows."""

from __future__ import annotations

from typing import Annotated

import typer

from ldpflow.cli.studies import StudyName
from ldpflow.errors import InputError, need


def trace(
    study: StudyName = "paper-table1",
    tau: Annotated[str | None, typer.Option(metavar="X", help="Level of the quantile.")] = "0.5",
    epsilon: Annotated[
        str | None, typer.Option(metavar="X", help="Privacy budget.", show_default="the study's")
    ] = None,
    beta: Annotated[
        str | None, typer.Option(metavar="X", help="Block exponent of BB.", show_default="the study's")
    ] = None,
    level: Annotated[
        str | None, typer.Option(metavar="X", help="Nominal coverage.", show_default="the study's")
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Interval method; may be repeated.", show_default="BB, BM, SN"),
    ] = None,
    seed: Annotated[
        str | None, typer.Option(metavar="X", help="Seed of the study.", show_default="the study's")
    ] = None,
    replicate: Annotated[int, typer.Option(min=0, help="Index of the replicate.")] = 0,
    first: Annotated[int, typer.Option("--from", min=1, help="Smallest n.")] = 10,
    last: Annotated[int, typer.Option("--to", min=2, help="Largest n.")] = 1_000_000,
    split: Annotated[int, typer.Option(min=1, help="n where the second panel begins.")] = 200_000,
    points: Annotated[int, typer.Option(min=2, help="Number of n, evenly spaced in log n.")] = 400,
    coordinate: Annotated[int, typer.Option(min=0, help="Coordinate that is drawn.")] = 0,
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="FILE", help="svg, png, pdf or json.")
    ] = "trace.svg",
    parquet: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the rows of all coordinates too.")
    ] = None,
) -> None:
    """Draw the estimate and the limits of BB, BM and SN along one path, for a range of n."""
    need("report", "altair", "vl_convert")
    import pyarrow.parquet as pq

    from ldpflow.report.style import save, suffix_of
    from ldpflow.report.trace import trace as compute
    from ldpflow.report.trace import trace_plot
    from ldpflow.study import load_study

    suffix_of(output)
    given = {"tau": tau, "epsilon": epsilon, "beta": beta, "level": level, "seed": seed}
    flags: dict[str, object] = {
        name: [value] if name != "seed" else value for name, value in given.items() if value
    }
    flags["method"] = method or ["BB", "BM", "SN"]
    chosen = load_study(study).replace(flags)
    if len(chosen.level) > 1:
        raise InputError("--level", list(chosen.level), "one level")
    rows = compute(chosen, first, last, points, replicate)
    if parquet is not None:
        try:
            pq.write_table(rows, parquet, compression="zstd")
        except OSError as error:
            raise InputError("--parquet", parquet, "a file that can be written", str(error)) from None
    save(trace_plot(rows, min(max(split, first), last), coordinate), output)
    typer.echo(f"{output}: {len(set(rows['n'].to_pylist()))} n from one path")
