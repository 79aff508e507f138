"""Settings of components: declaration, validation, columns, and texts of allowed values."""

from __future__ import annotations

import difflib
import inspect
import json
import re
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module
from importlib.resources import files
from inspect import isclass
from pathlib import Path
from textwrap import fill, indent
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, core_schema

from ldpflow.columns import TYPES, Column
from ldpflow.documents import label, python_values, read_bib, references
from ldpflow.errors import InputError


@dataclass(frozen=True)
class OneOf:
    """Text setting that has one of several names. Plug-ins may add names."""

    names: Callable[[], Iterable[str]]

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], CoreSchema]) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def check(self, value: str) -> str:
        if value not in tuple(self.names()):
            raise ValueError(value)
        return value


def check_type(
    field: str, value: object, kinds: type | tuple[type, ...], allowed: str, hint: str = ""
) -> None:
    """Refuse a value of another type. True and False do not count as numbers."""
    if isinstance(value, bool) or not isinstance(value, kinds):
        raise InputError(field, value, allowed, hint)


def closest(name: object, names: Iterable[str]) -> str:
    """Write a hint with the closest name, or an empty text if no name is close."""
    folded = {known.casefold(): known for known in sorted(names)}
    close = difflib.get_close_matches(str(name)[:100].casefold(), folded, n=1)
    return f"Did you mean '{folded[close[0]]}'?" if close else ""


def nearest(name: object, names: Iterable[str]) -> str:
    """Write a hint with the closest name, or with all names if no name is close."""
    known = sorted(names)
    return closest(name, known) or (f"There is: {', '.join(known)}." if known else "There is none.")


BOUNDS = ("gt", "ge", "lt", "le", "min_length", "max_length")


def bare_type(annotation: Any, metadata: Iterable[object] = ()) -> tuple[Any, dict[str, Any]]:
    """Split an annotation into a type (float of ``float | None``) and metadata.

    The metadata has the names in BOUNDS, ``one_of`` (a OneOf) and ``setting`` (a Setting).
    """
    found: dict[str, Any] = {}
    items = [*metadata]
    while True:
        if get_origin(annotation) is Annotated:
            annotation, *inner = get_args(annotation)
            items += inner
        elif get_origin(annotation) in (Union, types.UnionType):
            (annotation,) = (a for a in get_args(annotation) if a is not type(None))
        else:
            break
    for part in (p for item in items for p in (item.metadata if isinstance(item, FieldInfo) else [item])):
        if isinstance(part, OneOf):
            found["one_of"] = part
        elif isinstance(part, Setting):
            found["setting"] = part
        found |= {name: getattr(part, name) for name in BOUNDS if getattr(part, name, None) is not None}
    return annotation, found


def field_type(cls: type[BaseModel], name: str) -> tuple[Any, dict[str, Any]]:
    field = cls.model_fields[name]
    return bare_type(field.annotation, field.metadata)


SIGNS = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}


def choices(kind: Any, bounds: dict[str, Any]) -> tuple[Any, ...]:
    """Values of a setting that has one of a few values. Empty for other settings."""
    if "one_of" in bounds:
        return tuple(bounds["one_of"].names())
    return get_args(kind) if get_origin(kind) is Literal else ()


def type_text(kind: Any, bounds: dict[str, Any]) -> str:
    if names := choices(kind, bounds):
        return "one of " + ", ".join(map(repr, names))
    if get_origin(kind) is tuple:
        count = f"{bounds.get('min_length', 0)} to {bounds.get('max_length', 'any number of')}"
        count = count if get_args(kind)[-1] is ... else f"{len(get_args(kind))}"
        return f"a list of {count} values, each {type_text(*bare_type(get_args(kind)[0]))}"
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return "a table of " + ", ".join(f"{name} ({allowed(kind, name)})" for name in kind.model_fields)
    if kind is bool:
        return "true or false"
    if kind is str:
        return "a text"
    given = [name for name in SIGNS if name in bounds]
    finite = "a number" if {"lt", "le"} & {*given} else "a finite number"
    noun = "an integer" if kind is int else finite
    if len(given) == 2:
        low, high = (f"{bounds[name]:g}" for name in given)
        return f"{noun} in {'(' if 'gt' in given else '['}{low}, {high}{')' if 'lt' in given else ']'}"
    return noun + "".join(f" {SIGNS[name]} {bounds[name]:g}" for name in given)


