"""Results of a run for figures and tables: one ordered row per cell and coordinate."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import pyarrow as pa

from ldpflow.columns import Column, distinguishing_columns, short, with_error
from ldpflow.errors import InputError, plain_line, warn
from ldpflow.results.columns import CellRows, group_keys, known_columns
from ldpflow.results.comparison import contrast, matches
from ldpflow.results.design import RunDesign, run_design
from ldpflow.results.explanation import cell_identity, explain
from ldpflow.results.references import entries
from ldpflow.results.summary import stored_cells, stored_summary, stored_trajectory_summary
from ldpflow.results.trajectories import meanings
from ldpflow.results.where import select_rows
from ldpflow.settings import closest
from ldpflow.store.dataset import Damaged
from ldpflow.store.provenance import read_sessions
from ldpflow.store.run_store import RunStore
from ldpflow.store.schema import cell_keys
from ldpflow.study.reading import stored_mapping
from ldpflow.study.stored import public_study

Row = dict[str, Any]
CellIdentity = tuple[Any, ...]


class Names(dict[str, Column]):
    """Display names of columns, from their declarations."""

    taus: Sequence[float] = ()
    """Level of the quantile at each coordinate. Empty if rows differ or coordinates are no quantiles."""

    def __missing__(self, name: str) -> Column:
        return Column(name, "string", "-", "")

    def label(self, name: str) -> str:
        return self[name].label

    def value(self, name: str, value: Any) -> str:
        """Text of a setting and its value, such as ``ε = 0.5``. The text of a kind is the kind alone."""
        if name in ("problem", "mechanism", "algorithm", "method", "series"):
            return str(value)
        if name == "coordinate":
            return f"τ = {short(self.taus[value])}" if self.taus else f"coordinate {value}"
        return f"{self.label(name)} = {short(value)}"

    def settings(self, row: Row, names: Iterable[str]) -> str:
        return ", ".join(self.value(name, row[name]) for name in names if row.get(name) not in (None, ""))


@dataclass(frozen=True)
class Results:
    """The results of a run."""

    rows: list[Row]
    """Columns of the summary, ``series`` (the method with those of its settings that vary) and
    ``series_rank`` (order of the series)."""
    table: pa.Table
    """The summary itself."""
    trajectories: pa.Table
    """Summary of the trajectories, empty for a study without any."""
    study: dict[str, Any]
    """Contents of study.toml without a pilot's values. Empty if there is no study.toml."""
    sessions: list[dict[str, Any]]
    store: RunStore
    damaged: Damaged = "refuse"
    """``refuse``: a damaged part is an error. A list: damaged parts are left out and added to the list."""
    versus: str = ""
    """Series that the user chose as baseline, or empty."""

    @classmethod
    def load(cls, run: str | os.PathLike[str], from_parts: bool = False, where: str | None = None) -> Results:
        """Read a run directory. ``where`` is a condition on the rows of both summaries.

        With ``from_parts`` the stored replicates are summarised: a running sweep has not written
        summary.parquet yet. Damaged parts are then left out and listed.
        """
        store = RunStore(run)
        damaged: Damaged = [] if from_parts else "refuse"
        try:
            table = None if from_parts else store.read_summary()
            followed = None if from_parts else store.read_trajectory_summary()
            table = stored_summary(store, damaged=damaged) if table is None else table
            followed = stored_trajectory_summary(store, damaged=damaged) if followed is None else followed
            mapping = stored_mapping(store) or {}
        except (pa.ArrowException, OSError, ValueError) as error:
            raise InputError("run", str(run), "a run directory that can be read", str(error)) from None
        if table.num_rows == followed.num_rows == 0:
            raise InputError("run", str(run), "a run directory with results", "Nothing finished there.")
        if where is not None:
            table, followed = filter_tables(where, table, followed)
        rows = table.to_pylist()
        study, _ = public_study(mapping, "")
        found = cls(rows, table, followed, study, read_sessions(store), store, damaged)
        for row in rows:
            row["series"] = found.label(row)
        rank_series(rows, found.method_settings)
        names = found.varying()
        rows.sort(key=lambda row: (present_last(row, names), row["series_rank"]))
        for line in found.parts_left_out:
            warn(line)
        return found

    @property
    def parts_left_out(self) -> list[str]:
        bad = [] if self.damaged == "refuse" else self.damaged
        return sorted({plain_line(f"{part.name} is left out: {part.reason}") for part in bad})

    @property
    def name(self) -> str:
        """Name of the study. Without a study: name of the directory."""
        return str(self.study.get("name") or self.store.root.rstrip("/").rsplit("/", 1)[-1])

    @cached_property
    def names(self) -> Names:
        names = Names(known_columns(self.table.schema, self.trajectories.schema))
        levels = {row.get("taus") for row in self.rows}
        names.taus = json.loads(levels.pop() or "[]") if len(levels) == 1 else ()
        return names

    @cached_property
    def method_settings(self) -> tuple[str, ...]:
        return method_settings(self.table.schema)

    @cached_property
    def parameters(self) -> list[str]:
        """Names of the settings of paths, and n, level and coordinate."""
        names = self.table.column_names[: self.table.column_names.index("truth")]
        return [name for name in names if name not in ("path", "method", *self.method_settings)]

    @cached_property
    def varying(self) -> Callable[..., list[str]]:
        """Function that gives the smallest set of parameters that distinguishes the cells.

        Its argument ``without`` names parameters that the set must not contain.
        """

        @cache
        def find(without: tuple[str, ...] = ()) -> list[str]:
            # Columns that come first are preferred: a setting that follows from n, say, is not chosen.
            first = [*without, "n", "level", "coordinate"]
            names = sorted(self.parameters, key=lambda name: (name == "horizon", name not in first))
            found = distinguishing_columns(names, self.rows)
            return [name for name in self.parameters if name in found and name not in without]

        return find

    def identity(self, row: Mapping[str, Any]) -> CellIdentity:
        """Key of the cell and coordinate of a row."""
        return cell_identity(row, self.keys)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """Columns that identify a cell and coordinate."""
        return group_keys(self.table.schema)

    @cached_property
    def explained(self) -> dict[CellIdentity, Row]:
        """Explanations of all cells: see :func:`ldpflow.results.explanation.explain`."""
        rows = explain(self.store, self.table, self.damaged, self.read_cells()).to_pylist()
        return {self.identity(row): row for row in rows}

    @cached_property
    def contrasts(self) -> dict[CellIdentity, Row]:
        """Paired contrasts of cells with the baseline, for cells that share the replicates of the baseline.

        A name is ``paired_`` and the name of a number of :func:`ldpflow.results.comparison.contrast`.
        """
        for _ in self.read_cells():
            pass
        return self.contrasts

    def read_cells(self) -> Iterator[tuple[pa.Table, list[CellRows]]]:
        """Read the stored cells path by path, and set ``contrasts``: a report then reads each part once."""
        series = {self.identity(row): row["series"] for row in self.rows}
        found: dict[CellIdentity, Row] = {}
        for path in self.store.replicates.path_keys():
            groups: dict[tuple[Any, ...], dict[CellIdentity, CellRows]] = {}
            for keys, cells in stored_cells(self.store, path, damaged=self.damaged):
                for key, cell in zip(keys.to_pylist(), cells, strict=True):
                    setting = tuple(key[name] for name in ("n", "level", "coordinate"))
                    groups.setdefault(setting, {})[self.identity(key)] = cell
                yield keys, cells
            for members in groups.values():
                base = next((c for key, c in members.items() if series.get(key) == self.baseline), None)
                for key, cell in members.items():
                    if base is not None and cell is not base and cell.runs == base.runs:
                        found[key] = {f"paired_{k}": v for k, v in contrast(cell, base).items()}
        vars(self)["contrasts"] = found

    @cached_property
    def followed(self) -> list[Row]:
        return list(self.trajectories.to_pylist())

    @cached_property
    def meanings(self) -> dict[str, str]:
        """Meanings of the statistics of trajectories, by name."""
        stored = self.store.trajectories
        return meanings(stored.schema(stored.scan(damaged=self.damaged)))

    @cached_property
    def series(self) -> dict[str, str]:
        """Method of each series of the run, in the order of legends."""
        return {row["series"]: row["method"] for row in sorted(self.rows, key=lambda row: row["series_rank"])}

    @cached_property
    def picked(self) -> dict[str, str]:
        names = dict.fromkeys((*self.varying(), *(self.path_varying if self.followed else ())))
        several = {"series": "method"} if len(self.series) > 1 else {}
        return {name: self.names.label(name) for name in names} | several

    def picks(self, row: Row) -> Row:
        """Fields by which a page filters the point of a row."""
        values = row | ({"series": self.label(row)} if "series" in row else {})
        found: Row = {f"@{n}": short(values[n]) for n in self.picked if values.get(n) is not None}
        misses = row.get("coverage_failures_as_misses")
        return found if misses is None else found | {"below": round(row["level"] - misses, 3)}

    @cached_property
    def label(self) -> Callable[[Row], str]:
        return labels(self.rows, self.names, self.method_settings)

    @cached_property
    def baseline(self) -> str:
        """Series that paired figures compare with: the user's choice, or the default.

        The default is the first series in the order of legends, among the series with the most rows in all
        cells together. A method whose rows are made of several replicates has fewer rows.
        """
        counts: Counter[tuple[int, str]] = Counter()
        for row in self.rows:
            counts[row["series_rank"], row["series"]] += row["replicates"]
        best = min(counts, key=lambda series: (-counts[series], series), default=(0, ""))
        return self.versus or best[1]

    def with_baseline(self, name: str | None) -> Results:
        """Copy of the results with another baseline, named as in legends or as in ``ldpflow compare``."""
        if name is None:
            return self
        for row in sorted(self.rows, key=lambda row: row["series_rank"]):
            settings = {setting: row[setting] for setting in ("method", *self.method_settings)}
            if name == row["series"] or matches(settings, "method", name):
                return replace(self, versus=row["series"])
        allowed = f"one of {'; '.join(self.series)}" if self.series else "nothing: no methods make intervals"
        raise InputError("baseline", name, allowed, closest(name, self.series))

    @cached_property
    def path_settings(self) -> list[str]:
        """Columns of trajectories that are settings of their paths."""
        names = self.trajectories.column_names
        return [name for name in names[: names.index("n")] if name != "path"]

    @cached_property
    def path_varying(self) -> list[str]:
        """Smallest set of settings that distinguishes the paths with trajectories."""
        settings = list(self.path_settings)
        # Settings that the study varies come first, settings that follow from them later.
        groups = ("problem", "mechanism", "algorithm", "protocol")
        tables = [table for group in groups for table in entries(self.study, group)]
        leading = {"dimension", *groups}
        leading |= {k for table in tables for k, v in table.items() if isinstance(v, list) and len(v) > 1}
        settings.sort(key=lambda name: name not in leading)
        return distinguishing_columns(settings, list({row["path"]: row for row in self.followed}.values()))

    def values(self, name: str) -> list[Any]:
        """Distinct values of a column of the summary, sorted, without null."""
        return distinct(self.rows, name)

    @cached_property
    def design(self) -> RunDesign:
        return run_design(self.store, self.table, self.trajectories, self.sessions, self.damaged)


