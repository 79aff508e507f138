"""Summary of a stored run: one row per cell and coordinate, from the stored rows alone.

Cells are read in groups of a few, and each group takes one pass over the parts. All values of a cell are held
in memory together: a median needs them all, and so does a sum that must not depend on the parts. The rows of
a part are sorted by replicate, and every replicate has every cell of the part. So the footer of a part says
where a value is, and no row is sorted.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ldpflow.columns import Column
from ldpflow.errors import LdpflowError
from ldpflow.numerics import constants
from ldpflow.results import trajectories
from ldpflow.results.columns import (
    BUNDLED_SUMMARIES,
    COLUMNS,
    PATH_COLUMNS,
    SUMMARY,
    VALUES,
    CellRows,
    Floats,
    diagnostics_of,
    floats,
    group_keys,
)
from ldpflow.results.curves import theory_curves
from ldpflow.results.decomposition import DIAGNOSIS_COLUMNS, decompose
from ldpflow.results.measures import summarise_cells
from ldpflow.results.monitoring import Watch
from ldpflow.simulators.approach import LimitLaw, limit_law
from ldpflow.simulators.families import described_simulator
from ldpflow.simulators.simulator import Simulator
from ldpflow.store.dataset import Damaged, Dataset, overlapping_parts
from ldpflow.store.part import Part, Ranges, UnreadablePart, union
from ldpflow.store.run_store import RunStore
from ldpflow.store.schema import FINISHED, cell_id, cell_keys
from ldpflow.study.reading import read_monitor, stored_mapping

HELD_ROWS = 5 * 2**20
"""Largest number of rows of several cells that are held at a time. A single cell may have more rows."""

RELATIVE = ("oracle_length", "length_relative", "length_relative_mcse")
"""Length of the oracle's interval (Dette and Graw, Theorem 3.1), and ratio of the mean length to it."""

Simulators = Mapping[str, Simulator[Any, Any]]

DERIVED = (*RELATIVE, *DIAGNOSIS_COLUMNS)

FIRST = (*(column.name for column in PATH_COLUMNS if column.name != "horizon"), "gamma", "c", "batch_size")


def stored_cells(
    store: RunStore,
    path_key: str | None = None,
    wanted: Collection[str] | None = None,
    *,
    damaged: Damaged,
) -> Iterator[tuple[pa.Table, list[CellRows]]]:
    """Keys and rows of the cells of one path or of all paths, in pieces of at most :data:`HELD_ROWS` rows.

    ``wanted`` are ids of cells, by default all. The columns of the keys are :func:`group_keys`. If a row is
    stored twice with different values, an error is raised.
    """
    for key in store.replicates.path_keys() if path_key is None else [path_key]:
        yield from PathReader(store.replicates, key, damaged).pieces(wanted)


