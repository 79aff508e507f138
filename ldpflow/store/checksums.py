"""Checksums of a whole Parquet file, inside the file.

Page checksums protect the values alone: not the headers of the pages, and not the footer, whose statistics
decide which rows a filter of a plain reader sees. So the footer holds two SHA-256 sums in one entry of its
key-value metadata: of all that lies before the footer, and of the footer itself with that second sum blanked.
A scan verifies the footers it reads; a reader of rows verifies all. Other readers skip the entry.

A second entry says that there is a first one, so that a changed name of either does not make a file look like
one of an old version, which has no sums.
"""

from __future__ import annotations

import hashlib

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["check_body", "check_footer", "encode"]

SUMS, SEALED = b"ldpflow.sha256", b"ldpflow.has_sha256"
DIGITS = 64
BLANK = b"0" * DIGITS
ENTRY = SUMS + b"\x18\x80\x01"
"""Name of the entry, then a string of 128 bytes in the encoding of Parquet footers (Thrift, compact)."""


def encode(table: pa.Table, compression_level: int | None = None) -> pa.Buffer:
    """A table as the bytes of a Parquet file with page checksums and checksums of the whole."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink, table.schema, compression="zstd", compression_level=compression_level, write_page_checksum=True
    ) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({SEALED: b"1", SUMS: BLANK + BLANK})
    data = bytearray(sink.getvalue())
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    at = data.index(ENTRY, start) + len(ENTRY)
    data[at : at + DIGITS] = digest(memoryview(data)[:start])
    data[at + DIGITS : at + 2 * DIGITS] = digest(memoryview(data)[start:])
    return pa.py_buffer(bytes(data))


def digest(data: memoryview | bytes) -> bytes:
    """SHA-256 in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest().encode()


def check_footer(tail: bytes) -> bytes | None:
    """Verify a footer.

    Parameters
    ----------
    tail : bytes
        From the start of the footer to the end of the file.

    Returns
    -------
    bytes or None
        The checksum of what lies before the footer; None for a file without checksums.

    Raises
    ------
    ValueError
        If the footer is not the one that was written.
    """
    if SUMS not in tail and SEALED not in tail:
        return None
    at = tail.find(ENTRY) + len(ENTRY)
    body, own = tail[at : at + DIGITS], tail[at + DIGITS : at + 2 * DIGITS]
    blanked = tail[: at + DIGITS] + BLANK + tail[at + 2 * DIGITS :]
    if at < len(ENTRY) or digest(blanked) != own:
        raise ValueError("the checksum of its footer does not hold")
    return body


def check_body(data: pa.Buffer) -> bool:
    """Verify a whole Parquet file; whether it has checksums.

    Raises
    ------
    ValueError
        If it is not the file that was written.
    """
    view = memoryview(data)
    length = int.from_bytes(view[-8:-4], "little") + 8 if len(view) >= 12 else 0
    if bytes(view[-4:]) != b"PAR1" or not 8 < length <= len(view) - 4:
        raise ValueError("not a whole Parquet file (truncated or overwritten)")
    body = check_footer(bytes(view[-length:]))
    if body is not None and digest(view[:-length]) != body:
        raise ValueError("its checksum does not hold")
    return body is not None
