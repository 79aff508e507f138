"""Where a record of a data file stands, for messages: its line, by reading the file up to it."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

MOST = 2_000_000
"""Records up to which lines are looked for: a message may take a second or two."""


def records(file: str) -> Iterator[tuple[int, list[str]]]:
    """Last line and fields of the header and of every record; nothing from text that is not CSV on.

    Empty lines are records where the file has one column, as they are when it is read.
    """
    with open(file, encoding="utf-8-sig", newline="") as source:
        lines = csv.reader(source)
        alone = None
        try:
            for fields in islice(lines, MOST):
                if alone is None:
                    alone = len(fields) == 1
                if fields or alone:
                    yield lines.line_num, fields
        except (csv.Error, UnicodeDecodeError):
            return


def place_of(file: str, record: int) -> str:
    """A record in words, the first of which is 1: with its line in a CSV file."""
    words = f"record {record:,}"
    if Path(file).suffix.lower() in (".parquet", ".pq") or record >= MOST:
        return words
    found = next(islice(records(file), record, None), None)
    return words if found is None else f"{words} (line {found[0]:,} of {Path(file).name})"


def ragged(file: str) -> str:
    """A sentence on the first record with more or fewer fields than the header; empty without one."""
    found = records(file)
    _, header = next(found, (0, []))
    for line, fields in found:
        if fields and len(fields) != len(header):
            return f"Line {line:,} has {count(len(fields))}, the header {len(header)}."
    return ""


def count(fields: int) -> str:
    """A number of fields."""
    return f"{fields} column" + ("" if fields == 1 else "s")
