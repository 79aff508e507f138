"""Charts as files for papers."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import vl_convert

from ldpflow.errors import InputError

__all__ = ["FORMATS", "save", "suffix_of"]

FORMATS: dict[str, Callable[[str], Any]] = {
    ".svg": vl_convert.vegalite_to_svg,
    ".png": lambda spec: vl_convert.vegalite_to_png(spec, scale=2),
    ".pdf": vl_convert.vegalite_to_pdf,
    ".json": lambda spec: spec,
}


def suffix_of(file: str) -> str:
    """The format that a file name asks for.

    Raises
    ------
    InputError
        If it is none that can be written.
    """
    suffix = Path(file).suffix.lower()
    if suffix not in FORMATS:
        raise InputError("-o", file, f"a file name that ends in {', '.join(FORMATS)}")
    return suffix


def save(chart: Any, file: str | os.PathLike[str]) -> None:
    """Write an Altair chart as SVG, PNG (two pixels per point), PDF or Vega-Lite JSON."""
    content = FORMATS[suffix_of(str(file))](chart.to_json(indent=None))
    data = content.encode() if isinstance(content, str) else content
    try:
        Path(file).write_bytes(data)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError("-o", str(file), "a file that can be written", f"{reason}.") from None
