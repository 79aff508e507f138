"""Commands that read a run: summary, compare, explain, verify, export, cite, trace, report and plot."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from ldpflow.columns import counted
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
    """Names of columns, of which a text may hold several with commas."""
    return None if texts is None else [name.strip() for text in texts for name in text.split(",")]


def columns_of(
    columns: Sequence[str], field: str, texts: list[str] | None, headings: Mapping[str, str]
) -> list[str]:
    """Columns for names or printed headings, to sort by with or without a minus before them."""
    from ldpflow.results.where import check_column

    known = dict(zip(columns, columns, strict=True)) | {h: c for h, c in headings.items() if c in columns}
    found = []
    for text in split_names(texts) or ():
        name = text.removeprefix("-") if field == "sort" else text
        check_column(name, [*known], field)
        found.append(text.removesuffix(name) + known[name])
    return found


def print_table(
    table: pa.Table,
    form: Format,
    columns: list[str] | None,
    headings: Mapping[str, str],
    make_sheet: Callable[[], Sheet],
    every: bool = True,
) -> None:
    """Print a sheet, or columns after the settings that differ; as CSV and JSON the columns alone."""
    from ldpflow.cli.tables import Sheet, chosen_columns

    names = columns_of(table.column_names, "columns", columns, headings)
    if form in (Format.csv, Format.json):
        Sheet(table.to_pylist(), [], names=names or table.column_names).show(form)
    elif names:
        whole = make_sheet()
        shown = chosen_columns(table, dict(zip(split_names(columns) or (), names, strict=True)))
        absent = [(title, text) for title, text in whole.settings if title not in names]
        chosen = Sheet(table.to_pylist(), absent, shown, constants=whole.constants, notes=whole.notes)
        replace(chosen, heading=whole.heading).show(form)
    else:
        make_sheet().show(form, every)


def all_rows(command: str, run: str, **options: object) -> str:
    given = ((f"--{name}", str(value)) for name, value in options.items() if value is not None)
    return shlex.join(["ldpflow", command, run, *chain(*given), "--all"])


def notes_of(table: pa.Table, where: str | None, total: int) -> list[str]:
    kept = [] if where is None else [f"{table.num_rows:,} of {total:,} rows: those with {where}"]
    note = (table.schema.metadata or {}).get(b"note", b"").decode()
    return [*kept, *([note] if note else [])]


def summary(
    run: Run,
    form: TableFormat = Format.table,
    null: Annotated[
        float | None, flag("Null value of theta: adds power, the share of intervals without it.")
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

    Of more than 30 rows the table has a line for each method and the ten cells whose coverage, failures
    counted as misses, is farthest below the level. A method holds its level in a cell if the lower end of
    the 95% Monte Carlo interval of that coverage is at most 2 points below the level; it fails if the upper
    end is farther below.

    A run without intervals has errors of trajectories instead; the table shows their last step.

    --best chooses among algorithms, step sizes and interval methods: of the rows that hold their level the
    one with the shortest intervals, or else the one with the highest coverage, and says which.
    """
    from ldpflow.cli.sheets import SUMMARY_HEADINGS, summary_sheet, trajectory_sheet
    from ldpflow.results.arena import best_rows, not_judged, with_state
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

        print_table(table, form, columns, {}, followed_sheet)
        return
    if null is not None:
        from ldpflow.results.summary import stored_summary

        table = stored_summary(opened.store, null, damaged="refuse")
    total = table.num_rows
    table = select_rows(table, where)
    kept = notes_of(table, where, total)
    if best:
        unknown = not_judged(table.to_pylist())
        table = best_rows(opened.store, table)
        kept = [*(f"chosen from {line}" for line in kept), BEST_OF_MANY, *filter(None, [unknown])]
    if "state" in str(columns):
        table = with_state(table)
    names = [*table.column_names, "level_state"]
    table = select_rows(table, sort=columns_of(names, "sort", sort, SUMMARY_HEADINGS))

    def make_sheet() -> Sheet:
        sheet = summary_sheet(table, all_rows("summary", run, null=null, where=where), sort is not None)
        notes = [*sheet.notes, *kept, *stored_notes(opened.store)]
        return replace(sheet, heading=unfinished(opened, stored), notes=notes)

    print_table(table, form, columns, SUMMARY_HEADINGS, make_sheet, every or best)


def unfinished(run: ldpflow.run.Run, summary: pa.Table) -> list[str]:
    """A line above the summary of a run whose last sweep ended before its study was complete."""
    from ldpflow.report.progress import progress

    with suppress(LdpflowError):
        found = progress(run.store, run.provenance, summary, run.trajectories)
        return [found] if found else []
    return []