def allowed(cls: type[BaseModel], name: str) -> str:
    return cls.model_fields[name].description or type_text(*field_type(cls, name))


def group_of(cls: type[BaseModel]) -> str:
    return getattr(cls, "group", "") or cls.__name__


def setting_error(cls: type[BaseModel], name: str, value: object, where: str = "") -> InputError:
    """Make the error on a field's value. ``where`` is the field in the message, as in ``problem.tau``."""
    names = map(str, choices(*field_type(cls, name)))
    hint = closest(value, names) if isinstance(value, str) else ""
    return InputError(where or f"{group_of(cls)}.{name}", value, allowed(cls, name), hint)


def unknown_names(cls: type[BaseModel], values: Mapping[str, object]) -> list[str]:
    """Find values that ldpflow does not know but a plug-in may define, as in ``law triangular``."""
    found = []
    for name in cls.model_fields:
        one_of = field_type(cls, name)[1].get("one_of")
        if one_of is not None and name in values and values[name] not in tuple(one_of.names()):
            found.append(f"{name} {values[name]}")
    return found


Parameters = Mapping[str, float | tuple[float, ...]]
"""Named numbers read by a component's kernel functions: ``problem.tau``, ``problem.coefficients[j]``."""

MAX_VALUES = 100_000
"""Most values on an axis."""

STORED = {kind: name for name, kind in TYPES.items()}
"""Type of the column by type of a setting. A vector is stored as JSON text."""


@dataclass(frozen=True)
class Setting:
    """Unit and meaning of a setting: metadata of an annotated field.

    ::

        beta: Annotated[float, Field(gt=0, lt=1), Setting("1", "block exponent", symbol="β")] = 0.75

    Parameters
    ----------
    unit : str
        Unit of the values: ``-`` for no unit, ``1`` for a pure number.
    meaning : str
        Meaning in one line. If empty, the documentation has the first sentence of the parameter's entry in
        the docstring of the class.
    symbol, title, logarithmic
        See :class:`ldpflow.columns.Column`.
    stored : bool
        Whether stored rows have a column for the setting.
    asked : bool
        Whether a study must give the setting although it has a default. Privacy budgets are such settings.
    """

    unit: str = "-"
    meaning: str = ""
    symbol: str = ""
    title: str = ""
    logarithmic: bool = False
    stored: bool = True
    asked: bool = False


@dataclass(frozen=True)
class Axes:
    """Result of ``Quantile(tau=[0.5, 0.9])``: a class with lists of values, the axes of a design."""

    component: type
    values: dict[str, Any]

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in self.values.items())
        return f"{self.component.__name__}({values})"


def signature_of(cls: type[BaseModel]) -> inspect.Signature:
    found = []
    for name, field in cls.model_fields.items():
        kind = field_type(cls, name)[0]
        if get_origin(kind) is tuple:
            parts = tuple(part if part is ... else bare_type(part)[0] for part in get_args(kind))
            kind = tuple.__class_getitem__(parts)
        default = inspect.Parameter.empty if field.is_required() else field.get_default()
        if "kind" in cls.model_fields and not (isinstance(kind, type) and issubclass(kind, BaseModel)):
            kind = kind | list.__class_getitem__(kind)  # a list is an axis of a design
        kind = kind | None if default is None else kind
        if name != "kind":
            found.append(
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            )
    return inspect.Signature(found)


if TYPE_CHECKING:
    DocumentedModel = BaseModel  # a type checker knows the classes by their fields
