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
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from ldpflow.errors import InputError
from ldpflow.store.parallel import in_parallel
from ldpflow.store.part import METADATA_KEY, PARSE_ERRORS, PartMeta, UnreadablePart
from ldpflow.store.ranges import Ranges, union
from ldpflow.store.run_store import RunStore

__all__ = [
    "MEANINGS",
    "MEANS",
    "STATISTICS",
    "TRAJECTORIES",
    "TrajectoryPart",
    "finished",
    "names",
    "publish",
    "read",
    "read_summary",
    "scan",
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

WITH_PATH = TRAJECTORIES.insert(0, pa.field("path", pa.string()))

MEANS = {"mean_gradient_norm": "gradient_norm", "mean_noise_norm": "noise_norm"}
"""Means along the path, by what they are the mean of: over a replicate's checkpoints but the last, which
lie in the middles of equal parts of its steps. In summaries only, at the last step of many epochs."""

MEANINGS = STATISTICS | {
    name: f"mean of {stat} along a path, over its checkpoints but the last" for name, stat in MEANS.items()
}
"""Everything that a summary may hold."""

VERSION = 2
FOLDER = "trajectories"
NAME = re.compile(r"trajectories/path=p([0-9a-f]{16})/part-(\d+)-(\d+)-([0-9a-f]{12})\.parquet")


def checkpoint_hash(users: Sequence[int]) -> str:
    """First 12 hex digits of SHA-256 over the checkpoints."""
    return hashlib.sha256(json.dumps([int(n) for n in users]).encode()).hexdigest()[:12]


def publish(
    store: RunStore,
    key: str,
    first: int,
    last: int,
    users: Sequence[int],
    rows: pa.Table,
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


@dataclass(frozen=True)
class TrajectoryPart:
    """A part as its name and footer describe it; ``last`` is exclusive, ``meta`` the whole metadata."""

    name: str
    path_key: str
    first: int
    last: int
    meta: dict[str, Any]


def names(store: RunStore, key: str | None = None) -> list[str]:
    """Names of all files among the parts, of one path or of all."""
    folder = FOLDER if key is None else f"{FOLDER}/path=p{key}"
    selector = fs.FileSelector(store.full(folder), allow_not_found=True, recursive=True)
    infos = store.filesystem.get_file_info(selector)
    return sorted(i.path.removeprefix(store.base + "/") for i in infos if i.type == fs.FileType.File)


def scan(store: RunStore, key: str | None = None) -> tuple[list[TrajectoryPart], list[UnreadablePart]]:
    """Parts of one path or of all, sorted by name, and the files that cannot be used."""
    found = [part for part, _ in loaded(store, key, rows=False)]
    good = [part for part in found if isinstance(part, TrajectoryPart)]
    return good, [part for part in found if isinstance(part, UnreadablePart)]


def loaded(store: RunStore, key: str | None, rows: bool) -> list[tuple[TrajectoryPart | UnreadablePart, Any]]:
    """Every file as a part, or as what is wrong with it; with ``rows`` its rows, checksums verified."""

    def load(name: str) -> tuple[TrajectoryPart | UnreadablePart, Any]:
        data = store.read(name)
        if data is None:
            return UnreadablePart(name, "removed while it was being read"), None
        try:
            file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
            part = described(name, file)
            if isinstance(part, UnreadablePart) or not rows:
                return part, None
            return part, conformed(file.read(), part)
        except PARSE_ERRORS as error:
            return UnreadablePart(name, f"not a part of trajectories: {error or type(error).__name__}"), None

    return in_parallel(load, names(store, key))


def described(name: str, file: pq.ParquetFile) -> TrajectoryPart | UnreadablePart:
    """The part, or what in its name, metadata and columns does not fit together."""
    match = NAME.fullmatch(name)
    meta = json.loads(file.metadata.metadata[METADATA_KEY])
    if int(meta["trajectory_version"]) > VERSION:
        raise InputError(
            name,
            f"trajectory_version {meta['trajectory_version']}",
            f"at most {VERSION}",
            "Update ldpflow to read it.",
        )
    if match is None or match[4] != checkpoint_hash(meta["checkpoints"]):
        return UnreadablePart(name, "its name does not follow from its content")
    key, first, last = match[1], int(match[2]), int(match[3])
    if meta["path"] != key:
        return UnreadablePart(name, f"belongs to path {meta['path']}")
    if file.metadata.num_rows != (last - first) * len(meta["checkpoints"]):
        return UnreadablePart(name, f"{file.metadata.num_rows} rows do not make it complete")
    for field in file.schema_arrow:
        at = TRAJECTORIES.get_field_index(field.name)
        if at < 0 or field.type != TRAJECTORIES.field(at).type:
            return UnreadablePart(name, f"column {field.name} ({field.type}) is not in the schema")
    return TrajectoryPart(name, key, first, last, meta)


def conformed(rows: pa.Table, part: TrajectoryPart) -> pa.Table:
    """The rows under the column ``path`` and TRAJECTORIES; a statistic that they lack is null."""
    count = rows.num_rows
    columns = [rows[f.name] if f.name in rows.column_names else pa.nulls(count, f.type) for f in TRAJECTORIES]
    replicates = np.unique(rows["replicate"].to_numpy())
    if not np.array_equal(replicates, np.arange(part.first, part.last)):
        raise ValueError("its replicates are not those that its name says")
    path = pa.repeat(pa.scalar(f"p{part.path_key}"), count)
    return pa.Table.from_arrays([path, *columns], schema=WITH_PATH)


def finished(store: RunStore, key: str, users: Sequence[int]) -> Ranges:
    """Replicates whose trajectories at these checkpoints are stored; unusable parts count as absent."""
    parts, unusable = scan(store, key)
    for bad in unusable:
        warnings.warn(f"{store.full(bad.name)} counts as missing: {bad.reason}", stacklevel=2)
    wanted = [int(n) for n in users]
    return union((part.first, part.last) for part in parts if part.meta["checkpoints"] == wanted)


def trajectory_settings(store: RunStore) -> dict[str, dict[str, Any]]:
    """What the parts say of their origin (seed, path_settings, ...), by path key."""
    return {part.path_key: part.meta for part in scan(store)[0]}


def read(
    store: RunStore, skip_unreadable: bool = False, left_out: list[UnreadablePart] | None = None
) -> pa.Table:
    """All rows, each once: a column ``path`` (``p<key>``), then TRAJECTORIES; sorted.

    Parameters
    ----------
    store : RunStore
    skip_unreadable : bool
        Leave parts that cannot be used out instead of raising.
    left_out : list, optional
        The parts left out are appended.

    Raises
    ------
    InputError
        If a part cannot be used, or a row is stored twice with different values.
    """
    found = loaded(store, None, rows=True)
    unusable = [part for part, _ in found if isinstance(part, UnreadablePart)]
    if unusable and not skip_unreadable:
        raise InputError(
            store.full(unusable[0].name),
            unusable[0].reason,
            "a readable part",
            "Remove this file and run the sweep again, or repair it: ldpflow check --repair.",
        )
    if left_out is not None:
        left_out += unusable
    tables = [rows for part, rows in found if isinstance(part, TrajectoryPart)]
    keys = ("path", "n", "step", "replicate")
    table = pa.concat_tables([WITH_PATH.empty_table(), *tables])
    table = table.sort_by([(name, "ascending") for name in keys]).combine_chunks()
    fresh = np.zeros(table.num_rows, dtype=bool)
    fresh[:1] = True
    for name in keys:
        codes = table[name].combine_chunks().dictionary_encode().indices.to_numpy()
        fresh[1:] |= codes[1:] != codes[:-1]
    again = np.flatnonzero(~fresh)
    for name in STATISTICS:
        values = table[name].to_numpy()
        if not np.array_equal(values[again], values[again - 1], equal_nan=True):
            raise InputError(
                f"{store.root}/{FOLDER}",
                f"two values of {name} for one replicate and checkpoint",
                "each row once, or twice alike",
                "Remove the part that is not of this study.",
            )
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
            row: dict[str, Any] = {
                "path": paths[first],
                "n": int(n[first]),
                "step": int(step[first]),
            }
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
    paths: np.ndarray,
    n: np.ndarray,
    step: np.ndarray,
    replicate: np.ndarray,
    ok: np.ndarray,
    values: dict[str, np.ndarray],
    known: dict[str, np.ndarray],
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
