"""Files of one column."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def column_file(folder: Path, values: Iterable[object], name: str = "a") -> str:
    """A CSV file of a column; a later one replaces it."""
    file = folder / "data.csv"
    file.write_text("\n".join([name, *map(str, values)]) + "\n")
    return str(file)
