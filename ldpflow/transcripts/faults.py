"""Faults of a transcript: row, column, the value found and the value expected."""

from __future__ import annotations

from typing import Any

from ldpflow.errors import InputError


class RowError(InputError):
    """A row of a transcript cannot be right; nothing is computed from the file.

    Parameters
    ----------
    row : int
        From 1, the header of a CSV file not counted.
    column : str
    value : object
        What was found there.
    allowed : str
        What was expected.
    hint : str, optional
    """

    def __init__(self, row: int, column: str, value: object, allowed: str, hint: str = "") -> None:
        self.row = row
        self.column = column
        super().__init__(f"row {row:,}, {column}", value, allowed, hint)

    def __reduce__(self) -> tuple[type, Any]:
        return (type(self), (self.row, self.column, self.value, self.allowed, self.hint))