else:

    class DocumentedClass(type(BaseModel)):
        """Metaclass of settings. ``help()`` and editors do not show the methods of pydantic.

        The docstring of a component has the formula, references, an example, and all settings with units.
        """

        def __dir__(cls) -> list[str]:
            own = [vars(base) for base in cls.__mro__ if base not in Settings.__mro__]
            shown = (types.FunctionType, classmethod, property)
            members = ((name, value) for names in own for name, value in names.items())
            named = {name for name, value in members if isinstance(value, shown) and value.__doc__}
            return sorted(name for name in named if not name.startswith(("_", "model_")))

        @property
        def __doc__(cls) -> str | None:
            kind = cls.__dict__.get("__pydantic_fields__", {}).get("kind")
            component = kind is not None and isinstance(kind.default, str)
            return class_page(cls, kind.default) if component else cls.__dict__.get("__doc__")

        @__doc__.setter
        def __doc__(cls, text: str) -> None:
            type.__dict__["__doc__"].__set__(cls, text)  # cloudpickle restores the attributes of a class

    class DocumentedModel(BaseModel, metaclass=DocumentedClass):
        """Base of models whose docstrings are made from their fields."""


class InputModel(DocumentedModel):
    """Base of models that raise an InputError for invalid values.

    Values may be numbers and arrays of NumPy. Arrays are read as lists. A text is refused as a number.
    """

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        super().__pydantic_init_subclass__(**options)
        cls.__signature__ = signature_of(cls)

    def __dir__(self) -> list[str]:
        return [*type(self).model_fields, *dir(type(self))]

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    if not TYPE_CHECKING:  # a type checker knows the classes by their fields

        def __init__(self, *args: Any, **settings: Any) -> None:
            cls = type(self)
            if args:
                shown = [name for name, field in cls.model_fields.items() if name != "kind" and field.repr]
                names = ", ".join([f"{name}=..." for name in shown[:3]] + ["..."] * (len(shown) > 3))
                allowed = f"settings by name, as in {cls.__name__}({names})" if shown else "no settings"
                raise InputError(group_of(cls), args, allowed)
            settings = {name: setting_value(cls, name, value) for name, value in settings.items()}
            try:
                super().__init__(**settings)
            except ValidationError as error:
                raise input_error(cls, error, settings) from None

        __init__.__pydantic_base_init__ = True  # or pydantic would call __init__ for mappings


