"""A part: the rows of a range of replicates of one path for a set of cells, as a Parquet file.

A part is complete: every replicate of its range has every cell and coordinate of its set. So its
footer alone says what is finished, and its name ``part-<first>-<last>-<cell set hash>.parquet``
(``last`` exclusive) follows from its content.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ldpflow.errors import InputError
from ldpflow.settings import canonical_json
from ldpflow.store.schema import (
    SCHEMA_VERSION,
    cell_columns,
    cell_id,
    cell_keys,
    cell_set_hash,
    columns_of,
    conform,
    further_columns,
    key_codes,
    replicates_schema,
    row_keys,
)

__all__ = [
    "CompleteRows",
    "Part",
    "PartMeta",
    "UnreadablePart",
    "arrange",
    "complete",
    "parse_footer",
    "parse_rows",
    "serialise",
]

METADATA_KEY = b"ldpflow"
MAGIC = b"PAR1"
NAME = re.compile(r"part-(\d+)-(\d+)-([0-9a-f]{12})\.parquet")

PARSE_ERRORS = (pa.ArrowException, OSError, ValueError, KeyError, TypeError, AttributeError)
"""What pyarrow and json raise on bytes that are not a part (I/O is done before parsing)."""


@dataclass(frozen=True)
class PartMeta:
    """What a part says about its origin, beside its rows.

    Parameters
    ----------
    seed : int
        The study's seed.
    stream_version : int
        Version of the random streams.
    path_settings : mapping
        What the path key is made of.
    versions : mapping of str to str
        Package versions.
    """

    seed: int
    stream_version: int
    path_settings: Mapping[str, Any]
    versions: Mapping[str, str]


@dataclass(frozen=True)
class Part:
    """A stored part as its footer describes it.

    ``name`` is relative to the run directory, ``last`` exclusive; ``cells`` are key columns
    without nulls; ``coordinates`` is d; ``meta`` is the whole metadata, ``schema`` that of the rows.
    """

    name: str
    path_key: str
    first: int
    last: int
    cells: tuple[dict[str, Any], ...]
    coordinates: int
    meta: dict[str, Any]
    schema: pa.Schema


@dataclass(frozen=True)
class UnreadablePart:
    """A file among the parts that cannot be used, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class CompleteRows:
    """Rows in the full schema, sorted by their keys, and what they are complete for."""

    table: pa.Table
    first: int
    last: int
    cells: tuple[dict[str, Any], ...]
    coordinates: int

    @property
    def name(self) -> str:
        """File name of a part with these rows."""
        return f"part-{self.first}-{self.last}-{cell_set_hash(self.cells)}.parquet"

    def without(self, cells: Sequence[Mapping[str, Any]]) -> CompleteRows:
        """The rows of the other cells."""
        left = {cell_id(cell) for cell in cells}
        kept = tuple(cell for cell in self.cells if cell_id(cell) not in left)
        mask = [cell in kept for cell in self.cells for _ in range(self.coordinates)]
        mask *= self.last - self.first
        return replace(self, table=self.table.filter(pa.array(mask)).combine_chunks(), cells=kept)

    @classmethod
    def joined(cls, pieces: Sequence[CompleteRows]) -> CompleteRows:
        """Rows of the same cells whose replicates follow each other (not checked), as one."""
        table = pa.concat_tables([piece.table for piece in pieces]).combine_chunks()
        return replace(pieces[0], table=table, last=pieces[-1].last)


def arrange(rows: pa.Table) -> CompleteRows:
    """Sort the rows and check that they are complete.

    Raises
    ------
    ValueError
        Unless the rows are the full product of a range of replicates, cells and coordinates
        0..d-1, each once.
    """
    rows = conform(rows, replicates_schema(further_columns(rows.schema)))
    keys = [(name, "ascending") for name in row_keys(rows.schema)]
    return complete(rows.sort_by(keys).combine_chunks())


def complete(table: pa.Table) -> CompleteRows:
    """:func:`arrange` of rows that are sorted by replicate, and alike in every one, already.

    Raises
    ------
    ValueError
        If they are not, or not complete.
    """
    if table.num_rows == 0:
        raise ValueError("a part needs at least one row")
    for name in ("replicate", "n", "method", "level", "coordinate", "status"):
        if table[name].null_count:
            raise ValueError(f"column {name} must not be null")
    replicates = table["replicate"].to_numpy()
    first, last = int(replicates[0]), int(replicates[-1]) + 1
    keys = cell_keys(table.schema)
    per_replicate, left = divmod(table.num_rows, max(last - first, 1))
    coordinates = int(np.max(table["coordinate"].to_numpy())) + 1
    product = left == 0 and per_replicate % coordinates == 0
    if product:
        shape = (-1, per_replicate)
        product = bool(np.all(replicates.reshape(shape) == np.arange(first, last)[:, None]))
        codes = (key_codes(table[name]).reshape(shape) for name in keys)
        product = product and all(bool(np.all(code == code[0])) for code in codes)
        tiles = table["coordinate"].to_numpy().reshape(-1, coordinates)
        product = product and bool(np.all(tiles == np.arange(coordinates)))
    if not product:
        raise ValueError(
            f"rows of replicates {first} to {last} (exclusive) are not every cell and coordinate exactly once"
        )
    heads = table.slice(0, per_replicate).select(keys).to_pylist()
    cells = tuple(cell_columns(cell) for cell in heads[::coordinates])
    if len({cell_id(cell) for cell in cells}) != len(cells):
        raise ValueError("a cell comes twice")
    return CompleteRows(table, first, last, cells, coordinates)


