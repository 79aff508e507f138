"""Files that transcripts are written to: Parquet with the settings inside, CSV with them beside it."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import pyarrow as pa

ROW_GROUP = 2**20


class RowWriter(Protocol):
    """A file that is being written."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def write(self, table: pa.Table) -> None:
        """Append rows."""

    def finish(self, settings: str) -> None:
        """Add the settings, as TOML."""


def row_writer(target: Path, temporary: Path) -> RowWriter:
    """A writer of the format that the target's name asks for, into the temporary file."""
    if target.suffix.lower() in (".parquet", ".pq"):
        return ParquetRows(temporary)
    return CsvRows(temporary, target.with_name(target.name + ".toml"))


class ParquetRows:
    """A Parquet file with page checksums; rows are gathered to large groups."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.writer: Any = None
        self.waiting: list[pa.Table] = []

    def __enter__(self) -> Self:
        return self

    def write(self, table: pa.Table) -> None:
        """Append rows."""
        self.waiting.append(table)
        if sum(t.num_rows for t in self.waiting) >= ROW_GROUP:
            self.flush()

    def flush(self) -> None:
        """Write what was gathered as one row group."""
        import pyarrow.parquet as pq

        if not self.waiting:
            return
        table = pa.concat_tables(self.waiting)
        self.waiting = []
        if self.writer is None:
            self.writer = pq.ParquetWriter(self.file, table.schema, write_page_checksum=True)
        self.writer.write_table(table, row_group_size=ROW_GROUP)

    def finish(self, settings: str) -> None:
        """Add the settings to the file's metadata."""
        self.flush()
        self.writer.add_key_value_metadata({"ldpflow": settings})

    def __exit__(self, *exception: object) -> None:
        if self.writer is not None:
            self.writer.close()


class CsvRows:
    """A CSV file whose numbers read back to the last bit, and a TOML file with the settings."""

    def __init__(self, file: Path, beside: Path) -> None:
        self.file = file
        self.beside = beside
        self.writer: Any = None

    def __enter__(self) -> Self:
        return self

    def write(self, table: pa.Table) -> None:
        """Append rows."""
        from pyarrow import csv

        if self.writer is None:
            self.writer = csv.CSVWriter(self.file, table.schema)
        self.writer.write_table(table)

    def finish(self, settings: str) -> None:
        """Write the settings beside the file."""
        self.beside.write_text(settings, encoding="utf-8")

    def __exit__(self, *exception: object) -> None:
        if self.writer is not None:
            self.writer.close()
