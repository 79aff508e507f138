"""The summary: one row per cell and coordinate, wide, every parameter a column.

It is computed from the stored rows alone, so that it can be made again at any time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import pyarrow as pa

from ldpflow import constants
from ldpflow.errors import LdpflowError
from ldpflow.results import trajectories
from ldpflow.results.cells import CellRows
from ldpflow.results.columns import SUMMARY, Measure
from ldpflow.results.measures import summarise_cells
from ldpflow.results.stored import stored_cells
from ldpflow.results.cells import group_keys
from ldpflow.results.columns import BUNDLED_SUMMARIES, COLUMNS, PATH_COLUMNS
from ldpflow.results.decomposition import DIAGNOSIS_COLUMNS, decompose
from ldpflow.results.monitoring import Watch
from ldpflow.simulators.approach import LimitLaw, limit_law
from ldpflow.simulators.simulator import Simulator
from ldpflow.simulators.stored import described_simulator
from ldpflow.store import RunStore, UnreadablePart
from ldpflow.store.dataset import Damaged, Dataset
from ldpflow.study.reading import read_monitor
from ldpflow.study.stored import stored_mapping
from ldpflow.theory.curves import curves

RELATIVE = {
    "oracle_length": Measure("2 z sqrt(Sigma / steps)", "unit of theta", "Dette and Graw, Theorem 3.1"),
    "length_relative": Measure("length_mean / oracle_length", "1", "-"),
    "length_relative_mcse": Measure("length_mcse / oracle_length", "1", "-"),
}
"""Lengths next to that of the interval with the true asymptotic variance."""

Simulators = Mapping[str, Simulator[Any, Any]]

DERIVED = (*RELATIVE, *DIAGNOSIS_COLUMNS)

FIRST = (*(column.name for column in PATH_COLUMNS if column.name != "horizon"), "gamma", "c", "batch_size")
"""Columns that come first, present or not."""


def trajectory_summary_of(rows: pa.Table, paths: Simulators) -> pa.Table:
    """Trajectories over replicates, with the parameters of their path and theory's lines.

    Returns
    -------
    pyarrow.Table
        One row per path, n, step and stat: the path's parameters; replicates, failures, mean, mcse, q05, q50,
        q95, max; ``theory_bound``, a proved upper bound of the mean, and ``theory_limit``, its leading
        term, null where there is none (see ldpflow.theory.curves).
    """
    measured = trajectories.summarise(rows)
    described = {name: path.columns() for name, path in paths.items()}
    keys, steps, stats = (measured[name].to_pylist() for name in ("path", "step", "stat"))
    theory: dict[str, dict[tuple[str, int, str], float]] = {"bound": {}, "limit": {}}
    for name, path in paths.items():
        own = sorted({step for key, step in zip(keys, steps, strict=True) if key == name})
        for column, found in curves(path, own).items():
            for stat, line in found.items():
                for k, value in zip(own, line.tolist(), strict=True):
                    theory[column][(name, k, stat)] = value
    names = parameter_names(paths, described)
    table = with_settings(measured.select(["path"]), names, [described[key] for key in keys])
    for name in measured.column_names[1:]:
        table = table.append_column(measured.schema.field(name), measured[name])
    for column, by_place in theory.items():
        values = [by_place.get(key) for key in zip(keys, steps, stats, strict=True)]
        table = table.append_column(f"theory_{column}", pa.array(values, pa.float64()))
    return table


def names_of_summary(paths: Iterable[Simulator[Any, Any]]) -> set[str]:
    """Names of the summary's columns of these paths that are no setting or diagnostic of a method."""
    settings = {name for path in paths for name in path.columns()}
    return {*FIRST, *settings, *COLUMNS, *DERIVED} - {*BUNDLED_SUMMARIES}


def parameter_names(paths: Simulators, described: Mapping[str, dict[str, Any]]) -> list[str]:
    """Columns of parameters: the well-known ones, further settings, then what follows from settings."""
    names = [name for name in FIRST if name != "path"]
    derived = {name: None for path in paths.values() for name in path.derived()}
    for columns in described.values():
        names += [name for name in columns if name not in names and name not in derived]
    return [*names, *derived]


def with_settings(table: pa.Table, names: list[str], per_row: list[dict[str, Any]]) -> pa.Table:
    """The table with the parameters of its rows' paths as columns."""
    for name in names:
        values = [row.get(name) for row in per_row]
        # A column of nulls has no type of its own, and readers would each choose another.
        empty = all(value is None for value in values)
        kind = pa.float64() if empty or name in {"epsilon", "mu", "delta"} else None
        if name in {"privacy_unit", "neighbouring"}:
            kind = pa.string()
        table = table.append_column(name, pa.array(values, type=kind))
    return table


