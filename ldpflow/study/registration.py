"""Checks of a class before it is registered: its kind, its methods and the names of its columns."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args, get_origin

from ldpflow.columns import Column, by_name
from ldpflow.errors import InputError
from ldpflow.kernels.signatures import check_parameters, kernel_function
from ldpflow.problems.data_law import DATA_LAWS
from ldpflow.settings import Settings
from ldpflow.study.entry import GROUPS

__all__ = [
    "FILE_MODULE",
    "REGISTRIES",
    "check_columns",
    "check_kind",
    "check_loaded",
    "check_methods",
    "forget",
    "is_bundled",
    "origin",
    "registered",
    "same_place",
    "source_file",
]

FILE_MODULE = "ldpflow_plugin_"
"""Modules of plug-in files are called this and the file's stem."""

REGISTRIES: dict[str, Mapping[str, type[Settings]]] = {**GROUPS, "law": DATA_LAWS}
"""Components by kind, in their groups: the tables of a study file, and the laws of data."""

BUDGET = {"epsilon", "mu", "delta"}
"""Settings that a mechanism and an algorithm may both have: a path's row has its guarantee there."""


def is_bundled(component: type) -> bool:
    """Whether a class comes with ldpflow."""
    return component.__module__.partition(".")[0] == "ldpflow"


def source_file(component: Any) -> str:
    """Name of the file that defines a class."""
    try:
        return Path(inspect.getfile(component)).name
    except (TypeError, OSError):
        return str(getattr(component, "__module__", "?"))


def same_place(first: type, second: type) -> bool:
    """Whether a class replaces an earlier version of itself, as in a notebook."""
    return (first.__module__, first.__qualname__) == (second.__module__, second.__qualname__)


def origin(component: type) -> str:
    """Where a component comes from, for people."""
    if is_bundled(component):
        return "ldpflow"
    module = component.__module__
    return source_file(component) if module.startswith((FILE_MODULE, "__main__")) else module


def check_kind(component: type[Settings], where: str) -> str:
    """The kind of a component, a name that its own annotation allows.

    Raises
    ------
    InputError
    """
    field = component.model_fields["kind"]
    kind = field.default
    if not isinstance(kind, str) or not kind.replace("-", "_").isidentifier():
        raise InputError(
            f"{where}.kind", kind, "a name with its default", 'Write: kind: Literal["mine"] = "mine"'
        )
    if get_origin(field.annotation) is Literal and kind not in get_args(field.annotation):
        named = ", ".join(map(repr, get_args(field.annotation)))
        raise InputError(
            f"{where}.kind", kind, f"the name in its annotation, {named}",
            f'Write: kind: Literal["{kind}"] = "{kind}"',
        )  # fmt: skip
    return kind


def check_methods(component: type[Settings], where: str) -> None:
    """Refuse a class that lacks methods of its base class.

    Raises
    ------
    InputError
    """
    missing = sorted(getattr(component, "__abstractmethods__", ()))
    if component.group == "method" and not hasattr(component, "record"):
        missing.append("record (derive from PathIntervalMethod)")
    if missing:
        raise InputError(where, ", ".join(missing), "no missing methods", f"A {component.group} needs them.")


