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
from ldpflow.store.schema import CELL_KEYS

__all__ = ["path_columns", "summary_of"]

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
        # A column of nulls has no type of its own.
        kind = pa.float64() if name in {"epsilon", "mu", "delta"} else None
        table = table.append_column(name, pa.array(values, type=kind))
    for name in measured.column_names:
        if name != "path":
            table = table.append_column(name, measured[name])
    # By the settings that people read, not by the hash that names a path.
    leading = ("problem", "tau", "mechanism", "epsilon", "algorithm")
    order: list[str] = [n for n in leading if n in names]
    order += [n for n in names if n not in order and n not in {"mu", "delta"}]
    return table.sort_by([(n, "ascending") for n in (*order, *CELL_KEYS, "coordinate")])
