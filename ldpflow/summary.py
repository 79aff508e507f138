"""The summary: one row per cell and coordinate, wide, every parameter a column.

It is computed from the stored rows alone, so that it can be made again at any time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from ldpflow.measures import summarise
from ldpflow.path import Path
from ldpflow.store import RunStore

__all__ = ["path_columns", "paths_of", "summary_of", "summary_of_run"]

FIRST = (
    "path",
    "problem",
    "mechanism",
    "epsilon",
    "mu",
    "delta",
    "privacy_notion",
    "privacy_unit",
    "algorithm",
    "gamma",
    "c",
    "batch_size",
)


def path_columns(path: Path) -> dict[str, Any]:
    """The parameters of a path as columns; what a kind does not have is absent."""
    statement = path.algorithm.privacy(path.mechanism)
    columns: dict[str, Any] = {
        "privacy_notion": statement.notion,
        "privacy_unit": statement.unit,
        "epsilon": statement.epsilon,
        "mu": statement.mu,
        "delta": statement.delta,
    }
    for part, settings in (
        ("problem", path.problem),
        ("mechanism", path.mechanism),
        ("algorithm", path.algorithm),
    ):
        values = settings.model_dump()
        columns[part] = values.pop("kind")
        for name, value in values.items():
            # A vector is one value of a column too.
            columns[name] = json.dumps(value) if isinstance(value, (tuple, list)) else value
    if path.horizon is not None:
        columns["horizon"] = path.horizon
    return columns


def paths_of(store: RunStore) -> dict[str, Path]:
    """The paths of a run by the value of the column ``path``."""
    parts, _ = store.scan()
    # Many parts share a path.
    settings = {f"p{part.path_key}": part.meta["path_settings"] for part in parts}
    return {name: Path.from_settings(value) for name, value in settings.items()}


def summary_of_run(store: RunStore) -> pa.Table:
    """The summary of the rows that are stored by now."""
    # Rows first: a running sweep may add a path meanwhile.
    rows = store.read_rows(skip_unreadable=True)
    return summary_of(rows, paths_of(store))


def summary_of(rows: pa.Table, paths: Mapping[str, Path]) -> pa.Table:
    """Measures of every cell, with the parameters of its path.

    Parameters
    ----------
    rows : pyarrow.Table
        Rows of the store, with the column ``path``.
    paths : mapping of str to Path
        By the value of that column.

    Returns
    -------
    pyarrow.Table
    """
    measured = summarise(rows)
    described = {name: path_columns(path) for name, path in paths.items()}
    names = [n for n in FIRST if n != "path"]
    for columns in described.values():
        names += [n for n in columns if n not in names]
    per_row = [described[name] for name in measured["path"].to_pylist()]
    table = measured.select(["path"])
    for name in names:
        values = [row.get(name) for row in per_row]
        kind = (
            pa.float64() if all(v is None for v in values) and name in {"epsilon", "mu", "delta"} else None
        )
        table = table.append_column(name, pa.array(values, type=kind))
    for name in measured.column_names:
        if name != "path":
            table = table.append_column(name, measured[name])
    return table
