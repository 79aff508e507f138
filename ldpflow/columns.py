"""Columns declared by components: name, type, unit, meaning, summaries and print format.

A component declares its settings and its diagnostics once, in its class. The Parquet schema, the summary,
the live table, the report and docs/tables.md read the declaration. A declaration travels with its column,
as metadata of the Arrow field, so that a run can be read without the code of the component.
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
"""Share of replicates above which a warning is given."""

WIDE = 24
"""Settings with longer texts are tried last to distinguish rows."""

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")


@dataclass(frozen=True)
class Summary:
    """Summary of a diagnostic over the finished rows of a cell: a column of the summary.

    Default: the median. With ``mean``: the mean. With ``below``: the share of values below it. With
    ``beyond``: the share of absolute values above it. Rows without a value are left out.

    Parameters
    ----------
    name : str
        Of the column.
    meaning : str
        One line, as documentation prints it.
    below, beyond : float, optional
        Threshold of a share.
    mean : bool
        Whether it is the mean.
    error : bool
        Whether the column is the Monte Carlo standard error of the mean or share.
    caution : str
        Warning if a share exceeds 5%. Default: none.
    shown : bool
        Whether the terminal's table has the column. Every file has it.
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
        """Whether the summary is a share of rows."""
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
        ``-`` for none, ``1`` for a pure number.
    meaning : str
        One line, as documentation prints it.
    symbol : str
        Symbol in tables and figures, as in ``β``. Default: the name.
    title : str
        Text in brackets on an axis, as in ``block exponent``.
    logarithmic : bool
        Whether its axis is logarithmic.
    identifies : bool
        Whether the value is part of the identity of a cell, like a setting.
    summaries : tuple of Summary
        Columns of the summary that are computed from it.
    running : bool
        For trajectories: whether a path keeps the sum over its steps. A row shows the mean per step
        since the previous checkpoint.

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
        """Title of an axis."""
        return f"{self.label} ({self.title})" if self.title else self.label

    @lru_cache(maxsize=1024)  # noqa: B019 - columns are few, and every batch asks
    def to_json(self) -> str:
        """Declaration as JSON text without default values."""
        return json.dumps(non_defaults(self) | {"summaries": [non_defaults(s) for s in self.summaries]})

    @classmethod
    def from_json(cls, text: str | bytes) -> Column:
        """Read a declaration from the JSON text of :meth:`to_json`."""
        written: dict[str, Any] = parse_json(text)
        summaries = tuple(Summary(**summary) for summary in written.pop("summaries", ()))
        return cls(**written, summaries=summaries)


def non_defaults(declaration: Column | Summary) -> dict[str, Any]:
    values = asdict(declaration)
    return {f.name: values[f.name] for f in fields(declaration) if values[f.name] != f.default}


def index_columns(columns: Iterable[Column]) -> Mapping[str, Column]:
    """Index columns by name. The first of several equal names wins; types and ``identifies`` must agree."""
    found: dict[str, Column] = {}
    for column in columns:
        known = found.setdefault(column.name, column)
        if (known.type, known.identifies) != (column.type, column.identifies):
            kinds = [f"{c.type} {'setting' if c.identifies else 'value'}" for c in (known, column)]
            raise ValueError(f"column {column.name!r} is declared as {kinds[0]} and as {kinds[1]}")
    return found


def cautions(columns: Iterable[Column], row: Mapping[str, Any]) -> list[str]:
    """Warnings for the shares of a summary row that exceed the threshold."""
    return [
        f"{summary.caution[0].upper()}{summary.caution[1:]} in {row[summary.name]:.0%} of the finished "
        "replicates."
        for column in columns
        for summary in column.summaries
        if summary.caution and (row.get(summary.name) or 0.0) > CAUTIOUS
    ]


def short(value: object) -> str:
    """Short text of a setting: 1e6, 0.75, BB, or - for none."""
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
    """Text of a measure, rounded to significant digits."""
    if value is None or math.isnan(value):
        return "-"
    return short(float(f"{value:.{digits}g}"))


def with_error(value: float | None, error: float | None) -> str:
    """Text of a measure and its Monte Carlo standard error, both to the error's second digit."""
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
    """Columns that distinguish the rows, chosen in order: each splits rows that those before it do not.

    Settings with one value that some rows lack (B, in a table of BB and BM) and long texts (coefficients)
    are tried last. ``implied``: include other varying columns, except those tried last.
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
