"""Components given in Python, as the tables of a study file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ldpflow.errors import InputError
from ldpflow.settings import Axes, Settings, plain_values
from ldpflow.study.entry import GROUPS

__all__ = ["python_error", "tables_of"]


def tables_of(group: str, given: object) -> list[dict[str, Any]]:
    """Tables of a study file for components that were given in Python."""
    items = list(given) if isinstance(given, (list, tuple)) else [given]
    tables = []
    for item in items:
        if isinstance(item, Axes):
            kind, values = item.component.model_fields["kind"].default, dict(item.values)  # type: ignore[attr-defined]
        elif isinstance(item, Settings):
            # A budget that was not said is no value of the study's: it is asked for there.
            unsaid = type(item).unsaid(dict.fromkeys(item.model_fields_set))
            values = {k: v for k, v in item.model_dump().items() if v is not None and k not in unsaid}
            kind = values.pop("kind")
        elif isinstance(item, Mapping):
            tables.append(dict(item))
            continue
        else:
            raise InputError(group, item, f"a {group}, as in ldpflow.{EXAMPLES[group]}, or a list of them")
        registered = GROUPS[group].get(kind)
        if registered is not (item.component if isinstance(item, Axes) else type(item)):
            raise InputError(f"{group}.kind", kind, f"a registered {group}", "Use ldpflow.register.")
        tables.append({"kind": kind} | {name: plain_values(value) for name, value in values.items()})
    return tables


EXAMPLES = {
    "problem": "Quantile(tau=0.9)",
    "mechanism": "RandomizedResponse(epsilon=1.0)",
    "algorithm": "LdpSgd()",
    "protocol": "Thresholds()",
    "method": "BlockBootstrap(beta=0.75)",
}


def python_error(error: InputError) -> InputError:
    """The error about a study with what Python calls the tables of a study file."""
    texts = (text.replace(f" ([[{error.field}]] in a file)", "") for text in (error.allowed, error.hint))
    allowed, hint = (re.sub(r"(?:a table )?\[(\w+)\]", r"`\1`", text) for text in texts)
    if error.field in EXAMPLES and not error.value:
        allowed = f"a {error.field}, as in ldpflow.{EXAMPLES[error.field]}, or a list of them"
    return InputError(error.field, error.value, allowed, hint)
