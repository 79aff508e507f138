"""Writes the types of the Python interface from the settings of components: python docs/stubs.py."""

from __future__ import annotations

import types
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import ldpflow
from ldpflow.practice.planning import PlanOptions
from ldpflow.settings import Settings, bare_type

FILE = Path(ldpflow.__file__).with_suffix(".pyi")

HEAD = '''"""Types of the Python interface, written by ``python docs/stubs.py``.

A component takes a value or a list of values for every setting, and checks them when it is made.
"""
# fmt: off
# ruff: noqa: E401, E501, I001

from collections.abc import Sequence
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

'''

ALIASES = """
__version__: str
_T = TypeVar("_T")
Axis = _T | Sequence[_T] | NDArray[np.generic]
"""


def page() -> str:
    """The text of ldpflow/__init__.pyi."""
    kinds = [
        kind
        for module, (_, registry) in ldpflow.REGISTRIES.items()
        for kind in getattr(__import__(module, fromlist=[registry]), registry).values()
    ]
    exported = {module: [*names] for module, names in ldpflow.EXPORTS.items()}
    for module, (base, _) in ldpflow.REGISTRIES.items():
        exported[module] = [base]
    lines = [
        f"from {module} import {', '.join(f'{name} as {name}' for name in sorted(names))}"
        for module, names in sorted(exported.items())
    ]
    lines = [line.removesuffix(", plan as plan") for line in lines]
    lines.append(f"import {', '.join(sorted({kind.__module__ for kind in kinds}))}")
    return (
        HEAD + "\n".join(lines) + "\n" + ALIASES + "\n" + "\n".join([plan(), *map(component, kinds)]) + "\n"
    )


def plan() -> str:
    options = ", ".join(f"{field.name}: {field.type} = {field.default!r}" for field in fields(PlanOptions))
    return f"def plan(study: Study | str | None = None, *, {options}) -> Plan: ..."


def component(kind: type[Settings]) -> str:
    """A class with the settings of a component as arguments."""
    settings = []
    for name, field in kind.model_fields.items():
        if name != "kind":
            default = "" if field.is_required() else f" = {shown(field.get_default())}"
            settings.append(f"{name}: Axis[{type_text(field.annotation)}]{default}")
    arguments = ", ".join(["self", *(["*", *settings] if settings else [])])
    name = kind.__name__
    return f"class {name}({kind.__module__}.{name}):\n    def __init__({arguments}) -> None: ..."


def shown(default: object) -> str:
    return repr(default) if isinstance(default, (int, float, str, tuple, types.NoneType)) else "..."


def type_text(annotation: Any) -> str:
    """Type of one value without bounds."""
    optional = get_origin(annotation) in (Union, types.UnionType)
    kind = bare_type(annotation)[0]
    if get_origin(kind) is Literal:
        text = f"Literal[{', '.join(map(repr, get_args(kind)))}]"
    elif get_origin(kind) is tuple:
        parts = ("..." if part is ... else type_text(part) for part in get_args(kind))
        text = f"tuple[{', '.join(parts)}]"
    else:
        text = kind.__name__
    return f"{text} | None" if optional else text


if __name__ == "__main__":
    FILE.write_text(page(), encoding="utf-8")
