"""Measures of monitored runs: coverage at every n, and stopping at a target length.

The rows of a replicate at several n share a path, so a replicate can be followed over n. ``coverage_all_n``
is the share of replicates whose interval covers at every n from ``first_n`` on. A replicate stops at the
first of these n at which its interval is defined and shorter than a target length. In the summary the row of
an n has the measures over all n up to this n.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldpflow.results.columns import CellRows
from ldpflow.results.measures import rate

ENDS = ("", "_mcse", "_low", "_high")
MONITORED = (
    "looks",
    *(f"coverage_all_n{which}{end}" for which in ("", "_failures_as_misses") for end in ENDS),
    *(f"{name}{end}" for name in ("stopped_share", "coverage_at_stop") for end in ENDS),
    *("stop_n_mean", "stop_n_median"),
)
"""Further columns of the summary of a study with [monitor], described in docs/tables.md."""

ROUNDING = 1e-12

Flags = NDArray[np.bool_]


def coverage_all_n(covered: Flags, defined: Flags) -> dict[str, float]:
    """Share of rows in which all ``covered`` are true, among rows with all ``defined`` and among all rows."""
    hits = int(covered.all(axis=1).sum())
    result = rate("coverage_all_n_failures_as_misses", hits, len(covered))
    if (count := int(defined.all(axis=1).sum())) > 0:
        result |= rate("coverage_all_n", hits, count)
    return result


def coverage_at_stop(n: NDArray[np.int64], covered: Flags, short: Flags) -> dict[str, float]:
    """Share of replicates that stop, the n at which they stop, and the coverage at these n.

    ``n`` has G increasing values. The flags have the shape (replicates, G).
    """
    stopped: Flags = np.any(short, axis=1)
    count = int(stopped.sum())
    result = rate("stopped_share", count, len(stopped))
    if count == 0:
        return result
    first = short.argmax(axis=1)[stopped]
    result |= rate("coverage_at_stop", int(covered[stopped, first].sum()), count)
    ends = n[first].astype(np.float64)
    return result | {"stop_n_mean": float(ends.sum()) / count, "stop_n_median": float(np.median(ends))}


class Watch:
    """Collects three flags of each row: covered, defined, and shorter than the target length of its cell."""

    def __init__(self, first_n: int, target: Callable[[Mapping[str, Any]], float | None]) -> None:
        self.first_n = first_n
        self.target = target
        self.names: dict[str, None] = {}
        self.families: dict[tuple[Any, ...], dict[int, tuple[NDArray[np.int64], Flags]]] = {}

    def observed(
        self, cells: Iterable[tuple[pa.Table, Sequence[CellRows]]]
    ) -> Iterator[tuple[pa.Table, Sequence[CellRows]]]:
        for keys, rows in cells:
            self.names |= dict.fromkeys(name for name in keys.column_names if name != "n")
            for key, cell in zip(keys.to_pylist(), rows, strict=True):
                if key["n"] >= self.first_n:
                    # The target may be the oracle's length. By rounding alone no interval is below it.
                    limit = (self.target(key) or 0.0) * (1 - ROUNDING)
                    flags = cell.ok & np.stack([cell.covered == 1.0, cell.ok, cell.length < limit])
                    self.families.setdefault(self.family(key), {})[key["n"]] = (cell.replicate.copy(), flags)
            yield keys, rows

    def measures(self, row: Mapping[str, Any]) -> dict[str, float]:
        found = self.families.get(self.family(row), {})
        wanted = sorted(n for n in found if n <= row["n"])
        shared = reduce(np.intersect1d, [found[n][0] for n in wanted]) if wanted else ()
        if not len(shared):
            return {}
        pairs = [found[n] for n in wanted]
        # Shape (3, replicates, n): covered, defined, short.
        flags = np.stack([bits[:, np.searchsorted(numbers, shared)] for numbers, bits in pairs], axis=2)
        result = {"looks": float(len(wanted))} | coverage_all_n(flags[0], flags[1])
        if self.target(row) is None:
            return result
        return result | coverage_at_stop(np.array(wanted, dtype=np.int64), flags[0], flags[2])

    def family(self, key: Mapping[str, Any]) -> tuple[Any, ...]:
        """Identity of the cells of several n: path, method with its settings, level and coordinate."""
        return tuple((name, key[name]) for name in sorted(self.names) if key.get(name) is not None)

    def append_to(self, table: pa.Table) -> pa.Table:
        rows = [self.measures(row) for row in table.to_pylist()]
        for name in MONITORED:
            values = pa.array([row.get(name) for row in rows], pa.float64(), from_pandas=True)
            table = table.append_column(name, values)
        return table
