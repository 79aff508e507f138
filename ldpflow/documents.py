"""Read TOML, JSON and BibTeX, and load templates.

Input may be hostile. A file must be a regular file. It is opened without blocking, and its size is checked
before it is read.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import tomllib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from ldpflow.errors import InputError

if TYPE_CHECKING:
    from jinja2 import Environment

LARGEST = 2**20
"""Largest size of a document in bytes."""

DEEPEST = 64
"""Largest number of parts of a dotted key, and largest depth of nesting."""

DOTTED = re.compile(
    r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){""" + str(DEEPEST) + "}"
)
"""Dotted key with too many parts. The parser's time grows with the square of the number of parts."""

SUM_OF_TEXT = "# SHA-256 of the lines above: "
"""Start of the last line of a study.toml that a sweep wrote."""


def open_regular(place: str | os.PathLike[str], field: str, allowed: str) -> int:
    """Open a regular file without blocking and return its descriptor. Errors name ``field``."""
    try:
        descriptor = os.open(place, os.O_RDONLY | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(field, str(place), allowed, f"{reason}.") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise InputError(field, str(place), allowed, "It is not a regular file.")
    return descriptor


def read_text(place: str | os.PathLike[str], field: str, allowed: str = "a file in TOML") -> str:
    """Read a regular text file of at most :data:`LARGEST` bytes."""
    with open(open_regular(place, field, allowed), "rb") as file:
        if os.fstat(file.fileno()).st_size <= LARGEST and len(data := file.read(LARGEST + 1)) <= LARGEST:
            return decode_text(data, field, str(place), allowed)
    raise InputError(field, str(place), f"a file of at most {LARGEST:,} bytes")


def decode_text(data: bytes, field: str, value: object, allowed: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        hint = f"Byte {error.start:,} is in another encoding: save it as UTF-8."
        raise InputError(field, value, f"{allowed}, in UTF-8", hint) from None


def parse_toml(text: str, field: str, value: object = None) -> dict[str, Any]:
    """Parse TOML of limited size and depth. Errors show ``value``, by default the beginning of the text."""
    shown = text[:80] if value is None else value
    if len(text) > LARGEST:
        raise InputError(field, shown, f"a text of at most {LARGEST:,} characters")
    if DOTTED.search(text):
        raise InputError(field, shown, f"keys of at most {DEEPEST} parts")
    try:
        mapping = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        hint = f"{str(error).rstrip('.')}." + " A text stands in quotes." * ("Invalid value" in str(error))
        raise InputError(field, shown, "TOML", hint) from None
    if depth(mapping) > DEEPEST:
        raise InputError(field, shown, f"tables and lists nested at most {DEEPEST} deep")
    return mapping


def parse_json(data: bytes | str, largest: int = LARGEST) -> Any:
    """Parse JSON of limited size and depth, or raise ValueError."""
    if len(data) > largest:
        raise ValueError(f"metadata of {len(data):,} bytes, more than {largest:,}")
    try:
        value = json.loads(data)
        deep = depth(value) > DEEPEST
    except RecursionError:
        deep = True
    if deep:
        raise ValueError(f"metadata nested more than {DEEPEST} deep")
    return value


def depth(value: object) -> int:
    """Count levels of nesting. A recursive function could exhaust the stack on a hostile file."""
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


def append_checksum(text: str) -> str:
    return f"{text}{SUM_OF_TEXT}{hashlib.sha256(text.encode()).hexdigest()}\n"


def verify_checksum(text: str, place: str) -> str:
    """Check the checksum in the last line of a text, and return the text."""
    body, mark, found = text.rpartition(SUM_OF_TEXT)
    if not mark:
        hint = "It was cut or edited, or a version before 0.3 wrote it. Runs of such versions cannot be read."
        raise InputError("run", place, "a study.toml with its checksum, as a sweep writes it", hint)
    if found != f"{hashlib.sha256(body.encode()).hexdigest()}\n":
        hint = "It was edited or damaged. `ldpflow sweep` with the study file writes it again."
        raise InputError("run", place, "a study.toml as a sweep wrote it", hint)
    return text


class Reference(NamedTuple):
    """An entry of a .bib file: its type, its fields and its text."""

    kind: str
    fields: dict[str, str]
    text: str


def read_bib(text: str) -> dict[str, Reference]:
    """Read entries of BibTeX by key. Each field must have its own line. The last line must be a brace."""
    found = {}
    for match in re.finditer(r"^@(\w+)\{([^,\s]+),\n(.*?)^\}", text, re.MULTILINE | re.DOTALL):
        fields = dict(re.findall(r"^\s*(\w+)\s*=\s*[{\"](.*)[}\"],?$", match[3], re.MULTILINE))
        found[match[2]] = Reference(match[1], fields, match[0])
    return found


@cache
def references() -> dict[str, Reference]:
    return read_bib(files("ldpflow").joinpath("results", "references.bib").read_text(encoding="utf-8"))


def label(reference: Reference) -> str:
    """Short citation, as in ``Dette and Graw, 2024``."""
    names = [author.partition(",")[0] for author in reference.fields["author"].split(" and ")]
    who = " and ".join(names) if len(names) < 3 else f"{names[0]} et al."
    return f"{who}, {reference.fields['year']}"


def python_values(value: Any) -> Any:
    """Convert numbers and arrays of NumPy, pandas, Polars and Arrow to Python numbers and lists."""
    if not hasattr(value, "tolist") and hasattr(value, "to_numpy"):  # Polars, and a column of Arrow
        value = value.to_numpy()
    return value.tolist() if hasattr(value, "tolist") else value


def templates(package: str, html: bool = False, **filters: Any) -> Environment:
    """Load the templates of a package, with further filters. With ``html`` all values are escaped."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(package, ""),
        autoescape=html,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= filters
    return environment