def check_columns(component: type[Settings], where: str) -> None:
    """Refuse settings and diagnostics whose names other columns have.

    Columns that a bundled component of the same table declares alike may be used again: a method that
    extends BB has its ``beta``.

    Raises
    ------
    InputError
        Naming the class and the setting.
    """
    from ldpflow.store.schema import RESERVED  # loads PyArrow, which reading a study does not need

    group = component.group
    if group not in GROUPS:
        return
    columns = declared(component)
    try:
        by_name([*component.setting_columns(), *getattr(component, "diagnostics", ())])
    except ValueError as error:
        raise InputError(where, error.args[0], "columns of different names") from None
    own: dict[str, list[Column]] = {}
    for kind in bundled(group):
        for column in declared(kind):
            own.setdefault(column.name, []).append(column)
    summaries = {summary.name for known in own.values() for column in known for summary in column.summaries}
    others = used_elsewhere(group)
    for column in columns:
        known = own.get(column.name, [])
        if known and (column.type, column.identifies) not in [(k.type, k.identifies) for k in known]:
            said = f"Another {group} has {article(known[0])} of this name, and this is {article(column)}."
            raise taken(where, column.name, said)
        if not known and column.name in summaries:
            raise taken(where, column.name, f"Another {group}'s summary has this name.")
        for name in (column.name, *(summary.name for summary in column.summaries)):
            if name in RESERVED:
                raise taken(where, name, f"{name} is a column of every run.")
            if name in others and name not in own:
                raise taken(where, name, f"{name} is {others[name]}.")
        for summary in column.summaries:
            if summary.name in own or any(summary.name == other.name for other in columns):
                raise taken(where, summary.name, f"The column {summary.name} holds values of single rows.")
    names = [summary.name for column in columns for summary in column.summaries]
    for name in names:
        if names.count(name) > 1:
            raise taken(where, name, "Two summaries have this name.")


def taken(where: str, name: str, reason: str) -> InputError:
    """The refusal of a name."""
    return InputError(f"{where}.{name}", name, "a name that no other column has", reason)


def article(column: Column) -> str:
    """Description of a column's content."""
    return f"a {column.type} {'setting' if column.identifies else 'value'}"


def declared(component: Any) -> tuple[Column, ...]:
    """Columns that a component adds to rows, summaries and trajectories."""
    values: Iterable[Column] = (
        *getattr(component, "diagnostics", ()),
        *getattr(component, "derived", ()),
        *getattr(component, "measures", ()),
    )
    return (*component.setting_columns(), *values)


def bundled(group: str) -> list[type[Settings]]:
    """The components of a group that come with ldpflow."""
    return [kind for kind in GROUPS[group].values() if is_bundled(kind)]


def used_elsewhere(group: str) -> Mapping[str, str]:
    """Columns of the bundled components of the other groups, and what they are."""
    found: dict[str, str] = {}
    for other in GROUPS:
        if other == group:
            continue
        for kind in bundled(other):
            for column in declared(kind):
                for name in (column.name, *(summary.name for summary in column.summaries)):
                    if "method" in (group, other) or name not in BUDGET:
                        found.setdefault(name, f"a column of the {other} {kind.model_fields['kind'].default}")
    return found


KERNEL_FUNCTIONS = {
    "problem": "gradient",
    "mechanism": "randomise",
    "algorithm": "recursion",
    "law": "sample",
}
"""The kernel function that stands beside a component, by group."""


def check_kernel_function(component: Any) -> None:
    """Refuse a component whose kernel function is absent or has other parameters, once its file is loaded.

    Raises
    ------
    InputError
    """
    name = KERNEL_FUNCTIONS.get(component.group)
    if name is None or getattr(component, "family", "one_pass") != "one_pass":
        return
    function = kernel_function(component, name)
    if inspect.isfunction(function):
        check_parameters(function, name)
    elif component.group in ("mechanism", "law"):  # a problem may have others instead
        raise InputError(
            f"{source_file(component)}: {component.__name__}", f"no function {name}",
            f"the kernel function {name} in the file of the class",
        )  # fmt: skip


def registered() -> set[type[Settings]]:
    """All components that are registered."""
    return {kind for registry in REGISTRIES.values() for kind in registry.values()}


def forget(components: set[type[Settings]]) -> None:
    """Take components out of the registries: their file could not be loaded."""
    for registry in REGISTRIES.values():
        kinds: Any = registry
        for kind in [kind for kind, component in kinds.items() if component in components]:
            del kinds[kind]


def check_loaded(module: ModuleType, before: set[type[Settings]], source: str) -> None:
    """Refuse a plug-in that registers nothing, or whose kernel functions cannot be called.

    Raises
    ------
    InputError
    """
    every = registered()
    for component in every - before:
        check_kernel_function(component)
    if every == before and not any(f"{kind.__module__}.".startswith(f"{module.__name__}.") for kind in every):
        raise InputError(
            "plugins", source, "a plug-in that registers components", "Write @lf.register above its classes."
        )
