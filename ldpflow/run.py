"""Class Run: the stored results of a sweep, and methods that read them."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from numbers import Integral, Real
from types import NoneType
from typing import TYPE_CHECKING, Any

from ldpflow.columns import counted
from ldpflow.errors import InputError, require_extra
from ldpflow.settings import check_type, closest

if TYPE_CHECKING:
    import pyarrow as pa

    from ldpflow import _Figure as Figure
    from ldpflow.cli.tables import Shown
    from ldpflow.engine.check import Finding
    from ldpflow.engine.loop import RunResult
    from ldpflow.report.charts import ChartType
    from ldpflow.report.results import Results
    from ldpflow.results.published import Comparison
    from ldpflow.store.run_store import RunStore
    from ldpflow.study import Study

Names = str | Sequence[str] | None

LONGEST_LINE = 100
"""Longest text, in characters, that a table in a notebook shows without wrapping."""


def open_run(out: str | os.PathLike[str]) -> Run:
    """Open the stored results of a sweep, without loading its plug-ins.

    Parameters
    ----------
    out : path or URI
        The run directory, as in ``runs/mine`` or ``s3://bucket/run``.

    Raises
    ------
    InputError
        If there is no run.

    Examples
    --------
    >>> lf.open_run("runs/mine").out
    'runs/mine'
    """
    from ldpflow.store.run_store import RunStore

    store = RunStore(out)
    with store.named_errors():
        if not store.holds_run():
            raise InputError("run", str(out), "a run directory", "There is no run at this place.")
    return Run(store)


@dataclass(frozen=True, repr=False)
class Replay:
    """Recomputed and stored replicates. Both tables have the same columns and the same order of rows."""

    computed: pa.Table
    stored: pa.Table

    @property
    def equal(self) -> bool:
        """Whether all values are equal bit for bit. NaN counts as equal to NaN."""
        from ldpflow.engine.replay import equal_bits

        return equal_bits(self.computed, self.stored)

    def __repr__(self) -> str:
        if self.stored.num_rows == 0:
            return f"Replay: {self.computed.num_rows:,} rows computed, none stored"
        verdict = "equal, bit for bit" if self.equal else "DIFFERENT"
        return f"Replay: {self.computed.num_rows:,} rows, {verdict}"


@dataclass(frozen=True, repr=False)
class CheckResult:
    """Result of a check of a run: findings, and the numbers of checked parts and rows."""

    findings: list[Finding]
    counts: dict[str, int]

    @property
    def passed(self) -> bool:
        """Whether there are no findings."""
        return not self.findings

    @property
    def verdict(self) -> str:
        """One line with the counts and the number of findings."""
        found = "all is well" if self.passed else counted(len(self.findings), "finding")
        return f"{self.counts['parts']:,} parts, {self.counts['rows']:,} rows: {found}"

    def __repr__(self) -> str:
        return "\n".join([self.verdict, *(finding.what for finding in self.findings)])


class Run:
    """The stored results of a sweep.

    :func:`ldpflow.sweep` and :func:`ldpflow.open_run` return it. Its methods read the run's Parquet files.
    :meth:`plot` and :meth:`report` need the packages of the extra ``report`` and raise MissingExtra without
    them.

    Examples
    --------
    >>> run = lf.open_run("runs/mine")
    >>> run.summary("method == 'SN'", short=True).column_names[:4]
    ['n', 'method', 'coverage', 'coverage_mcse']
    >>> rows = run.rows(method="SN", columns=["epsilon", "law", "covered", "length"])
    >>> rows.to_pandas().groupby(["epsilon", "law"])["covered"].size().to_dict()
    {(1.0, 'normal'): 40}
    >>> run.compare(by="method", baseline="SN", short=True).column_names[:4]
    ['n', 'method', 'vs', 'coverage_difference']
    >>> run.explain(short=True).num_rows, run.trajectories().num_rows, run.verify().passed
    (2, 0, False)
    >>> run.replay(replicate=7), run.check()
    (Replay: 2 rows, equal, bit for bit, 1 parts, 80 rows: all is well)
    >>> run.plot("coverage", x="n").save("coverage.json")
    >>> run.report("report.html")
    'report.html'
    """

    def __init__(self, store: RunStore, result: RunResult | None = None) -> None:
        if isinstance(store, (str, os.PathLike)):
            raise InputError("store", str(store), "an open store", f"open_run({str(store)!r}) opens a run.")
        self.store = store
        self.result = result
        """Result of the sweep that made or continued the run, or None for an opened run."""

    @property
    def out(self) -> str:
        """Run directory."""
        return self.store.root

    @property
    def study(self) -> Study:
        """Study in the run's ``study.toml``.

        Raises
        ------
        InputError
            If there is no study, or a plug-in of the study is not loaded.
        """
        from ldpflow.study.stored import study_to_run

        return study_to_run(self.store)

    @property
    def cautions(self) -> list[str]:
        """Lines on combinations that the study leaves out, and on broken assumptions.

        Empty for a study that cannot be read.
        """
        from ldpflow.study.stored import stored_cautions

        return stored_cautions(self.store)

    @property
    def provenance(self) -> list[dict[str, Any]]:
        """Start, end, machine, versions and throughput of each sweep that wrote to the run."""
        from ldpflow.store.provenance import read_sessions

        return read_sessions(self.store)

    def summary(
        self,
        where: str | None = None,
        sort: Names = None,
        columns: Names = None,
        best: bool = False,
        short: bool = False,
    ) -> pa.Table:
        """Summarise coverage, length, bias and all other measures by cell and coordinate.

        Parameters
        ----------
        where : str, optional
            A condition on columns: ``"method == 'BB' and n >= 1e5"``.
        sort : str or sequence of str, optional
            Columns to sort by. ``-name`` sorts in descending order.
        columns : str or sequence of str, optional
            Columns to return. Default: all.
        best : bool
            Return only the best row of every problem, mechanism, n, level and coordinate. It is chosen among
            all algorithms, step sizes and methods. Further columns are ``level_state`` and ``candidates``
            (:func:`ldpflow.results.arena.best_rows`).
        short : bool
            Return only the settings that differ between rows, both coverages, mean length and bias with
            their errors, and ``level_state``. ``level_state`` says whether the method holds its level, with
            failures counted as misses. ``sort`` and ``columns`` must name columns of this short table.

        Returns
        -------
        pyarrow.Table
            One row per cell and coordinate, with the columns of docs/tables.md.

        Raises
        ------
        InputError
            If no replicate has finished, or a name is no column.
        """
        from ldpflow.results.where import select_rows

        with self.store.named_errors():
            table = self.store.read_summary()
        if table is None:
            hint = "Continue the sweep, or see what is missing with `ldpflow check`."
            raise InputError("run", self.out, "a run directory with a summary", hint)
        table = select_rows(table, where)
        if best:
            from ldpflow.results.arena import best_rows

            table = best_rows(self.store, table)
        if short:
            from ldpflow.results.arena import short_rows

            table = short_rows(table)
        return select_rows(table, sort=sort, columns=columns)

    def rows(self, where: str | None = None, columns: Names = None, **settings: Any) -> pa.Table:
        """Rows of single replicates, each with the settings of its path: epsilon, tau, law, gamma, ...

        Parameters
        ----------
        where, columns
            As in :meth:`summary`.
        **settings
            Values of columns, or lists of values: ``run.rows(method="BB", n=1_000_000)``.

        Returns
        -------
        pyarrow.Table
            One row per replicate, cell and coordinate, with the columns of docs/tables.md. Ask for few
            ``columns`` of a large run.

        Raises
        ------
        InputError
            If a name is no column, or a part of the run cannot be read.
        """
        from ldpflow.results.where import stored_rows

        with self.store.named_errors():
            return stored_rows(self.store, where, columns, settings)

    def trajectories(self, where: str | None = None, sort: Names = None, columns: Names = None) -> pa.Table:
        """Summarise errors along the paths over replicates. Empty for a study without trajectories.

        Parameters
        ----------
        where, sort, columns
            As in :meth:`summary`.
        """
        from ldpflow.results.summary import stored_trajectory_summary
        from ldpflow.results.where import select_rows

        with self.store.named_errors():
            table = self.store.read_trajectory_summary()
            if table is None:
                table = stored_trajectory_summary(self.store, damaged="refuse")
        return select_rows(table, where, sort, columns)

    def compare(
        self,
        by: str = "method",
        baseline: str | float | None = None,
        where: str | None = None,
        short: bool = False,
    ) -> pa.Table:
        """Compare cells with a baseline, paired by replicate.

        Parameters
        ----------
        by : str
            Factor to compare: ``method``, ``mechanism``, ``algorithm``, or one of their settings.
        baseline : str or float, optional
            Value of ``by`` to compare with. Default: the first one.
        where : str, optional
            A condition on the columns of the comparison.
        short : bool
            Return only the settings that differ between rows, ``vs`` with the name of the setting
            (``epsilon=0.5``), the difference of coverages, the ratio of lengths, the number of pairs, and the
            shares of replicates without an interval.

        Returns
        -------
        pyarrow.Table
            Settings of the two cells, ``vs``, the difference of coverages with McNemar's standard error, the
            ratio of mean lengths with its standard error by the delta method, and numbers of pairs.
        """
        from ldpflow.results.arena import short_rows
        from ldpflow.results.comparison import SHORT, TABLES, stored_comparisons
        from ldpflow.results.where import select_rows

        with self.store.named_errors():
            table = select_rows(stored_comparisons(self.store, by, baseline), where)
        if not short:
            return table
        table = short_rows(table, SHORT, "vs")
        values = [value if by in TABLES else f"{by}={value}" for value in table["vs"].to_pylist()]
        return table.set_column(table.column_names.index("vs"), "vs", [values])

    def explain(self, where: str | None = None, sort: Names = None, short: bool = False) -> pa.Table:
        """Explain why coverage differs from nominal, as a sum of effects.

        Parameters
        ----------
        where, sort
            As in :meth:`summary`. They may also name columns of the explanation.
        short : bool
            Return only the settings that differ between rows, the effects that add up and both coverages with
            their errors, ``level_state`` and ``cause``.

        Returns
        -------
        pyarrow.Table
            Settings of every cell, then seven effects as shares, each with a column ``_mcse``:
            ``length_effect``, ``variability_effect``, ``bias_effect``, ``shape_effect``,
            ``dependence_effect``, ``joint_effect`` and ``limits_effect``. With null as 0 the seven add up to
            ``coverage`` - ``level``. ``clear_effects`` names the effects that are larger than two MCSE and
            0.0025, and the bias effect if the bias is larger than two MCSE of the bias. ``cause`` is
            the main cause, ``cause_class`` the main cause without its size. ``explanation`` has sentences.
            ``rest_effect`` is the sum of ``joint_effect``, ``limits_effect`` and the other effects that are
            not clear. The schema's metadata ``note`` counts main causes, clear effects, and clear effects
            expected by chance.
        """
        from ldpflow.results.arena import short_rows
        from ldpflow.results.explanation import COLUMNS, SHORT, explain, with_note
        from ldpflow.results.where import select_rows

        summary = self.summary()
        # A condition on a column of the explanation needs the explanation of all rows.
        late = any(name in str(where) for name in {*COLUMNS}.difference(summary.column_names))
        summary = summary if late else select_rows(summary, where)
        with self.store.named_errors():
            table = explain(self.store, summary)
        names = table.column_names
        for name in (name for name in summary.column_names if name not in names):
            table = table.append_column(name, summary[name])
        table = select_rows(table, where if late else None, sort).select(names)
        table = with_note(table) if late else table
        return short_rows(table, SHORT, "length_effect") if short else table

    def verify(self, against: str = "dette-graw") -> Comparison:
        """Compare a summary recomputed from the rows with published tables. ``verdict`` says the result."""
        from ldpflow.engine.check import verify_run

        return verify_run(self.store, against)

    @cached_property
    def results(self) -> Results:
        """Results for figures and tables."""
        from ldpflow.report.results import Results

        return Results.load(self.store.address)

    def plot(
        self,
        figure: Figure,
        x: str = "n",
        where: str | None = None,
        rows: Names = None,
        cols: Names = None,
        color: Names = None,
        width: float | str | None = None,
        baseline: str | None = None,
        title: str | None = None,
    ) -> ChartType:
        """Draw a figure. The chart's subtitle says which cells it leaves out.

        Parameters
        ----------
        figure : str
            ``coverage``, ``explanation``, ``coverage-difference``, ``length-ratio``, ``choice``, ``length``,
            ``relative-length``, ``protocols``, ``zip``, ``bias``, ``standard-error`` or ``paper``; for
            trajectories ``distance``, ``excess-loss``, ``loss``, ``gradient-norm``, ``gradient-error``,
            ``clipped``, ``threshold``, ``rates`` or ``risk``.
        x : str
            Factor on the axis.
        where : str, optional
            A condition that rows to draw must meet, as in :meth:`summary`. The subtitle repeats it.
        rows, cols, color : str or sequence of str, optional
            Factors of the rows and columns of panels, and of the lines' colours: ``rows="law", cols="tau",
            color="method"``. The other factors get rows or columns too. Default: chosen by the design.
        width : float or str, optional
            Width of the whole figure: a number of pixels (1/96 inch), or a text with a unit, ``"85mm"``.
        baseline : str, optional
            Method that the paired figures compare with. Default: the first by name of the methods with the
            most replicates.
        title : str, optional
            Title of the chart. Default: the title of the figure.

        Returns
        -------
        altair.Chart
            A notebook displays the chart as SVG without a network, unless another renderer of Altair is
            enabled. ``chart.save`` writes the chart to a file. A PDF from ``chart.save`` has 72 pixels to an
            inch. ``ldpflow plot -o figure.pdf`` writes a PDF of the right size.

        Raises
        ------
        InputError
            If there is no such figure or factor, or if the panels do not fit into the width.

        Examples
        --------
        >>> run.plot("coverage", rows="tau", cols="epsilon", width="170mm")  # doctest: +SKIP
        """
        require_extra("report", "altair", "vl_convert")
        from ldpflow.report.figures import PAIRED
        from ldpflow.report.pictures import figures_of
        from ldpflow.report.results import Results

        results = self.results if where is None else Results.load(self.store.address, where=where)
        figures = figures_of(results)
        if figure not in [*figures]:  # a list as figure cannot be a key
            raise InputError("figure", figure, f"one of {', '.join(figures)}", closest(figure, figures))
        if baseline is not None and figure not in PAIRED:
            raise InputError("baseline", baseline, f"nothing: only {' and '.join(PAIRED)} compare methods")
        from ldpflow.report.charts import draw_offline, entitle, resize

        results = results.with_baseline(baseline)
        chart = figures[figure].chart(results, x, rows=rows, cols=cols, color=color)
        return draw_offline(resize(entitle(chart, title, where, width), width))

    def report(
        self,
        file: str | os.PathLike[str] | None = None,
        notes: str | os.PathLike[str] | None = None,
        baseline: str | None = None,
    ) -> str:
        """Write a report and return its path. A report is one HTML file that opens offline.

        Parameters
        ----------
        file : path, optional
            Default: ``report.html`` in the run.
        notes : path, optional
            A Markdown file. Text under one of the report's headings goes to that section of the report.
        baseline : str, optional
            Method that the paired figures compare with. Default: the first by name of the methods with the
            most replicates.

        Raises
        ------
        InputError
            If a file cannot be read or written.
        """
        require_extra("report", "altair", "vl_convert")
        check_type("file", file, (str, os.PathLike, NoneType), "a path")
        check_type("notes", notes, (str, os.PathLike, NoneType), "a path")
        from ldpflow.report.page import read_notes, report_html, write_page

        results = self.results.with_baseline(baseline)
        text = report_html(results, notes="" if notes is None else read_notes(notes))
        return write_page(self.store, text, None if file is None else str(file))

    def replay(self, path: str | None = None, replicate: int = 0, last: int | None = None) -> Replay:
        """Recompute replicates to compare them with their stored rows.

        Parameters
        ----------
        path : str, optional
            Key of the path, as in the column ``path`` of :meth:`summary`, or the first digits of the key. A
            run of one path needs none.
        replicate, last : int
            Indices of the first and the last replicate. Without ``last`` only the first is computed.
        """
        from ldpflow.engine.replay import replay

        check_type("path", path, (str, NoneType), "the key of a path, or its first digits")
        check_type("replicate", replicate, Integral, "an integer >= 0")
        check_type("last", last, (Integral, NoneType), "an integer >= 0")
        return Replay(*replay(self.out, path, replicate, last))

    def check(self, recompute: float | None = None) -> CheckResult:
        """Check that all parts are readable, no row is missing or double, and the summary fits the rows.

        Parameters
        ----------
        recompute : float, optional
            Share of the replicates, in (0, 1], that is chosen at random, recomputed and compared bit by bit.
            Default: no replicate is recomputed.
        """
        from ldpflow.engine.check import check_run

        check_type("recompute", recompute, (Real, NoneType), "a share of the replicates, in (0, 1]")
        return CheckResult(*check_run(self.store.address, recompute))

    def __repr__(self) -> str:
        try:
            summary = self.summary()
        except InputError:
            return f"Run({self.out!r}): no summary"
        replicates = summary["replicates"].to_pylist() or [0]
        least, most = min(replicates), max(replicates)
        count = f"{least:,} to " * (least < most) + counted(most, "replicate")
        return f"Run({self.out!r}): {counted(summary.num_rows, 'cell')}, {count}"

    def _repr_html_(self) -> str:
        """The tables of ``ldpflow summary``, for notebooks."""
        from ldpflow.cli.sheets import summary_sheet, trajectory_sheet
        from ldpflow.cli.tables import MOST_ROWS, WORST, plain
        from ldpflow.study.stored import stored_notes

        head = [repr(self)]
        try:
            summary = self.summary()
            sheet = summary_sheet(summary, "run.summary()")
            if summary.num_rows == 0:
                sheet = trajectory_sheet(self.trajectories())
        except InputError as error:
            return html_of([*head, str(error)])
        columns, notes = [*sheet.settings, *sheet.results], stored_notes(self.store)
        if len(sheet.rows) <= MOST_ROWS or not sheet.methods:
            return html_of(head, (columns, sheet.rows[:MOST_ROWS]), [*sheet.below(), *notes])
        worst, line = sheet.choose(WORST)
        methods = list(map(plain, sheet.methods[0])), sheet.methods
        return html_of(head, methods, (columns, worst), [line, *sheet.below(sheet.legend), *notes])


def table_html(table: pa.Table) -> str:
    from ldpflow.cli.tables import MOST_ROWS, plain

    rows = table.slice(0, MOST_ROWS).to_pylist()
    first = f". The first {len(rows)} rows:" if len(rows) < table.num_rows else ""
    head = f"Rows: {table.num_rows:,}, columns: {table.num_columns}{first}"
    return html_of([head], (list(map(plain, dict.fromkeys(table.column_names))), rows))


def notebook_shell() -> Any:
    """Shell of IPython if this process is the kernel of a notebook, else None."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell if hasattr(shell, "kernel") else None


def show_tables() -> None:
    if shell := notebook_shell():
        html = shell.display_formatter.formatters["text/html"]
        html.for_type_by_name("pyarrow.lib", "Table", table_html)


show_tables()


def cell_html(text: str) -> str:
    """HTML of a table's cell. Only long texts are wrapped: a notebook would wrap all texts at spaces."""
    width = "min-width: 40em; text-align: left" if len(text) > LONGEST_LINE else "white-space: nowrap"
    return f'<td style="{width}">{escape(text)}</td>' if " " in text else f"<td>{escape(text)}</td>"


def html_of(*parts: Sequence[str] | tuple[Sequence[Shown], Sequence[Any]]) -> str:
    """HTML of parts: lines of text, or tables that are given as columns and rows."""
    found = []
    for part in parts:
        if not isinstance(part, tuple):
            found += [f"<p>{escape(text)}</p>" for text in part]
            continue
        columns, rows = part
        lines = [[title for title, _ in columns], *([text(row) for _, text in columns] for row in rows)]
        cells = ("".join(map(cell_html, line)) for line in lines)
        found.append(f"<table><tbody><tr>{'</tr><tr>'.join(cells)}</tr></tbody></table>")
    return "".join(found)
