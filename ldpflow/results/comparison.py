"""Comparisons of cells, paired by replicate. Errors that both cells share cancel in a difference.

Cells of one path share everything but the interval. Paths of one problem share their users if they draw users
(``sampling = "data"``): the random numbers of the data do not depend on mechanism, budget and algorithm.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from ldpflow.errors import InputError
from ldpflow.results.columns import CellRows, Floats
from ldpflow.results.measures import moments, total
from ldpflow.results.summary import stored_cells, stored_paths
from ldpflow.settings import closest
from ldpflow.simulators.families import setting_names
from ldpflow.store.run_store import RunStore

Row = dict[str, Any]
TABLES = ("method", "mechanism", "algorithm", "protocol")
FOLLOWING = {"path", "privacy_notion", "privacy_unit", "neighbouring", "mu", "delta"}
"""Columns that are left out since they follow from others, unless they are settings of the path."""

SHORT = (
    "vs", "coverage_difference", "coverage_difference_mcse", "length_ratio", "length_ratio_mcse", "pairs",
    "length_pairs", "undefined", "undefined_baseline",
)  # fmt: skip

ROUNDING = 1e-9
"""Largest difference of two lengths, each divided by its mean, that counts as rounding."""


CONTRAST = (
    *("pairs", "only_this", "only_baseline", "coverage_difference", "coverage_difference_mcse"),
    *("length_ratio", "length_ratio_mcse", "length_pairs", "undefined", "undefined_baseline"),
)
COUNTS = ("pairs", "only_this", "only_baseline", "length_pairs")
TYPES = {name: pa.int64() if name in COUNTS else pa.float64() for name in CONTRAST}


def stored_comparisons(store: RunStore, by: str, baseline: str | float | None = None) -> pa.Table:
    """Compare the cells of a run that differ in ``by`` alone.

    ``by`` is one of :data:`TABLES` with all its settings, or a setting, n or level. (Settings of the problem
    are excluded: other problems have other users.) Rows of compared cells are made of equally many replicates
    (``runs``). The default baseline is the first value in each group of cells. The result has the columns
    that cells share, those in which they differ, ``vs``, and :data:`CONTRAST`. Its metadata ``note`` counts
    the cells that have no cell to compare with.
    """
    paths = stored_paths(store.replicates, damaged="refuse")
    found = stored_cells(store, damaged="refuse")
    pairs = list(chain.from_iterable(zip(keys.to_pylist(), cells, strict=True) for keys, cells in found))
    cells = [{**paths[key["path"]].columns(), **key} for key, _ in pairs]
    keys = dict.fromkeys(name for key, _ in pairs for name in key)
    columns, varying = comparison_columns(by, paths.values(), keys, cells)
    compared = {*columns, "epsilon"} if by == "mechanism" else {*columns}
    named = varying_settings(by, cells, columns)
    groups: dict[str, list[tuple[Row, Row, CellRows]]] = {}
    for row, (key, cell) in zip(cells, pairs, strict=True):
        path = paths[key["path"]]
        differs = {name: row.get(name) for name in columns}
        own = chain.from_iterable(setting_names(path).values())
        left_out = compared | FOLLOWING.difference(own)
        shared = {name: value for name, value in row.items() if name not in left_out}
        settings = sorted((k, v) for k, v in shared.items() if v is not None)
        identity = repr((path.users_key(), cell.runs, settings))
        groups.setdefault(identity, []).append((shared, differs, cell))
    rows: list[Row] = []
    alone: list[Row] = []
    seen: dict[str, None] = {}
    known = baseline is None
    # Sorted by value, since the order of paths is that of their hashes.
    for members in sorted(groups.values(), key=lambda members: parameter_order(members[0][0])):
        members.sort(key=lambda member: parameter_order(member[1]))
        seen.update(dict.fromkeys(label(differs, by, named) for _, differs, _ in members))
        chosen = [m for m in members if baseline is None or matches(m[1], by, baseline)]
        known = known or bool(chosen)
        # Rows of PAR and HULC have no replicates in common with the default baseline.
        other_rows = by == "method" and baseline is None and members[0][2].runs > 1
        if not chosen or len(members) == 1 or other_rows:
            alone += [shared | differs for shared, differs, _ in members]
            continue
        _, reference, base = chosen[0]
        vs = {"vs": label(reference, by, named)}
        rows += [s | d | vs | contrast(cell, base) for s, d, cell in members if cell is not base]
    if not known and len(seen) > 1:
        names = [*seen, *(text.partition(" ")[0] for text in seen)]
        raise InputError("baseline", baseline, f"one of {', '.join(seen)}", closest(baseline, names))
    if not rows:
        others = ", ".join(name for name in varying if name != by)
        hint = f"Cells of this run differ in {others}." if others else ""
        if any(cell.runs > 1 for _, cell in pairs):
            hint += (
                " Rows of PAR and HULC are made of several replicates: compare their coverages in summary."
            )
        allowed = "a setting in which cells of this run with the same replicates differ, all else equal"
        raise InputError("by", by, allowed, hint)
    every = dict.fromkeys(name for row in rows for name in row)
    # A setting without a value keeps the type null, so that the table can be joined with one of texts.
    table = pa.table({name: pa.array([row.get(name) for row in rows], TYPES.get(name)) for name in every})
    if not alone:
        return table
    methods = ", ".join(dict.fromkeys(str(row["method"]) for row in alone))
    other = "baseline" if baseline is None else f"cell with {baseline}"
    note = (
        f"{len(alone):,} cells ({methods}) are not compared: no {other} shares their replicates and differs"
    )
    return table.replace_schema_metadata({"note": f"{note} in {by} alone."})


def parameter_order(row: Row) -> list[tuple[str, bool, float, str]]:
    return [
        (name, value is None, value if isinstance(value, (int, float)) else 0.0, str(value))
        for name, value in row.items()
    ]


CELL = ("path", "n", "method", "level", "coordinate")
"""Columns of the key of a cell that are no settings of its interval method."""


def comparison_columns(
    by: str, simulators: Iterable[Any], keys: Iterable[str], cells: Sequence[Row]
) -> tuple[tuple[str, ...], list[str]]:
    """Columns that differ between compared cells, and all names that ``by`` may have for these cells."""
    settings: dict[str, list[str]] = {table: [] for table in TABLES}
    for simulator in simulators:
        for table, names in setting_names(simulator).items():
            settings.setdefault(table, []).extend(names)
    settings["method"] = [name for name in keys if name not in CELL]
    single = [*dict.fromkeys(chain.from_iterable(map(settings.__getitem__, TABLES))), "n", "level"]
    names = (*TABLES, *single)
    values = {name: {repr(cell[name]) for cell in cells if cell.get(name) is not None} for name in names}
    varying = [name for name in names if len(values[name]) > 1]
    if by not in names:
        hint = closest(by, names) or "Cells of different problems have different data and are not compared."
        raise InputError("by", by, f"one of {', '.join(varying) or 'no setting: all cells are equal'}", hint)
    return tuple(dict.fromkeys((by, *settings[by]))) if by in TABLES else (by,), varying


def varying_settings(by: str, cells: Sequence[Row], columns: Iterable[str]) -> set[tuple[str, str]]:
    """Pairs of a value of ``by`` and a setting that varies between the cells with this value."""
    found: dict[tuple[str, str], set[str]] = {}
    for cell in cells:
        for name in columns:
            found.setdefault((str(cell.get(by)), name), set()).add(repr(cell.get(name)))
    return {pair for pair, values in found.items() if len(values) > 1}


def matches(differs: Row, by: str, baseline: str | float) -> bool:
    """Whether a cell has the value and the settings in ``baseline``, such as ``TR, degree = 3``."""
    value = differs[by]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return float(value) == float(baseline)
        except (TypeError, ValueError):
            return False
    # Settings begin at a word before "=", since a value, such as a list, may have blanks and commas.
    kind, *settings = re.split(r",?\s+(?=\w+=)", str(baseline).replace(" = ", "="))
    own = {f"{name}={text_of(v)}" for name, v in differs.items()}
    return str(value) == baseline or (str(value) == kind and own.issuperset(settings))


def label(differs: Row, by: str, named: Collection[tuple[str, str]]) -> str:
    """Value of ``by`` with its settings that are floats or in ``named``."""
    rest = [
        f"{n}={text_of(v)}"
        for n, v in differs.items()
        if n != by and v is not None and (isinstance(v, float) or (str(differs[by]), n) in named)
    ]
    return " ".join([text_of(differs[by]), *rest])


def text_of(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def contrast(this: CellRows, baseline: CellRows) -> Row:
    """Compare a cell with a baseline, over the replicates that both have.

    Both cells must have the same number of replicates to a row (``runs``), so that equal row numbers mean
    equal replicates. A replicate without an interval counts as a miss. ``only_this`` and ``only_baseline``
    count the discordant pairs (McNemar 1947). With d = covered - covered in the baseline, the difference of
    coverages is mean(d), and its MCSE is sd(d) / sqrt(pairs). The ratio of mean lengths is over the
    ``length_pairs`` pairs in which both have a length. ``undefined`` is the share of replicates without an
    interval. Undefined numbers are None.
    """
    cells = (this, baseline)
    numbers = this.replicate, baseline.replicate
    places = np.intersect1d(*numbers, assume_unique=True, return_indices=True)[1:]
    pairs = len(places[0])
    if pairs == 0:
        return dict.fromkeys(CONTRAST) | dict.fromkeys(COUNTS, 0)
    hits = [np.where(cell.ok, cell.covered, 0.0)[at] for cell, at in zip(cells, places, strict=True)]
    lengths = [lengths_or_nan(cell)[at] for cell, at in zip(cells, places, strict=True)]
    known = ~np.isnan(lengths).any(axis=0)
    difference = hits[0] - hits[1]
    discordant = int(np.sum(difference > 0)), int(np.sum(difference < 0))
    mean, variance = moments(difference)
    ratio = length_ratio(lengths[0][known], lengths[1][known])
    undefined = [1.0 - float(np.mean(cell.ok[at])) for cell, at in zip(cells, places, strict=True)]
    values = (pairs, *discordant, mean, math.sqrt(variance / pairs), *ratio, int(known.sum()), *undefined)
    found = dict(zip(CONTRAST, values, strict=True))
    return {name: None if value != value else value for name, value in found.items()}


def lengths_or_nan(cell: CellRows) -> Floats:
    lengths = np.full(len(cell.ok), np.nan)
    lengths[cell.ok] = cell.finished().lengths()
    return lengths


def length_ratio(a: Floats, b: Floats) -> tuple[float, float]:
    """Ratio Q of the mean lengths of m pairs, and its MCSE by the delta method.

    With psi = a / mean(a) - b / mean(b) the MCSE is Q sqrt(sum psi^2/(m (m - 1))).
    """
    if not (len(a) and total(b) > 0):
        return math.nan, math.nan
    mean_a, mean_b = moments(a)[0], moments(b)[0]
    ratio = mean_a / mean_b
    if mean_a == 0 or len(a) == 1:
        return ratio, math.nan
    psi = a / mean_a - b / mean_b
    # Lengths in a fixed proportion, such as those of one method at two levels, deviate from it by rounding.
    if np.abs(psi).max() < ROUNDING:
        return ratio, 0.0
    return ratio, ratio * math.sqrt(total(psi * psi) / (len(a) * (len(a) - 1)))
