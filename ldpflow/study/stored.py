"""Study that a run holds, read without executing anything and without opening anything outside the run."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from itertools import chain
from typing import Any

from ldpflow.components.problems.tables import data_files_closed
from ldpflow.documents import parse_toml
from ldpflow.errors import InputError
from ldpflow.simulators.families import names_file
from ldpflow.store.run_store import RunStore
from ldpflow.study.entry import GROUPS, PILOT_VALUES, entry_tables
from ldpflow.study.plugins import SOURCES
from ldpflow.study.reading import read_tables, toml_text
from ldpflow.study.study import Study, hash_of


def stored_mapping(store: RunStore) -> dict[str, Any] | None:
    """Tables of RUN/study.toml; None where there is none."""
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
    """The study that RUN/study.toml holds; None where there is none, or its components are not known here."""
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
        with nullcontext() if to_run else data_files_closed():
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
