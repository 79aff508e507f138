"""Entries of a study: the kind of a component, and the values of its settings."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from ldpflow.components.intervals import INTERVAL_METHODS
from ldpflow.errors import InputError
from ldpflow.settings import Axes, Settings, allowed, closest, input_error, nearest, read_values
from ldpflow.simulators.families import PARTS


def parse_number(value: Any) -> Any:
    """Convert a text such as ``1e6`` or ``1_000_000`` to a number, also in a list. Other values stay."""
    if isinstance(value, (list, tuple)):
        return [parse_number(item) for item in value]
    for kind in (int, float) if isinstance(value, str) else ():
        with suppress(ValueError):
            return kind(value)
    return value


def check_plain(value: object, where: str) -> None:
    """Refuse integers beyond 64 bits: no setting takes them, and a message may be unable to print them."""
    if isinstance(value, int) and abs(value) >= 2**63:
        raise InputError(where, "an integer beyond 64 bits", "numbers below 2^63")
    if isinstance(value, (list, tuple)):
        for item in value:
            check_plain(item, where)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            check_plain(item, f"{where}.{key}" if where else str(key))


PILOT_VALUES = "law_table"
"""Setting with the values of a pilot. Reports and exported files leave it out."""

GROUPS: dict[str, Mapping[str, type[Settings]]] = {**PARTS, "method": INTERVAL_METHODS}


@dataclass(frozen=True)
class Entry:
    """A kind of component with the values of each setting. It stands for all combinations of the values."""

    group: str
    kind: str
    axes: dict[str, tuple[Any, ...]]

    def __repr__(self) -> str:
        """Python expression: ``Quantile(tau=[0.5, 0.9])``."""
        values = {
            name: values[0] if len(values) == 1 else list(values) for name, values in self.chosen().items()
        }
        return repr(Axes(GROUPS[self.group][self.kind], values))

    def chosen(self) -> dict[str, tuple[Any, ...]]:
        """Axes that differ from their default or must be given. The values of a pilot are left out."""
        component = GROUPS[self.group][self.kind]
        asked = component.missing_settings({})
        return {
            name: values
            for name, values in self.axes.items()
            if name != PILOT_VALUES and (name in asked or values != (component.model_fields[name].default,))
        }

    @classmethod
    def of(cls, group: str, kind: str, axes: Mapping[str, tuple[Any, ...]]) -> Entry:
        """Make an entry with defaults. A setting whose default is None stays absent."""
        filled = {}
        for name, field in GROUPS[group][kind].model_fields.items():
            if name in axes:
                filled[name] = axes[name]
            elif name != "kind" and field.default is not None and not field.is_required():
                filled[name] = (field.default,)
        return cls(group, kind, dict(GROUPS[group][kind].complete_axes(filled)))

    def has(self, name: str) -> bool:
        return name != "kind" and name in GROUPS[self.group][self.kind].model_fields

    def size(self) -> int:
        return math.prod(len(values) for values in self.axes.values())

    def combinations(self) -> list[Any]:
        result = []
        for values in itertools.product(*self.axes.values()):
            settings = dict(zip(self.axes, values, strict=True))
            try:
                result.append(GROUPS[self.group][self.kind].model_validate(settings))
            except ValidationError as error:
                # Single values have been checked, so the combination is wrong.
                shown = {"kind": self.kind} | {k: v for k, v in settings.items() if k != PILOT_VALUES}
                raise input_error(GROUPS[self.group][self.kind], error, shown) from None
        return result

    def mapping(self) -> dict[str, Any]:
        axes = {name: [file_value(value) for value in values] for name, values in self.axes.items()}
        return {"kind": self.kind} | axes


def file_value(value: Any) -> Any:
    if isinstance(value, tuple):
        return [file_value(item) for item in value]
    return value.model_dump(exclude_none=True) if isinstance(value, BaseModel) else value


def read_group(group: str, tables: object) -> tuple[Entry, ...]:
    """Read the entries of a table, or of a list of tables. Each kind of a table makes an entry."""
    return tuple(entry for table in entry_tables(group, tables) for entry in read_table(group, table))


def read_component(group: str, table: Mapping[str, Any]) -> Any:
    """Read the component of a table that has one value for each setting."""
    found = [one for entry in read_group(group, dict(table)) for one in entry.combinations()]
    if len(found) != 1:
        raise InputError(group, dict(table), "one value for every setting")
    return found[0]


def entry_tables(group: str, tables: object) -> list[Mapping[str, Any]]:
    """List the tables of a group. Check that each has a kind or a list of kinds. A kind may be unknown."""
    form = f"a table [{group}] with a kind" if group != "method" else "a table [[method]] or more"
    if isinstance(tables, Mapping):
        tables = [tables]
    if not isinstance(tables, list) or not tables or not all(isinstance(t, Mapping) for t in tables):
        raise InputError(group, tables, form, f"The study has no {group}." if tables == [] else "")
    for table in tables:
        kind = table.get("kind")
        if not (isinstance(kind, str) or (isinstance(kind, list) and kind and are_texts(kind))):
            raise unknown_kind(group, kind)
    return tables


def read_table(group: str, table: Mapping[str, Any]) -> list[Entry]:
    registry = GROUPS[group]
    kinds = [table["kind"]] if isinstance(table["kind"], str) else table["kind"]
    for kind in kinds:
        if kind not in registry:
            raise unknown_kind(group, kind)
    axes: dict[str, dict[str, tuple[Any, ...]]] = {kind: {} for kind in kinds}
    for name, values in table.items():
        if name == "kind":
            continue
        # In a table with several kinds, a setting may belong to some of the kinds.
        owners = [kind for kind in axes if name in registry[kind].model_fields]
        if not owners:
            known = {n for kind in axes for n in registry[kind].model_fields} - {"kind"}
            allowed_names = f"a setting of {' or '.join(axes)}"
            raise InputError(f"{group}.{name}", values, allowed_names, nearest(name, known))
        for kind in owners:
            setting = registry[kind].name_of_setting(name, values)
            if setting in axes[kind] or (setting != name and setting in table):
                raise InputError(f"{group}.{name}", values, f"given once, as {name} or as {setting}")
            axes[kind][setting] = read_values(registry[kind], setting, values, f"{group}.{name}")
    for kind, values in axes.items():
        for name in registry[kind].missing_settings(values):
            hint = f"A study with {kind} must give its privacy budget."
            raise InputError(f"{group}.{name}", None, allowed(registry[kind], name), hint)
    return [Entry.of(group, kind, values) for kind, values in axes.items()]


def unknown_kind(group: str, kind: object) -> InputError:
    registry = GROUPS[group]
    own = "A kind of your own needs its file: `plugin`, or [plugins] in the study."
    hint = (closest(kind, registry) or own) if isinstance(kind, str) else ""
    return InputError(f"{group}.kind", kind, "one of " + ", ".join(registry), hint)


def are_texts(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) for value in values)
