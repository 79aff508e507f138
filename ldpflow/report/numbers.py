"""Numbers and settings as people write them, on a terminal and in a report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ldpflow.errors import plain_text

WIDE = 24
"""Characters of a setting that is shown only if nothing else tells rows apart."""


def short(value: object) -> str:
    """A setting as people write it: 1e6, 0.75, BB; nothing for what a row does not have."""
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


def no_formula(value: object) -> object:
    """A text that no spreadsheet takes for a formula; other values as they are."""
    if not isinstance(value, str):
        return value
    shown = plain_text(value)
    return "'" + shown if shown.startswith(("=", "+", "-", "@")) else shown


def rounded(value: float | None, digits: int) -> str:
    """A measure, rounded to a number of significant digits."""
    if value is None or math.isnan(value):
        return "-"
    return short(float(f"{value:.{digits}g}"))


def with_error(value: float | None, error: float | None) -> str:
    """A measure and its Monte Carlo standard error, both to the error's second digit."""
    if value is None or error is None or not 0 < error < math.inf or not math.isfinite(value):
        return f"{rounded(value, 4)} ± {rounded(error, 2)}"
    decimals = 1 - math.floor(math.log10(error))
    if not 0 <= decimals <= 9:
        return f"{rounded(value, 4)} ± {rounded(error, 2)}"
    shown = f"{error:.{decimals}f}" if decimals < 6 else rounded(error, 2)
    return f"{value:.{decimals}f} ± {shown}"


def distinguishing_columns(
    names: Sequence[str], rows: Sequence[Mapping[str, Any]], implied: bool = False
) -> list[str]:
    """Smallest set of columns that distinguishes the rows, the earlier of several.

    A setting with one value that some rows do not have (B, where BM stands beside BB), or of long texts
    (coefficients), is looked at last. ``implied``: with the others that vary, though they follow from the
    set.
    """
    texts = {name: [repr(row[name]) for row in rows] for name in names}
    values = {name: {repr(row[name]) for row in rows if row[name] is not None} for name in names}
    last = {
        name: len(values[name]) < 2 or any(len(short(row[name])) > WIDE for row in rows) for name in names
    }
    kept: list[str] = []
    groups, count = [""] * len(rows), 1
    for name in sorted(names, key=last.__getitem__):
        finer = [before + "|" + text for before, text in zip(groups, texts[name], strict=True)]
        if (found := len(set(finer))) > count:
            groups, count = finer, found
        elif last[name] or not implied or len(set(texts[name])) < 2:
            continue
        kept.append(name)
    return [name for name in names if name in kept]
