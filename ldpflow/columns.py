"""Columns declared by components: name, type, unit, meaning, summaries and print format.

A component declares its settings and its diagnostics once, in its class. The Parquet schema, the summary,
the report and docs/tables.md read the declaration. The metadata of the Arrow field holds the declaration
too. A run can therefore be read without the code of the component.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from typing import Any

from ldpflow.documents import parse_json
from ldpflow.errors import plain_text

TYPES: dict[str, type] = {"int32": int, "int64": int, "double": float, "string": str, "bool": bool}
"""Types of columns, by Arrow's names."""

CAUTIOUS = 0.05
"""Share of replicates above which a summary warns."""

WIDE = 24
"""Most characters of a short text. :func:`distinguishing_columns` tries columns with longer texts last."""

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")


@dataclass(frozen=True)
class Summary:
    """Summary of a diagnostic over the finished rows of a cell: a column of the summary.

    The default is the median. Rows without a value are left out.

    Parameters
    ----------
    name : str
        Name of the column.
    meaning : str
        Meaning of the column in one line, for the documentation.
    below : float, optional
        Threshold. The summary is the share of values below the threshold.
    beyond : float, optional
        Threshold. The summary is the share of absolute values above the threshold.
    mean : bool
        Whether the summary is the mean.
    error : bool
        Whether the column is the Monte Carlo standard error of the mean or share.
    caution : str
        Warning that is given if the share exceeds 5%. Empty for no warning.
    shown : bool
        Whether the table in the terminal has the column. Files have all columns.
    unit : str
        Unit of a median.
    reference : str
        Source of the formula.
    """

    name: str
    meaning: str
    below: float | None = None
    beyond: float | None = None
    mean: bool = False
    error: bool = False
    caution: str = ""
    shown: bool = True
    unit: str = "1"
    reference: str = "-"

    def __post_init__(self) -> None:
        if self.error and not (self.mean or self.is_share):
            raise ValueError(f"summary {self.name!r}: a median has no Monte Carlo standard error here")

    @property
    def is_share(self) -> bool:
        return self.below is not None or self.beyond is not None


@dataclass(frozen=True)
class Column:
    """A column of stored rows or of the summary.

    Parameters
    ----------
    name : str
        A letter, then letters, digits and underscores.
    type : str
        One of TYPES.
    unit : str
        Unit of the values: ``-`` for no unit, ``1`` for a pure number.
    meaning : str
        Meaning of the column in one line, for the documentation.
    symbol : str
        Symbol in tables and figures, as in ``β``. If empty, the name is printed.
    title : str
        Text in brackets on an axis, as in ``block exponent``.
    logarithmic : bool
        Whether the axis of a figure is logarithmic.
    identifies : bool
        Whether rows with different values belong to different cells, as for a setting.
    summaries : tuple of Summary
        Columns of the summary that are computed from this column.
    running : bool
        Whether a path keeps the sum of the values over its steps. A row of a trajectory then has the mean
        per step since the previous checkpoint.

    Raises
    ------
    ValueError
        If the name or the type is not valid.
    """

    name: str
    type: str
    unit: str = "-"
    meaning: str = ""
    symbol: str = ""
    title: str = ""
    logarithmic: bool = False
    identifies: bool = False
    summaries: tuple[Summary, ...] = ()
    running: bool = False

    def __post_init__(self) -> None:
        if self.type not in TYPES:
            raise ValueError(f"column {self.name!r}: the type {self.type!r} is none of {', '.join(TYPES)}")
        for name in (self.name, *(summary.name for summary in self.summaries)):
            if not NAME.fullmatch(name):
                raise ValueError(f"column {name!r}: a name is a letter, then letters, digits and underscores")

    @property
    def label(self) -> str:
        """Symbol or name."""
        return self.symbol or self.name

    @property
    def axis(self) -> str:
        return f"{self.label} ({self.title})" if self.title else self.label

    @lru_cache(maxsize=1024)  # noqa: B019 - columns are few, and every batch calls it
    def to_json(self) -> str:
        """Write the declaration as JSON text, without default values."""
        return json.dumps(non_defaults(self) | {"summaries": [non_defaults(s) for s in self.summaries]})

    @classmethod
    def from_json(cls, text: str | bytes) -> Column:
        written: dict[str, Any] = parse_json(text)
        summaries = tuple(Summary(**summary) for summary in written.pop("summaries", ()))
        return cls(**written, summaries=summaries)


