"""A part: a Parquet file with the rows of a range of replicates of one path for a set of cells.

A part is complete: each replicate of the range has each cell of the set. So the range and the set say which
rows a part has, and the footer contains both. The name ``part-<first>-<last>-<cell set hash>.parquet``
(``last`` exclusive) follows from the content.

Parquet's own checksums cover pages, and not page headers or the footer. So a seal stands before the footer,
where Parquet allows any bytes. The seal has two SHA-256 sums. The first sum is over all bytes before the
seal. The second sum is over the first sum and the footer. A scan of parts verifies the second sum, and a
reader of rows verifies both. Parts have no statistics of columns, because forged statistics would make other
programs skip rows.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ldpflow.documents import parse_json
from ldpflow.errors import InputError
from ldpflow.settings import canonical_json
from ldpflow.store.files import LARGEST
from ldpflow.store.schema import Kind, cell_columns, cell_id, conform, declared_columns

MAGIC = b"PAR1"
DIGITS = 64
SEAL = 2 * DIGITS
"""Number of hexadecimal digits of both sums."""

LARGEST_FOOTER = 2**24


def encode(table: pa.Table, compression_level: int | None = None) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        compression="zstd",
        compression_level=compression_level,
        write_page_checksum=True,
        write_statistics=False,
    )
    data = memoryview(sink.getvalue())
    start = len(data) - (sealed_length(data) - SEAL)
    body = digest(data[:start])
    return pa.py_buffer(b"".join((data[:start], body, digest(body, data[start:]), data[start:])))


def digest(*pieces: memoryview | bytes) -> bytes:
    total = hashlib.sha256()
    for piece in pieces:
        total.update(piece)
    return total.hexdigest().encode()


def sealed_length(tail: memoryview | bytes) -> int:
    """Number of bytes of a file from its seal on, as its last bytes say."""
    return SEAL + int.from_bytes(tail[-8:-4], "little") + 8


def read_footer(tail: memoryview | bytes, size: int) -> tuple[bytes, pq.FileMetaData]:
    """Verify the footer of a file of ``size`` bytes. Returns the first sum of the seal, and the metadata."""
    length = sealed_length(tail)
    if bytes(tail[-4:]) != MAGIC or length + len(MAGIC) > size:
        raise ValueError("not a whole Parquet file (truncated or overwritten)")
    if size > LARGEST or length > LARGEST_FOOTER:
        raise ValueError(f"{size:,} bytes, or {length:,} of its footer, are more than a sweep writes")
    sealed = bytes(tail[-length:])
    body, own, footer = sealed[:DIGITS], sealed[DIGITS:SEAL], sealed[SEAL:]
    if digest(body, footer) != own:
        authors = "another program or a version before 0.3"
        raise ValueError(f"the checksum of its footer does not hold: it was damaged, or {authors} wrote it")
    # A file in memory with the footer alone.
    found = pq.read_metadata(pa.BufferReader(MAGIC + footer))
    for group in range(found.num_row_groups):
        rows = found.row_group(group)
        if any(rows.column(at).is_stats_set for at in range(rows.num_columns)):
            raise ValueError("it has statistics, which no sweep writes")
    return body, found


def open_sealed(data: pa.Buffer) -> pq.ParquetFile:
    view = memoryview(data)
    body, _ = read_footer(view, len(view))
    if digest(view[: -sealed_length(view)]) != body:
        raise ValueError("its checksum does not hold")
    return pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)


METADATA_KEY = b"ldpflow"
NAME = re.compile(r"part-(\d+)-(\d+)-([0-9a-f]{12})\.parquet")

MOST_ROWS = 2**24
"""Maximum rows of a part."""

PARSE_ERRORS = (pa.ArrowException, OSError, ValueError, KeyError, TypeError, AttributeError)
"""Errors of pyarrow and json for bytes that are no part."""


@dataclass(frozen=True)
class PartMeta:
    """Origin of a part's rows, stored in its footer."""

    seed: int
    stream_version: int
    path_settings: Mapping[str, Any]
    versions: Mapping[str, str]
    """Versions of packages and digests of plug-ins, by name."""
    described: Mapping[str, Any] | None = None
    """Description of a path with a plug-in or a data file (ldpflow.simulators.families.description)."""
    runs: Mapping[str, int] = field(default_factory=dict)
    """Replicates per row by cell id, for cells with more than one."""


