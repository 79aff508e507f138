"""The run directory, on a local disk or an object store.

::

    RUN/study.toml, provenance.json, summary.parquet, trajectories.parquet
    RUN/replicates/, trajectories/   parts of rows, see ldpflow.store.dataset
    RUN/tmp/        unfinished files (local disk only)
    RUN/set_aside/  parts that could not be used
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from ldpflow.documents import LARGEST, check_sum, decode_text, with_sum
from ldpflow.errors import InputError
from ldpflow.store.checksums import check_body, encode
from ldpflow.store.dataset import Dataset
from ldpflow.store.files import OBJECT_STORES, RunFiles
from ldpflow.store.kinds import REPLICATE_ROWS, TRAJECTORY_ROWS
from ldpflow.store.part import PARSE_ERRORS, UnreadablePart

__all__ = ["RunStore"]

RESOLVED = "# Resolved study, hash "
"""Start of a study.toml that a sweep has written."""

Expected = Callable[[pa.DataType], bool]

SUMMARY_COLUMNS: dict[str, Expected] = {
    **dict.fromkeys(("path", "method"), pa.types.is_string),
    **dict.fromkeys(("n", "coordinate", "replicates", "failures"), pa.types.is_integer),
    **dict.fromkeys(
        (
            "level", "truth", "coverage", "coverage_mcse", "coverage_failures_as_misses", "length_mean",
            "length_mcse", "bias", "bias_mcse", "empirical_se",
        ),
        pa.types.is_floating,
    ),
}  # fmt: skip
"""Columns of summary.parquet since version 0.1.0, which every reader of ours may take for granted."""

TRAJECTORY_COLUMNS: dict[str, Expected] = {
    **dict.fromkeys(("path", "stat"), pa.types.is_string),
    **dict.fromkeys(("n", "step", "replicates"), pa.types.is_integer),
    **dict.fromkeys(("mean", "mcse"), pa.types.is_floating),
}


class RunStore(RunFiles):
    """A run directory: ``RunStore(root, filesystem=None)``, see :class:`RunFiles`.

    Attributes
    ----------
    replicates, trajectories : Dataset
        Its rows.
    """

    def __init__(self, root: str | os.PathLike[str], filesystem: fs.FileSystem | None = None) -> None:
        super().__init__(root, filesystem)
        self.replicates = Dataset(self, REPLICATE_ROWS)
        self.trajectories = Dataset(self, TRAJECTORY_ROWS)

    def datasets(self) -> tuple[Dataset, Dataset]:
        """Both."""
        return self.replicates, self.trajectories

    def read_study(self) -> str | None:
        """The text of study.toml, or None for a new run.

        Raises
        ------
        InputError
            If it is not the text that a sweep wrote, with its checksum.
        """
        data = self.read("study.toml", LARGEST)
        if data is None:
            return None
        place = self.full("study.toml")
        return check_sum(decode_text(data.to_pybytes(), "run", place, "a study.toml"), place)

    def write_study(self, text: str) -> None:
        """Write study.toml, its checksum in the last line."""
        self.publish("study.toml", with_sum(text).encode())

    def read_table(self, name: str, expected: Mapping[str, Expected]) -> pa.Table | None:
        """A Parquet file of the run, checksums verified, or None where there is none.

        Raises
        ------
        InputError
            If it is damaged, or lacks a column.
        """
        data = self.read(name)
        if data is None:
            return None
        again = "ldpflow check with --repair, or the sweep once more, writes it again from the rows."
        try:
            sealed = check_body(data)
            table = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True).read()
        except PARSE_ERRORS as error:
            raise InputError(
                self.full(name), str(error), "a Parquet file as a sweep writes it", again
            ) from None
        for column, fits in expected.items():
            found = table.schema.field(column).type if column in table.column_names else None
            if found is None or not (fits(found) or pa.types.is_null(found)):
                column_text = f"column {column}: {found or 'absent'}"
                raise InputError(self.full(name), column_text, "the columns of a summary", again)
        if not sealed:
            warnings.warn(
                f"{self.full(name)} has no checksums: an old version wrote it, or another program; "
                "ldpflow check compares it with the rows",
                stacklevel=3,
            )
        return table

    def read_summary(self) -> pa.Table | None:
        """summary.parquet, or None where there is none."""
        return self.read_table("summary.parquet", SUMMARY_COLUMNS)

    def write_summary(self, table: pa.Table) -> None:
        """Write summary.parquet."""
        self.publish("summary.parquet", encode(table))

    def read_trajectory_summary(self) -> pa.Table | None:
        """trajectories.parquet, or None where there is none."""
        return self.read_table("trajectories.parquet", TRAJECTORY_COLUMNS)

    def write_trajectory_summary(self, table: pa.Table) -> None:
        """Write trajectories.parquet."""
        self.publish("trajectories.parquet", encode(table))

    def set_aside(self, part: UnreadablePart) -> str:
        """Move an unusable part to RUN/set_aside, so that plain readers work; its new name."""
        name = f"set_aside/{part.name.removeprefix('replicates/')}"
        self.check_folders(name)
        if self.filesystem.type_name not in OBJECT_STORES:
            self.filesystem.create_dir(self.full(name).rsplit("/", 1)[0], recursive=True)
        self.filesystem.move(self.full(part.name), self.full(name))
        return name

    def check_place(self) -> None:
        """Refuse a place that holds something else than a run: nothing of it may be overwritten.

        Raises
        ------
        InputError
            Naming ``out``.
        """
        inside = fs.FileSelector(self.base, allow_not_found=True)
        names = {info.base_name for info in self.filesystem.get_file_info(inside)}
        if names & {"provenance.json", *(dataset.kind.folder for dataset in self.datasets())}:
            return
        hint = "Choose a folder of its own for the run, e.g. runs/NAME."
        if "study.toml" in names and not self.resolved():
            given = "study.toml there was not written by a sweep and would be overwritten"
            raise InputError("out", self.root, "a place without a study file of your own", f"{given}. {hint}")
        if other := sorted(
            names - {"study.toml", "summary.parquet", "lock", "tmp", "plugins", "report.html"}
        ):
            shown = ", ".join(other[:3]) + (", ..." if len(other) > 3 else "")
            allowed = "a run directory, an empty folder or a new name"
            raise InputError("out", self.root, allowed, f"It holds {shown}. {hint}")

    def resolved(self) -> bool:
        """Whether a sweep has written study.toml."""
        data = self.read("study.toml")
        return data is not None and data.to_pybytes().startswith(RESOLVED.encode())

    def holds_run(self) -> bool:
        """Whether there is something here that a sweep has written."""
        names = ("study.toml", "provenance.json", "summary.parquet", self.replicates.kind.folder)
        infos = self.filesystem.get_file_info([self.full(name) for name in names])
        return any(info.type != fs.FileType.NotFound for info in infos)

    def move_aside(self) -> str | None:
        """Move the whole run to a name that is free; that name, or None where there is no run.

        Raises
        ------
        InputError
            If the place holds something that is not a run.
        """
        inside = fs.FileSelector(self.base, allow_not_found=True)
        if not self.holds_run():
            names = {info.base_name for info in self.filesystem.get_file_info(inside)}
            if names - {"lock", "tmp"}:
                raise InputError("fresh", self.root, "a run directory", "What lies there is not a run.")
            return None
        number = 1
        while self.filesystem.get_file_info(f"{self.base}.old-{number}").type != (fs.FileType.NotFound):
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