def non_defaults(declaration: Column | Summary) -> dict[str, Any]:
    values = asdict(declaration)
    return {f.name: values[f.name] for f in fields(declaration) if values[f.name] != f.default}


def index_columns(columns: Iterable[Column]) -> Mapping[str, Column]:
    """Index columns by name. Refuse two columns of one name that differ in type or ``identifies``."""
    found: dict[str, Column] = {}
    for column in columns:
        known = found.setdefault(column.name, column)
        if (known.type, known.identifies) != (column.type, column.identifies):
            kinds = [f"{c.type} {'setting' if c.identifies else 'value'}" for c in (known, column)]
            raise ValueError(f"column {column.name!r} is declared as {kinds[0]} and as {kinds[1]}")
    return found


def cautions(columns: Iterable[Column], row: Mapping[str, Any]) -> list[str]:
    """Warnings for the shares of a summary row that exceed CAUTIOUS."""
    return [
        f"{summary.caution[0].upper()}{summary.caution[1:]} in {row[summary.name]:.0%} of the finished "
        "replicates."
        for column in columns
        for summary in column.summaries
        if summary.caution and (row.get(summary.name) or 0.0) > CAUTIOUS
    ]


def short(value: object) -> str:
    """Short text of a setting: ``1e6``, ``0.75`` or ``BB``, and ``-`` for None and NaN."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return plain_text(str(value))
    if isinstance(value, int):
        digits = str(abs(value))
        mantissa = digits.rstrip("0")
        if len(digits) < 5 or len(mantissa) > 3:
            return str(value)
    text = f"{value:.6g}" if isinstance(value, float) else f"{value:.2e}"
    if "e" not in text:
        return text
    mantissa, exponent = text.split("e")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return f"{mantissa}e{int(exponent)}"


def counted(count: int, noun: str, ending: str = "s") -> str:
    """A number with its noun: ``1 path``, ``2 paths``."""
    return f"{count:,} {noun}{ending * (count != 1)}"


def no_formula(value: object) -> object:
    """Quote a text that a spreadsheet would read as a formula."""
    if not isinstance(value, str):
        return value
    shown = plain_text(value)
    return "'" + shown if shown.startswith(("=", "+", "-", "@")) else shown


def round_text(value: float | None, digits: int) -> str:
    if value is None or math.isnan(value):
        return "-"
    return short(float(f"{value:.{digits}g}"))


def with_error(value: float | None, error: float | None) -> str:
    """Text of a measure and its Monte Carlo standard error, as in ``0.874 ± 0.015``.

    Both are rounded to the second significant digit of the error, if the error is between 1e-8 and 100.
    """
    if value is None or math.isnan(value):
        return "-"
    if error is None or not 0 < error < math.inf or not math.isfinite(value):
        return f"{round_text(value, 4)} ± {round_text(error, 2)}"
    decimals = 1 - math.floor(math.log10(error))
    if not 0 <= decimals <= 9:
        return f"{round_text(value, 4)} ± {round_text(error, 2)}"
    shown = f"{error:.{decimals}f}" if decimals < 6 else round_text(error, 2)
    return f"{value:z.{decimals}f} ± {shown}"


def distinguishing_columns(
    names: Sequence[str], rows: Sequence[Mapping[str, Any]], implied: bool = False
) -> list[str]:
    """Choose columns that distinguish the rows.

    A column is chosen if it tells rows apart that have equal values in the columns chosen before. Two kinds
    of columns are tried last. One kind has long texts, such as coefficients. The other kind has a single
    value that some rows lack, such as B in a table of BB and BM. With ``implied``, every column that varies
    and is of neither kind is chosen too.
    """
    columns = {name: [row.get(name) for row in rows] for name in names}
    texts = {name: list(map(repr, values)) for name, values in columns.items()}
    last = {
        name: len({*texts[name]} - {"None"}) < 2 or any(len(short(value)) > WIDE for value in values)
        for name, values in columns.items()
    }
    chosen: list[str] = []
    groups, count = [""] * len(rows), 1
    for name in sorted(names, key=last.__getitem__):
        finer = [before + "|" + text for before, text in zip(groups, texts[name], strict=True)]
        if (found := len(set(finer))) > count:
            groups, count = finer, found
        elif last[name] or not implied or len(set(texts[name])) < 2:
            continue
        chosen.append(name)
    return [name for name in names if name in chosen]
