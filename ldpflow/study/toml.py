"""Study files as text: of a stated size and depth, in UTF-8."""

from __future__ import annotations

import os
import re
import stat
import tomllib
from typing import Any

from ldpflow.errors import InputError

__all__ = ["LARGEST_STUDY", "parsed", "study_text"]

LARGEST_STUDY = 2**20
"""Largest size of a study file in bytes."""

DEEPEST = 64
"""Most parts of a dotted key, and most levels of nesting."""

DOTTED = re.compile(
    r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){""" + str(DEEPEST) + "}"
)
"""A dotted key of too many parts: the parser's time grows with their square."""


def study_text(file: str, field: str = "study") -> str:
    """The text of a study file, or of another file in TOML.

    Raises
    ------
    InputError
        Naming ``field``, if it is no regular file of at most :data:`LARGEST_STUDY` bytes in UTF-8.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
        with open(descriptor, "rb") as source:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise InputError(field, file, "a file in TOML", "It is not a regular file.")
            data = source.read(LARGEST_STUDY + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(field, file, "a file that can be read", f"{reason}.") from None
    if len(data) > LARGEST_STUDY:
        raise InputError(field, file, f"a file of at most {LARGEST_STUDY:,} bytes")
    try:
        return data.decode("utf-8-sig")  # editors of Windows begin a file with a mark
    except UnicodeDecodeError as error:
        hint = f"Byte {error.start:,} is in another encoding: save the file as UTF-8."
        raise InputError(field, file, "a file in TOML, which is UTF-8", hint) from None


def parsed(text: str, field: str, value: object = None) -> dict[str, Any]:
    """The mapping that a text in TOML says.

    Parameters
    ----------
    text : str
    field : str
        What an error names.
    value : object, optional
        What it shows; the beginning of the text unless given.

    Raises
    ------
    InputError
        If it is not TOML, or larger or deeper than a study needs.
    """
    shown = text[:80] if value is None else value
    if len(text) > LARGEST_STUDY:
        raise InputError(field, shown, f"a text of at most {LARGEST_STUDY:,} characters")
    if DOTTED.search(text):
        raise InputError(field, shown, f"keys of at most {DEEPEST} parts")
    try:
        mapping = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(field, shown, "TOML", f"{str(error).rstrip('.')}.") from None
    if depth(mapping) > DEEPEST:
        raise InputError(field, shown, f"tables and lists nested at most {DEEPEST} deep")
    return mapping


def depth(value: object) -> int:
    """Levels of nesting, counted without recursion."""
    levels, inside = 0, [value]
    while inside:
        levels += 1
        tables = [
            item.values() if isinstance(item, dict) else item
            for item in inside
            if isinstance(item, (dict, list))
        ]
        inside = [entry for table in tables for entry in table if isinstance(entry, (dict, list))]
    return levels