def summary_of(
    cells: Iterable[tuple[pa.Table, Sequence[CellRows]]], paths: Simulators, null: float | None = None
) -> pa.Table:
    """Measures and diagnosis of every cell, with the parameters of its path.

    Parameters
    ----------
    cells : iterable of (keys, cells)
        As of :func:`ldpflow.results.stored_cells`: each cell once.
        Rows are let go of before the next are asked for.
    paths : mapping of str to Simulator
        By the column ``path`` of the keys.
    null : float, optional
        Value of theta whose rejection is power.

    Returns
    -------
    pyarrow.Table
        Parameters of the path, columns of the cell, :data:`ldpflow.results.COLUMNS`, then
        :data:`RELATIVE` and the diagnosis (:mod:`ldpflow.results.decomposition`).
    """
    pieces = [SUMMARY.empty_table()]
    derived: list[dict[str, float | str | None]] = []
    for piece, more in map(partial(measured_and_derived, paths=paths, null=null), cells):
        pieces.append(piece)
        derived += more
    measured = together(pieces)
    described = {name: path.columns() for name, path in paths.items()}
    names = parameter_names(paths, described)
    per_row = [described[name] for name in measured["path"].to_pylist()]
    table = with_settings(measured.select(["path"]), names, per_row)
    for name in measured.column_names:
        if name != "path":
            table = table.append_column(measured.schema.field(name), measured[name])
    for name in DERIVED:
        kind = pa.string() if name == "main_cause" else pa.float64()
        table = table.append_column(name, pa.array([row[name] for row in derived], kind))
    # By the settings that people read, not by the hash that names a path.
    leading = ("problem", "tau", "mechanism", "epsilon", "mu", "algorithm")
    order: list[str] = [n for n in leading if n in names]
    order += [n for n in names if n not in order and n != "delta"]
    return table.sort_by([(n, "ascending") for n in (*order, *group_keys(measured.schema)[1:])])


def together(pieces: list[pa.Table]) -> pa.Table:
    """Measures of several groups of cells; a further column that a group lacks is null."""
    table = pa.concat_tables(pieces, promote_options="default").combine_chunks()
    keys = group_keys(table.schema)
    return table.select([*keys, *(name for name in table.column_names if name not in keys)])


def measured_and_derived(
    cells: tuple[pa.Table, Sequence[CellRows]], paths: Simulators, null: float | None
) -> tuple[pa.Table, list[dict[str, float | str | None]]]:
    """Measures of some cells, and what follows from them: :data:`DERIVED`, a row per cell."""
    keys, rows = cells
    measured = summarise_cells(keys, rows, null)
    return measured, [
        relative_length(limit_law(paths[row["path"]]), row) | decompose(cell, row["level"]).columns()
        for row, cell in zip(measured.to_pylist(), rows, strict=True)
    ]


def relative_length(law: LimitLaw | None, row: Mapping[str, Any]) -> dict[str, float | str | None]:
    """The columns of :data:`RELATIVE` for a row of measures."""
    if law is None:
        return dict.fromkeys(RELATIVE)
    oracle = oracle_length(law, row["coordinate"], row["n"], row["level"])
    length, error = row["length_mean"], row["length_mcse"]
    return {
        "oracle_length": oracle,
        "length_relative": None if length is None else length / oracle,
        "length_relative_mcse": None if error is None else error / oracle,
    }


def oracle_length(law: LimitLaw, coordinate: int, n: int, level: float) -> float:
    """2 z sqrt(Sigma_jj/steps)."""
    z = constants.normal_quantile(0.5 + level / 2)
    return 2 * z * math.sqrt(law.variances[coordinate] / law.steps(n))


def stored_paths(dataset: Dataset, *, damaged: Damaged) -> dict[str, Simulator[Any, Any]]:
    """The paths that have rows, by the name of their partition, from what the parts say of themselves.

    Raises
    ------
    InputError
        If the settings in a part are not those of its path, or a part cannot be used and that is refused.
    """
    found: dict[str, Simulator[Any, Any]] = {}
    for part in dataset.scan(damaged=damaged):
        name = f"p{part.path_key}"
        if name in found and part.meta["path_settings"] == found[name].settings():
            continue
        try:
            path = described_simulator(part.meta)
            reason = (
                None if path.key == part.path_key else f"the settings in it are those of path p{path.key}"
            )
        except (LdpflowError, KeyError, ValueError, TypeError, AttributeError) as error:
            reason = f"its path settings cannot be read: {error}"
        if reason is None:
            found[name] = path
        else:
            dataset.leave_out(UnreadablePart(part.name, reason), damaged)
    return found


def stored_summary(store: RunStore, null: float | None = None, *, damaged: Damaged) -> pa.Table:
    """The summary of what a run has stored, computed from its rows, some cells at a time.

    What is done about parts that cannot be used: see :meth:`ldpflow.store.Dataset.scan`. What is held at a
    time does not grow with the number of cells: see :data:`ldpflow.results.stored.HELD_ROWS`.
    """
    # Keys first: a running sweep may add a path meanwhile.
    keys = store.replicates.path_keys()
    paths = stored_paths(store.replicates, damaged=damaged)
    bad: Damaged = damaged if damaged == "refuse" else []
    found = (stored_cells(store, key, damaged=bad) for key in keys if f"p{key}" in paths)
    rows = chain.from_iterable(found)
    watch = watch_of(store, paths)
    summary = summary_of(rows if watch is None else watch.observed(rows), paths, null)
    if damaged != "refuse" and bad != "refuse":
        known = {part.name for part in damaged}
        damaged.extend(part for part in bad if part.name not in known)
    return summary if watch is None else watch.append_to(summary)


def watch_of(store: RunStore, paths: Simulators) -> Watch | None:
    """Collector of the measures of the run's [monitor]; None where its study has none."""
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
    """The summary of the trajectories that a run has stored; no rows where it has none."""
    rows = trajectories.read_trajectories(store, damaged=damaged)
    paths = stored_paths(store.trajectories, damaged="refuse" if damaged == "refuse" else [])
    return trajectory_summary_of(rows, paths)
