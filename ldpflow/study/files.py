"""Study files: the bundled ones and the user's own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

import ldpflow
from ldpflow.allowed import nearest
from ldpflow.errors import InputError
from ldpflow.study.study import Study
from ldpflow.study.toml import parsed, study_text

__all__ = ["bundled_studies", "load_study"]


def bundled_studies() -> dict[str, Traversable]:
    """The study files that come with the package, by name; folders are no part of a name."""
    folder: Traversable = resources.files(ldpflow) / "workflows"
    if not folder.is_dir():  # a source checkout, where they lie beside the package
        folder = Path(ldpflow.__file__).parents[1] / "workflows"
    if not folder.is_dir():
        return {}
    files = sorted(files_in(folder), key=lambda file: file.name)
    return {file.name.removesuffix(".toml"): file for file in files if file.name.endswith(".toml")}


def files_in(folder: Traversable) -> Iterator[Traversable]:
    """The files of a folder and of the folders in it: studies lie in folders by paper or topic."""
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from files_in(entry)
        else:
            yield entry


def load_study(source: str) -> Study:
    """Read a study.

    Parameters
    ----------
    source : str
        Path of a .toml file, or the name of a bundled study.

    Raises
    ------
    InputError
        If there is no such study, or it cannot be used.
    """
    bundled = bundled_studies()
    if source in bundled:
        file, text = bundled[source].name, bundled[source].read_text(encoding="utf-8")
    elif source.endswith(".toml") or "/" in source:
        file, text = Path(source).name, study_text(source)
    else:
        hint = nearest(source, bundled)
        raise InputError("study", source, "the name of a bundled study or a .toml file", hint)
    mapping = parsed(text, "study", source)
    try:
        # A study without a name is called like its file.
        return Study.from_mapping({"name": file.removesuffix(".toml")} | mapping)
    except InputError as error:
        if type(error) is not InputError or source in bundled:
            raise
        line = line_of(text, error.field)
        where = f"In {source}" + ("." if line is None else f", line {line}.")
        raise InputError(error.field, error.value, error.allowed, f"{error.hint} {where}".strip()) from None


def line_of(text: str, field: str) -> int | None:
    """The first line of a study file that gives a setting, or else the line of its table; None without."""
    table, _, key = field.partition(".")
    section, found = "", None
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[\[?\s*([\w-]+)", line):
            section = header[1]
            found = number if section == table and found is None else found
        elif given := re.match(r"\s*\"?([\w-]+)\"?\s*=", line):
            if (section, given[1]) in ((table, key), ("", table)):
                return number
    return found
