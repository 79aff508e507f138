"""The run directory, on a local disk or an object store, and the aggregator that publishes its rows.

::

    RUN/study.toml, provenance.json
    RUN/summary.parquet, trajectories.parquet, paths.parquet
    RUN/replicates/, trajectories/   parts of rows, see ldpflow.store.dataset
    RUN/tmp/        unfinished files (local disk only)
    RUN/set_aside/  unusable parts
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import fs

from ldpflow.documents import LARGEST, append_checksum, decode_text, verify_checksum
from ldpflow.errors import DamagedRun, InputError
from ldpflow.store.dataset import Dataset, merge_rows, replicates_by_cell
from ldpflow.store.files import OBJECT_STORES, RunFiles
from ldpflow.store.part import (
    MOST_ROWS,
    PARSE_ERRORS,
    CompleteRows,
    Part,
    PartMeta,
    Ranges,
    UnreadablePart,
    arrange,
    encode,
    open_sealed,
    subtract,
    union,
)
from ldpflow.store.provenance import read_sessions
from ldpflow.store.schema import (
    MEANS,
    REPLICATE_ROWS,
    STATISTICS,
    TRAJECTORY_ROWS,
    Kind,
    cell_id,
    cell_keys,
    cell_set_hash,
)

RESOLVED = "# Resolved study, hash "
"""First words of a study.toml that a sweep has written."""

ORIGIN = b"ldpflow"
"""Key in the metadata of a summary, for the study and the session that made the summary."""

Promised = tuple[int | None, Mapping[str, Mapping[tuple[str, str], int]]]
"""Seed of a run, and for each kind of rows the number of replicates by (path key, cell id) in the summary."""

Expected = Mapping[Callable[[pa.DataType], bool], Sequence[str]]
"""Names of columns of a summary, by a test of their type."""

SUMMARY_COLUMNS: Expected = {
    pa.types.is_string: ("path", "method"),
    pa.types.is_integer: ("n", "coordinate", "replicates", "failures"),
    pa.types.is_floating: (
        "level", "truth", "coverage", "coverage_mcse", "coverage_failures_as_misses", "length_mean",
        "length_mcse", "bias", "bias_mcse", "empirical_se",
    ),
}  # fmt: skip

TRAJECTORY_COLUMNS: Expected = {
    pa.types.is_string: ("path", "stat"),
    pa.types.is_integer: ("n", "step", "replicates"),
    pa.types.is_floating: ("mean", "mcse"),
}


class RunStore(RunFiles):
    """A run directory: its files, and its rows in the datasets ``replicates`` and ``trajectories``."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        super().__init__(root)
        self.replicates = Dataset(self, REPLICATE_ROWS)
        self.trajectories = Dataset(self, TRAJECTORY_ROWS)
        self._promised: tuple[object, Promised] | None = None

    def datasets(self) -> tuple[Dataset, Dataset]:
        return self.replicates, self.trajectories

    def read_study(self) -> str | None:
        """Read study.toml and verify its checksum. None for a new run."""
        data = self.read("study.toml", LARGEST)
        if data is None:
            return None
        place = self.full("study.toml")
        return verify_checksum(decode_text(data.to_pybytes(), "run", place, "a study.toml"), place)

    def write_study(self, text: str) -> None:
        self.publish("study.toml", append_checksum(text).encode())

    def read_table(self, name: str, expected: Expected, *datasets: Dataset) -> pa.Table | None:
        """Read and verify a summary of the run. None if it is absent.

        If ``datasets`` have rows, a path without rows in them is refused.
        """
        sessions = read_sessions(self)
        data = self.read(name)
        if data is None:
            return None
        again = "ldpflow check with `repair`, or the sweep once more, writes it again from the rows."
        try:
            file = open_sealed(data)
            if file.metadata.num_rows > MOST_ROWS:
                raise ValueError(f"{file.metadata.num_rows:,} rows")
            table = file.read()
            origin = json.loads((table.schema.metadata or {})[ORIGIN])
            self.check_origin(sessions, origin["study"], origin["session"])
            for fits, columns in expected.items():
                for found in map(table.schema.field, columns):
                    if not (fits(found.type) or pa.types.is_null(found.type)):
                        raise ValueError(f"column {found.name}: {found.type}")
        except PARSE_ERRORS as error:
            allowed = "a Parquet file as a sweep writes it"
            raise DamagedRun(self.full(name), str(error), allowed, again) from None
        stored = {f"p{key}" for dataset in datasets for key in dataset.path_keys()}
        if stored and (unknown := sorted({*table["path"].unique().to_pylist()} - stored, key=str)):
            raise DamagedRun(self.full(name), f"path {unknown[0]}", "paths that have rows", again)
        return table.replace_schema_metadata()

    def check_origin(
        self, sessions: Sequence[Mapping[str, Any]], study: str | None, session: str | None
    ) -> None:
        """Raise ValueError for a summary of another study or session, or one older than an ended session."""
        text = self.read_study()
        own = [entry.get("session") for entry in sessions]
        alone = not sessions and text is None and not self.replicates.path_keys()
        if session not in own and not alone and (sessions or session is not None):
            raise ValueError("the session that made it is not in provenance.json")
        later = sessions[own.index(session) + 1 :] if sessions else []
        if any(entry.get("ended") is not None for entry in later):
            raise ValueError("it was made by an earlier session than the last one")
        if sessions and not later and study != study_digest(text):
            raise ValueError("it was made from another study than study.toml")

    def write_summary(self, table: pa.Table, name: str = "summary.parquet") -> None:
        sessions = read_sessions(self)
        session = sessions[-1].get("session") if sessions else None
        origin = {"study": study_digest(self.read_study()), "session": session}
        self.publish(name, encode(table.replace_schema_metadata({ORIGIN: json.dumps(origin).encode()})))

    def read_summary(self) -> pa.Table | None:
        return self.read_table("summary.parquet", SUMMARY_COLUMNS, self.replicates)

    def read_paths(self) -> pa.Table | None:
        """Read the settings of the paths, for other programs to join with the rows. None if absent."""
        return self.read_table("paths.parquet", {pa.types.is_string: ("path",)}, *self.datasets())

    def read_trajectory_summary(self) -> pa.Table | None:
        table = self.read_table("trajectories.parquet", TRAJECTORY_COLUMNS, self.trajectories)
        if table is None:
            return None
        unknown = {*table["stat"].unique().to_pylist()} - {*STATISTICS, *MEANS}
        if unknown:
            unknown -= {*self.trajectories.schema(self.trajectories.scan(damaged=[])).names}
        if unknown:
            file = self.full("trajectories.parquet")
            raise DamagedRun(file, f"statistic {min(map(str, unknown))}", "statistics that have rows")
        return table

    def contradictions(
        self, kind: Kind, path_key: str | None, parts: Sequence[Part], bad: Sequence[UnreadablePart]
    ) -> Iterator[UnreadablePart]:
        """Yield ``bad``, parts that contradict the run, and paths with fewer rows than the summary counts."""
        read_sessions(self)  # refuses a run of another version
        yield from bad
        seed, counts = self.expected_counts()
        by_path = {key: list(group) for key, group in groupby(parts, key=lambda part: part.path_key)}
        for part in parts:
            first = by_path[part.path_key][0]
            if seed is not None and part.meta["seed"] != seed:
                yield UnreadablePart(part.name, f"it has rows of seed {part.meta['seed']}, not {seed}")
            for name in ("stream_version", "path_settings", "described"):
                own, other = part.meta.get(name), first.meta.get(name)
                # Only parts of paths with plug-ins or data files have a description.
                if own != other and None not in (own, other):
                    yield UnreadablePart(part.name, f"its {name} differs from that of {first.name}")
        by_cell = {key: replicates_by_cell(own) for key, own in by_path.items()}
        for (key, cell), wanted in counts[kind.folder].items():
            if path_key in (None, key):
                ranges = by_cell.get(key, {})
                found = ranges.get(cell, []) if cell else union(s for own in ranges.values() for s in own)
                count = sum(last - first for first, last in found)
                if count < wanted:
                    what = f"{count:,} of the {wanted:,} replicates that the summary counts {cell}".rstrip()
                    yield UnreadablePart(f"{kind.folder}/path=p{key}", what)

    def expected_counts(self) -> Promised:
        files = ("study.toml", "provenance.json", "summary.parquet", "trajectories.parquet")
        infos = self.filesystem.get_file_info([self.full(name) for name in files])
        state = [(info.type, info.size, info.mtime_ns) for info in infos]
        if self._promised is not None and self._promised[0] == state:
            return self._promised[1]
        sessions = read_sessions(self)
        counts: dict[str, dict[tuple[str, str], int]] = {}
        for dataset, table in zip(
            self.datasets(), (self.read_summary(), self.read_trajectory_summary()), strict=True
        ):
            found: dict[tuple[str, str], int] = {}
            counts[dataset.kind.folder] = found
            if table is None:
                continue
            keys = [name for name in cell_keys(table.schema) if name in table.column_names]
            keys = keys if dataset is self.replicates else []
            for row in table.select(["path", "replicates", *keys]).to_pylist():
                cell = cell_id({name: row[name] for name in keys}) if keys else ""
                place = row["path"].removeprefix("p"), cell
                found[place] = max(row["replicates"], found.get(place, 0))
        self._promised = state, (sessions[-1].get("seed") if sessions else None, counts)
        return self._promised[1]

    def set_aside(self, part: UnreadablePart) -> str:
        """Move an unusable part to RUN/set_aside, where nothing reads it. Returns its new name."""
        name = f"set_aside/{part.name.removeprefix('replicates/')}"
        self.check_folders(name)
        if self.filesystem.type_name not in OBJECT_STORES:
            self.filesystem.create_dir(self.full(name).rsplit("/", 1)[0], recursive=True)
        self.filesystem.move(self.full(part.name), self.full(name))
        return name

    def inside(self) -> set[str]:
        selector = fs.FileSelector(self.base, allow_not_found=True)
        return {info.base_name for info in self.filesystem.get_file_info(selector)}

    def check_place(self) -> None:
        """Refuse a place with other files than those of a run."""
        names = self.inside()
        if names & {"provenance.json", *(dataset.kind.folder for dataset in self.datasets())}:
            return
        study = self.read("study.toml", LARGEST) if "study.toml" in names else None
        if study is not None and study.to_pybytes().startswith(RESOLVED.encode()):
            names.remove("study.toml")  # a sweep has written it
        if other := sorted(names - {"summary.parquet", "lock", "tmp", "plugins", "report.html"}):
            hint = f"It holds {', '.join(other[:3])}{', ...' * (len(other) > 3)}."
            raise InputError("out", self.root, "a run directory, an empty folder or a new name", hint)

    def holds_run(self) -> bool:
        return bool(self.inside() & {"study.toml", "provenance.json", "summary.parquet", "replicates"})

    def move_aside(self) -> str:
        """Move the run to RUN.old-1, or the next free number. Returns that name."""
        number = 1
        while self.filesystem.get_file_info(f"{self.base}.old-{number}").type != fs.FileType.NotFound:
            number += 1
        target = f"{self.base}.old-{number}"
        if self.filesystem.type_name not in OBJECT_STORES:
            self.filesystem.move(self.base, target)
        else:
            inside = fs.FileSelector(self.base, recursive=True)
            for info in self.filesystem.get_file_info(inside):
                if info.type == fs.FileType.File:
                    self.filesystem.move(info.path, target + info.path.removeprefix(self.base))
        return target