def distinct(rows: Iterable[Row], name: str) -> list[Any]:
    """Distinct values of a column, sorted, without null."""
    return sorted({row[name] for row in rows if row.get(name) is not None})


def measured(row: Mapping[str, Any], name: str, unit: float = 1.0) -> str:
    """Text of a measure with its MCSE."""
    value, error = row.get(name), row.get(f"{name.removesuffix('_mean')}_mcse")
    return with_error(*(None if number is None else unit * number for number in (value, error)))


def present_last(row: Row, names: Iterable[str]) -> list[tuple[bool, Any]]:
    """Sort key of a row by some columns. Rows without a value come first."""
    return [(row.get(name) is not None, row.get(name)) for name in names]


def rank_series(rows: Iterable[Row], settings: Sequence[str]) -> None:
    """Set ``series_rank`` of all rows. Series are ordered by method, the oracle last."""
    keys = {
        row["series"]: (row["method"] == "oracle", row["method"], present_last(row, settings)) for row in rows
    }
    ranks = {series: rank for rank, series in enumerate(sorted(keys, key=keys.__getitem__))}
    for row in rows:
        row["series_rank"] = ranks[row["series"]]


def method_settings(schema: pa.Schema) -> tuple[str, ...]:
    """Settings of interval methods among the columns of stored rows or of a summary."""
    return tuple(name for name in cell_keys(schema) if name not in ("n", "method", "level"))


def labels(rows: Sequence[Row], names: Names, settings: Sequence[str]) -> Callable[[Row], str]:
    """Function that names the series of a row: its method, and the method's settings that vary."""
    values: dict[tuple[str, str], set[Any]] = {}
    for row in rows:
        for name in settings:
            if name in row:
                values.setdefault((row["method"], name), set()).add(row[name])

    def label(row: Row) -> str:
        differing = [
            names.value(name, row[name]) if row[name] is not None else f"{name} default"
            for name in settings
            if len(values.get((row["method"], name), ())) > 1
        ]
        return ", ".join([str(row["method"]), *differing])

    return label


def filter_tables(where: str, *tables: pa.Table) -> list[pa.Table]:
    """Rows of each table that meet a condition. Refuse a condition that no row meets."""
    found: list[pa.Table] = []
    refused = []
    for table in tables:
        try:
            found.append(select_rows(table, where) if table.num_rows else table)
        except InputError as error:
            refused.append(error)
            found.append(table.slice(0, 0))
    if not any(table.num_rows for table in found):
        raise refused[0]
    return found