@dataclass(frozen=True)
class Part:
    """Stored part, as its footer describes it.

    ``name`` is relative to the run directory, ``last`` is exclusive. Each replicate has ``rows_per_cell``
    rows of each cell. ``meta`` has all metadata of the footer, ``schema`` is that of the rows.
    """

    kind: Kind
    name: str
    path_key: str
    first: int
    last: int
    cells: tuple[dict[str, Any], ...]
    rows_per_cell: int
    meta: dict[str, Any]
    schema: pa.Schema

    @property
    def num_rows(self) -> int:
        return (self.last - self.first) * len(self.cells) * self.rows_per_cell

    @property
    def runs(self) -> dict[str, int]:
        """Replicates per row by cell id. Empty if they are 1 for all cells."""
        counts = self.meta.get("runs", ())
        return {cell_id(cell): count for cell, count in zip(self.cells, counts, strict=False)}

    def origin(self) -> PartMeta:
        stored: dict[str, Any] = {own.name: self.meta.get(own.name) for own in fields(PartMeta)}
        return PartMeta(**stored | {"runs": self.runs})


@dataclass(frozen=True)
class UnreadablePart:
    name: str
    reason: str


@dataclass(frozen=True)
class CompleteRows:
    """Sorted rows with all columns, and the range and cells for which they are complete."""

    kind: Kind
    table: pa.Table
    first: int
    last: int
    cells: tuple[dict[str, Any], ...]
    rows_per_cell: int

    @property
    def name(self) -> str:
        return f"part-{self.first}-{self.last}-{self.kind.hash_of(self.cells)}.parquet"


