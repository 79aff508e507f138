"""Study files: the bundled ones and the user's own."""

from __future__ import annotations

import os
import re
from pathlib import Path

import ldpflow
from ldpflow.documents import check_sum, parse_toml, read_text
from ldpflow.errors import InputError
from ldpflow.settings import closest, nearest
from ldpflow.study.reading import read_plugins
from ldpflow.study.study import Study

MOST_NAMED = 20
"""Most files that a hint names."""


def bundled_studies() -> dict[str, Path]:
    """The study files that come with the package, by name; folders, by paper or topic, are no part of it."""
    package = Path(ldpflow.__file__).parent
    # In a source checkout they lie next to the package.
    root = package if (package / "workflows").is_dir() else package.parent
    files = {file.stem: file for file in root.glob("workflows/**/*.toml")}
    return dict(sorted(files.items()))


def load_study(source: str, is_path: bool = False) -> Study:
    """Read a study.

    Parameters
    ----------
    source : str
        Path of a .toml file, or the name of a bundled study.
    is_path : bool
        Whether it is a path whatever it is called.

    Raises
    ------
    InputError
        If there is no such study, or it cannot be used.
    """
    bundled = bundled_studies()
    if source in bundled and not is_path:
        file, text = bundled[source].name, bundled[source].read_text(encoding="utf-8")
    elif is_path or source.endswith(".toml") or "/" in source:
        if "\0" not in source and not os.path.lexists(source):
            hint = f"No such file or directory. {nearest_file(source)}".strip()
            raise InputError("study", source, "a file that can be read", hint)
        file, text = Path(source).name, read_text(source, "study")
    else:
        close = closest(source, [*bundled, *study_files(source)])
        hint = nearest_file(source) if "." in source else close or nearest(source, bundled)
        raise InputError("study", source, "the name of a bundled study or a .toml file", hint)
    stored = is_stored(source)
    if stored:
        check_sum(text, source)
    mapping = parse_toml(text, "study", source)
    if stored:
        read_plugins(mapping.get("plugins", {}), stored=True)
    try:
        # A study without a name is called like its file.
        return Study.from_mapping({"name": file.removesuffix(".toml")} | mapping)
    except InputError as error:
        if type(error) is not InputError or (source in bundled and not is_path):
            raise
        if stored:
            from ldpflow.store.run_store import RunStore
            from ldpflow.study.stored import check_plugins

            check_plugins(RunStore(os.path.dirname(source) or "."), None)
        line = line_of(text, error.field)
        where = f"In {source}" + ("." if line is None else f", line {line}.")
        raise InputError(error.field, error.value, error.allowed, f"{error.hint} {where}".strip()) from None


def is_stored(source: str) -> bool:
    folder, name = os.path.split(source)
    return name == "study.toml" and any(
        os.path.lexists(os.path.join(folder, other)) for other in ("provenance.json", "replicates")
    )


def study_files(source: str) -> list[str]:
    try:
        return sorted(entry.name for entry in Path(source).parent.iterdir() if entry.name.endswith(".toml"))
    except (OSError, ValueError):
        return []


def nearest_file(source: str) -> str:
    folder, names = Path(source).parent, study_files(source)
    if found := closest(Path(source).name, names):
        return found
    some = ", ".join(names[:MOST_NAMED]) + (", ..." if len(names) > MOST_NAMED else "")
    return f"The folder {folder} has {some}." if names else f"The folder {folder} has no .toml file."


def line_of(text: str, field: str) -> int | None:
    """First line of a study file that gives a setting, or else that of its table; None without either."""
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
