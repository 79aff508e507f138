"""Data files that a study names: regular files of a stated size, opened only where rows are computed."""

from __future__ import annotations

import codecs
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ldpflow.errors import InputError

LARGEST_BYTES = 4 * 2**30
"""Largest size of a data file."""

CLOSED: ContextVar[bool] = ContextVar("data files stay closed", default=False)


@contextmanager
def data_files_closed() -> Iterator[None]:
    """No data file is opened inside: settings that a run has stored may name any file of this machine."""
    token = CLOSED.set(True)
    try:
        yield
    finally:
        CLOSED.reset(token)


def closed() -> bool:
    """Whether data files stay closed."""
    return CLOSED.get()


def check_data_file(file: str, field: str = "problem.file") -> None:
    """Refuse what is not a regular file of at most :data:`LARGEST_BYTES`.

    Raises
    ------
    InputError
        Naming ``field``; also where data files stay closed.
    """
    if closed():
        raise InputError(field, file, "nothing here: a run is inspected without its data file")
    try:
        found = os.stat(file)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(field, file, "a Parquet or CSV file that can be read", f"{reason}.") from None
    if not stat.S_ISREG(found.st_mode):
        raise InputError(field, file, "a Parquet or CSV file", "It is not a regular file.")
    if found.st_size > LARGEST_BYTES:
        limit = f"at most {LARGEST_BYTES:,} bytes"
        raise InputError(
            field, file, limit, f"It has {found.st_size:,}: give a random sample of its records."
        )


def check_encoding(file: str, field: str) -> None:
    """Refuse text that is not UTF-8, naming the first byte that is not."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    before = 0
    with open(file, "rb") as source:
        while True:
            block = source.read(1 << 20)
            waiting = len(decoder.getstate()[0])  # bytes of a character that the last block cut
            try:
                decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                place = before - waiting + error.start
                raise InputError(
                    field,
                    file,
                    "a CSV file in UTF-8",
                    f"Byte {place:,} (0x{error.object[error.start]:02X}) is in another encoding: "
                    "save the file as UTF-8.",
                ) from None
            if not block:
                return
            before += len(block)
