"""Write ldpflow/__init__.pyi, the types of the Python interface: python docs/stubs.py."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import ldpflow
from ldpflow.report.pictures import FIGURES
from ldpflow.settings import Settings, bare_type, field_type

FILE = Path(ldpflow.__file__).with_suffix(".pyi")

HEAD = '''"""Types of the Python interface, written by ``python docs/stubs.py``.

A component takes a value or a list of values for every setting, and checks them when it is made. The names of
a plug-in are not known here: a type checker needs ``# type: ignore[arg-type]`` for them.
"""
# fmt: off
# ruff: noqa: E401, E501, I001

import os
import typing
from collections.abc import Sequence
from typing import Any, Literal, TypeVar
'''

TAKING_OPTIONS = ("plan", "sweep")
"""Functions whose options are declared elsewhere."""

ALIASES = """
__version__: str
_T = TypeVar("_T")
class _Array(typing.Protocol):
    def __array__(self) -> Any: ...
Axis = _T | Sequence[_T] | _Array
"""


def page() -> str:
    """Text of ldpflow/__init__.pyi, from the settings of components."""
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
    for name in TAKING_OPTIONS:
        lines = [re.sub(rf"(, )?\b{name} as {name}\b", "", line) for line in lines]
    lines.append(f"import {', '.join(sorted({kind.__module__ for kind in kinds}))}")
    defined = [*map(function, TAKING_OPTIONS), *map(component, kinds)]
    figures = f"_Figure = {literal(FIGURES)}\n"
    return HEAD + "\n".join(lines) + "\n" + ALIASES + figures + "\n" + "\n".join(defined) + "\n"


def function(name: str) -> str:
    """Signature of a function, with its options as arguments."""
    signature = inspect.signature(getattr(ldpflow, name))
    arguments = []
    for given in signature.parameters.values():
        if given.kind is given.KEYWORD_ONLY and "*" not in arguments:
            arguments.append("*")
        default = "" if given.default is given.empty else f" = {given.default!r}"
        arguments.append(f"{given.name}: {given.annotation}{default}")
    return f"def {name}({', '.join(arguments)}) -> {signature.return_annotation}: ..."


def component(kind: type[Settings]) -> str:
    """Stub of a component's class, with its settings as arguments."""
    settings = []
    for name, field in kind.model_fields.items():
        if name != "kind":
            default = "" if field.is_required() else f" = {shown(field.get_default())}"
            names = field_type(kind, name)[1].get("one_of")
            text = literal(names.names()) if names else type_text(field.annotation)
            settings.append(f"{name}: Axis[{text}]{default}")
    arguments = ", ".join(["self", *(["*", *settings] if settings else [])])
    name = kind.__name__
    return f"class {name}({kind.__module__}.{name}):\n    def __init__({arguments}) -> None: ..."


def literal(values: Iterable[object]) -> str:
    return f"Literal[{', '.join(map(repr, values))}]"


def shown(default: object) -> str:
    return repr(default) if isinstance(default, (int, float, str, tuple, types.NoneType)) else "..."


def type_text(annotation: Any) -> str:
    """Type of a setting's value, without its bounds."""
    optional = get_origin(annotation) in (Union, types.UnionType)
    kind = bare_type(annotation)[0]
    if get_origin(kind) is Literal:
        text = literal(get_args(kind))
    elif get_origin(kind) is tuple:
        parts = ("..." if part is ... else type_text(part) for part in get_args(kind))
        text = f"tuple[{', '.join(parts)}]"
    else:
        text = kind.__name__
    return f"{text} | None" if optional else text


if __name__ == "__main__":
    FILE.write_text(page(), encoding="utf-8")
