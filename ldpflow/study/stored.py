"""The study of a run, to be shown, compared or run again.

Reading a study that is only shown executes no code of a plug-in and opens no file outside the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from itertools import chain
from typing import Any

from ldpflow.components.problems.tables import close_data_files
from ldpflow.errors import InputError
from ldpflow.simulators.families import names_file
from ldpflow.store.run_store import RunStore
from ldpflow.study.entry import PILOT_VALUES
from ldpflow.study.reading import check_plugins, stored_mapping, toml_text
from ldpflow.study.study import Study


def without_pilot(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: without_pilot(own) for name, own in value.items() if name != PILOT_VALUES}
    return [without_pilot(own) for own in value] if isinstance(value, list) else value


def public_study(mapping: Mapping[str, Any], text: str) -> tuple[dict[str, Any], str]:
    """Remove the values of a pilot from the tables and the text of a run's study."""
    kept = without_pilot(mapping)
    if kept == mapping:
        return kept, text
    return kept, f"# {PILOT_VALUES} is left out: it holds the values of the pilot.\n{toml_text(kept)}"


def stored_study(store: RunStore, to_run: bool = False) -> Study | None:
    """Read RUN/study.toml. None if there is no such file, or if a component is unknown to this process."""
    mapping = stored_mapping(store)
    try:
        return None if mapping is None else build_study(store, mapping, to_run)
    except InputError:
        return None


def study_to_run(store: RunStore) -> Study:
    mapping = stored_mapping(store)
    if mapping is None:
        hint = "`ldpflow sweep` with the study file writes it."
        raise InputError("run", store.root, "a run with a study.toml", hint)
    check_plugins(store, readable=stored_study(store) is not None)
    return build_study(store, mapping, to_run=True)


def build_study(store: RunStore, mapping: dict[str, Any], to_run: bool) -> Study:
    """Make a study of the tables of RUN/study.toml.

    A data file needs a digest, in the study or in a part of the run. A study that is to run compares the
    digest with the file. Otherwise the file is not opened.
    """
    for table in entries(mapping, "problem"):
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


def stored_notes(store: RunStore) -> list[str]:
    """List the notes below a summary: the unit of the data, and what the stored study leaves out."""
    study = stored_study(store)
    if study is None:
        return []
    unit = study.collection and study.collection.unit
    notes = [f"The unit of the data, and so of lengths, is {unit}."] if unit else []
    return [*notes, *study.left_out()]


def stored_cautions(store: RunStore) -> list[str]:
    """List what the stored study leaves out, and the assumptions that it violates."""
    study = stored_study(store)
    return [] if study is None else [*study.left_out(), *study.warnings()]


def uses_files(mapping: dict[str, Any]) -> bool:
    return any(table.get("file") is not None for table in entries(mapping, "problem"))


def entries(study: Mapping[str, Any], name: str) -> list[Any]:
    found = study.get(name, [])
    return [found] if isinstance(found, Mapping) else list(found)


def stored_digest(store: RunStore, file: object) -> str | None:
    for part in chain.from_iterable(dataset.scan(damaged=[]) for dataset in store.datasets()):
        settings = part.meta.get("path_settings")
        for table in settings.values() if isinstance(settings, dict) and names_file(settings) else ():
            if isinstance(table, dict) and isinstance(table.get("sha256"), str):
                if file in (table.get("file"), [table.get("file")]):
                    digest: str = table["sha256"]
                    return digest
    return None