class Settings(InputModel):
    """Kind and settings of a component, validated and immutable.

    A subclass declares ``kind`` as a Literal with a default, and its settings as fields. The docstring of the
    subclass documents the fields. A :class:`Setting` may annotate a field. A study file may give a list for
    each scalar field. A field with a vector is a tuple.
    """

    kind: str

    group: ClassVar[str] = ""
    """Table of a study file that has these components, as in ``problem``."""

    cites: ClassVar[tuple[str, ...]] = ()
    """Papers: keys of ldpflow/results/references.bib, or entries of BibTeX."""

    example: ClassVar[Mapping[str, Any]] = {}
    """Values that the example in the docstring gives to settings without a default."""

    if not TYPE_CHECKING:

        def __new__(cls, *args: Any, **settings: Any) -> Any:
            """Make settings, or :class:`Axes` if a value is a list."""
            given = {name: setting_value(cls, name, value) for name, value in settings.items()}
            if any(isinstance(value, list) for value in given.values()):
                for name, value in given.items():
                    check_axis(cls, name, value)
                return Axes(cls, given)
            return super().__new__(cls)

    def __eq__(self, other: object) -> bool:
        """Compare kind and settings. Cached values do not matter."""
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in type(self).model_fields)

    def __repr__(self) -> str:
        """Python expression without defaults: ``Quantile(tau=0.9)``."""
        asked, fields = {*self.missing_settings({})} & self.model_fields_set, type(self).model_fields
        given = {
            name: value
            for name, value in self
            # The field with the values of a pilot has repr=False.
            if fields[name].repr and name != "kind" and (name in asked or value != fields[name].default)
        }
        return repr(Axes(type(self), given))

    __str__ = __repr__

    def used_components(self) -> tuple[Settings, ...]:
        """Other components that the settings of this one name."""
        return ()

    def key_settings(self) -> dict[str, Any]:
        """Kind and settings for a path key. Defaults are left out, so a new setting changes no key."""
        return {"kind": self.kind, **self.model_dump(exclude_defaults=True, exclude={"kind"})}

    @classmethod
    def setting(cls, name: str) -> Setting:
        """Find the Setting in the annotation of a field."""
        return field_type(cls, name)[1].get("setting", Setting())  # type: ignore[no-any-return]

    @classmethod
    def missing_settings(cls, given: Mapping[str, object]) -> list[str]:
        """Find settings that a study must give although they have a default, and that ``given`` lacks."""
        return [name for name in cls.model_fields if cls.setting(name).asked and name not in given]

    @classmethod
    @lru_cache(maxsize=1024)  # called for every batch, and a class does not change
    def setting_columns(cls) -> tuple[Column, ...]:
        """Columns of the settings, in the order of the fields."""
        found = []
        for name in cls.model_fields:
            setting = cls.setting(name)
            if name != "kind" and setting.stored:
                words = {k: v for k, v in vars(setting).items() if k not in ("stored", "asked")}
                words["meaning"] = setting.meaning or parameter_text(cls, name)
                kind, _ = field_type(cls, name)
                if get_origin(kind) is Literal:
                    kind = type(get_args(kind)[0])
                found.append(Column(name, STORED.get(kind, "string"), **words, identifies=True))
        return tuple(found)

    def setting_values(self) -> dict[str, Any]:
        """Values of the columns of settings: a vector as JSON text, None for a setting that is not given."""
        names = {column.name for column in self.setting_columns()}
        values = self.model_dump(include=names)
        return {k: json.dumps(v) if isinstance(v, (tuple, list)) else v for k, v in values.items()}

    @classmethod
    def name_of_setting(cls, name: str, values: object) -> str:
        """Find the field that a setting of a study file fills, from the name and the values in the file."""
        return name

    @classmethod
    def complete_axes(cls, axes: Mapping[str, tuple[Any, ...]]) -> Mapping[str, tuple[Any, ...]]:
        """Add settings that follow from the given ones, such as the digest of a data file."""
        return axes

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        """Make settings from the values of :meth:`setting_values`. Other names are ignored."""
        given = {name: values.get(name) for name in cls.model_fields if name != "kind"}
        vectors = {name for name in given if form_of(cls, name)[1]}
        # A list would be an axis of a design.
        settings: dict[str, Any] = {
            k: tuple(json.loads(v)) if k in vectors else v for k, v in given.items() if v is not None
        }
        return cls(**settings)


def setting_value(cls: type[BaseModel], name: str, value: Any) -> Any:
    """Convert a setting from NumPy's types. Refuse a text, True or False in the place of a number."""
    array = isinstance(value, range) or python_values(value) is not value
    value = plain_values(value) if array else value
    if name not in cls.model_fields:
        return value
    numeric, vector = form_of(cls, name)
    if array and vector and isinstance(value, list) and not any(isinstance(item, list) for item in value):
        value = tuple(value)
    items = value if isinstance(value, tuple) else (value,)
    if numeric and any(isinstance(item, (str, bytes, bool)) for item in items):
        raise setting_error(cls, name, value)
    return value


@lru_cache(maxsize=1024)
def form_of(cls: type[BaseModel], name: str) -> tuple[bool, bool]:
    kind, _ = field_type(cls, name)
    vector = get_origin(kind) is tuple
    item = bare_type(get_args(kind)[0])[0] if vector else kind
    return item in (int, float), vector


