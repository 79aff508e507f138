"""Flags of the command line, which replace a study's values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ldpflow.errors import InputError
from ldpflow.study.entry import GROUPS, Entry
from ldpflow.study.fields import nearest, number, plain, read_value, read_values

if TYPE_CHECKING:
    from ldpflow.study.study import Study

__all__ = ["SETTING_FLAGS", "replacements"]

SETTING_FLAGS = {
    "tau": ("problem",),
    "epsilon": ("mechanism", "algorithm"),
    "mu": ("mechanism",),
    "gamma": ("algorithm",),
    "c": ("algorithm",),
    "beta": ("method",),
    "B": ("method",),
}
"""The groups that may have the setting; it is replaced wherever it is."""


def replacements(study: Study, flags: Mapping[str, object]) -> dict[str, Any]:
    """Fields of the study that the flags change.

    Parameters
    ----------
    study : Study
    flags : mapping of str to value or list of values
        By flag without the dashes; numbers may be texts. None and empty lists are flags not given.

    Raises
    ------
    InputError
        Naming the flag.
    """
    from ldpflow.study.study import Grid, Heading

    changed: dict[str, Any] = {}
    given = {k: v for k, v in flags.items() if v is not None and v != [] and v != ()}
    if "method" in given:
        changed["method"] = chosen_methods(study, given.pop("method"))
    for flag, raw in given.items():
        where = f"--{flag}"
        value = numbers(raw)
        plain(value, where)
        if flag in SETTING_FLAGS:
            current = {g: changed.get(g, study.entries(g)) for g in SETTING_FLAGS[flag]}
            owners = [g for g, entries in current.items() if any(e.has(flag) for e in entries)]
            for group in owners or SETTING_FLAGS[flag][:1]:
                changed[group] = with_axis(current[group], flag, value)
        elif flag in Grid.model_fields:
            changed[flag] = tuple(sorted(read_values(Grid, flag, value, where)))
        elif flag in ("replicates", "seed"):
            changed[flag] = read_value(Heading, flag, value, where)
        else:
            known = ["method", *SETTING_FLAGS, *Grid.model_fields, "replicates", "seed"]
            raise InputError(where, raw, "a known flag", nearest(flag, known))
    return changed


def numbers(raw: object) -> object:
    """Texts as numbers, in a list or alone."""
    if isinstance(raw, (list, tuple)):
        return [numbers(item) for item in raw]
    return number(raw) if isinstance(raw, str) else raw


def with_axis(entries: tuple[Entry, ...], name: str, raw: object) -> tuple[Entry, ...]:
    """The entries with a setting replaced in those that have it."""
    result = []
    applied = False
    for entry in entries:
        if entry.has(name):
            applied = True
            kind = GROUPS[entry.group][entry.kind]
            axes = entry.axes | {name: read_values(kind, name, raw, f"--{name}")}
            result.append(Entry.of(entry.group, entry.kind, axes))
        else:
            result.append(entry)
    if not applied:
        kinds = ", ".join(dict.fromkeys(entry.kind for entry in entries))
        group = entries[0].group
        raise InputError(f"--{name}", raw, f"a {group} that has {name}", f"This study has {group} {kinds}.")
    return tuple(result)


def chosen_methods(study: Study, raw: object) -> tuple[Entry, ...]:
    """The study's own entries of the named methods, defaults for names it does not have."""
    names = list(raw) if isinstance(raw, (list, tuple)) else [raw]
    known = GROUPS["method"]
    result: list[Entry] = []
    for name in dict.fromkeys(map(str, names)):
        if name not in known:
            raise InputError("--method", name, "one of " + ", ".join(known), nearest(name, known))
        own = [entry for entry in study.method if entry.kind == name]
        result += own or [Entry.of("method", name, {})]
    return tuple(result)
