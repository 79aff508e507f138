"""Parameters of the kernel functions that a component's module holds."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

from ldpflow.errors import InputError

PARAMETERS = {
    "gradient": ("g", "theta", "data", "at", "lane", "problem"),
    "randomise": ("g", "noise", "at", "lane", "mechanism", "counts"),
    "recursion": ("users", "noises", "problem", "mechanism", "settings", "record"),
    "sample": ("base", "shape"),
}
"""After ``kernel``, which a function may leave out, by the name of the function."""

BY_NAME = ("problem", "mechanism", "settings")
"""Parameters that are found by their name: what is read from them is put in when the kernel is made."""


def kernel_function(component: type, name: str) -> Any:
    """A kernel function of a component, from the module of its class or of one that it extends; or None."""
    for ancestor in component.__mro__:
        function = getattr(sys.modules[ancestor.__module__], name, None)
        if function is not None:
            return function
    return None


def check_parameters(function: Any, name: str) -> None:
    """Refuse a kernel function that cannot be called as it will be, before it is compiled.

    Parameters
    ----------
    function : callable
    name : {"gradient", "randomise", "recursion", "sample"}

    Raises
    ------
    InputError
        Naming file and function, with the parameters that it has and should have.
    """
    found = list(inspect.signature(function).parameters)
    given = found[1:] if found[:1] == ["kernel"] else found
    wanted = PARAMETERS[name]
    by_name = [w for w in wanted if w in BY_NAME]
    if len(given) == len(wanted) and all(given[wanted.index(w)] == w for w in by_name):
        return
    hint = f"{' and '.join(f'`{w}`' for w in by_name)} by this name." if by_name else ""
    raise InputError(
        f"{Path(function.__code__.co_filename).name}: {name}", f"({', '.join(found)})",
        f"the parameters ({', '.join(('kernel', *wanted))}), kernel where it is used", hint,
    )  # fmt: skip