def plain_values(value: Any) -> Any:
    """Convert tuples, arrays, series and NumPy's numbers to lists and numbers, as in a study file."""
    if isinstance(value, Mapping):
        return {name: plain_values(own) for name, own in value.items()}
    value = python_values(value)
    return [plain_values(item) for item in value] if isinstance(value, (list, tuple, range)) else value


def input_error(cls: type[BaseModel], error: ValidationError, given: Mapping[str, Any]) -> InputError:
    """Make an InputError of pydantic's first error. It names the setting, as in ``problem.tau``."""
    found = error.errors()[0]
    name = str(found["loc"][0]) if found["loc"] else ""
    if name in cls.model_fields:
        return setting_error(cls, name, given.get(name))
    if name:
        return unknown_setting(cls, name, given.get(name))
    reason = found["msg"].removeprefix("Value error, ")
    return InputError(group_of(cls), dict(given), "settings that go together", f"{reason}.")


def unknown_setting(cls: type[BaseModel], name: str, value: object) -> InputError:
    known = [known for known in cls.model_fields if known != "kind"]
    return InputError(f"{group_of(cls)}.{name}", value, f"a setting of {cls.__name__}", nearest(name, known))


@cache
def adapter(cls: type[BaseModel], name: str) -> TypeAdapter[Any]:
    """Make the validator of a field. It takes a tuple of one value: pydantic refuses ``config`` otherwise."""
    field = cls.model_fields[name]
    annotation: Any = field.annotation
    if field.metadata:
        annotation = Annotated[(annotation, *field.metadata)]
    return TypeAdapter(tuple[annotation], config=ConfigDict(allow_inf_nan=False))


def check_axis(cls: type[Settings], name: str, value: Any) -> None:
    if name not in cls.model_fields:
        raise unknown_setting(cls, name, value)
    if value is None and cls.model_fields[name].default is None:
        return
    items = plain_values(value if isinstance(value, list) else [value])
    read_values(cls, cls.name_of_setting(name, items), items, f"{group_of(cls)}.{name}")


def read_value(cls: type[BaseModel], name: str, raw: object, where: str) -> Any:
    kind, _ = field_type(cls, name)
    value = raw
    if kind is int and isinstance(raw, float) and raw.is_integer():
        value = int(raw)  # as in n = 1e6
    if get_origin(kind) is tuple and isinstance(raw, list):
        value = tuple(raw)
    try:
        if value is None:
            raise TypeError
        (value,) = adapter(cls, name).validate_python((value,), strict=True)
    except (ValidationError, TypeError):
        raise setting_error(cls, name, raw, where) from None
    # -0.0 equals 0.0 but would make another path key.
    if isinstance(value, tuple):
        return tuple(item + 0.0 if isinstance(item, float) else item for item in value)
    return value + 0.0 if isinstance(value, float) else value


def read_values(cls: type[BaseModel], name: str, raw: object, where: str) -> tuple[Any, ...]:
    items: list[object] = list(raw) if isinstance(raw, (list, tuple)) else [raw]
    if not items:
        raise InputError(where, [], f"at least one value, each {allowed(cls, name)}")
    if get_origin(field_type(cls, name)[0]) is tuple and not all(isinstance(i, list) for i in items):
        items = [items]
    if len(items) > MAX_VALUES:
        raise InputError(where, f"{len(items)} values", f"at most {MAX_VALUES} values on an axis")
    return tuple(dict.fromkeys(read_value(cls, name, item, where) for item in items))


def parameter_entry(cls: type, name: str) -> str:
    """Text on a parameter in the docstring of a class, or of its nearest base that has the parameter."""
    for base in cls.__mro__:
        entry = re.search(
            rf"^(?:\w+, )*{name}(?:, \w+)*(?: :.*)?\n((?:    .*\n?)+)",
            written_doc(base).partition("Parameters\n---")[2],
            re.MULTILINE,
        )
        if entry is not None:
            return " ".join(entry[1].split())
    return ""


