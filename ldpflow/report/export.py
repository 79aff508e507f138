"""Export a run as one DuckDB file with views."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from ldpflow.columns import distinguishing_columns
from ldpflow.errors import InputError
from ldpflow.report.results import Results, Row
from ldpflow.results.arena import judge, settings_of, why_barred
from ldpflow.results.summary import stored_settings
from ldpflow.results.trajectories import read_trajectories

SESSION = {
    "session": "VARCHAR", "command": "VARCHAR", "seed": "BIGINT", "started": "TIMESTAMP",
    "ended": "TIMESTAMP", "wall_seconds": "DOUBLE", "engine": "VARCHAR", "machine": "JSON",
    "versions": "JSON",
}  # fmt: skip
"""Columns of the table of sessions, with their types."""


def export_duckdb(results: Results, file: str | os.PathLike[str], replace: bool = False) -> None:
    """Write the tables of a run and the views of views.sql. With ``replace`` an existing file is replaced.

    The tables are ``summary``, ``stored_replicates``, ``paths``, ``trajectories``, ``trajectory_summary`` and
    ``sessions``. The view ``replicates`` has the stored rows with the settings of their path. The summary has
    the further columns of :func:`in_words`.
    """
    target = Path(file)
    if target.is_dir() or (target.exists() and not replace):
        hint = "It is a directory." if target.is_dir() else "`force` replaces it."
        raise InputError("output", str(file), "a file that does not exist", hint)
    unfinished = target.with_name(target.name + ".unfinished")
    unfinished.unlink(missing_ok=True)
    try:
        with duckdb.connect(str(unfinished)) as connection:
            fill(connection, results)
        unfinished.replace(target)
    except (duckdb.Error, OSError) as error:
        reason = str(error).splitlines()[0]
        raise InputError("output", str(file), "a file that can be written", reason) from None
    finally:
        for left in (unfinished, unfinished.with_name(unfinished.name + ".wal")):
            left.unlink(missing_ok=True)


def fill(connection: duckdb.DuckDBPyConnection, results: Results) -> None:

    def create(name: str, rows: pa.Table) -> None:
        connection.register("new_rows", rows)
        connection.execute(f"CREATE TABLE {name} AS FROM new_rows")

    create("summary", in_words(results))
    create("stored_replicates", results.store.replicates.read(within=(0, 0), damaged="refuse"))
    for rows in results.store.replicates.iterate(damaged="refuse"):
        connection.register("new_rows", rows)
        connection.execute("INSERT INTO stored_replicates FROM new_rows")
    create("trajectories", read_trajectories(results.store, damaged="refuse"))
    create("trajectory_summary", results.trajectories)
    connection.execute(f"CREATE TABLE sessions ({', '.join(map(' '.join, SESSION.items()))})")
    for entry in results.sessions:
        values = [json.dumps(entry.get(n)) if t == "JSON" else entry.get(n) for n, t in SESSION.items()]
        connection.execute(f"INSERT INTO sessions VALUES ({', '.join('?' * len(values))})", values)
    setting, paths = path_settings(results), stored_settings(results.store, damaged="refuse")
    texts = [setting.get(path) for path in paths["path"].to_pylist()]
    create("paths", paths.add_column(1, "setting", pa.array(texts, pa.string())))
    keys = results.keys
    shared = [name for name in paths.column_names if name in results.table.column_names]
    settings = [name for name in shared if name not in keys]
    named = {"cell": keys, "others": [key for key in keys if key != "beta"], "settings": settings}
    columns = {name: ", ".join(f'"{key}"' for key in found) for name, found in named.items()}
    views = files("ldpflow.report").joinpath("views.sql").read_text(encoding="utf-8")
    connection.execute(views.format(**columns))


def path_settings(results: Results) -> dict[str, str]:
    rows = list({row["path"]: row for row in results.rows}.values())
    names = [name for name in results.parameters if name not in ("n", "level", "coordinate")]
    distinguishing = distinguishing_columns(names, rows)
    return {row["path"]: results.names.settings(row, distinguishing) for row in rows}


def in_words(results: Results) -> pa.Table:
    """Summary with five further columns.

    ``setting`` and ``series`` distinguish paths and methods, ``level_state`` says whether a method holds its
    level, ``barred`` why it is never recommended, and ``place`` its rank among the methods of its
    setting that are not barred.
    """
    setting = path_settings(results)
    rows = results.table.to_pylist()
    ranked = [[entry.row for entry in s.entries if not entry.barred] for s in settings_of(rows)]
    places = {id(row): place for entries in ranked for place, row in enumerate(entries, 1)}
    words: dict[str, Callable[[Row], Any]] = {
        "setting": lambda row: setting[row["path"]],
        "series": results.label,
        "level_state": judge,
        "barred": lambda row: why_barred(row) or None,
        "place": lambda row: places.get(id(row)),
    }
    summary = results.table
    for name, value in words.items():
        kind = pa.int64() if name == "place" else pa.string()
        summary = summary.append_column(name, pa.array(map(value, rows), kind))
    return summary