def study_digest(text: str | None) -> str | None:
    return None if text is None else hashlib.sha256(text.encode()).hexdigest()


class Published(NamedTuple):
    """Range of replicates (``last`` exclusive) of a path and a set of cells."""

    path_key: str
    first: int
    last: int
    cell_set: str


MAX_AGE = 5.0
"""Seconds after which the next call publishes a batch."""


class Aggregator:
    """Collector of batches of rows. It publishes adjacent batches of one path and cell set as one part.

    Each row is published once. If a row is stored already, perhaps by another aggregator, the new row must
    equal the stored row.
    """

    def __init__(
        self, store: RunStore, max_rows: int = 200_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.store = store
        self.max_rows = max_rows
        """Number of rows from which on a part is published."""
        self.clock = clock
        self.pending: dict[Published, tuple[CompleteRows, PartMeta, float]] = {}
        """Batches that are not published yet, with their origin and time of arrival."""
        self.published: dict[str, dict[str, Ranges]] = {}
        """Ranges of published replicates by path key and cell id."""

    def add(self, path_key: str, first: int, last: int, table: pa.Table, meta: PartMeta) -> list[Published]:
        """Add a batch of complete rows. Returns the ranges that this call has published or found stored.

        After a StorageError the next call tries to publish the same batches again.
        """
        rows = arrange(REPLICATE_ROWS, table)
        if (rows.first, rows.last) != (first, last):
            raise ValueError(f"rows are of replicates {rows.first} to {rows.last}, not {first} to {last}")
        if path_key not in self.published:
            self.published[path_key] = self.store.replicates.finished(path_key)
        done = self.published[path_key]
        fresh = [cell for cell in rows.cells if subtract(first, last, done.get(cell_id(cell), []))]
        stored = [cell for cell in rows.cells if cell not in fresh]
        if stored:
            there = self.store.replicates.read(path_key, within=(first, last), damaged=[])
            again = ("rows computed again", rows.table)
            merge_rows(REPLICATE_ROWS, [("stored rows", there.drop_columns("path")), again])
        if not fresh:
            return [Published(path_key, first, last, cell_set_hash(stored)), *self.publish()]
        place = Published(path_key, first, last, cell_set_hash(fresh))
        if place not in self.pending:
            chosen = np.repeat([cell in fresh for cell in rows.cells], rows.rows_per_cell)
            own = rows.table.filter(pa.array(np.tile(chosen, last - first)))
            rows = replace(rows, table=own, cells=tuple(fresh))
            self.pending[place] = rows, meta, self.clock()
        return self.publish()

    def publish(self, everything: bool = False) -> list[Published]:
        """Publish pending batches that are old or have many rows, or ``everything``. Returns their ranges."""
        now = self.clock()
        published = []
        for run in group_adjacent(self.pending):
            batches, metas, times = zip(*map(self.pending.__getitem__, run), strict=True)
            size = sum(batch.table.num_rows for batch in batches)
            if not everything and size < self.max_rows and now - min(times) < MAX_AGE:
                continue
            table = pa.concat_tables([batch.table for batch in batches]).combine_chunks()
            rows = replace(batches[0], table=table, last=run[-1].last)
            place = run[0]._replace(last=rows.last)
            self.store.replicates.publish(place.path_key, rows, metas[0])
            # This comes after the write, so that the batches stay pending if the write fails.
            for batch in run:
                del self.pending[batch]
            there = self.published[place.path_key]
            for cell in map(cell_id, rows.cells):
                there[cell] = union([*there.get(cell, []), (rows.first, rows.last)])
            published.append(place)
        return published


def group_adjacent(places: Iterable[Published]) -> list[list[Published]]:
    runs: list[list[Published]] = []
    for place in sorted(places, key=lambda place: (place.cell_set, place)):
        before = runs[-1][-1] if runs else None
        if before and before._replace(first=before.last, last=place.last) == place:
            runs[-1].append(place)
        else:
            runs.append([place])
    return runs
