"""Comparisons of cells, paired by replicate: a difference is known far better than either coverage.

Cells of one path share everything but the interval. Paths of one problem share their users, whatever the
mechanism, the budget and the algorithm: the data streams are addressed by the problem.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from ldpflow.errors import InputError
from ldpflow.results.columns import CellRows, Floats
from ldpflow.results.measures import moments, total
from ldpflow.results.summary import stored_cells, stored_paths
from ldpflow.simulators.families import setting_names
from ldpflow.simulators.simulator import Simulator
from ldpflow.store.run_store import RunStore

Row = dict[str, Any]
TABLES = ("method", "mechanism", "algorithm", "protocol")
FOLLOWING = {"path", "privacy_notion", "privacy_unit", "neighbouring", "mu", "delta"}
"""Columns that follow from others, unless they are settings of the path. Epsilon is left out only if
mechanisms are compared."""


@dataclass(frozen=True)
class Contrast:
    """A cell against a baseline, over the replicates of both; a replicate without an interval is a miss.

    Parameters
    ----------
    pairs : int
        Replicates of both, finished or not.
    only_this, only_baseline : int
        Discordant pairs: covered by one interval and not by the other (McNemar 1947).
    coverage_difference, coverage_difference_mcse : float
        Mean of d = covered - covered in the baseline, a share, and sd(d) / sqrt(pairs).
    length_ratio, length_ratio_mcse : float
        Over the m pairs in which both rows finished and both lengths are defined. Q = mean length / mean
        length of the baseline. Its MCSE by the delta method is Q sqrt(sum psi^2 / (m (m - 1))) with
        psi = length / mean - length_0 / mean_0.
    paired : bool
        Whether rows are paired. If both cells have replicates of their own, ``pairs`` is the smaller
        number of rows, nothing is discordant, and variances add.
    undefined, undefined_baseline : float
        Share of those replicates that have no interval, in the cell and in the baseline.
    """

    pairs: int
    only_this: int
    only_baseline: int
    coverage_difference: float = math.nan
    coverage_difference_mcse: float = math.nan
    length_ratio: float = math.nan
    length_ratio_mcse: float = math.nan
    paired: bool = True
    undefined: float = math.nan
    undefined_baseline: float = math.nan


@dataclass(frozen=True)
class CellComparison:
    """A cell against a baseline: shared parameters, the cell's other ones, and the baseline in words."""

    shared: Row
    differs: Row
    baseline: str
    result: Contrast


def comparisons(
    cells: Iterable[tuple[pa.Table, Sequence[CellRows]]],
    paths: Mapping[str, Simulator[Any, Any]],
    by: str,
    baseline: str | None = None,
    alone: list[Row] | None = None,
) -> list[CellComparison]:
    """Compare the cells that differ in ``by`` only, replicate by replicate.

    Rows that are made of different numbers of replicates are compared unpaired.

    Parameters
    ----------
    cells : iterable of (keys, cells)
        As in :func:`ldpflow.results.summary.stored_cells`; all are held in memory.
    paths : mapping of str to Simulator
        By the column ``path`` of the keys.
    by : str
        ``method``, ``mechanism``, ``algorithm`` or ``protocol``, each with all its settings, or a setting,
        n or level. Other problems have other users, and cannot be compared.
    baseline : str, optional
        Value of ``by`` to compare with, by default the first one in each group of cells.
    alone : list, optional
        List to which the settings of cells without a counterpart are appended.
    """
    pairs = list(chain.from_iterable(zip(keys.to_pylist(), found, strict=True) for keys, found in cells))
    columns = comparison_columns(by, settings_of(paths.values(), [name for key, _ in pairs for name in key]))
    compared = {*columns, "epsilon"} if by == "mechanism" else {*columns}
    groups: dict[str, list[tuple[Row, Row, CellRows]]] = {}
    for key, cell in pairs:
        path = paths[key["path"]]
        row = {**path.columns(), **key}
        differs = {name: row.get(name) for name in columns}
        own = chain.from_iterable(setting_names(path).values())
        left_out = compared | FOLLOWING.difference(own)
        shared = {name: value for name, value in row.items() if name not in left_out}
        settings = sorted((k, v) for k, v in shared.items() if v is not None)
        identity = repr((path.users_key(), settings))
        groups.setdefault(identity, []).append((shared, differs, cell))
    found = []
    seen: dict[str, None] = {}
    # By value: the order of paths is that of their hashes.
    for members in sorted(groups.values(), key=lambda members: parameter_order(members[0][0])):
        members.sort(key=lambda member: parameter_order(member[1]))
        seen.update(dict.fromkeys(label(differs, by) for _, differs, _ in members))
        chosen = [m for m in members if baseline is None or matches(m[1], by, baseline)]
        if alone is not None and (not chosen or len(members) == 1):
            alone += [shared | differs for shared, differs, _ in members]
        if not chosen:
            continue
        _, reference, base = chosen[0]
        for shared, differs, cell in members:
            if cell is not base:
                # Paired if equal row numbers mean equal replicates.
                compare = compare_cells if cell.runs == base.runs else compare_unpaired
                result = compare(cell, base)
                found.append(CellComparison(shared, differs, label(reference, by), result))
    if not found and baseline is not None and len(seen) > 1:
        raise InputError("baseline", baseline, f"one of {', '.join(seen)}")
    if not found:
        raise InputError("by", by, "a setting in which cells of this run differ, all else equal")
    return found


