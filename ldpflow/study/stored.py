"""Study files: the bundled ones, the user's own, and that of a run.

The study of a run is read without executing anything and without opening anything outside the run.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from itertools import chain
from pathlib import Path
from typing import Any

import ldpflow
from ldpflow.components.problems.tables import close_data_files
from ldpflow.documents import parse_toml, read_text, verify_checksum
from ldpflow.errors import InputError
from ldpflow.settings import closest, nearest
from ldpflow.simulators.families import names_file
from ldpflow.store.run_store import RunStore
from ldpflow.study.entry import GROUPS, PILOT_VALUES, entry_tables
from ldpflow.study.plugins import SOURCES
from ldpflow.study.reading import read_plugins, read_tables, toml_text
from ldpflow.study.study import Study, hash_of

MOST_NAMED = 20
"""Most files that a hint names."""


def bundled_studies() -> dict[str, Path]:
    """The study files that come with the package, by name, whatever their folder.

    >>> sorted(lf.bundled_studies())[:2]
    ['arena', 'arena-regression']
    """
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
        verify_checksum(text, source)
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
    """First line of a study file that gives a setting, or else that of its table."""
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


def stored_mapping(store: RunStore) -> dict[str, Any] | None:
    """Tables of RUN/study.toml, or None without one."""
    text = store.read_study()
    if text is None:
        return None
    place = store.full("study.toml")
    mapping = parse_toml(text, "run", place)
    try:
        read_tables(mapping, stored=True)
        for group in GROUPS.keys() & mapping.keys():
            for name, value in chain(*(table.items() for table in entry_tables(group, mapping[group]))):
                if value == []:
                    raise InputError(f"{group}.{name}", value, "at least one value")
    except InputError as error:
        raise InputError("run", place, "a study as a sweep writes it", str(error)) from None
    return mapping


def without_pilot(value: Any) -> Any:
    """Tables of a study without the values of a pilot, whatever their nesting."""
    if isinstance(value, Mapping):
        return {name: without_pilot(own) for name, own in value.items() if name != PILOT_VALUES}
    return [without_pilot(own) for own in value] if isinstance(value, list) else value


def public_study(mapping: Mapping[str, Any], text: str) -> tuple[dict[str, Any], str]:
    """A run's study as pages show it, its tables and its text: without the values of a pilot."""
    kept = without_pilot(mapping)
    if kept == mapping:
        return kept, text
    return kept, f"# {PILOT_VALUES} is left out: it holds the values of the pilot.\n{toml_text(kept)}"


def stored_study(store: RunStore, to_run: bool = False) -> Study | None:
    """The study that RUN/study.toml holds. None without one, or if its components are not known here."""
    mapping = stored_mapping(store)
    try:
        return None if mapping is None else build_study(store, mapping, to_run)
    except InputError:
        return None


def study_to_run(store: RunStore) -> Study:
    """The study that RUN/study.toml holds, to be run."""
    mapping = stored_mapping(store)
    if mapping is None:
        raise InputError(
            "run", store.root, "a run with a study.toml", "A sweep with its study file writes it."
        )
    check_plugins(store, stored_study(store))
    return build_study(store, mapping, to_run=True)


def build_study(store: RunStore, mapping: dict[str, Any], to_run: bool) -> Study:
    """The study that the tables of RUN/study.toml say.

    A data file that it names must have the digest that the study, or else a part of the run, says. It is
    opened, and its digest compared, only for a study that is to run.
    """
    for table in problem_tables(mapping):
        if table.get("file") is not None and "sha256" not in table:
            found = stored_digest(store, table["file"])
            if found is None:
                raise InputError("problem.sha256", None, "the digest of the data file that the study names")
            table["sha256"] = found
    try:
        with nullcontext() if to_run else close_data_files():
            return Study.from_mapping(mapping, stored=True)
    except ValueError as error:
        raise InputError("run", store.full("study.toml"), "a study that can be run", f"{error}.") from None


def stored_left_out(store: RunStore) -> list[str]:
    study = stored_study(store)
    return [] if study is None else study.left_out()


def stored_cautions(store: RunStore) -> list[str]:
    """Lines on parts that the stored study leaves out and on broken assumptions."""
    study = stored_study(store)
    return [] if study is None else [*study.left_out(), *study.warnings()]


def check_plugins(store: RunStore, study: Study | None) -> None:
    """Compare a run's plug-ins with those that are loaded."""
    here = {plugin.name: plugin.sha256 for plugin in SOURCES.values() if plugin is not None}
    for name, digest in stored_plugins(stored_mapping(store) or {}):
        copy = f"{store.root.rstrip('/')}/plugins/{name}-{str(digest)[:12]}/"
        if name not in here and study is None:
            raise InputError("plugin", None, f"the plug-in {name} of this run", f"Its copy: {copy}")
        if here.get(name, digest) != digest:
            warnings.warn(
                f"the plug-in {name} is not the source that this run was made with (SHA-256 "
                f"{here[name][:12]}, of the run {str(digest)[:12]}); that is in {copy}",
                stacklevel=2,
            )


def stored_plugins(mapping: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Names and digests of the plug-ins that the study of a run names."""
    table = mapping.get("plugins", {})
    names, digests = ([v] if isinstance(v, str) else v for v in map(table.get, ("names", "sha256"), ([], [])))
    return list(zip(names, digests, strict=False))


def header_matches(store: RunStore, study: Study) -> bool:
    """Whether the hash in the first line of RUN/study.toml is that of its content."""
    text = store.read_study() or ""
    settings, mapping = study.settings(), stored_mapping(store) or {}
    if isinstance(stored := mapping.get("plugins"), dict) and "plugins" in settings:
        # The sources that the run was made with, not those that are loaded now.
        settings["plugins"] = {k: v if isinstance(v, list) else [v] for k, v in stored.items()}
    given = problem_tables(mapping)
    for table, before in zip(problem_tables(settings), given, strict=False):
        if "sha256" not in before and before.get("file") is not None:
            table.pop("sha256", None)
    return text.partition("\n")[0] == f"# Resolved study, hash {hash_of(settings)}"


def uses_files(mapping: dict[str, Any]) -> bool:
    return any(table.get("file") is not None for table in problem_tables(mapping))


def problem_tables(mapping: dict[str, Any]) -> list[dict[str, Any]]:
    found = mapping.get("problem", [])
    return [found] if isinstance(found, dict) else list(found)


def stored_digest(store: RunStore, file: object) -> str | None:
    """SHA-256 of a data file, as the parts of a run say."""
    for part in chain.from_iterable(dataset.scan(damaged=[]) for dataset in store.datasets()):
        settings = part.meta.get("path_settings")
        for table in settings.values() if isinstance(settings, dict) and names_file(settings) else ():
            if isinstance(table, dict) and isinstance(table.get("sha256"), str):
                if file in (table.get("file"), [table.get("file")]):
                    digest: str = table["sha256"]
                    return digest
    return None
