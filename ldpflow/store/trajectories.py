"""Trajectories in a run directory: the second kind of result, beside the rows of intervals.

::

    RUN/trajectories/path=p<key>/part-<first>-<last>-<hash of the checkpoints>.parquet
    RUN/trajectories.parquet    mean, MCSE and quantiles over replicates, by path, n, step, stat

A part holds every replicate of its range (``last`` exclusive) at every checkpoint. Its name follows
from its content, so that writing it twice is harmless, and says what is done.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from ldpflow.errors import InputError
from ldpflow.store.part import METADATA_KEY, PartMeta
from ldpflow.store.ranges import Ranges, union
from ldpflow.store.run_store import RunStore

__all__ = [
    "MEANS",
    "STATISTICS",
    "TRAJECTORIES",
    "finished",
    "names",
    "publish",
    "read",
    "read_summary",
    "summarise",
    "trajectory_settings",
    "write_summary",
]

STATISTICS = {
    "last_sq": "squared distance to theta* of the last iterate theta_n",
    "avg_sq": "squared distance to theta* of the average of theta_1, ..., theta_n",
    "avg_pre_sq": "squared distance to theta* of the average of theta_0, ..., theta_{n-1}",
    "last_exc": "excess loss F(theta_n) - F(theta*)",
    "avg_exc": "excess loss of the average of theta_1, ..., theta_n",
    "tail_exc": "excess loss of the average of the second half of the iterates",
    "loss": "empirical risk F(theta_t) over the data set",
    "gradient_norm": "norm of the gradient of the empirical risk at theta_t",
    "error_norm": "norm of the private gradient estimate's error",
    "noise_norm": "norm of the noise in the private gradient estimate",
    "output_loss": "empirical risk at the output, an iterate chosen at random",
    "output_gradient_norm": "norm of the gradient of the empirical risk at the output",
    "clipped": "share of clipped gradients since the checkpoint before",
    "threshold": "clipping threshold in use",
}
"""What a trajectory may hold at a checkpoint; null where its path has no such number."""

TRAJECTORIES = pa.schema(
    [
        ("replicate", pa.int64()),
        ("n", pa.int64()),
        ("step", pa.int64()),
        *((name, pa.float64()) for name in STATISTICS),
        ("status", pa.string()),
    ]
)
"""Schema of every part; ``n`` counts users (records), ``step`` the steps made by then; ``status`` is ok
or diverged (values NaN). One pass: step follows from n. Many epochs: n is N throughout."""

MEANS = {"mean_gradient_norm": "gradient_norm", "mean_noise_norm": "noise_norm"}
"""Means along the path, by what they are the mean of: over a replicate's checkpoints but the last, which
lie in the middles of equal parts of its steps. In summaries only, at the last step of many epochs."""

VERSION = 2
FOLDER = "trajectories"
NAME = re.compile(r"trajectories/path=p([0-9a-f]{16})/part-(\d+)-(\d+)-([0-9a-f]{12})\.parquet")


def checkpoint_hash(users: Sequence[int]) -> str:
    """First 12 hex digits of SHA-256 over the checkpoints."""
    return hashlib.sha256(json.dumps([int(n) for n in users]).encode()).hexdigest()[:12]


def publish(
    store: RunStore, key: str, first: int, last: int, users: Sequence[int], rows: pa.Table,
    meta: PartMeta,
) -> str:
    """Write the trajectories of replicates ``first`` to ``last`` (exclusive) of a path; its name."""
    told = {
        "trajectory_version": VERSION,
        "stream_version": meta.stream_version,
        "seed": meta.seed,
        "path": key,
        "path_settings": dict(meta.path_settings),
        "versions": dict(meta.versions),
        "checkpoints": [int(n) for n in users],
    }
    name = f"{FOLDER}/path=p{key}/part-{first}-{last}-{checkpoint_hash(users)}.parquet"
    sink = pa.BufferOutputStream()
    table = rows.replace_schema_metadata({METADATA_KEY: json.dumps(told, sort_keys=True)})
    pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
    store.publish(name, sink.getvalue())
    return name


def files(store: RunStore) -> list[tuple[str, tuple[str, int, int, str]]]:
    """Names of the parts, and what they say: path key, first, last, hash of the checkpoints."""
    selector = fs.FileSelector(store.full(FOLDER), allow_not_found=True, recursive=True)
    found = []
    for info in store.filesystem.get_file_info(selector):
        name = info.path.removeprefix(store.base + "/")
        match = NAME.fullmatch(name)
        if info.type == fs.FileType.File and match is not None:
            key, first, last, users = match.groups()
            found.append((name, (key, int(first), int(last), users)))
    return sorted(found)


def names(store: RunStore) -> list[str]:
    """Names of the parts."""
    return [name for name, _ in files(store)]


def finished(store: RunStore, key: str, users: Sequence[int]) -> Ranges:
    """Replicates whose trajectories at these checkpoints are stored."""
    wanted = (key, checkpoint_hash(users))
    return union((a, b) for _, (path, a, b, h) in files(store) if (path, h) == wanted)


def trajectory_settings(store: RunStore) -> dict[str, dict[str, Any]]:
    """What the parts say of their origin (seed, path_settings, ...), by path key."""
    found: dict[str, dict[str, Any]] = {}
    for name, (key, *_) in files(store):
        if key not in found:
            parsed = open_part(store, name)
            found[key] = json.loads(parsed.metadata.metadata[METADATA_KEY])
    return found


def open_part(store: RunStore, name: str) -> pq.ParquetFile:
    """A part, or an InputError that names it."""
    data = store.read(name)
    try:
        return pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
    except (pa.ArrowException, OSError, TypeError) as error:
        raise InputError(
            store.full(name), str(error), "a readable part", "Remove it and run the sweep again."
        ) from None


def read(store: RunStore) -> pa.Table:
    """All rows, each once: a column ``path`` (``p<key>``), then TRAJECTORIES; sorted."""
    tables = [pa.Table.from_arrays([pa.array([], pa.string()), *TRAJECTORIES.empty_table().columns],
                                   names=["path", *TRAJECTORIES.names])]
    for name, (key, *_) in files(store):
        rows = open_part(store, name).read().replace_schema_metadata(None).cast(TRAJECTORIES)
        tables.append(rows.add_column(0, "path", pa.repeat(pa.scalar(f"p{key}"), rows.num_rows)))
    keys = ("path", "n", "step", "replicate")
    table = pa.concat_tables(tables).sort_by([(name, "ascending") for name in keys])
    table = table.combine_chunks()
    fresh = np.zeros(table.num_rows, dtype=bool)
    fresh[:1] = True
    for name in keys:
        codes = table[name].combine_chunks().dictionary_encode().indices.to_numpy()
        fresh[1:] |= codes[1:] != codes[:-1]
    return table.filter(pa.array(fresh))


def summarise(rows: pa.Table) -> pa.Table:
    """Mean, its MCSE, and quantiles over the replicates that did not diverge.

    Returns
    -------
    pyarrow.Table
        One row per path, n, step and stat (those that the path has, and MEANS): replicates, failures,
        mean, mcse, q05, q50, q95 (Hyndman and Fan type 7), max. Null where nothing is left;
        sums are exactly rounded.
    """
    found = []
    paths = np.asarray(rows["path"].to_pylist(), dtype=object)
    n = rows["n"].to_numpy()
    step = rows["step"].to_numpy()
    ok = np.asarray(rows["status"].to_pylist(), dtype=object) == "ok"
    values = {name: rows[name].cast(pa.float64()).to_numpy() for name in STATISTICS}
    known = {name: rows[name].is_valid().to_numpy() for name in STATISTICS}
    change = np.ones(len(n), dtype=bool)
    change[1:] = (n[1:] != n[:-1]) | (step[1:] != step[:-1]) | (paths[1:] != paths[:-1])
    edges = [*np.flatnonzero(change), len(n)]
    for first, last in pairwise(edges):
        good = ok[first:last]
        for stat in STATISTICS:
            if not known[stat][first:last].any():
                continue
            x = values[stat][first:last][good]
            row: dict[str, Any] = {"path": paths[first], "n": int(n[first]), "step": int(step[first])}
            row |= {"stat": stat, "replicates": int(last - first), "failures": int((~good).sum())}
            found.append(row | moments(x))
    found += means_along(paths, n, step, rows["replicate"].to_numpy(), ok, values, known)
    found.sort(key=lambda row: (row["path"], row["n"], row["step"]))
    return pa.Table.from_pylist(found, schema=SUMMARY)


def moments(x: np.ndarray) -> dict[str, float]:
    """Mean, MCSE and quantiles of values over replicates; nothing where there are none."""
    if not len(x) or not np.isfinite(x).all():
        return {}
    mean = math.fsum(x.tolist()) / len(x)
    row = {"mean": mean}
    if len(x) > 1:
        variance = math.fsum(((x - mean) ** 2).tolist()) / (len(x) - 1)
        row["mcse"] = math.sqrt(variance / len(x))
    low, middle, high = np.quantile(x, [0.05, 0.5, 0.95]).tolist()
    return row | {"q05": low, "q50": middle, "q95": high, "max": float(x.max())}


def means_along(
    paths: np.ndarray, n: np.ndarray, step: np.ndarray, replicate: np.ndarray, ok: np.ndarray,
    values: dict[str, np.ndarray], known: dict[str, np.ndarray],
) -> list[dict[str, Any]]:
    """Rows of :data:`MEANS`, for every path and n with several steps; sorted input."""
    found = []
    change = np.ones(len(n), dtype=bool)
    change[1:] = (n[1:] != n[:-1]) | (paths[1:] != paths[:-1])
    for first, last in pairwise([*np.flatnonzero(change), len(n)]):
        end = step[last - 1]
        inside = np.arange(first, last)[step[first:last] < end]
        for name, stat in MEANS.items():
            if not len(inside) or not known[stat][inside].all():
                continue
            who, at = np.unique(replicate[inside], return_inverse=True)
            counts = np.bincount(at)
            means = np.bincount(at, weights=values[stat][inside]) / counts
            good = np.bincount(at, weights=ok[inside]) == counts
            row: dict[str, Any] = {"path": paths[first], "n": int(n[first]), "step": int(end)}
            row |= {"stat": name, "replicates": len(who), "failures": int((~good).sum())}
            found.append(row | moments(means[good]))
    return found


SUMMARY = pa.schema(
    [
        ("path", pa.string()),
        ("n", pa.int64()),
        ("step", pa.int64()),
        ("stat", pa.string()),
        ("replicates", pa.int64()),
        ("failures", pa.int64()),
        *((name, pa.float64()) for name in ("mean", "mcse", "q05", "q50", "q95", "max")),
    ]
)
"""Schema of what :func:`summarise` returns."""


def read_summary(store: RunStore) -> pa.Table | None:
    """trajectories.parquet, or None where there is none."""
    data = store.read("trajectories.parquet")
    return None if data is None else pq.read_table(pa.BufferReader(data))


def write_summary(store: RunStore, table: pa.Table) -> None:
    """Write trajectories.parquet."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    store.publish("trajectories.parquet", sink.getvalue())
