"""Writing a study as TOML."""

from __future__ import annotations

import json
from typing import Any


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
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {literal(item)}" for name, item in value.items()) + " }"
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:_}" if isinstance(value, int) else repr(value)
