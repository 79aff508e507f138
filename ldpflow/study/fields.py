"""One setting: reading the value that a user typed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, get_origin

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from ldpflow.allowed import allowed, setting_error, typed
from ldpflow.errors import InputError

MAX_VALUES = 100_000
"""Values on one axis; no design may have more cells."""


def number(text: str) -> int | float | str:
    """The number that a text says, as in ``1e6`` or ``1_000_000``; the text if it is none."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def plain(value: object, where: str) -> None:
    """Refuse what no setting can take and what could not even be shown in a message."""
    if isinstance(value, int) and abs(value) >= 2**63:
        raise InputError(where, "an integer beyond 64 bits", "numbers below 2^63")
    if isinstance(value, (list, tuple)):
        for item in value:
            plain(item, where)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            plain(item, f"{where}.{key}" if where else str(key))


@cache
def adapter(cls: type[BaseModel], name: str) -> TypeAdapter[Any]:
    """Validator of one field by itself."""
    field = cls.model_fields[name]
    annotation: Any = field.annotation
    if field.metadata:
        annotation = Annotated[(annotation, *field.metadata)]
    return TypeAdapter(annotation, config=ConfigDict(allow_inf_nan=False))


def read_value(cls: type[BaseModel], name: str, raw: object, where: str) -> Any:
    """One value of a field, converted and checked.

    Raises
    ------
    InputError
        Naming ``where``, the value and what is allowed.
    """
    kind, _ = typed(cls, name)
    value = raw
    if kind is int and isinstance(raw, float) and raw.is_integer():
        value = int(raw)  # 1e6 is how people write a million
    if get_origin(kind) is tuple and isinstance(raw, list):
        value = tuple(raw)
    try:
        if value is None:
            raise TypeError
        value = adapter(cls, name).validate_python(value, strict=True)
    except (ValidationError, TypeError):
        raise setting_error(cls, name, raw, where) from None
    # -0.0 equals 0.0 but would make another path key.
    if isinstance(value, tuple):
        return tuple(item + 0.0 if isinstance(item, float) else item for item in value)
    return value + 0.0 if isinstance(value, float) else value


def read_values(cls: type[BaseModel], name: str, raw: object, where: str) -> tuple[Any, ...]:
    """The values of an axis: a scalar or a list; for a vector a list or a list of lists."""
    items: list[object] = list(raw) if isinstance(raw, (list, tuple)) else [raw]
    if not items:
        raise InputError(where, [], f"at least one value, each {allowed(cls, name)}")
    if get_origin(typed(cls, name)[0]) is tuple and not all(isinstance(i, list) for i in items):
        items = [items]
    if len(items) > MAX_VALUES:
        raise InputError(where, f"{len(items)} values", f"at most {MAX_VALUES} values on an axis")
    return tuple(dict.fromkeys(read_value(cls, name, item, where) for item in items))
