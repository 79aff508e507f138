"""Parquet files with page checksums, and a checksum of the whole between the pages and the footer.

Page checksums protect the values alone: not the headers of the pages, and not the footer. So two SHA-256
sums lie before the footer, where Parquet allows any bytes and other readers do not look: of the pages, and of
that sum and the footer. A scan verifies the footers it reads; a reader of rows verifies all. Statistics
are not written: a plain reader would skip rows by them.
"""

from __future__ import annotations

import hashlib

import pyarrow as pa
import pyarrow.parquet as pq

MAGIC = b"PAR1"
DIGITS = 64
SEAL = 2 * DIGITS
"""Bytes of both sums, in hexadecimal digits."""

NO_SEAL = (
    "the checksum of its footer does not hold: it was damaged, or another program or a version before 0.3 "
    "wrote it"
)


def encode(table: pa.Table, compression_level: int | None = None) -> pa.Buffer:
    """A table as the bytes of a Parquet file with page checksums and a seal."""
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
    start = len(data) - footer_length(data[-8:])
    body = digest(data[:start])
    return pa.py_buffer(b"".join((data[:start], body, digest(body, data[start:]), data[start:])))


def digest(*pieces: memoryview | bytes) -> bytes:
    """SHA-256 of several pieces, in hexadecimal digits."""
    total = hashlib.sha256()
    for piece in pieces:
        total.update(piece)
    return total.hexdigest().encode()


def footer_length(end: memoryview | bytes) -> int:
    """Bytes of a footer with its length and magic, from the last eight bytes of a file."""
    return int.from_bytes(end[:4], "little") + 8


def sealed_length(tail: bytes, size: int) -> int:
    """Bytes of the seal and the footer of a file of this size, from its last bytes.

    Raises
    ------
    ValueError
        If it is no whole Parquet file.
    """
    if size < SEAL + 12 or tail[-4:] != MAGIC:
        raise ValueError("not a whole Parquet file (truncated or overwritten)")
    length = footer_length(tail[-8:]) + SEAL
    if length + len(MAGIC) > size:
        raise ValueError("the Parquet footer is longer than the file")
    return length


def read_footer(sealed: bytes) -> pq.FileMetaData:
    """Parse a footer, its checksum verified.

    Parameters
    ----------
    sealed : bytes
        The last :func:`sealed_length` bytes of a file.

    Raises
    ------
    ValueError
        If it is not the footer that was written.
    """
    body, own, footer = sealed[:DIGITS], sealed[DIGITS:SEAL], sealed[SEAL:]
    if digest(body, footer) != own:
        raise ValueError(NO_SEAL)
    # Framed as a file, so that parsing does no I/O of its own.
    found = pq.read_metadata(pa.BufferReader(MAGIC + footer))
    for group in range(found.num_row_groups):
        rows = found.row_group(group)
        if any(rows.column(at).is_stats_set for at in range(rows.num_columns)):
            raise ValueError("it has statistics, by which readers would skip rows")
    return found


def open_sealed(data: pa.Buffer) -> pq.ParquetFile:
    """A Parquet file from its bytes, all checksums verified.

    Raises
    ------
    ValueError
        If it is not the file that was written.
    """
    view = memoryview(data)
    length = sealed_length(bytes(view[-12:]), len(view))
    sealed = bytes(view[-length:])
    read_footer(sealed)
    if digest(view[:-length]) != sealed[:DIGITS]:
        raise ValueError("its checksum does not hold")
    return pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