def serialise(rows: CompleteRows, path_key: str, meta: PartMeta) -> pa.Buffer:
    """The bytes of a part; equal rows and metadata give equal bytes."""
    footer = {
        "schema_version": SCHEMA_VERSION,
        "stream_version": meta.stream_version,
        "seed": meta.seed,
        "path": path_key,
        "path_settings": dict(meta.path_settings),
        "versions": dict(meta.versions),
        "first": rows.first,
        "last": rows.last,
        "cells": list(rows.cells),
        "coordinates": rows.coordinates,
    }
    table = rows.table.replace_schema_metadata({METADATA_KEY: canonical_json(footer).encode()})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", compression_level=3, write_page_checksum=True)
    return sink.getvalue()


def parse_footer(tail: bytes, size: int, name: str, path_key: str) -> Part | UnreadablePart | int:
    """Read the footer of a part.

    Parameters
    ----------
    tail : bytes
        The last bytes of the file.
    size : int
        Bytes of the whole file.
    name : str
        Relative to the run directory.
    path_key : str
        What the folder of the part says.

    Returns
    -------
    Part, UnreadablePart, or int
        An int is the number of last bytes that are needed, where more than the given.

    Raises
    ------
    InputError
        If a newer version of ldpflow wrote the part.
    """
    if size < 12 or tail[-4:] != MAGIC:
        return UnreadablePart(name, "not a whole Parquet file (truncated or overwritten)")
    needed = int.from_bytes(tail[-8:-4], "little") + 8
    if needed + len(MAGIC) > size:
        return UnreadablePart(name, "the Parquet footer is longer than the file")
    if needed > len(tail):
        return needed
    try:
        # The footer alone, framed as a file, so that parsing does no I/O of its own.
        parsed = pq.read_metadata(pa.BufferReader(MAGIC + tail[-needed:]))
        meta = json.loads(parsed.metadata[METADATA_KEY])
        version = int(meta["schema_version"])
        if version <= SCHEMA_VERSION:
            return checked_part(name, path_key, meta, parsed)
    except PARSE_ERRORS as error:
        return UnreadablePart(name, f"not a part of ldpflow: {error or type(error).__name__}")
    raise InputError(
        name, f"schema_version {version}", f"at most {SCHEMA_VERSION}", "Update ldpflow to read it."
    )


def checked_part(
    name: str, path_key: str, meta: dict[str, Any], parsed: pq.FileMetaData
) -> Part | UnreadablePart:
    """The part, or what in its name, place, metadata and columns does not fit together."""
    cells = known_cells(json.dumps(meta["cells"]))
    schema = parsed.schema.to_arrow_schema()
    known = columns_of(schema)
    part = Part(
        name,
        path_key,
        int(meta["first"]),
        int(meta["last"]),
        cells,
        int(meta["coordinates"]),
        meta | {"cells": cells},
        replicates_schema(further_columns(schema)),
    )
    if meta["path"] != path_key:
        return UnreadablePart(name, f"belongs to path {meta['path']}")
    match = NAME.fullmatch(name.rsplit("/", 1)[-1])
    content = (str(part.first), str(part.last), cell_set_hash(part.cells))
    if match is None or match.groups() != content:
        return UnreadablePart(name, "its name does not follow from its content")
    if parsed.num_rows != (part.last - part.first) * len(part.cells) * part.coordinates:
        return UnreadablePart(name, f"{parsed.num_rows} rows do not make it complete")
    for field in schema:
        if field.name not in known or field.type != part.schema.field(field.name).type:
            return UnreadablePart(name, f"column {field.name} ({field.type}) is not in the schema")
    return part


@lru_cache(maxsize=64)
def known_cells(text: str) -> tuple[dict[str, Any], ...]:
    """The cells of a footer: once in memory for all parts that have the same."""
    return tuple(cell_columns(cell) for cell in json.loads(text))


def parse_rows(
    data: pa.Buffer, part: Part, columns: Sequence[str] | None = None
) -> pa.Table | UnreadablePart:
    """Rows of a part, page checksums verified: in the full schema, or some of its columns."""
    try:
        file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        schema = part.schema
        if columns is not None:
            schema = pa.schema([schema.field(name) for name in columns if name in schema.names])
        return conform(file.read(columns=schema.names), schema)
    except PARSE_ERRORS as error:
        return UnreadablePart(part.name, str(error))
