"""A run as a notebook shows it: its cells, what is finished, and the cautions."""

from __future__ import annotations

from html import escape

from ldpflow.errors import InputError
from ldpflow.report.numbers import distinguishing_columns, short, with_error
from ldpflow.report.results import Results
from ldpflow.study.stored import stored_left_out

MOST_ROWS = 30


def run_html(out: str) -> str:
    """HTML of the run stored at ``out``: a heading, a table of cells, cautions."""
    try:
        results = Results.load(out)
    except InputError as error:
        return f"<p>{escape(str(error))}</p>"
    rows = results.rows
    counts = [row["replicates"] for row in rows]
    finished = (
        f"{min(counts):,} to {max(counts):,}" if len(set(counts)) > 1 else f"{max(counts, default=0):,}"
    )
    heading = f"<b>{escape(results.name)}</b>: {len(rows):,} cells, {finished} replicates each"
    parts = [f"<p>{heading}<br><code>{escape(out)}</code></p>"]
    if rows:
        parts.append(table_html(results))
    parts += [f"<p>{escape(text)}</p>" for text in (*cautions(results), *stored_left_out(results.store))]
    return "\n".join(parts)


def table_html(results: Results) -> str:
    """The cells: what tells them apart, coverage and length with their Monte Carlo errors."""
    rows = results.rows
    settings = distinguishing_columns([*results.parameters, "series"], rows) or ["series"]
    titles = [*settings, "coverage", "failures as misses", "length", "failures"]
    body = []
    for row in rows[:MOST_ROWS]:
        values = [str(row[n]) if n == "series" else short(row[n]) for n in settings]
        values += [
            with_error(row["coverage"], row["coverage_mcse"]),
            with_error(row["coverage_failures_as_misses"], row["coverage_failures_as_misses_mcse"]),
            with_error(row["length_mean"], row["length_mcse"]),
            f"{row['failures']:,} of {row['replicates']:,}",
        ]
        body.append("<tr>" + "".join(f"<td>{escape(value)}</td>" for value in values) + "</tr>")
    more = len(rows) - MOST_ROWS
    if more > 0:
        body.append(f'<tr><td colspan="{len(titles)}">and {more:,} cells more: run.summary()</td></tr>')
    head = "".join(f"<th>{escape(title)}</th>" for title in titles)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"


def cautions(results: Results) -> list[str]:
    """Cells whose numbers should not be read without a look at their failures."""
    rows = results.rows
    failed = [row for row in rows if row["failures"]]
    if not failed:
        return []
    worst = max(failed, key=lambda row: row["failures"] / row["replicates"])
    share = worst["failures"] / worst["replicates"]
    where = ", ".join([str(worst["series"]), results.names.value("n", worst["n"])])
    return [
        f"Replicates without an interval in {len(failed):,} of {len(rows):,} cells; most in {where}: "
        f"{share:.1%}. Coverage is over the others; with failures as misses it is in its own column."
    ]
