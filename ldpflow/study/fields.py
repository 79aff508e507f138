"""One setting: reading the value that a user typed, and saying in words what is allowed."""

from __future__ import annotations

import difflib
import types
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from ldpflow.errors import InputError

__all__ = ["MAX_VALUES", "allowed", "nearest", "number", "plain", "read_value", "read_values"]

MAX_VALUES = 100_000
"""Values on one axis; no design may have more cells."""


def nearest(name: object, names: Iterable[str]) -> str:
    """A hint with the name that was probably meant, or with all names."""
    known = sorted(names)
    folded = {known_name.casefold(): known_name for known_name in known}
    close = difflib.get_close_matches(str(name)[:100].casefold(), folded, n=1)
    return f"Did you mean '{folded[close[0]]}'?" if close else f"There is: {', '.join(known)}."


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


def constraints(metadata: Iterable[object]) -> dict[str, Any]:
    """Bounds by name: gt, ge, lt, le, min_length, max_length."""
    found: dict[str, Any] = {}
    for item in metadata:
        if isinstance(item, FieldInfo):
            found |= constraints(item.metadata)
        for bound in ("gt", "ge", "lt", "le", "min_length", "max_length"):
            if getattr(item, bound, None) is not None:
                found[bound] = getattr(item, bound)
    return found


def stripped(annotation: Any) -> tuple[Any, dict[str, Any]]:
    """The type itself and its bounds, without Annotated and without the None of an optional."""
    bounds: dict[str, Any] = {}
    while True:
        if get_origin(annotation) is Annotated:
            annotation, *metadata = get_args(annotation)
            bounds = constraints(metadata) | bounds
        elif get_origin(annotation) in (Union, types.UnionType):
            (annotation,) = (a for a in get_args(annotation) if a is not type(None))
        else:
            return annotation, bounds


def typed(cls: type[BaseModel], name: str) -> tuple[Any, dict[str, Any]]:
    """Type and bounds of a field."""
    field = cls.model_fields[name]
    kind, bounds = stripped(field.annotation)
    return kind, constraints(field.metadata) | bounds


def in_words(kind: Any, bounds: dict[str, Any]) -> str:
    """What a type with bounds allows."""
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(repr(value) for value in get_args(kind))
    if get_origin(kind) is tuple:
        least, most = bounds.get("min_length", 0), bounds.get("max_length", "any number of")
        return f"a list of {least} to {most} values, each {in_words(*stripped(get_args(kind)[0]))}"
    if kind is bool:
        return "true or false"
    if kind is str:
        return "a text"
    low = bounds.get("gt", bounds.get("ge"))
    high = bounds.get("lt", bounds.get("le"))
    noun = "an integer" if kind is int else "a number" if high is not None else "a finite number"
    if low is not None and high is not None:
        left = "(" if "gt" in bounds else "["
        right = ")" if "lt" in bounds else "]"
        return f"{noun} in {left}{low:g}, {high:g}{right}"
    if low is not None:
        return f"{noun} {'>' if 'gt' in bounds else '>='} {low:g}"
    if high is not None:
        return f"{noun} {'<' if 'lt' in bounds else '<='} {high:g}"
    return noun


def allowed(cls: type[BaseModel], name: str) -> str:
    """What a field allows, in words."""
    return cls.model_fields[name].description or in_words(*typed(cls, name))


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
        hint = ""
        if get_origin(kind) is Literal and isinstance(raw, str):
            hint = nearest(raw, get_args(kind))
        raise InputError(where, raw, allowed(cls, name), hint) from None
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
