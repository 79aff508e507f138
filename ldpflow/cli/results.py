"""Commands that read a run: summary, compare, explain, verify, export, cite, trace, report and plot."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from inspect import signature
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ldpflow.cli.flags import (
    Columns,
    Every,
    Format,
    Run,
    Sort,
    StudyName,
    TableFormat,
    Where,
    flag,
    set_parameters,
)
from ldpflow.cli.sweep import sweep
from ldpflow.errors import InputError, LdpflowError, plain_text, require_extra

if TYPE_CHECKING:
    import pyarrow as pa

    import ldpflow.run
    from ldpflow.cli.tables import Sheet
    from ldpflow.results.published import MissingCell


def output_option(text: str, default: str | bool = True) -> Any:
    return flag(text, "FILE", name="--output", shown=default)


def factors(text: str, default: str = "by the design") -> Any:
    return flag(text, "NAMES", shown=default)


def split_names(texts: list[str] | None) -> list[str] | None:
    return None if texts is None else [name.strip() for text in texts for name in text.split(",")]


def print_table(
    table: pa.Table,
    form: Format,
    columns: list[str] | None,
    make_sheet: Callable[[], Sheet],
    every: bool = True,
) -> None:
    """Print a sheet. With ``columns`` print these columns and the settings that differ.

    CSV and JSON have ``columns`` alone.
    """
    from ldpflow.cli.tables import Sheet, chosen_columns
    from ldpflow.results.where import select_rows

    asked = select_rows(table, columns=split_names(columns))
    if form in (Format.csv, Format.json):
        Sheet(asked.to_pylist(), [], names=asked.column_names).show(form)
    elif columns:
        whole, names = make_sheet(), asked.column_names
        absent = [(title, text) for title, text in whole.settings if title not in names]
        rows = [row | own for row, own in zip(table.to_pylist(), asked.to_pylist(), strict=True)]
        chosen = Sheet(rows, absent, chosen_columns(table, names), notes=whole.notes)
        replace(chosen, constants=whole.constants, heading=whole.heading).show(form)
    else:
        make_sheet().show(form, every)


def all_rows(command: str, run: str, **options: object) -> str:
    given = ((f"--{name}", str(value)) for name, value in options.items() if value is not None)
    return shlex.join(["ldpflow", command, run, *chain(*given), "--all"])


def note_of(table: pa.Table) -> list[str]:
    note = (table.schema.metadata or {}).get(b"note", b"").decode()
    return [note] if note else []


def describe_where(table: pa.Table, where: str | None, total: int) -> list[str]:
    return [] if where is None else [f"{table.num_rows:,} of {total:,} rows: those with {where}"]


def summary(
    run: Run,
    form: TableFormat = Format.table,
    null: Annotated[
        float | None, flag("Null value of theta. Adds power, the share of intervals without this value.")
    ] = None,
    best: Annotated[
        bool,
        flag("Only the best row of every problem, mechanism, n, level and coordinate.", name="--best"),
    ] = False,
    where: Where = None,
    sort: Sort = None,
    columns: Columns = None,
    every: Every = False,
) -> None:
    """Show coverage, length, bias and standard error of every cell of a run.

    If there are more than 30 rows, the table has a line for each method and the ten cells whose coverage,
    with failures counted as misses, is farthest below the level.

    A method holds its level in a cell if the whole 95% Monte Carlo interval of this coverage is at or above
    the level less 2 points. It fails if the whole interval is below the level less 2 points.

    For a run without intervals the table has errors of trajectories at their last step.

    --best chooses among algorithms, step sizes and interval methods. It takes the row with the shortest
    intervals among the rows that hold their level, or the row with the highest coverage if no row holds it.
    """
    from ldpflow.cli.sheets import summary_sheet, trajectory_sheet
    from ldpflow.results.arena import best_rows, not_judged
    from ldpflow.results.where import select_rows
    from ldpflow.run import open_run
    from ldpflow.study.stored import stored_notes

    opened = open_run(run)
    stored = table = opened.summary()
    if table.num_rows == 0 and opened.trajectories().num_rows:
        if best:
            raise InputError("best", True, "a run with intervals", "It has trajectories alone.")
        table = opened.trajectories(where, split_names(sort))

        def followed_sheet() -> Sheet:
            return replace(trajectory_sheet(table), heading=unfinished(opened, stored))

        print_table(table, form, columns, followed_sheet)
        return
    if null is not None:
        from ldpflow.results.summary import stored_summary

        table = stored_summary(opened.store, null, damaged="refuse")
    total = table.num_rows
    table = select_rows(table, where)
    kept = describe_where(table, where, total)
    if best:
        unknown = not_judged(table.to_pylist())
        table = best_rows(opened.store, table)
        kept = [*(f"chosen from {line}" for line in kept), BEST_OF_MANY, *filter(None, [unknown])]
    table = select_rows(table, sort=split_names(sort))

    def make_sheet() -> Sheet:
        sheet = summary_sheet(table, all_rows("summary", run, null=null, where=where), sort is not None)
        notes = [*sheet.notes, *kept, *stored_notes(opened.store)]
        return replace(sheet, heading=unfinished(opened, stored), notes=notes)

    print_table(table, form, columns, make_sheet, every or best)


def unfinished(run: ldpflow.run.Run, summary: pa.Table) -> list[str]:
    """Line above the summary of a run whose last sweep did not complete its study."""
    from ldpflow.report.progress import progress

    with suppress(LdpflowError):
        found = progress(run.store, run.provenance, summary, run.trajectories)
        return [found] if found else []
    return []


BEST_OF_MANY = (
    "Each row was chosen by its own numbers, so these are too good on average. Run the row again with "
    "another seed before you use its numbers (ldpflow sweep --seed)."
)


def compare(
    run: Run,
    by: Annotated[
        str, flag("What to compare: method, mechanism, algorithm, or one of their settings.")
    ] = "method",
    baseline: Annotated[str | None, flag("Value to compare with.", shown="the first")] = None,
    form: TableFormat = Format.table,
    where: Where = None,
    sort: Sort = None,
    columns: Columns = None,
    every: Every = False,
) -> None:
    """Compare methods on the same paths, or mechanisms, budgets and step sizes on the same users.

    Replicates are paired. The difference of coverages has McNemar's standard error. The ratio of mean lengths
    has a standard error by the delta method. A replicate without an interval counts as a miss. If there are
    such replicates, a column shows their shares in both cells.

    Methods that use several paths per interval (PAR, HULC) share no replicates with other methods. They are
    not compared with other methods.

    If there are more than 30 rows, the table has a line for each method and the ten rows whose coverage is
    farthest below the coverage of the baseline. Lines below the table count the rows that --where chose and
    the cells that cannot be compared.
    """
    from ldpflow.cli.sheets import comparison_sheet
    from ldpflow.results.where import select_rows
    from ldpflow.run import open_run

    compared = open_run(run).compare(by, baseline)
    table = select_rows(compared, where, split_names(sort))

    def make_sheet() -> Sheet:
        factor = None if by == "method" else by
        command = all_rows("compare", run, by=factor, baseline=baseline, where=where)
        sheet = comparison_sheet(table, by, command, sort is not None)
        kept = describe_where(table, where, compared.num_rows)
        return replace(sheet, notes=[*sheet.notes, *kept, *note_of(table)])

    print_table(table, form, columns, make_sheet, every)


def explain(
    run: Run,
    form: TableFormat = Format.table,
    where: Where = None,
    sort: Sort = None,
    columns: Columns = None,
    every: Every = False,
    verbose: Annotated[bool, flag("Print sentences with advice.", name="--verbose")] = False,
) -> None:
    """Explain for every cell why coverage differs from nominal, as a sum.

    The coverage is the sum of the nominal level, five effects and the rest. Four effects are those of one
    property alone: mean length, variability of length, bias, and shape of the distribution of estimates. The
    fifth effect is the dependence of error and length.

    A dash is an effect within two MCSE or of at most 0.0025. The rest contains such effects, and what several
    effects do together. The last column names the main cause, as in "19% too short".

    --verbose prints sentences. They also say what the diagnostics of TR and TR-BM show and what to do. For a
    long table it prints the ten worst cells.
    """
    from ldpflow.cli.sheets import explanation_sheet
    from ldpflow.cli.tables import MOST_ROWS, PLUS_MINUS, WORST, lines_text
    from ldpflow.run import open_run
    from ldpflow.study.stored import stored_left_out

    opened = open_run(run)
    table = opened.explain(where, split_names(sort))

    def make_sheet() -> Sheet:
        errors = form in (Format.md, Format.latex)
        sheet = explanation_sheet(table, all_rows("explain", run, where=where), sort is not None, errors)
        kept = describe_where(table, where, opened.summary().num_rows)
        constants = ". ".join(filter(None, [sheet.constants, *note_of(table)]))
        return replace(sheet, constants=constants, notes=[*kept, *stored_left_out(opened.store)])

    if not verbose or columns is not None or form is not Format.table:
        print_table(table, form, columns, make_sheet, every)
        return
    sheet = make_sheet()
    rows, lines = sheet.rows, []
    if not every and len(rows) > MOST_ROWS:
        rows, line = replace(sheet, command=f"{sheet.command} --verbose").choose(WORST)
        lines = [line]
    for row in rows:
        label = ", ".join(f"{name} {text(row)}" for name, text in sheet.settings if row[name] is not None)
        lines.append(f"{label or 'The cell'}: {row['explanation']}")
    print(lines_text([*lines, f"{PLUS_MINUS} {OF_EFFECTS}", *note_of(table), *sheet.notes]), end="")


OF_EFFECTS = (
    "MCSEs of effects are by a jackknife over groups of replicates. The effect of a property is the coverage "
    "that it alone would give, less the level."
)


def verify(
    run: Run,
    against: Annotated[str, flag("Name of the published tables.")] = "dette-graw",
    form: TableFormat = Format.table,
) -> None:
    """Compare a run with published numbers. The exit code is 1 if they are refuted or cannot be compared.

    The rows are checked, and the numbers are computed from the rows. A summary that differs from its rows is
    named and counts as a failure.

    z = (ours - printed) / sqrt(SE^2 + printed SE^2 + half unit^2/3), where half unit is half a unit of the
    last printed digit. p is Holm-adjusted over all numbers. With fewer than 500 replicates, or an SE of 0,
    the SE of a coverage is at least sqrt(printed (1 - printed)/replicates).
    """
    from ldpflow.cli.tables import Sheet, number, plain
    from ldpflow.run import open_run

    comparison = open_run(run).verify(against)
    rows = [asdict(row) for row in comparison.rows]
    lines = [
        *missing_lines(comparison.missing),
        f"{len(rows)} numbers compared with {comparison.name}, {len(comparison.missing)} published "
        f"cells not compared; Holm test at {comparison.level_of_test:.0%}: {comparison.verdict}",
        *comparison.power(),
        *comparison.findings,
    ]
    Sheet(
        rows,
        list(map(plain, ("table", "tau", "coordinate", "method", "n", "measure"))),
        [
            number("ours", "ours", 4),
            number("printed", "printed", 4),
            ("z", lambda row: f"{row['z']:.2f}"),
            ("adj. p", lambda row: f"{row['p_adjusted']:.3f}"),
        ],
        notes=lines,
    ).show(form)
    if not comparison.passed:
        raise typer.Exit(1)


def missing_lines(missing: Sequence[MissingCell]) -> Iterator[str]:
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
    output: Annotated[str, output_option("A DuckDB file to write.")],
    force: Annotated[bool, flag("Replace an existing file.", name="--force")] = False,
) -> None:
    """Write a run as one DuckDB file, with views of coverage and of the best methods."""
    require_extra("report", "duckdb", "altair", "vl_convert")
    from ldpflow.report.export import export_duckdb
    from ldpflow.run import open_run

    export_duckdb(open_run(run).results, output, replace=force)
    typer.echo(output)


def cite(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Run directory, or a study file.")],
    text: Annotated[
        bool, flag("Print a paragraph for a methods section instead of BibTeX.", name="--text")
    ] = False,
) -> None:
    """Print BibTeX of ldpflow and of the methods that a run or a study file uses."""
    from ldpflow.documents import parse_toml, read_text
    from ldpflow.results.design import run_design
    from ldpflow.results.references import bibtex, kinds_without_reference, study_paragraph
    from ldpflow.run import open_run
    from ldpflow.study.entry import GROUPS, entry_tables

    if run.endswith(".toml"):
        if text:
            raise InputError("text", True, "a run: the paragraph describes its results")
        study: Any = parse_toml(read_text(run, "run"), "run", run)
        for group in GROUPS.keys() & study.keys():
            entry_tables(group, study[group])
    else:
        opened = open_run(run)
        if opened.store.read_study() is None:
            raise InputError("run", run, "a run with a study.toml")
        with opened.store.named_errors():
            design = run_design(opened.store, opened.summary(), opened.trajectories(), opened.provenance)
        if text:
            typer.echo(study_paragraph(design, opened.summary(), opened.provenance))
            return
        study = design.study
    typer.echo(bibtex(study), nl=False)
    for kind in kinds_without_reference(study):
        typer.echo(f"the component {kind} of a plug-in names no reference in `cites`", err=True)


def trace(
    study: StudyName = "paper-table1",
    replicate: Annotated[int, flag("Index of the replicate.", min=0)] = 0,
    output: Annotated[str, output_option("svg, png, pdf or json.")] = "trace.svg",
    parquet: Annotated[str | None, flag("Also write the rows of all coordinates.", "FILE")] = None,
    **flags: Any,
) -> None:
    """Draw the estimate and the limits along one path, for n from 10 to 1e6.

    For a vector it draws the first coordinate. The default methods are BB, BM and SN, at tau 0.5. Flags of
    the design (*) replace values of the study.
    """
    require_extra("report", "altair", "vl_convert")
    import pyarrow.parquet as pq

    from ldpflow.report.charts import save, suffix_of
    from ldpflow.report.trace import trace as compute
    from ldpflow.report.trace import trace_plot
    from ldpflow.study import load_study

    suffix_of(output)
    given = {"method": flags["method"] or ["BB", "BM", "SN"], "tau": flags["tau"] or ["0.5"]}
    asked = load_study(study).replace(flags | given)
    if len(asked.level) > 1:
        raise InputError("--level", list(asked.level), "one level")
    rows = compute(asked, replicate)
    if parquet is not None:
        try:
            pq.write_table(rows, parquet, compression="zstd")
        except OSError as error:
            raise InputError("--parquet", parquet, "a file that can be written", str(error)) from None
    save(trace_plot(rows), output)
    typer.echo(f"{output}: {len(set(rows['n'].to_pylist()))} n from one path")


*OWN, _ = signature(trace, eval_str=True).parameters.values()
OF_DESIGN = ("tau", "epsilon", "beta", "level", "method", "seed")
set_parameters(trace, [*OWN, *(signature(sweep).parameters[name] for name in OF_DESIGN)])

Baseline = Annotated[
    str | None, flag("Method that paired figures compare with.", "METHOD", shown="first with most rows")
]


def report(
    run: Run,
    output: Annotated[str | None, output_option("The HTML file.", "RUN/report.html")] = None,
    follow: Annotated[
        bool,
        flag("Rewrite the report of a running sweep as rows come, until the sweep ends.", name="--follow"),
    ] = False,
    notes: Annotated[str | None, flag("Markdown file with prose for the report's sections.", "FILE")] = None,
    baseline: Baseline = None,
) -> None:
    """Write a report of a run: one HTML file that opens offline.

    Sentences on top say which methods hold their level, which fail, where and why. Figures show all
    settings. Buttons in the page filter figures and tables at once.

    With --follow the page reloads itself in the browser every ten seconds. No server is needed.

    With --notes, text before the first heading goes below the sentences on top. Text under "# Coverage" goes
    to the section Coverage. A heading that the report lacks makes a new section.
    """
    require_extra("report", "altair", "vl_convert")
    from ldpflow.report import page
    from ldpflow.run import open_run

    def print_written(place: str, text: str) -> None:
        typer.echo(f"{place}: written, {len(text.encode()) / 1e6:.1f} MB")

    prose = "" if notes is None else page.read_notes(notes)
    if follow:
        typer.echo(f"following {run}: the page is written whenever rows have come; Ctrl-C stops")
        results = page.follow(run, output, print_written, prose, baseline)
        typer.echo(f"{results.store.root}: the sweep has ended")
        return
    results = open_run(run).results.with_baseline(baseline)
    text = page.report_html(results, notes=prose)
    print_written(page.write_page(results.store, text, output), text)


def plot(
    run: Run,
    figure: Annotated[
        str,
        typer.Argument(
            metavar="FIGURE",
            help="coverage, explanation, coverage-difference, length-ratio, choice, length, relative-length, "
            "protocols, zip, bias, standard-error or paper; for trajectories distance, "
            "excess-loss, loss, gradient-norm, gradient-error, clipped, threshold, rates or risk.",
        ),
    ],
    x: Annotated[
        str,
        typer.Option(
            help="Factor on the axis, such as n, epsilon or law. For trajectories n or step. For rates and "
            "risk n or another number that varies."
        ),
    ] = "n",
    output: Annotated[str | None, output_option("svg, png, pdf or json.", "FIGURE.svg")] = None,
    where: Where = None,
    rows: Annotated[list[str] | None, factors("Factors of the rows of panels, with commas: law,tau.")] = None,
    cols: Annotated[list[str] | None, factors("Factors of the columns of panels.")] = None,
    color: Annotated[list[str] | None, factors("Factors of the lines' colours.", "method")] = None,
    width: Annotated[str | None, flag("Width of the whole figure: 85mm, 3.3in, or pixels.", "X")] = None,
    baseline: Baseline = None,
    title: Annotated[str | None, flag("Title, instead of the figure's own.", "TEXT")] = None,
) -> None:
    """Draw one figure of a run into a file, for papers and slides.

    The file shows all panels and lines. Factors that you do not name get rows or columns too.

    ldpflow plot runs/mine coverage --rows law --cols tau --width 170mm -o coverage.pdf
    """
    require_extra("report", "altair", "vl_convert")
    from ldpflow.report.charts import save, suffix_of
    from ldpflow.run import open_run

    if output is None:
        output = f"{figure}.svg"
    else:
        suffix_of(output)
    places = {"rows": split_names(rows), "cols": split_names(cols), "color": split_names(color)}
    named: Any = figure  # plot() checks it
    chart = open_run(run).plot(named, x, where, **places, width=width, baseline=baseline, title=title)
    save(chart, output)
    if "left_out" in chart.usermeta:
        typer.echo(plain_text(chart.usermeta["left_out"]), err=True)
    typer.echo(output)