BEST_OF_MANY = (
    "Each row is the best of its candidates on the replicates that chose it: run it again with another seed "
    "before its numbers are used (ldpflow sweep --seed)."
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

    Replicates are paired: the difference of coverages has McNemar's standard error, and the ratio of
    mean lengths has one by the delta method. A replicate without an interval counts as a miss; where there
    are any, a column shows their shares in both cells. Methods that use several paths per interval (PAR,
    HULC) share no replicates with the others, so they are not compared with them.

    Of more than 30 rows the table has a line for each method, and the ten rows with the smallest difference
    of coverages. Lines below name what a condition left out, and cells that cannot be
    compared.
    """
    from ldpflow.cli.sheets import COMPARISON_HEADINGS, comparison_sheet
    from ldpflow.results.where import select_rows
    from ldpflow.run import open_run

    compared = open_run(run).compare(by, baseline)
    table = select_rows(compared, where, columns_of(compared.column_names, "sort", sort, COMPARISON_HEADINGS))

    def make_sheet() -> Sheet:
        factor = None if by == "method" else by
        command = all_rows("compare", run, by=factor, baseline=baseline, where=where)
        sheet = comparison_sheet(table, by, command, sort is not None)
        return replace(sheet, notes=[*sheet.notes, *notes_of(table, where, compared.num_rows)])

    print_table(table, form, columns, COMPARISON_HEADINGS, make_sheet, every)


def explain(
    run: Run,
    form: TableFormat = Format.table,
    where: Where = None,
    sort: Sort = None,
    columns: Columns = None,
    every: Every = False,
    verbose: Annotated[bool, flag("Sentences instead, with advice.", name="--verbose")] = False,
) -> None:
    """Explain for every cell why coverage differs from nominal, as a sum.

    The sum has the nominal level; the effects of mean length, variability of length, bias and the shape of
    the estimates' distribution, each alone; the dependence of error and length; and the rest. It adds up to
    the coverage. An effect within two MCSE, or of at most 0.0025, is a dash, and is part of the rest, as is
    what several effects do together. The last column names the main cause: 19% too short.

    --verbose also says what the diagnostics of TR and TR-BM show and what to do, of a long table for the ten
    worst cells.
    """
    from ldpflow.cli.sheets import EXPLANATION_HEADINGS, explanation_sheet
    from ldpflow.cli.tables import MOST_ROWS, PLUS_MINUS, WORST, lines_text
    from ldpflow.results.arena import with_state
    from ldpflow.run import open_run
    from ldpflow.study.stored import stored_left_out

    opened = open_run(run)
    total = opened.summary()
    known = list(dict.fromkeys([*total.column_names, *EXPLANATION_HEADINGS.values()]))
    order = columns_of(known, "sort", sort, EXPLANATION_HEADINGS)
    table = opened.explain(where, order)
    table = with_state(table) if "state" in str(columns) else table

    def make_sheet() -> Sheet:
        errors = form in (Format.md, Format.latex)
        sheet = explanation_sheet(table, all_rows("explain", run, where=where), sort is not None, errors)
        notes = [*notes_of(table, where, total.num_rows), *stored_left_out(opened.store)]
        return replace(sheet, notes=notes)

    if not verbose or columns is not None or form is not Format.table:
        print_table(table, form, columns, EXPLANATION_HEADINGS, make_sheet, every)
        return
    sheet = make_sheet()
    rows, lines = sheet.rows, []
    if not every and len(rows) > MOST_ROWS:
        rows, line = replace(sheet, command=f"{sheet.command} --verbose").choose(WORST)
        lines = [line]
    for row in rows:
        # B says nothing about a method that has none.
        label = ", ".join(f"{name} {text(row)}" for name, text in sheet.settings if row[name] is not None)
        lines.append(f"{label or 'The cell'}: {row['explanation']}")
    print(lines_text([*lines, f"{PLUS_MINUS} {OF_EFFECTS}", *sheet.notes]), end="")


OF_EFFECTS = (
    "That of an effect is by a jackknife over groups of replicates. The effect of a property is the coverage "
    "that it alone would give, less the level."
)


def verify(
    run: Run,
    against: Annotated[str, flag("Name of the published tables.")] = "dette-graw",
    form: TableFormat = Format.table,
) -> None:
    """Compare a run with published numbers; exit with 1 if they are refuted or cannot be compared.

    The rows are checked and the numbers computed from them. A summary that differs from its rows is
    named and counts as a failure.

    z = (ours - printed) / sqrt(SE^2 + printed SE^2 + half unit^2/3); p is Holm-adjusted over all
    numbers. With fewer than 500 replicates, or an SE of 0, the SE of a coverage is at least sqrt(printed
    (1 - printed)/replicates).
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
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="Run directory, or a study file such as a design.")
    ],
    text: Annotated[
        bool, flag("A paragraph for a methods section, in the place of BibTeX.", name="--text")
    ] = False,
) -> None:
    """Print BibTeX of the methods that a run or a study file uses, and of ldpflow."""
    from ldpflow.documents import parse_toml, read_text
    from ldpflow.results.design import run_design
    from ldpflow.results.references import study_paragraph
    from ldpflow.run import open_run
    from ldpflow.study.entry import GROUPS, entry_tables

    if run.endswith(".toml"):
        if text:
            raise InputError("text", True, "a run: the paragraph describes its results")
        study = parse_toml(read_text(run, "run"), "run", run)
        for group in GROUPS.keys() & study.keys():
            entry_tables(group, study[group])
        print_bibtex(study)
        return
    opened = open_run(run)
    if opened.store.read_study() is None:
        raise InputError("run", run, "a run with a study.toml")
    with opened.store.named_errors():
        design = run_design(opened.store, opened.summary(), opened.trajectories(), opened.provenance)
    if text:
        typer.echo(study_paragraph(design, opened.summary(), opened.provenance))
        return
    print_bibtex(design.study)


