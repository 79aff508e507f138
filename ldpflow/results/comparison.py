"""Which cells of a run can be compared pairwise: those that share a path, or simulated users.

Cells of one path share everything but the interval. Paths of one problem share their users, whatever
the mechanism, the budget and the algorithm: the data streams are addressed by the problem.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa

from ldpflow.errors import InputError
from ldpflow.results import CellRows, Contrast, compare_cells, stored_cells
from ldpflow.results.paired import compare_unpaired
from ldpflow.results.summary import stored_paths
from ldpflow.simulators.simulator import Simulator
from ldpflow.store import RunStore

__all__ = ["CellComparison", "compared", "comparisons", "stored_comparisons"]

Row = dict[str, Any]
TABLES = ("method", "mechanism", "algorithm", "protocol")
# These follow from the others; a budget only where the mechanism is what differs.
FOLLOWING = {"path", "privacy_notion", "privacy_unit", "neighbouring", "mu", "delta"}


@dataclass(frozen=True)
class CellComparison:
    """A cell against the baseline.

    Parameters
    ----------
    shared : dict
        Parameters that both have.
    differs : dict
        Those that are compared, of this cell.
    baseline : str
        The baseline's, in words.
    result : Contrast
    """

    shared: Row
    differs: Row
    baseline: str
    result: Contrast


def comparisons(
    cells: Iterable[tuple[pa.Table, Sequence[CellRows]]],
    paths: Mapping[str, Simulator[Any, Any]],
    by: str,
    baseline: str | None = None,
) -> list[CellComparison]:
    """Compare the cells that differ in ``by`` only, replicate by replicate.

    Rows that are made of different numbers of replicates are compared unpaired.

    Parameters
    ----------
    cells : iterable of (keys, cells)
        As of :func:`ldpflow.results.stored_cells`; all are held.
    paths : mapping of str to Simulator
        By the column ``path`` of the keys.
    by : str
        ``method``, ``mechanism`` or ``algorithm``, each with all its settings, or one setting
        (``epsilon``, ``gamma``, ``beta``, ...), or ``n`` or ``level``.
    baseline : str, optional
        Value of ``by`` to compare with; the first one in each group of cells unless given.

    Raises
    ------
    InputError
        If ``by`` is unknown, belongs to the problem (other problems have other users), or no two
        cells differ in it alone; or if no cell has the baseline.
    """
    pairs = list(chain.from_iterable(zip(keys.to_pylist(), found, strict=True) for keys, found in cells))
    columns = columns_compared(
        by, settings_of(paths.values(), {name: None for key, _ in pairs for name in key})
    )
    left_out = {*columns, *FOLLOWING}
    if by == "mechanism":
        left_out.add("epsilon")
    groups: dict[str, list[tuple[Row, Row, CellRows]]] = {}
    for key, cell in pairs:
        path = paths[key["path"]]
        row = {**path.columns(), **key}
        differs = {name: row.get(name) for name in columns}
        shared = {name: value for name, value in row.items() if name not in left_out}
        settings = sorted((k, v) for k, v in shared.items() if v is not None)
        identity = repr((path.users_key(), settings))
        groups.setdefault(identity, []).append((shared, differs, cell))
    found = []
    seen: dict[str, None] = {}
    # By value: the order of paths is that of their hashes.
    for members in sorted(groups.values(), key=lambda members: in_order(members[0][0])):
        members.sort(key=lambda member: in_order(member[1]))
        seen.update(dict.fromkeys(label(differs, by) for _, differs, _ in members))
        at = 0
        if baseline is not None:
            matching = [i for i, (_, d, _) in enumerate(members) if matches(d, by, baseline)]
            if not matching:
                continue
            at = matching[0]
        _, reference, base = members[at]
        found += [
            CellComparison(shared, differs, label(reference, by), compared(cell, base))
            for i, (shared, differs, cell) in enumerate(members)
            if i != at
        ]
    if not found and baseline is not None and len(seen) > 1:
        raise InputError("baseline", baseline, f"one of {', '.join(seen)}")
    if not found:
        raise InputError("by", by, "a setting in which cells of this run differ, all else equal")
    return found


def stored_comparisons(store: RunStore, by: str, baseline: str | None) -> pa.Table:
    """The comparisons of a stored run, a row each: what is shared, what differs, ``vs`` and the result."""
    found = comparisons(
        stored_cells(store, damaged="refuse"), stored_paths(store.replicates, damaged="refuse"), by, baseline
    )
    rows = [{**c.shared, **c.differs, "vs": c.baseline, **vars(c.result)} for c in found]
    names = list(dict.fromkeys(name for row in rows for name in row))
    return pa.Table.from_pylist([{name: row.get(name) for name in names} for row in rows])


def compared(cell: CellRows, baseline: CellRows) -> Contrast:
    """Paired where rows of the same number are of the same replicates."""
    compare = compare_cells if cell.runs == baseline.runs else compare_unpaired
    return compare(cell, baseline)


def in_order(row: Row) -> list[tuple[str, bool, float, str]]:
    """Sort key of parameters: numbers by size, others by name, absent ones last."""
    return [
        (name, value is None, value if isinstance(value, (int, float)) else 0.0, str(value))
        for name, value in row.items()
    ]


def settings_of(simulators: Iterable[Any], keys: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Columns that are settings of interval methods, mechanisms and algorithms of a run."""
    found: dict[str, dict[str, None]] = {table: {} for table in TABLES}
    for simulator in simulators:
        for table, names in simulator.setting_names().items():
            if table in found:
                found[table].update(dict.fromkeys(names))
    found["method"] = {name: None for name in keys if name not in CELL}
    return {table: tuple(names) for table, names in found.items()}


CELL = ("path", "n", "method", "level", "coordinate")
"""Columns of a cell's key that are no settings of its interval method."""


def columns_compared(by: str, settings: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The columns that ``by`` lets differ."""
    if by in TABLES:
        return (by, *settings[by])
    single = [*dict.fromkeys(n for names in settings.values() for n in names), "n", "level"]
    if by not in single:
        raise InputError("by", by, f"one of {', '.join((*TABLES, *single))}")
    return (by,)


def matches(differs: Row, by: str, baseline: str) -> bool:
    """Whether a cell has the value that was typed."""
    value = differs[by]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return float(value) == float(baseline)
        except ValueError:
            return False
    return str(value) == baseline or label(differs, by) == baseline


def label(differs: Row, by: str) -> str:
    """The compared settings in words: BB beta=0.75."""
    rest = [f"{n}={v:g}" for n, v in differs.items() if n != by and isinstance(v, float)]
    return " ".join([str(differs[by]), *rest])
