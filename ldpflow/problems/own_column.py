"""The law of a column of a user's file, and what forbids a quantile of it."""

from __future__ import annotations

import os
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ldpflow.errors import InputError
from ldpflow.problems.column_law import (
    SMALLEST,
    ColumnLaw,
    column_law,
    jittered,
    share_of_one_value,
)
from ldpflow.problems.data_files import FIELDS, Column, read_column

FEWEST_BEYOND = 20
"""Values that must lie beyond a quantile, on the side where there are fewer."""

LAW_FROM = 50
"""Values beyond a quantile from which on its density is known well enough for a verdict."""


READ: dict[tuple[str, str | None, bool, tuple[int, int]], Column] = {}
"""Columns that were read, the two latest, by file, column and state of the file."""


def column_of(
    file: str, column: str | None, drop: bool, fields: tuple[str, str] = FIELDS
) -> tuple[Column, tuple[int, int]]:
    """Read a column once per state of its file; its stamp is returned with it.

    Raises
    ------
    InputError
        For a fault of the file or column (:func:`ldpflow.problems.data_files.read_column`), or fewer
        than SMALLEST values.
    """
    try:
        status = os.stat(file)
        stamp = (status.st_mtime_ns, status.st_size)
    except OSError:
        stamp = (0, 0)  # said by the reader in words
    key = (file, column, drop, stamp)
    if key not in READ:
        found = read_column(file, column, drop=drop, fields=fields)
        if len(found.values) < SMALLEST:
            raise InputError(
                fields[1], found.name, f"at least {SMALLEST} values", f"It has {len(found.values):,}."
            )
        while len(READ) > 1:
            del READ[next(iter(READ))]
        READ[key] = found
    return READ[key], stamp


def values_of(column: Column, jitter: float | None) -> NDArray[np.float64]:
    """The values whose law is meant: with uniform noise of width ``jitter`` if given."""
    return column.values if jitter is None else jittered(column.values, jitter)


@lru_cache(maxsize=16)
def law_of_column(column: Column, jitter: float | None) -> ColumnLaw:
    """The law of a column, jittered if asked for."""
    return column_law(values_of(column, jitter), dropped=column.dropped)


def check_level(column: Column, jitter: float | None, tau: float, field: str = "problem.tau") -> None:
    """Refuse a quantile that the column says too little about.

    Raises
    ------
    InputError
        If fewer than FEWEST_BEYOND values lie beyond it, or a single value holds more of the records
        than the law smooths over.
    """
    size = len(column.values)
    tail = min(tau, 1.0 - tau)
    if size * tail < FEWEST_BEYOND * (1 - 1e-12):
        needed = -(-FEWEST_BEYOND // tail)
        raise InputError(
            field,
            tau,
            f"a level with at least {FEWEST_BEYOND} values beyond it",
            f"The column has {size:,} values: the {tau:g} quantile needs {needed:,.0f}.",
        )
    share, smoothed = share_of_one_value(values_of(column, jitter), tau)
    if share > smoothed:
        spacing = law_of_column(column, None).spacing
        noise = f"jitter = {spacing:g} adds noise of that width to every value."
        remedy = f" The values lie {spacing:g} apart: {noise}" if spacing else ""
        raise InputError(
            field,
            tau,
            "a level where values differ",
            f"The {tau:g} quantile sits on a value that {share:.0%} of the records have.{remedy}",
        )
