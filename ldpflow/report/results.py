"""A run as figures see it: one row per cell and coordinate, named and in order."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from ldpflow.errors import InputError
from ldpflow.report.numbers import short
from ldpflow.results.summary import stored_summary, stored_trajectory_summary
from ldpflow.results.trajectories import meanings
from ldpflow.store import CELL_KEYS, RunStore
from ldpflow.store.provenance import read_sessions

__all__ = ["METHOD_SETTINGS", "SYMBOLS", "Results", "axes", "named", "telling"]

METHOD_SETTINGS = tuple(name for name in CELL_KEYS if name not in ("n", "method", "level"))
"""Settings of interval methods; null where a method has none."""

SYMBOLS = {
    "horizon": "n",
    "epsilon": "ε",
    "beta": "β",
    "gamma": "γ",  # noqa: RUF001
    "tau": "τ",
    "mu": "μ",
    "delta": "δ",
    "dimension": "d",
}

Row = dict[str, Any]


def named(name: str, value: object) -> str:
    """A setting and its value, as in ``ε = 0.5``."""
    if name in ("problem", "mechanism", "algorithm", "method", "law", "errors"):
        return str(value)
    if name == "coordinate":
        return f"coordinate {value}"
    return f"{SYMBOLS.get(name, name)} = {short(value)}"


@dataclass(frozen=True)
class Results:
    """The results of a run.

    Parameters
    ----------
    rows : list of dict
        Columns of the summary, then ``series``: method and the settings that tell its cells apart.
    table : pyarrow.Table
        The summary itself.
    trajectories : pyarrow.Table
        The summary of the trajectories; no rows where the study has none.
    study : dict
        study.toml, as read; empty where there is none.
    study_text : str
    sessions : list of dict
        provenance.json.
    store : RunStore
    """

    rows: list[Row]
    table: pa.Table
    trajectories: pa.Table
    study: dict[str, Any]
    study_text: str
    sessions: list[dict[str, Any]]
    store: RunStore

    @classmethod
    def load(cls, run: str | os.PathLike[str], from_parts: bool = False) -> Results:
        """Read a run directory.

        Parameters
        ----------
        run : path or URI
        from_parts : bool
            Summarise the stored replicates instead of reading summary.parquet, which a running
            sweep has not written yet.

        Raises
        ------
        InputError
            If there is no run, or nothing has finished in it.
        """
        store = RunStore(run)
        try:
            table = None if from_parts else store.read_summary()
            # A summary of an earlier version has no oracle's length.
            if table is None or "oracle_length" not in table.column_names:
                table = stored_summary(store)
            followed = None if from_parts else store.read_trajectory_summary()
            if followed is None or "dimension" not in followed.column_names:
                followed = stored_trajectory_summary(store)
            text = store.read_study() or ""
        except (pa.ArrowException, OSError, ValueError) as error:
            raise InputError("run", str(run), "a run directory that can be read", str(error)) from None
        if table.num_rows == followed.num_rows == 0:
            raise InputError("run", str(run), "a run directory with results", "Nothing finished there.")
        rows = table.to_pylist()
        label = labels(rows)
        for row in rows:
            row["series"] = label(row)
        found = cls(rows, table, followed, tomllib.loads(text), text, read_sessions(store), store)
        names = found.varying()

        def place(row: Row) -> list[tuple[bool, Any]]:
            last = (row["method"] == "oracle", row["method"])
            values = [row.get(name) for name in (*names, *METHOD_SETTINGS)]
            keys = [(value is not None, value) for value in values]
            return [*keys[: len(names)], last, *keys[len(names) :]]

        rows.sort(key=place)
        return found

    @property
    def name(self) -> str:
        """Name of the study, or of the directory."""
        return str(self.study.get("name") or self.store.root.rstrip("/").rsplit("/", 1)[-1])

    @cached_property
    def parameters(self) -> list[str]:
        """Names of the columns that are settings of a path, and n, level and coordinate."""
        names = self.table.column_names[: self.table.column_names.index("truth")]
        return [name for name in names if name not in ("path", "method", *METHOD_SETTINGS)]

    def varying(self, without: Sequence[str] = ()) -> list[str]:
        """The parameters that tell the cells of one series apart, each only if it adds to that."""
        return telling([name for name in self.parameters if name not in without], self.rows)

    @cached_property
    def followed(self) -> list[Row]:
        """The rows of the trajectories' summary."""
        rows: list[Row] = self.trajectories.to_pylist()
        return rows

    @cached_property
    def meanings(self) -> dict[str, str]:
        """What the statistics of the trajectories are, by name, in the order of their columns."""
        stored = self.store.trajectories
        return meanings(stored.schema(stored.scan()[0]))

    @cached_property
    def path_varying(self) -> list[str]:
        """The parameters that tell the followed paths apart, each only if it adds to that."""
        names = self.trajectories.column_names
        settings = [name for name in names[: names.index("n")] if name != "path"]
        # What the study varies before what follows from it.
        chosen = {"dimension", "problem", "mechanism", "algorithm", *axes(self.study)}
        settings.sort(key=lambda name: name not in chosen)
        return telling(settings, list({row["path"]: row for row in self.followed}.values()))

    def constant(self, name: str) -> Any:
        """The value of a column that does not vary; None where it varies or is null."""
        values = {row.get(name) for row in self.rows}
        return values.pop() if len(values) == 1 else None

    def values(self, name: str) -> list[Any]:
        """Distinct values of a column, sorted, without null."""
        return sorted({row[name] for row in self.rows if row.get(name) is not None})

    @cached_property
    def running(self) -> bool:
        """Whether the last session has no end: it runs, or was killed."""
        return bool(self.sessions) and self.sessions[-1].get("ended") is None


def axes(study: dict[str, Any]) -> set[str]:
    """Settings of a study file that have several values."""
    tables = [table for group in study.values() for table in (group if isinstance(group, list) else [group])]
    return {
        name
        for table in tables
        if isinstance(table, dict)
        for name, value in table.items()
        if isinstance(value, list) and len(value) > 1
    }


def telling(names: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """Those of the names whose values tell rows apart that the ones before do not."""
    kept: list[str] = []
    count = 1
    for name in names:
        combinations = {tuple(repr(row[k]) for k in (*kept, name)) for row in rows}
        if len(combinations) > count:
            kept.append(name)
            count = len(combinations)
    return kept


def labels(rows: Sequence[Row]) -> Any:
    """A function that names the series of a row: method, and settings with several values."""
    values: dict[tuple[str, str], set[Any]] = {}
    for row in rows:
        for name in METHOD_SETTINGS:
            if name in row:
                values.setdefault((row["method"], name), set()).add(row[name])

    def label(row: Row) -> str:
        settings = [
            named(name, row[name]) if row[name] is not None else f"{name} default"
            for name in METHOD_SETTINGS
            if len(values.get((row["method"], name), ())) > 1
        ]
        return f"{row['method']}, {', '.join(settings)}" if settings else str(row["method"])

    return label