def print_bibtex(study: Mapping[str, Any]) -> None:
    from ldpflow.results.references import bibtex, kinds_without_reference

    typer.echo(bibtex(study), nl=False)
    for kind in kinds_without_reference(study):
        typer.echo(f"no reference is known of {kind}, a component of a plug-in: it has no `cites`", err=True)


def trace(
    study: StudyName = "paper-table1",
    replicate: Annotated[int, flag("Index of the replicate.", min=0)] = 0,
    coordinate: Annotated[int, flag("Coordinate that is drawn.", min=0)] = 0,
    output: Annotated[str, output_option("svg, png, pdf or json.")] = "trace.svg",
    parquet: Annotated[str | None, flag("Write the rows of all coordinates too.", "FILE")] = None,
    **flags: Any,
) -> None:
    """Draw the estimate and the limits along one path, for n from 10 to 1e6.

    By default they are those of BB, BM and SN at tau 0.5. Flags of the design (*) replace the study's values.
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
    save(trace_plot(rows, coordinate), output)
    typer.echo(f"{output}: {len(set(rows['n'].to_pylist()))} n from one path")


*OWN, _ = signature(trace, eval_str=True).parameters.values()
OF_DESIGN = ("tau", "epsilon", "beta", "level", "method", "seed")
set_parameters(trace, [*OWN, *(signature(sweep).parameters[name] for name in OF_DESIGN)])

Baseline = Annotated[
    str | None, flag("Method that paired figures compare with.", "METHOD", shown="chosen by results")
]


def report(
    run: Run,
    output: Annotated[str | None, output_option("The HTML file.", "RUN/report.html")] = None,
    follow: Annotated[
        bool,
        flag("Of a running sweep: write it again as rows come, until the sweep ends.", name="--follow"),
    ] = False,
    notes: Annotated[str | None, flag("Markdown: prose for under the report's headings.", "FILE")] = None,
    baseline: Baseline = None,
) -> None:
    """Write a report of a run: one HTML file that opens offline, with everything in it.

    Sentences on top say which methods hold their level, which fail, where and why. Figures show all
    settings; a picker in the page filters figures and tables at once.

    With --follow the page reads itself again in a browser every ten seconds; nothing listens on the network.
    With --notes, text before the first heading goes below these sentences; text under "# Coverage" goes
    to the section Coverage; text under a heading that the report lacks makes a section of its own.
    """
    require_extra("report", "altair", "vl_convert")
    from ldpflow.report import page
    from ldpflow.run import open_run

    def print_written(place: str, text: str, what: str = "written") -> None:
        typer.echo(f"{place}: {what}, {len(text.encode()) / 1e6:.1f} MB")

    prose = "" if notes is None else page.read_notes(notes)
    if follow:
        typer.echo(f"following {run}: the page is written whenever rows have come; Ctrl-C stops")
        results = page.follow(run, output, print_written, prose, baseline)
        typer.echo(f"{results.store.root}: the sweep has ended")
        return
    results = open_run(run).results.with_baseline(baseline)
    text = page.report_html(results, notes=prose)
    place = page.write_page(results.store, text, output)
    followed = len({row["path"] for row in results.followed})
    cells = len(results.rows)
    what = [counted(cells, "cell")] if cells or not followed else []
    what += [counted(followed, "followed path")] if followed else []
    print_written(place, text, ", ".join(what))


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
            help="The factor on the axis: n, epsilon, law, ...; for trajectories n or step; for rates n, "
            "epsilon, dimension or epochs."
        ),
    ] = "n",
    output: Annotated[str | None, output_option("svg, png, pdf or json.", "FIGURE.svg")] = None,
    where: Where = None,
    rows: Annotated[list[str] | None, factors("Factors of the rows of panels, with commas: law,tau.")] = None,
    cols: Annotated[list[str] | None, factors("Factors of the columns of panels.")] = None,
    color: Annotated[list[str] | None, factors("Factors of the lines' colours.", "method")] = None,
    width: Annotated[str | None, flag("Of the whole figure: 85mm, 3.3in, or pixels.", "X")] = None,
    height: Annotated[str | None, flag("Of the whole figure.", "X")] = None,
    baseline: Baseline = None,
    title: Annotated[str | None, flag("In the place of the figure's own title.", "TEXT")] = None,
) -> None:
    """Draw one figure of a run into a file, for papers and slides.

    A file has every panel and line: factors that are not named get rows or columns too.

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
    named: Any = figure  # which plot checks
    chart = open_run(run).plot(
        named, x, where, **places, width=width, height=height, baseline=baseline, title=title,
    )  # fmt: skip
    save(chart, output)
    if "left_out" in chart.usermeta:
        typer.echo(plain_text(chart.usermeta["left_out"]), err=True)
    typer.echo(output)
