"""``ldpflow summary``: the result table of a run.

``ldpflow compare``: cells of a run against each other, paired by replicate.

``ldpflow explain``: why coverage is what it is.

``ldpflow verify``: a run against published numbers.

``ldpflow export``: results for other programs.

``ldpflow cite``: references of a run, and a paragraph about it, for a paper.

``ldpflow trace``: one path as n grows.

``ldpflow report`` and ``ldpflow plot``: results as a page and as figures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ldpflow.cli.flags import StudyName
from ldpflow.errors import InputError, need, plain_text

if TYPE_CHECKING:
    import pyarrow as pa

    from ldpflow.results.published import MissingCell


Run = Annotated[str, typer.Argument(metavar="RUN", help="Run directory, e.g. runs/quickstart.")]


Where = Annotated[
    str | None,
    typer.Option(metavar="CONDITION", help="Only rows that meet it: \"method == 'BB' and n >= 1e5\"."),
]
Sort = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", help="Sort by it; -COLUMN: largest first. May be repeated."),
]
Columns = Annotated[
    list[str] | None, typer.Option(metavar="COLUMN", help="Columns to show, separated by commas.")
]


def names_in(texts: list[str] | None) -> list[str] | None:
    """Names of columns, one or several with commas in a text."""
    return None if texts is None else [name.strip() for text in texts for name in text.split(",")]


class Format(StrEnum):
    """Output formats of a table."""

    table = "table"
    csv = "csv"
    json = "json"


def summary(
    run: Run,
    form: Annotated[
        Format, typer.Option("--format", help="csv and json have every column at full precision.")
    ] = Format.table,
    null: Annotated[
        float | None, typer.Option(help="Null value of theta: adds power, the share of intervals without it.")
    ] = None,
    best: Annotated[
        bool,
        typer.Option(
            "--best", help="Only the best row of every problem, mechanism, n, level and coordinate."
        ),
    ] = False,
    where: Where = None,
    sort: Sort = None,
    columns: Columns = None,
) -> None:
    """Show coverage, length, bias and standard error of every cell of a run.

    A run without intervals has errors of trajectories instead; the table shows their last step.

    --best chooses among algorithms, step sizes and interval methods: of the rows that hold their level
    (failures counted as misses, lower end of the 95% Monte Carlo interval at most 2 points below it) the one
    with the shortest intervals, or else the one with the highest coverage, and says which.
    """
    from ldpflow.cli.tables import print_csv, print_json, print_summary, print_table, print_trajectories
    from ldpflow.results.where import chosen

    show = {Format.table: print_summary, Format.csv: print_csv, Format.json: print_json}[form]
    table = read_summary(run)
    if table.num_rows == 0 and (trajectories := read_trajectories(run)).num_rows:
        if best:
            raise InputError("best", True, "a run with intervals", "It has trajectories alone.")
        print_trajectories(trajectories) if form is Format.table else show(trajectories)
        return
    if null is not None:
        from ldpflow.results.summary import stored_summary
        from ldpflow.store.run_store import RunStore

        table = stored_summary(RunStore(run), null, damaged="refuse")
    table = chosen(table, where)
    if best:
        from ldpflow.results.arena import best_rows
        from ldpflow.store.run_store import RunStore

        table = best_rows(RunStore(run), table)
    table = chosen(table, sort=names_in(sort))
    if columns is None:
        show(table)
        if form is Format.table:
            if best:
                print(BEST_OF_MANY)
            print_left_out(run)
    elif form is Format.table:
        print_table(chosen(table, columns=names_in(columns)))
    else:
        show(chosen(table, columns=names_in(columns)))


BEST_OF_MANY = (
    "Each row is the best of its candidates on the replicates that chose it: run it again with another seed "
    "before its numbers are used (ldpflow sweep --seed)."
)


def print_left_out(run: str) -> None:
    """Lines on what the study asks for and what makes no rows."""
    from ldpflow.errors import plain_text
    from ldpflow.store.run_store import RunStore
    from ldpflow.study.stored import stored_left_out

    for line in stored_left_out(RunStore(run)):
        print(plain_text(line))


def read_summary(run: str) -> pa.Table:
    """The summary of a run directory."""
    from ldpflow.run import open_run

    return open_run(run).summary()


def read_trajectories(run: str) -> pa.Table:
    """The trajectories of a run directory over its replicates; no rows where it has none."""
    import pyarrow as pa

    from ldpflow.store.run_store import RunStore

    table = RunStore(run).read_trajectory_summary()
    return pa.table({}) if table is None else table


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
    from ldpflow.report.results import distinguishing_columns
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


def explain(run: Run, where: Where = None, sort: Sort = None, columns: Columns = None) -> None:
    """Explain for every cell why coverage differs from nominal, as a sum.

    The sum has the nominal level; the effects of mean length, variability of length, bias and the shape of
    the estimates' distribution, each alone; what several do together; and the dependence of error and length.
    It adds up to the coverage. For TR and TR-BM it also says what the diagnostics show and what to do. Every
    number is in the summary too.
    """
    from ldpflow.report.results import distinguishing_columns, short
    from ldpflow.results.where import chosen
    from ldpflow.run import open_run
    from ldpflow.study.stored import stored_left_out

    opened = open_run(run)
    table = opened.explain(where, names_in(sort))
    rows = table.to_pylist()
    settings = [name for name in table.column_names if name not in ("path", "explanation")]
    names = (
        distinguishing_columns(settings, rows, implied=True)
        if columns is None
        else chosen(table, columns=names_in(columns)).column_names
    )
    for row in rows:
        # B says nothing about a method that has none.
        label = ", ".join(f"{n} {short(row[n])}" for n in names if row[n] is not None)
        typer.echo(f"{label or 'The cell'}: {row['explanation']}")
    typer.echo(
        "± is one Monte Carlo standard error (MCSE), of effects by a jackknife over groups of replicates. "
        "The effect of a property is the coverage that it alone would give, less the level."
    )
    if note := (table.schema.metadata or {}).get(b"note"):
        typer.echo(note.decode())
    for line in stored_left_out(opened.store):
        typer.echo(line)


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


def export(
    run: Run,
    output: Annotated[str, typer.Option("-o", "--output", metavar="FILE", help="A DuckDB file to write.")],
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write a run as one DuckDB file, with views of coverage and of the best methods."""
    need("report", "duckdb", "altair", "vl_convert")
    from ldpflow.report.export import export_duckdb
    from ldpflow.report.results import Results

    export_duckdb(Results.load(run), output, replace=force)
    typer.echo(
        f"{output}: tables summary, replicates, trajectories, trajectory_summary, sessions; "
        "views coverage, best, best_beta, lost, running_coverage"
    )