def parameter_text(cls: type, name: str) -> str:
    return re.split(r"\.(?: (?=[A-Z(])|$)", parameter_entry(cls, name))[0].replace("``", "`")


def written_doc(cls: type) -> str:
    """Docstring that the source of a class has. Empty if it has none, even if a base class has one."""
    return inspect.cleandoc(vars(cls).get("__doc__") or "")


def class_page(cls: Any, kind: str) -> str:
    """Write the docstring of a component: settings with units and defaults, formula, references, example."""
    settings = []
    for name in (name for name in cls.model_fields if name != "kind"):
        unit = cls.setting(name).unit
        words = [allowed(cls, name) + ("" if unit in "-1" else f" [{unit}]")]
        default = cls.model_fields[name].get_default()
        needed = cls.model_fields[name].is_required() or name in cls.missing_settings({})
        words += ["required in a study"] if needed else [] if default is None else [f"default {default!r}"]
        meaning = cls.setting(name).meaning
        meaning = parameter_entry(cls, name) or f"{meaning[:1].upper()}{meaning[1:]}."
        settings.append(f"{name} : {', '.join(words)}\n{indent(fill(meaning, 84), '    ')}")
    # A class of a plug-in that cloudpickle brought to this process has no module.
    formula = inspect.cleandoc(getattr(sys.modules.get(cls.__module__), "__doc__", None) or "")
    paragraphs = formula.partition(f"**{kind}**")
    if paragraphs[1]:
        formula = f"{kind}{paragraphs[2]}".partition("\n\n**")[0]
    papers = [paper for key in cls.cites for paper in (read_bib(key) or {key: references()[key]}).values()]
    prose = (p if p.startswith(" ") else fill(p, 76) for p in formula.split("\n\n"))
    sections = {
        "Parameters": "\n".join(settings),
        "Notes": f"Kind ``{kind}`` of a study file. ::\n\n" + indent("\n\n".join(prose), "    "),
        "References": "\n".join(f"{label(paper)}: {paper.fields['title']}." for paper in papers),
        "Examples": f">>> import ldpflow as lf\n>>> {cls.group} = lf.{cls.__name__}({example_of(cls)})",
    }
    head = written_doc(cls).partition("Parameters\n---")[0].strip()
    shown = [f"{title}\n{'-' * len(title)}\n{text}" for title, text in sections.items() if text]
    return "\n\n".join([head, *shown]) + "\n"


def example_of(cls: Any) -> str:
    """Write the arguments of an example: the needed settings and up to three with their defaults."""
    given = dict(cls.example)
    for name, field in cls.model_fields.items():
        default = field.get_default()
        if name != "kind" and len(given) < 3 and isinstance(default, (int, float)):
            given[name] = default
    return ", ".join(f"{name}={value!r}" for name, value in given.items())


def source_file(component: Any) -> str:
    try:
        return Path(inspect.getfile(component)).name
    except (TypeError, OSError):
        return str(getattr(component, "__module__", "?"))


def canonical_json(value: object) -> str:
    """Write JSON with sorted keys, no blanks and floats by ``repr``. Equal values have equal texts."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def find_components(package: str, base: type[Any]) -> dict[str, type[Any]]:
    """Find the components in the modules of a package: classes that declare a ``kind``, by this kind."""
    kinds: dict[str, Any] = {}
    for file in sorted(files(package).iterdir(), key=lambda file: file.name):
        # Other modules are not imported, because some of them load a compiler.
        if not file.name.endswith(".py") or '    kind: Literal["' not in file.read_text("utf-8"):
            continue
        module = import_module(f"{package}.{file.name[:-3]}")
        for value in vars(module).values():
            own = isclass(value) and issubclass(value, base) and value.__module__ == module.__name__
            if own and "kind" in vars(value).get("__annotations__", ()):
                kinds[value.model_fields["kind"].default] = value
    return kinds
