"""Summary of the trajectories of a run: means over replicates with their standard errors, and quantiles."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from ldpflow.columns import Column
from ldpflow.errors import InputError
from ldpflow.results.measures import total
from ldpflow.store.dataset import Damaged
from ldpflow.store.run_store import RunStore
from ldpflow.store.schema import MEANS, MEASURED, declared_columns, key_codes

NUMBERS = ("mean", "mcse", "q05", "q50", "q95", "max")
SUMMARY = pa.schema(
    [
        *(("path", pa.string()), ("n", pa.int64()), ("step", pa.int64()), ("stat", pa.string())),
        *(("replicates", pa.int64()), ("failures", pa.int64())),
        *((name, pa.float64()) for name in NUMBERS),
    ]
)

KEYS = ("path", "n", "step", "replicate")


def statistics_of(schema: pa.Schema) -> dict[str, Column]:
    columns = declared_columns(schema, MEASURED)
    return {name: column for name, column in columns.items() if name not in (*KEYS, "status")}


def meanings(schema: pa.Schema) -> dict[str, str]:
    along = "along a path, over its checkpoints but the last"
    return {name: column.meaning for name, column in statistics_of(schema).items()} | {
        name: f"mean of {stat} {along}" for name, stat in MEANS.items()
    }


def read_trajectories(store: RunStore, *, damaged: Damaged) -> pa.Table:
    """Read all rows, each once, sorted by :data:`KEYS`. Raises InputError if two copies of a row differ."""
    table = store.trajectories.read(damaged=damaged)
    table = table.sort_by([(name, "ascending") for name in KEYS]).combine_chunks()
    fresh = changes(*(key_codes(table[name]) for name in KEYS))
    again = np.flatnonzero(~fresh)
    for name in statistics_of(table.schema):
        codes = key_codes(table[name])
        if not np.array_equal(codes[again], codes[again - 1]):
            raise InputError(
                f"{store.root}/trajectories",
                f"two values of {name} for one replicate and checkpoint",
                "each row once, or equal copies",
                "Remove the part that is not of this study.",
            )
    return table.filter(pa.array(fresh))


def summarise(rows: pa.Table) -> pa.Table:
    """Mean, its MCSE, and quantiles (Hyndman and Fan type 7) over the replicates that did not diverge.

    The result has one row per path, n, step and stat. A stat is a statistic of the path or one of
    :data:`MEANS`. Sums over replicates are correctly rounded.
    """
    found: list[dict[str, Any]] = []
    paths = np.asarray(rows["path"].to_pylist(), dtype=object)
    n, step = rows["n"].to_numpy(), rows["step"].to_numpy()
    ok = np.asarray(rows["status"].to_pylist(), dtype=object) == "ok"
    statistics = list(statistics_of(rows.schema))
    values = {name: rows[name].cast(pa.float64()).to_numpy() for name in statistics}
    known = {name: rows[name].is_valid().to_numpy() for name in statistics}

    def add(first: int, end: int, stat: str, x: np.ndarray, good: np.ndarray) -> None:
        row: dict[str, Any] = {"path": paths[first], "n": int(n[first]), "step": end, "stat": stat}
        row |= {"replicates": len(x), "failures": int((~good).sum())}
        found.append(row | numbers_of(x[good]))

    for first, last in runs_of(paths, n, step):
        for stat in statistics:
            if known[stat][first:last].any():
                add(first, int(step[first]), stat, values[stat][first:last], ok[first:last])
    replicate = rows["replicate"].to_numpy()
    for first, last in runs_of(paths, n):
        end = int(step[last - 1])
        inside = np.arange(first, last)[step[first:last] < end]
        for name, stat in MEANS.items():
            if len(inside) and known[stat][inside].all():
                _, at = np.unique(replicate[inside], return_inverse=True)
                counts = np.bincount(at)
                means = np.bincount(at, weights=values[stat][inside]) / counts
                add(first, end, name, means, np.bincount(at, weights=ok[inside]) == counts)
    found.sort(key=lambda row: (row["path"], row["n"], row["step"]))
    return pa.Table.from_pylist(found, schema=SUMMARY)


def last_rows(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    last: dict[str, int] = {}
    for row in rows:
        last[row["path"]] = max(last.get(row["path"], 0), row["step"])
    return [row for row in rows if row["step"] == last[row["path"]]]


def runs_of(*columns: np.ndarray) -> Iterator[tuple[int, int]]:
    """Ranges of equal consecutive rows: first row, and the row after the last one."""
    return pairwise([*np.flatnonzero(changes(*columns)).tolist(), len(columns[0])])


def changes(*columns: np.ndarray) -> np.ndarray:
    fresh = np.ones(len(columns[0]), dtype=bool)
    fresh[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    return fresh


def numbers_of(x: np.ndarray) -> dict[str, float]:
    if not len(x) or not np.isfinite(x).all():
        return {}
    mean = total(x) / len(x)
    row = {"mean": mean}
    if len(x) > 1:
        variance = total((x - mean) ** 2) / (len(x) - 1)
        row["mcse"] = math.sqrt(variance / len(x))
    low, middle, high = np.quantile(x, [0.05, 0.5, 0.95]).tolist()
    return row | {"q05": low, "q50": middle, "q95": high, "max": float(x.max())}
