"""Writes ``ldpflow/__init__.pyi``: the types of what ``import ldpflow`` offers.

    python -m ldpflow.study.stubs

A component's class takes a value or a list of values for every setting; its annotation names one value.
So the stub file declares the constructors, from the classes' own declarations.
"""

from __future__ import annotations

import types
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import ldpflow
from ldpflow.settings import Settings

__all__ = ["stub_text"]

HEAD = '''"""Types of the Python interface. Written by ``python -m ldpflow.study.stubs``: do not edit."""

from collections.abc import Sequence

'''


def stub_text() -> str:
    """The stub file."""
    imports, classes = [], []
    for module, names in sorted(vars(ldpflow)["EXPORTS"].items()):
        imports += [f"from {module} import {name} as {name}" for name in names]
    for module, (base, registry) in sorted(vars(ldpflow)["REGISTRIES"].items()):
        imports.append(f"from {module} import {base} as {base}")
        loaded = __import__(module, fromlist=[registry])
        kinds = [
            kind for kind in getattr(loaded, registry).values() if kind.__module__.startswith("ldpflow.")
        ]
        for kind in sorted(dict.fromkeys(kinds), key=lambda kind: kind.__name__):
            imports.append(f"from {kind.__module__} import {kind.__name__} as _{kind.__name__}")
            classes.append(class_text(kind))
    ordered = sorted(imports, key=lambda line: (line.split()[1], line.split()[3]))
    return HEAD + "\n".join(ordered) + "\n\n__version__: str\n\n" + "\n".join(classes)


def class_text(kind: type[Settings]) -> str:
    """The declaration of a component's constructor."""
    settings = [
        f"        {name}: {axis(field.annotation)} = ...,"
        for name, field in kind.model_fields.items()
        if name != "kind"
    ]
    lines = [f"class {kind.__name__}(_{kind.__name__}):"]
    if settings:
        lines += ["    def __init__(", "        self,", "        *,", *settings, "    ) -> None: ..."]
    else:
        lines.append("    def __init__(self) -> None: ...")
    return "\n".join(lines) + "\n"


def axis(annotation: Any) -> str:
    """A value or several: the type of a setting as it is given."""
    one, optional = value(annotation)
    return f"{one} | Sequence[{one}]" + (" | None" if optional else "")


def value(annotation: Any) -> tuple[str, bool]:
    """The type of one value, and whether it may be absent."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return value(arguments[0])
    if origin in (Union, types.UnionType):
        named = [value(argument)[0] for argument in arguments if argument is not type(None)]
        return " | ".join(dict.fromkeys(named)), type(None) in arguments
    if origin is Literal:
        return type(arguments[0]).__name__, False
    if origin is tuple:
        return f"tuple[{value(arguments[0])[0]}, ...]", False
    if origin is not None:
        return "object", False
    return getattr(annotation, "__name__", "object"), False


if __name__ == "__main__":
    Path(ldpflow.__file__).with_suffix(".pyi").write_text(stub_text(), encoding="utf-8")
