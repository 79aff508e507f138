"""Allowed values of settings, as text for error messages."""

from __future__ import annotations

import difflib
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, core_schema

from ldpflow.errors import InputError


@dataclass(frozen=True)
class OneOf:
    """A text setting whose values are known when it is read, since plug-ins may add some.

    Parameters
    ----------
    names : callable
        Returns the names that are allowed.
    """

    names: Callable[[], Iterable[str]]

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], CoreSchema]) -> CoreSchema:
        """The schema of the text, and the check of its value."""
        return core_schema.no_info_after_validator_function(self.checked, handler(source))

    def checked(self, value: str) -> str:
        """The value, if it is one of the names."""
        if value not in (names := tuple(self.names())):
            raise ValueError("must be one of " + ", ".join(map(repr, names)))
        return value


def check_type(
    field: str, value: object, kinds: type | tuple[type, ...], allowed: str, hint: str = ""
) -> None:
    """Refuse a value of another type, and a truth value for a number."""
    if isinstance(value, bool) or not isinstance(value, kinds):
        raise InputError(field, value, allowed, hint)


def closest(name: object, names: Iterable[str]) -> str:
    """A hint with the name that was probably meant; empty where none is close."""
    folded = {known.casefold(): known for known in sorted(names)}
    close = difflib.get_close_matches(str(name)[:100].casefold(), folded, n=1)
    return f"Did you mean '{folded[close[0]]}'?" if close else ""


def nearest(name: object, names: Iterable[str]) -> str:
    """A hint with the name that was probably meant, or with all names."""
    known = sorted(names)
    return closest(name, known) or f"There is: {', '.join(known)}."


def constraints(metadata: Iterable[object]) -> dict[str, Any]:
    """Bounds by name: gt, ge, lt, le, min_length, max_length; one_of for a OneOf."""
    found: dict[str, Any] = {}
    for item in metadata:
        if isinstance(item, FieldInfo):
            found |= constraints(item.metadata)
        if isinstance(item, OneOf):
            found["one_of"] = item
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
    """Allowed values of a type with bounds, as text."""
    if "one_of" in bounds:
        return "one of " + ", ".join(map(repr, bounds["one_of"].names()))
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(repr(value) for value in get_args(kind))
    if get_origin(kind) is tuple:
        least, most = bounds.get("min_length", 0), bounds.get("max_length", "any number of")
        return f"a list of {least} to {most} values, each {in_words(*stripped(get_args(kind)[0]))}"
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return "a table of " + ", ".join(f"{name} ({allowed(kind, name)})" for name in kind.model_fields)
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
    """Allowed values of a field, as text."""
    return cls.model_fields[name].description or in_words(*typed(cls, name))


def setting_error(cls: type[BaseModel], name: str, value: object, where: str = "") -> InputError:
    """The refusal of a value of a field, by the name of the setting in a study unless ``where`` is given."""
    where = where or f"{getattr(cls, 'group', '') or cls.__name__}.{name}"
    return InputError(where, value, allowed(cls, name), hint_for(cls, name, value))


def unknown_names(cls: type[BaseModel], values: Mapping[str, object]) -> list[str]:
    """Names among the values of a component that only a plug-in can make known: ``law triangular``."""
    found = []
    for name in cls.model_fields:
        one_of = names_of(cls, name)
        if one_of is not None and name in values and values[name] not in tuple(one_of.names()):
            found.append(f"{name} {values[name]}")
    return found


def names_of(cls: type[BaseModel], name: str) -> OneOf | None:
    """The names that a field allows, where plug-ins may add some."""
    return next((item for item in cls.model_fields[name].metadata if isinstance(item, OneOf)), None)


def hint_for(cls: type[BaseModel], name: str, raw: object) -> str:
    """The nearest allowed name, where a field allows names and was given a text."""
    kind, bounds = typed(cls, name)
    if not isinstance(raw, str):
        return ""
    if "one_of" in bounds:
        return closest(raw, bounds["one_of"].names())
    return closest(raw, get_args(kind)) if get_origin(kind) is Literal else ""
