"""Study files: the bundled ones, the user's own, and writing one."""

from __future__ import annotations

import json
import tomllib
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import ldpflow
from ldpflow.errors import InputError
from ldpflow.study.fields import nearest
from ldpflow.study.study import Study

__all__ = ["bundled_studies", "load_study", "toml_text"]


def bundled_studies() -> dict[str, Traversable]:
    """The study files that come with the package, by name."""
    folder: Traversable = resources.files(ldpflow) / "workflows"
    if not folder.is_dir():  # a source checkout, where they lie beside the package
        folder = Path(ldpflow.__file__).parents[1] / "workflows"
    if not folder.is_dir():
        return {}
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    return {file.name.removesuffix(".toml"): file for file in files if file.name.endswith(".toml")}


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
        raise InputError("STUDY", source, "the name of a bundled study or a .toml file", hint)
    try:
        mapping = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError("STUDY", source, "a file that can be read", f"{reason}.") from None
    except (ValueError, RecursionError) as error:
        raise InputError("STUDY", source, "a file in TOML", f"{error}.") from None
    # A study without a name is called like its file.
    return Study.from_mapping({"name": file.name.removesuffix(".toml")} | mapping)


def toml_text(settings: dict[str, Any]) -> str:
    """The canonical mapping of a study as TOML; an axis with one value is written as a scalar."""
    heading = {k: v for k, v in settings.items() if not isinstance(v, (list, dict))}
    parts = ["\n".join(f"{name} = {literal(value)}" for name, value in heading.items())]
    for name, tables in settings.items():
        if isinstance(tables, dict):
            parts.append(table(f"[{name}]", tables))
        elif isinstance(tables, list):
            title = f"[{name}]" if len(tables) == 1 and name != "method" else f"[[{name}]]"
            parts += [table(title, mapping) for mapping in tables]
    return "\n\n".join(parts) + "\n"


def table(title: str, mapping: dict[str, Any]) -> str:
    """One table."""
    return "\n".join([title, *(f"{name} = {axis(value)}" for name, value in mapping.items())])


def axis(value: object) -> str:
    """An axis; one value stands alone."""
    return literal(value[0]) if isinstance(value, list) and len(value) == 1 else literal(value)


def literal(value: object) -> str:
    """A value; floats by ``repr``, which reads back to the same bits."""
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(literal(item) for item in value) + "]"
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:_}" if isinstance(value, int) else repr(value)