def cell_ids(cells: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    return frozenset(map(cell_id, cells))


def arrange(kind: Kind, rows: pa.Table, cells: Sequence[Mapping[str, Any]] | None = None) -> CompleteRows:
    """Sort rows and check that they are complete. ``cells`` is None unless the rows are of trajectories."""
    rows = conform(rows, kind.schema([rows.schema]))
    keys = [(name, "ascending") for name in kind.row_keys(rows.schema)]
    return check_complete(kind, rows.sort_by(keys).combine_chunks(), cells)


def check_complete(
    kind: Kind, table: pa.Table, cells: Sequence[Mapping[str, Any]] | None = None
) -> CompleteRows:
    """Check that sorted rows have each replicate, cell and coordinate once."""
    if table.num_rows == 0:
        raise ValueError("a part needs at least one row")
    for name in kind.required:
        if table[name].null_count:
            raise ValueError(f"column {name} must not be null")
    replicates = table["replicate"].to_numpy()
    first, last = int(replicates[0]), int(replicates[-1]) + 1
    per_replicate, left = divmod(table.num_rows, max(last - first, 1))
    found = None
    if left == 0 and np.all(replicates.reshape(-1, per_replicate) == np.arange(first, last)[:, None]):
        found = kind.cells_in(table, per_replicate, cells)
    if found is None:
        raise ValueError(
            f"rows of replicates {first} to {last} (exclusive) lack or repeat a cell or coordinate"
        )
    known = tuple(map(cell_columns, found))
    if len(cell_ids(known)) != len(known):
        raise ValueError("a cell comes twice")
    return CompleteRows(kind, table, first, last, known, per_replicate // len(known))


def serialise(rows: CompleteRows, path_key: str, meta: PartMeta) -> pa.Buffer:
    """Encode a part. Equal rows and metadata give equal bytes."""
    runs = [meta.runs.get(cell_id(cell), 1) for cell in rows.cells] if meta.runs else []
    footer = {
        rows.kind.version_name: rows.kind.version,
        "stream_version": meta.stream_version,
        "seed": meta.seed,
        "path": path_key,
        "path_settings": dict(meta.path_settings),
        "versions": dict(meta.versions),
        **({} if meta.described is None else {"described": dict(meta.described)}),
        **({"runs": runs} if any(count > 1 for count in runs) else {}),
        **rows.kind.footer_of(rows.first, rows.last, rows.cells, rows.rows_per_cell),
    }
    table = rows.table.replace_schema_metadata({METADATA_KEY: canonical_json(footer)})
    return encode(table, rows.kind.compression_level)


def parse_footer(kind: Kind, tail: bytes, size: int, name: str, path_key: str) -> Part | UnreadablePart:
    """Parse the footer of a part from the last bytes of its file. Refuses parts of newer versions."""
    try:
        _, parsed = read_footer(tail, size)
        meta = parse_json(parsed.metadata[METADATA_KEY], LARGEST_FOOTER)
        version = int(meta[kind.version_name])
        if version <= kind.version:
            return check_part(kind, name, path_key, meta, parsed)
    except PARSE_ERRORS as error:
        return UnreadablePart(name, f"not a part of ldpflow: {error or type(error).__name__}")
    found = f"{kind.version_name} {version}"
    raise InputError(name, found, f"at most {kind.version}", "Update ldpflow to read it.")


def check_part(kind: Kind, name: str, path_key: str, meta: dict[str, Any], parsed: pq.FileMetaData) -> Part:
    if meta["path"] != path_key:
        raise ValueError(f"it belongs to path {meta['path']}")
    named, rows_per_cell = kind.named(meta)
    cells = parse_cells(json.dumps(named))
    match = NAME.fullmatch(name.rsplit("/", 1)[-1])
    first, last, cell_set = (int(match[1]), int(match[2]), match[3]) if match else (0, 0, "")
    if (meta.get("first", first), meta.get("last", last), kind.hash_of(cells)) != (first, last, cell_set):
        raise ValueError("its name does not follow from its content")
    runs = meta.get("runs", [1] * len(cells))
    if len(runs) != len(cells) or not all(isinstance(count, int) and count > 0 for count in runs):
        raise ValueError("it lacks the numbers of replicates per row")
    found = parsed.schema.to_arrow_schema()
    known = declared_columns(found, kind.frozen)
    schema = kind.schema([found])
    for column in found:
        if column.name not in known or column.type != schema.field(column.name).type:
            raise ValueError(f"column {column.name} ({column.type}) is not in the schema")
    part = Part(kind, name, path_key, first, last, cells, rows_per_cell, meta, schema)
    if not (0 < rows_per_cell and 0 < parsed.num_rows == part.num_rows <= MOST_ROWS):
        raise ValueError(f"{parsed.num_rows} rows do not make it complete")
    return part


@lru_cache(maxsize=64)
def parse_cells(text: str) -> tuple[dict[str, Any], ...]:
    """Parse the cells of a footer. Cached, since many parts have equal cells."""
    return tuple(cell_columns(cell) for cell in json.loads(text))


def parse_rows(
    data: pa.Buffer | UnreadablePart, part: Part, columns: Sequence[str] | None = None
) -> pa.Table | UnreadablePart:
    """Verify checksums and parse the rows of a part.

    Without ``columns`` all columns are read, and the rows are compared with the footer.
    """
    if isinstance(data, UnreadablePart):
        return data
    try:
        file = open_sealed(data)
        schema = part.schema
        if columns is not None:
            schema = pa.schema([schema.field(name) for name in columns if name in schema.names])
        table = conform(file.read(columns=schema.names), schema)
        if columns is None:
            found = check_complete(part.kind, table, part.cells)
            if (found.first, found.last, found.cells) != (part.first, part.last, part.cells):
                raise ValueError("they differ from the footer")
        return table
    except PARSE_ERRORS as error:
        return UnreadablePart(part.name, f"its rows cannot be used: {error or type(error).__name__}")


Ranges = list[tuple[int, int]]


def union(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Union of non-empty ranges, as sorted disjoint ranges."""
    merged: Ranges = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged


def intersect(ranges: Ranges, first: int, last: int) -> Ranges:
    """Intersection of sorted disjoint ranges with [first, last)."""
    return [(max(a, first), min(b, last)) for a, b in ranges if a < last and first < b]


def subtract(first: int, last: int, ranges: Ranges) -> Ranges:
    """Difference of [first, last) and sorted disjoint ranges."""
    left: Ranges = []
    for a, b in intersect(ranges, first, last):
        if first < a:
            left.append((first, a))
        first = b
    if first < last:
        left.append((first, last))
    return left