def cite(
    run: Run,
    text: Annotated[
        bool, typer.Option("--text", help="A paragraph for a methods section, in the place of BibTeX.")
    ] = False,
) -> None:
    """Print BibTeX of the methods that a run uses and of ldpflow."""
    from ldpflow.results.design import run_design
    from ldpflow.results.references import bibtex, study_paragraph, unreferenced
    from ldpflow.run import open_run

    opened = open_run(run)
    if opened.store.read_study() is None:
        raise InputError("run", run, "a run with a study.toml")
    with opened.store.named_errors():
        design = run_design(opened.store, opened.summary(), opened.trajectories(), opened.provenance)
    if text:
        typer.echo(study_paragraph(design, opened.summary(), opened.provenance))
        return
    typer.echo(bibtex(design.study), nl=False)
    for kind in unreferenced(design.study):
        typer.echo(f"no reference is known of {kind}, a component of a plug-in: it has no `cites`", err=True)


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

    from ldpflow.report.charts import save, suffix_of
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
    from ldpflow.report.charts import save, suffix_of
    from ldpflow.run import open_run

    chart = open_run(run).plot(figure, x, where)
    output = output or f"{figure}.svg"
    suffix_of(output)
    save(chart, output)
    if "left_out" in chart.usermeta:
        typer.echo(plain_text(chart.usermeta["left_out"]), err=True)
    typer.echo(output)
