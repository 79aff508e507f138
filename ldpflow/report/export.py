"""A run as a notebook shows it: its cells, what is finished, and the cautions.

A run as one DuckDB file, with ready views: for SQL, notebooks and dashboards.
"""

from __future__ import annotations

import json
import os
from html import escape
from pathlib import Path

import duckdb
import pyarrow as pa

from ldpflow.columns import distinguishing_columns, short, with_error
from ldpflow.errors import InputError
from ldpflow.report.page import asset
from ldpflow.report.results import Results, labels
from ldpflow.results.arena import judge, settings_of, why_barred
from ldpflow.results.trajectories import read_trajectories
from ldpflow.store.schema import cell_keys
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


def export_duckdb(results: Results, file: str | os.PathLike[str], replace: bool = False) -> None:
    """Write the tables and the views of views.sql.

    Tables: ``summary``, ``replicates``, ``paths``, ``trajectories``, ``trajectory_summary``, ``sessions``.
    The summary has five more columns: ``setting`` and ``series`` say what tells its rows apart,
    ``level_state`` and ``barred`` whether a method holds its level and why it is not recommended, ``place``
    its place in its setting (see ldpflow.results.arena).

    Parameters
    ----------
    results : Results
    file : path
    replace : bool
        Whether an existing file may be replaced.

    Raises
    ------
    InputError
        If the file exists or cannot be written.
    """
    target = Path(file)
    if target.exists() and not replace:
        raise InputError("duckdb", str(file), "a file that does not exist", "`force` replaces it.")
    unfinished = target.with_name(target.name + ".unfinished")
    unfinished.unlink(missing_ok=True)
    try:
        with duckdb.connect(str(unfinished)) as connection:
            fill(connection, results)
        unfinished.replace(target)
    except (duckdb.Error, OSError) as error:
        reason = str(error).splitlines()[0]
        raise InputError("duckdb", str(file), "a file that can be written", reason) from None
    finally:
        for left in (unfinished, unfinished.with_name(unfinished.name + ".wal")):
            left.unlink(missing_ok=True)


def fill(connection: duckdb.DuckDBPyConnection, results: Results) -> None:
    """Tables, then views."""
    connection.register("summary_rows", in_words(results, typed(results.table)))
    connection.execute("CREATE TABLE summary AS FROM summary_rows")
    connection.register("replicate_rows", results.store.replicates.read(within=(0, 0), damaged="refuse"))
    connection.execute("CREATE TABLE replicates AS FROM replicate_rows")
    for rows in results.store.replicates.iterate(damaged="refuse"):
        connection.register("replicate_rows", rows)
        connection.execute("INSERT INTO replicates FROM replicate_rows")
    connection.register("trajectory_rows", read_trajectories(results.store, damaged="refuse"))
    connection.execute("CREATE TABLE trajectories AS FROM trajectory_rows")
    connection.register("followed_rows", typed(results.trajectories))
    connection.execute("CREATE TABLE trajectory_summary AS FROM followed_rows")
    connection.execute(
        "CREATE TABLE sessions (session VARCHAR, command VARCHAR, seed BIGINT, started TIMESTAMP, "
        "ended TIMESTAMP, wall_seconds DOUBLE, engine VARCHAR, machine JSON, versions JSON)"
    )
    for entry in results.sessions:
        words = [entry.get(name) for name in ("session", "command", "seed", "started", "ended")]
        words += [entry.get("wall_seconds"), entry.get("engine")]
        words += [json.dumps(entry.get(name)) for name in ("machine", "versions")]
        connection.execute(f"INSERT INTO sessions VALUES ({', '.join('?' * len(words))})", words)
    connection.register("path_rows", pa.table({name: [*texts] for name, texts in paths(results).items()}))
    connection.execute("CREATE TABLE paths AS FROM path_rows")
    keys = ["path", *cell_keys(results.table.schema), "coordinate"]
    named = {"cell": keys, "others": [key for key in keys if key != "beta"]}
    columns = {name: ", ".join(f'"{key}"' for key in found) for name, found in named.items()}
    connection.execute(asset("views.sql").format(**columns))


def paths(results: Results) -> dict[str, list[str]]:
    """Every path and, in words, the settings that tell it from the study's others."""
    rows = list({row["path"]: row for row in results.rows}.values())
    names = [name for name in results.parameters if name not in ("n", "level", "coordinate")]
    apart = distinguishing_columns(names, rows)
    return {
        "path": [row["path"] for row in rows],
        "setting": [results.names.settings(row, apart) for row in rows],
    }


def in_words(results: Results, summary: pa.Table) -> pa.Table:
    """The summary with the columns ``setting``, ``series``, ``level_state``, ``barred`` and ``place``."""
    found = paths(results)
    setting = dict(zip(found["path"], found["setting"], strict=True))
    label = labels(results.rows, results.names, results.method_settings)
    rows = summary.to_pylist()
    said: dict[str, list[str | None]] = {
        "setting": [setting[row["path"]] for row in rows],
        "series": [label(row) for row in rows],
        "level_state": [judge(row) for row in rows],
        "barred": [why_barred(row) or None for row in rows],
    }
    for name, texts in said.items():
        summary = summary.append_column(name, pa.array(texts, pa.string()))
    ranked = [[entry.row for entry in s.entries if entry.eligible] for s in settings_of(rows)]
    places = {id(row): place for entries in ranked for place, row in enumerate(entries, 1)}
    return summary.append_column("place", pa.array([places.get(id(row)) for row in rows], pa.int64()))


def typed(table: pa.Table) -> pa.Table:
    """The table without columns of type null, which DuckDB would make integers: doubles instead."""
    for index, field in enumerate(table.schema):
        if pa.types.is_null(field.type):
            column = pa.nulls(table.num_rows, pa.float64())
            table = table.set_column(index, field.name, column)
    return table
