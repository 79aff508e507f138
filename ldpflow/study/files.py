"""Study files: the bundled ones and the user's own."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

import ldpflow
from ldpflow.errors import InputError
from ldpflow.study.fields import nearest
from ldpflow.study.study import Study

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
    file: Traversable
    if source in bundled:
        file = bundled[source]
    elif source.endswith(".toml") or "/" in source:
        file = Path(source)
    else:
        hint = nearest(source, bundled)
        raise InputError("study", source, "the name of a bundled study or a .toml file", hint)
    try:
        mapping = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError("study", source, "a file that can be read", f"{reason}.") from None
    except (ValueError, RecursionError) as error:
        raise InputError("study", source, "a file in TOML", f"{error}.") from None
    # A study without a name is called like its file.
    return Study.from_mapping({"name": file.name.removesuffix(".toml")} | mapping)