def stored_comparisons(store: RunStore, by: str, baseline: str | None) -> pa.Table:
    """The comparisons of a stored run, a row each: shared columns, differing columns, ``vs``, result.

    The metadata ``note`` counts the cells without a cell to compare with.
    """
    alone: list[Row] = []
    paths = stored_paths(store.replicates, damaged="refuse")
    found = comparisons(stored_cells(store, damaged="refuse"), paths, by, baseline, alone)
    rows = [{**c.shared, **c.differs, "vs": c.baseline, **vars(c.result)} for c in found]
    names = list(dict.fromkeys(name for row in rows for name in row))
    table = pa.Table.from_pylist([{name: row.get(name) for name in names} for row in rows])
    if not alone:
        return table
    methods = ", ".join(dict.fromkeys(str(row["method"]) for row in alone))
    other = f"is like them but for {by}" + ("" if baseline is None else f" and has {baseline}")
    note = f"{len(alone):,} cells ({methods}) are not compared: no other cell {other}."
    return table.replace_schema_metadata({"note": note})


def parameter_order(row: Row) -> list[tuple[str, bool, float, str]]:
    """Sort key of parameters: numbers by size, others by name, absent ones last."""
    return [
        (name, value is None, value if isinstance(value, (int, float)) else 0.0, str(value))
        for name, value in row.items()
    ]


def settings_of(simulators: Iterable[Any], keys: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Columns that are settings of interval methods, mechanisms and algorithms of a run."""
    found: dict[str, list[str]] = {table: [] for table in TABLES}
    for simulator in simulators:
        for table, names in setting_names(simulator).items():
            if table in found:
                found[table] += names
    found["method"] = [name for name in keys if name not in CELL]
    return {table: tuple(dict.fromkeys(names)) for table, names in found.items()}


CELL = ("path", "n", "method", "level", "coordinate")
"""Columns of a cell's key that are no settings of its interval method."""


def comparison_columns(by: str, settings: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    if by in TABLES:
        return (by, *settings[by])
    single = [*dict.fromkeys(n for names in settings.values() for n in names), "n", "level"]
    if by not in single:
        raise InputError("by", by, f"one of {', '.join((*TABLES, *single))}")
    return (by,)


def matches(differs: Row, by: str, baseline: str) -> bool:
    value = differs[by]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return float(value) == float(baseline)
        except ValueError:
            return False
    return str(value) == baseline or label(differs, by) == baseline


def label(differs: Row, by: str) -> str:
    rest = [f"{n}={v:g}" for n, v in differs.items() if n != by and isinstance(v, float)]
    return " ".join([str(differs[by]), *rest])


def compare_cells(this: CellRows, baseline: CellRows) -> Contrast:
    """Compare paired rows."""
    both = np.intersect1d(this.replicate, baseline.replicate, assume_unique=True, return_indices=True)[1:]
    pairs = len(both[0])
    if pairs == 0:
        return Contrast(0, 0, 0)
    difference = hits(this)[both[0]] - hits(baseline)[both[1]]
    mean, variance = moments(difference)
    lengths = [lengths_or_nan(cell)[at] for cell, at in zip((this, baseline), both, strict=True)]
    known = ~(np.isnan(lengths[0]) | np.isnan(lengths[1]))
    return Contrast(
        pairs,
        int(np.sum(difference > 0)),
        int(np.sum(difference < 0)),
        mean,
        math.sqrt(variance / pairs),
        *length_ratio(lengths[0][known], lengths[1][known]),
        True,
        *(1.0 - float(np.mean(cell.ok[at])) for cell, at in zip((this, baseline), both, strict=True)),
    )


def compare_unpaired(this: CellRows, baseline: CellRows) -> Contrast:
    """Compare cells whose rows are on replicates of their own: standard errors add in squares."""
    cells = (this, baseline)
    pairs = min(len(cell.ok) for cell in cells)
    if pairs == 0:
        return Contrast(0, 0, 0, paired=False)
    (p, p_variance), (q, q_variance) = (moments(hits(cell)) for cell in cells)
    error = math.sqrt(p_variance / len(this.ok) + q_variance / len(baseline.ok))
    a, b = (values[~np.isnan(values)] for values in map(lengths_or_nan, cells))
    ratio = ratio_mcse = math.nan
    if len(a) and len(b):
        (mean_a, variance_a), (mean_b, variance_b) = moments(a), moments(b)
        ratio = mean_a / mean_b if mean_b > 0 else math.nan
        if ratio > 0:
            relative = variance_a / len(a) / mean_a**2 + variance_b / len(b) / mean_b**2
            ratio_mcse = ratio * math.sqrt(relative)
    undefined = [1.0 - float(np.mean(cell.ok)) for cell in cells]
    return Contrast(pairs, 0, 0, p - q, error, ratio, ratio_mcse, False, *undefined)


def hits(cell: CellRows) -> Floats:
    """1 if the interval covers, 0 if it does not or there is none."""
    return np.where(cell.ok, cell.covered, 0.0)


def lengths_or_nan(cell: CellRows) -> Floats:
    """Lengths of all rows (see :meth:`CellRows.lengths`), NaN for those that have not finished."""
    lengths = np.full(len(cell.ok), np.nan)
    lengths[cell.ok] = cell.finished().lengths()
    return lengths


def length_ratio(a: Floats, b: Floats) -> tuple[float, float]:
    """Ratio of mean lengths and its MCSE."""
    pairs = len(a)
    if not (pairs and total(b) > 0):
        return math.nan, math.nan
    mean_a, mean_b = total(a) / pairs, total(b) / pairs
    if pairs == 1 or mean_a == 0:
        return mean_a / mean_b, math.nan
    psi = a / mean_a - b / mean_b
    ratio = mean_a / mean_b
    return ratio, ratio * math.sqrt(total(psi * psi) / (pairs * (pairs - 1)))
