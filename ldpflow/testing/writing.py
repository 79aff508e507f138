"""Write a component and its test from templates, for ``ldpflow new``."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

from ldpflow.components.problems.quantile import law_names
from ldpflow.errors import InputError
from ldpflow.settings import closest
from ldpflow.study.plugins import REGISTRIES

KINDS = ("problem", "law", "mechanism", "algorithm", "method")


def write_component(kind: str, name: str, folder: str = ".") -> list[Path]:
    """Write ``NAME.py`` with a working component, and ``test_NAME.py`` with its test."""
    if kind not in KINDS:
        raise InputError("kind", kind, f"one of {', '.join(KINDS)}", closest(kind, KINDS))
    if not re.fullmatch("[a-z][a-z0-9_]{0,49}", name):
        raise InputError("name", name, "up to 50 lower-case letters, digits and underscores, a letter first")
    if name in REGISTRIES[kind] or (kind == "law" and name in law_names()):
        raise InputError("name", name, "a name of its own", f"There is a {kind} of this name.")
    there = Path(folder)
    code, test = there / f"{name}.py", there / f"test_{name}.py"
    for file in (code, test):
        if file.exists():
            raise InputError("name", name, "a name without existing files", f"{file} exists.")
    words = {
        "kind": name,
        "Class": "".join(word.capitalize() for word in name.split("_")),
        "file": code.name,
    }
    templates = files("ldpflow.testing") / "templates"
    try:
        there.mkdir(parents=True, exist_ok=True)
        for file, template in ((code, f"{kind}.py.txt"), (test, f"test_{kind}.py.txt")):
            text = (templates / template).read_text(encoding="utf-8")
            file.write_text(text.format(**words), encoding="utf-8")
    except OSError as error:
        raise InputError("folder", folder, "a folder that can be written to", f"{error.strerror}.") from None
    return [code, test]
