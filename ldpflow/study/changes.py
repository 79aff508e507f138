"""What Python gives a study: components as tables of a study file, and settings by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ldpflow.allowed import nearest
from ldpflow.errors import InputError
from ldpflow.settings import Axes, Settings, plain_values
from ldpflow.study.entry import GROUPS, Entry, read_group, unknown_kind
from ldpflow.study.fields import number, plain, read_value, read_values
from ldpflow.study.reading import Grid, Heading

SHORT_NAMES = {
    "tau": ("problem",),
    "epsilon": ("mechanism", "algorithm", "protocol"),
    "mu": ("mechanism",),
    "gamma": ("algorithm",),
    "c": ("algorithm",),
    "beta": ("method",),
    "B": ("method",),
}
"""Settings that need no group before their name, and the groups that may have them."""

Entries = tuple[Entry, ...]


def replacements(entries: Mapping[str, Entries], values: Mapping[str, object]) -> dict[str, Any]:
    """Fields of a study that the values change.

    Parameters
    ----------
    entries : mapping of str to tuple of Entry
        The study's entries by group.
    values : mapping of str to value or list of values
        By name: a short name (:data:`SHORT_NAMES`), ``group.setting``, ``method``, an axis of the grid,
        ``replicates`` or ``seed``; ``problem``, ``mechanism``, ``algorithm``, ``protocol`` and ``methods``
        take components, as :class:`Study` does. Numbers may be texts. None and empty lists change nothing.

    Raises
    ------
    InputError
        Naming the field.
    """
    plain_ones = {name: plain_values(value) for name, value in values.items()}
    given = {name: value for name, value in plain_ones.items() if value is not None and value != []}
    changed: dict[str, Any] = {}
    for name in (*GROUPS, "methods"):
        if name in given and has_components(given[name]):
            group = name.removesuffix("s")
            changed[group] = read_group(group, tables_of(group, given.pop(name)))
    if "method" in given:
        changed["method"] = chosen_methods(entries["method"], given.pop("method"))
    for name, raw in given.items():
        value = numbers(raw)
        plain(value, f"{SHORT_NAMES[name][0]}.{name}" if name in SHORT_NAMES else name)
        group, _, setting = name.partition(".")
        if name in SHORT_NAMES:
            current = {g: changed.get(g, entries[g]) for g in SHORT_NAMES[name]}
            owners = [g for g, own in current.items() if any(e.has(name) for e in own)]
            for owner in owners or SHORT_NAMES[name][:1]:
                changed[owner] = with_axis(owner, current[owner], name, value)
        elif group in GROUPS and setting:
            changed[group] = with_axis(group, changed.get(group, entries[group]), setting, value)
        elif name in Grid.model_fields or (group == "grid" and setting in Grid.model_fields):
            axis = setting or name
            if axis == "independent_n":
                changed[axis] = read_value(Grid, axis, value, f"grid.{axis}")
            else:
                changed[axis] = tuple(sorted(read_values(Grid, axis, value, f"grid.{axis}")))
        elif name in ("replicates", "seed", "name"):
            changed[name] = read_value(Heading, name, value, name)
        else:
            if name in GROUPS:
                raise InputError(name, raw, f"a {name}, as in ldpflow.{EXAMPLES[name]}, or a list of them")
            known = ["method", *SHORT_NAMES, *Grid.model_fields, "replicates", "seed", "name"]
            raise InputError(name, raw, "a setting of a study", nearest(name, known))
    return changed


def has_components(raw: object) -> bool:
    """Whether a value is a component, or a list of components."""
    items = raw if isinstance(raw, (list, tuple)) else [raw]
    return all(isinstance(item, (Settings, Axes)) for item in items)


def numbers(raw: object) -> object:
    """Texts as numbers, in a list or alone."""
    if isinstance(raw, (list, tuple)):
        return [numbers(item) for item in raw]
    return number(raw) if isinstance(raw, str) else raw


def with_axis(group: str, entries: Entries, name: str, raw: object) -> Entries:
    """The entries with a setting replaced in those that have it."""
    result = []
    applied = False
    for entry in entries:
        if entry.has(name):
            applied = True
            kind = GROUPS[entry.group][entry.kind]
            axes = entry.axes | {name: read_values(kind, name, raw, f"{group}.{name}")}
            result.append(Entry.of(entry.group, entry.kind, axes))
        else:
            result.append(entry)
    if not applied:
        kinds = ", ".join(dict.fromkeys(entry.kind for entry in entries)) or "none"
        has = f"This study has {group} {kinds}."
        raise InputError(f"{group}.{name}", raw, f"a {group} that has {name}", has)
    return tuple(result)


def chosen_methods(entries: Entries, raw: object) -> Entries:
    """The study's own entries of the named methods, defaults for names it does not have."""
    names = list(raw) if isinstance(raw, (list, tuple)) else [raw]
    known = GROUPS["method"]
    result: list[Entry] = []
    for name in dict.fromkeys(map(str, names)):
        if name not in known:
            raise unknown_kind("method", name)
        own = [entry for entry in entries if entry.kind == name]
        result += own or [Entry.of("method", name, {})]
    return tuple(result)


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