class PathReader:
    """Reads the parts of one path. Parts that turn out to be unusable are left out."""

    def __init__(self, dataset: Dataset, key: str, damaged: Damaged) -> None:
        self.dataset, self.key, self.damaged = dataset, key, damaged
        self.parts = dataset.scan(key, damaged=damaged)
        self.cells = {part.name: [cell_id(cell) for cell in part.cells] for part in self.parts}
        self.runs = {cell: count for part in self.parts for cell, count in part.runs.items()}
        self.checked: set[str] = set()
        schema = dataset.schema(self.parts)
        self.checks = diagnostics_of(schema)
        self.cell_keys = cell_keys(schema)
        names = group_keys(schema)[1:]
        self.keys = pa.schema([("path", pa.string()), *(schema.field(name) for name in names)])

    def drop(self, part: Part, reason: str) -> None:
        self.parts.remove(part)
        self.dataset.leave_out(UnreadablePart(part.name, reason), self.damaged)

    def pieces(self, wanted: Collection[str] | None) -> Iterator[tuple[pa.Table, list[CellRows]]]:
        shared = overlapping_parts(self.parts)
        doubled = [part for part in self.parts if part.name in shared]
        for _ in self.dataset.merged(doubled, damaged=self.damaged):
            pass  # raises if repeated rows differ
        for ranges, keys in self.group_ranges(wanted):
            size = sum(last - first for first, last in ranges)
            count = max(HELD_ROWS // size, 1)
            for at in range(0, keys.num_rows, count):
                # The piece gets no name here, so that its memory is free while the next piece is made.
                yield self.piece(ranges, size, keys.slice(at, count))

    def group_ranges(self, wanted: Collection[str] | None) -> Iterator[tuple[Ranges, pa.Table]]:
        """Ranges of replicates, each with the keys of the cells and coordinates that have them."""
        spans: dict[str, list[tuple[int, int]]] = {}
        known = {}
        for part in self.parts:
            for name, cell in zip(self.cells[part.name], part.cells, strict=True):
                if wanted is None or name in wanted:
                    spans.setdefault(name, []).append((part.first, part.last))
                    known[name] = [
                        {"path": f"p{self.key}", **cell, "coordinate": at} for at in range(part.rows_per_cell)
                    ]
        ranges = {name: union(found) for name, found in spans.items()}
        for have, names in groupby(sorted(ranges, key=ranges.__getitem__), key=ranges.__getitem__):
            keys = pa.Table.from_pylist([row for name in names for row in known[name]], schema=self.keys)
            yield have, keys.sort_by([(name, "ascending") for name in self.keys.names])

    def piece(self, ranges: Ranges, size: int, keys: pa.Table) -> tuple[pa.Table, list[CellRows]]:
        """Keys and rows of cells and coordinates that all have the ``size`` replicates in ``ranges``."""
        heads = [{name: row[name] for name in self.cell_keys} for row in keys.to_pylist()]
        units = list(zip(map(cell_id, heads), keys["coordinate"].to_pylist(), strict=True))
        names = {cell for cell, _ in units}
        parts = [part for part in self.parts if names & set(self.cells[part.name])]
        numbers = np.concatenate([np.arange(first, last) for first, last in ranges])
        shape = (len(units), size)
        present, ok = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
        values: dict[str, Floats] = {name: np.empty(shape) for name in VALUES if name != "truth"}
        truths = np.full(len(units), np.nan)
        checks: dict[Column, dict[int, Floats]] = {}
        for part, table in self.rows(parts):
            first = int(np.searchsorted(numbers, part.first))
            here = slice(first, first + part.last - part.first)
            place = {cell: at * part.rows_per_cell for at, cell in enumerate(self.cells[part.name])}
            own = [at for at, (cell, _) in enumerate(units) if cell in place]
            to = as_slice(own)
            columns = as_slice([place[cell] + coordinate for cell, coordinate in units if cell in place])
            width = len(place) * part.rows_per_cell
            truth = floats(table["truth"]).reshape(-1, width)[0, columns]
            if np.any((truth != truths[to]) & ~np.isnan(truths[to])):
                self.drop(part, "its truth is not that of other parts")
                continue
            truths[to] = truth
            for name, found in values.items():
                found[to, here] = floats(table[name]).reshape(-1, width)[:, columns].T
            for check in self.checks:
                if check.name in table.column_names and table[check.name].null_count < table.num_rows:
                    new = floats(table[check.name]).reshape(-1, width)[:, columns]
                    known = checks.setdefault(check, {})
                    for unit, found in zip(own, new.T, strict=True):
                        if unit not in known and not np.isnan(found).all():
                            known[unit] = np.full(size, np.nan)
                        if unit in known:
                            known[unit][here] = found
            fine = pc.is_in(table["status"], value_set=pa.array(FINISHED)).to_numpy()
            ok[to, here] = fine.reshape(-1, width)[:, columns].T
            present[to, here] = True
        # A broadcast value takes no memory.
        absent = np.broadcast_to(np.nan, size)
        held = values | {"ok": ok, "replicate": np.broadcast_to(numbers, shape)}
        held["truth"] = np.broadcast_to(truths[:, None], shape)
        # If only the footer of a part can be read, its replicates are not present.
        some = present.any(axis=1)
        cells = []
        for at in np.flatnonzero(some).tolist():
            kept = slice(None) if present[at].all() else present[at]
            rows = {name: found[at][kept] for name, found in held.items()}
            said = {check: known.get(at, absent)[kept] for check, known in checks.items()}
            cells.append(CellRows(**rows, diagnostics=said, runs=self.runs.get(units[at][0], 1)))
        return keys.filter(pa.array(some)), cells

    def rows(self, parts: list[Part]) -> Iterator[tuple[Part, pa.Table]]:
        """Usable parts and their rows. The first time a part is read whole and checked."""
        names = (*VALUES, *(check.name for check in self.checks), "status")
        new = [part for part in parts if part.name not in self.checked]
        old = [part for part in parts if part.name in self.checked]
        for part, table in chain(self.loaded(new), self.loaded(old, names)):
            if part.name not in self.checked and (reason := fault(table, part)) is not None:
                self.drop(part, reason)
                continue
            self.checked.add(part.name)
            yield part, table

    def loaded(
        self, parts: list[Part], columns: Sequence[str] | None = None
    ) -> Iterator[tuple[Part, pa.Table]]:
        bad: list[UnreadablePart] = []
        yield from self.dataset.loaded(parts, columns, damaged=bad)
        for one in bad:
            self.drop(next(part for part in self.parts if part.name == one.name), one.reason)


def as_slice(places: list[int]) -> list[int] | slice:
    """Consecutive places as a slice, with which NumPy makes no copy."""
    following = range(places[0], places[0] + len(places))
    return slice(following.start, following.stop) if places == list(following) else places


def fault(table: pa.Table, part: Part) -> str | None:
    finished = pc.is_in(table["status"], value_set=pa.array(FINISHED))
    if not pc.all(pc.equal(pc.is_valid(table["covered"]), finished)).as_py():
        return "covered contradicts the status of a row"
    truth = floats(table["truth"]).reshape(part.last - part.first, -1)
    return "the truth of a cell differs between replicates" if np.any(truth != truth[:1]) else None


def names_of_summary(paths: Iterable[Simulator[Any, Any]]) -> set[str]:
    settings = {name for path in paths for name in path.columns()}
    return {*FIRST, *settings, *COLUMNS, *DERIVED} - {*BUNDLED_SUMMARIES}


def with_parameters(measured: pa.Table, paths: Simulators) -> tuple[pa.Table, list[str]]:
    """Insert the parameters of each row's path after ``path``: FIRST, settings, then derived numbers.

    Returns the table and the new names.
    """
    described = {name: path.columns() for name, path in paths.items()}
    derived = {name: None for path in paths.values() for name in path.derived()}
    settings = dict.fromkeys(name for columns in described.values() for name in columns)
    names = list(dict.fromkeys((*FIRST[1:], *(name for name in settings if name not in derived), *derived)))
    per_row = [described[name] for name in measured["path"].to_pylist()]
    table = measured.select(["path"])
    for name in names:
        column = pa.array([row.get(name) for row in per_row], PARAMETERS.get(name))
        # A column of nulls has no type. Readers would choose different ones.
        table = table.append_column(name, column.cast(pa.float64()) if column.type == pa.null() else column)
    for field in measured.schema:
        if field.name != "path":
            table = table.append_column(field, measured[field.name])
    return table, names


PARAMETERS = dict.fromkeys(("privacy_unit", "neighbouring"), pa.string())
PARAMETERS |= dict.fromkeys(("epsilon", "mu", "delta"), pa.float64())


def summary_of(
    cells: Iterable[tuple[pa.Table, Sequence[CellRows]]], paths: Simulators, null: float | None = None
) -> pa.Table:
    """Measures and diagnosis of every cell of :func:`stored_cells`, with the parameters of its path.

    The columns are parameters of the path, the key of the cell, :data:`ldpflow.results.columns.COLUMNS`,
    :data:`RELATIVE` and the diagnosis. ``null`` is the value of theta whose rejection counts as power.
    """
    nothing = SUMMARY.empty_table().select(group_keys(SUMMARY)), ()
    # A map does not hold the rows of a piece while the next piece is read.
    pieces = map(partial(measure_cells, paths=paths, null=null), chain([nothing], cells))
    # Columns that a piece lacks are null.
    measured = pa.concat_tables(pieces, promote_options="default").combine_chunks()
    keys = group_keys(measured.schema)
    own = [name for name in measured.column_names if name not in (*keys, *DERIVED)]
    table, names = with_parameters(measured.select([*keys, *own, *DERIVED]), paths)
    # Sorted by settings, not by the hash that names a path.
    leading = ("problem", "tau", "mechanism", "epsilon", "mu", "algorithm")
    order = [name for name in dict.fromkeys((*leading, *names)) if name in names and name != "delta"]
    return table.sort_by([(name, "ascending") for name in (*order, *keys[1:])])


def measure_cells(
    cells: tuple[pa.Table, Sequence[CellRows]], paths: Simulators, null: float | None
) -> pa.Table:
    keys, rows = cells
    measured = summarise_cells(keys, rows, null)
    derived = [
        relative_length(limit_law(paths[row["path"]]), row) | decompose(cell, row["level"]).columns()
        for row, cell in zip(measured.to_pylist(), rows, strict=True)
    ]
    for name in DERIVED:
        kind = pa.string() if name == "main_cause" else pa.float64()
        measured = measured.append_column(name, pa.array([row[name] for row in derived], kind))
    return measured


def relative_length(law: LimitLaw | None, row: Mapping[str, Any]) -> dict[str, float | str | None]:
    oracle = None if law is None else oracle_length(law, row["coordinate"], row["n"], row["level"])
    if oracle is None:
        return dict.fromkeys(RELATIVE)
    lengths = (row["length_mean"], row["length_mcse"])
    ratios = (None if length is None else length / oracle for length in lengths)
    return dict(zip(RELATIVE, (oracle, *ratios), strict=True))


def oracle_length(law: LimitLaw, coordinate: int, n: int, level: float) -> float | None:
    """2 z sqrt(V/steps) with the asymptotic variance V, or None if this is unknown, infinite or 0."""
    z = constants.normal_quantile(0.5 + level / 2)
    length = 2 * z * math.sqrt(law.variances[coordinate] / law.steps(n))
    return length if 0 < length < math.inf else None


def stored_paths(dataset: Dataset, *, damaged: Damaged) -> dict[str, Simulator[Any, Any]]:
    """Paths that have rows, by the name of their folder, from the metadata of the parts."""
    found: dict[str, Simulator[Any, Any]] = {}
    for part in dataset.scan(damaged=damaged):
        name = f"p{part.path_key}"
        if name in found and part.meta["path_settings"] == found[name].settings():
            continue
        try:
            path = described_simulator(part.meta)
        except (LdpflowError, KeyError, ValueError, TypeError, AttributeError) as error:
            reason = f"its path settings cannot be read: {error}"
        else:
            if path.key == part.path_key:
                found[name] = path
                continue
            reason = f"the settings in it are those of path p{path.key}"
        dataset.leave_out(UnreadablePart(part.name, reason), damaged)
    return found


def every_path(store: RunStore, *, damaged: Damaged) -> dict[str, Simulator[Any, Any]]:
    rows, trajectories = (stored_paths(dataset, damaged=damaged) for dataset in store.datasets())
    return rows | trajectories


def stored_settings(store: RunStore, *, damaged: Damaged) -> pa.Table:
    """Parameters of every path that has rows or trajectories, one row per path."""
    paths = every_path(store, damaged=damaged)
    return with_parameters(pa.table({"path": pa.array(sorted(paths), pa.string())}), paths)[0]


def stored_summary(store: RunStore, null: float | None = None, *, damaged: Damaged) -> pa.Table:
    # Keys are read first, since a running sweep may add a path at any time.
    keys = store.replicates.path_keys()
    paths = stored_paths(store.replicates, damaged=damaged)
    found = (stored_cells(store, key, damaged=damaged) for key in keys if f"p{key}" in paths)
    rows = chain.from_iterable(found)
    watch = watch_of(store, paths)
    if watch is None:
        return summary_of(rows, paths, null)
    return watch.append_to(summary_of(watch.observed(rows), paths, null))


def watch_of(store: RunStore, paths: Simulators) -> Watch | None:
    table = (stored_mapping(store) or {}).get("monitor")
    if not isinstance(table, Mapping) or "first_n" not in table:
        return None
    monitor = read_monitor(table)
    assert monitor is not None

    def target(key: Mapping[str, Any]) -> float | None:
        law = limit_law(paths[key["path"]])
        if monitor.target_n is None or law is None:
            return monitor.target_length
        return oracle_length(law, key["coordinate"], monitor.target_n, key["level"])

    return Watch(monitor.first_n or 1, target)


def stored_trajectory_summary(store: RunStore, *, damaged: Damaged) -> pa.Table:
    """Summary of stored trajectories, with the parameters of their path and the curves of theory."""
    measured = trajectories.summarise(trajectories.read_trajectories(store, damaged=damaged))
    paths = stored_paths(store.trajectories, damaged="refuse" if damaged == "refuse" else [])
    keys, steps, stats = (measured[name].to_pylist() for name in ("path", "step", "stat"))
    theory: dict[tuple[str, str, int, str], float] = {}
    for name, path in paths.items():
        own = sorted({step for key, step in zip(keys, steps, strict=True) if key == name})
        for column, found in theory_curves(path, own).items():
            for stat, line in found.items():
                theory |= {(column, name, k, stat): v for k, v in zip(own, line.tolist(), strict=True)}
    table, _ = with_parameters(measured, paths)
    for column in ("bound", "limit"):
        values = [theory.get((column, *place)) for place in zip(keys, steps, stats, strict=True)]
        table = table.append_column(f"theory_{column}", pa.array(values, pa.float64()))
    return table
