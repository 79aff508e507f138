"""Components that a notebook or a script defines: their source, as far as it can be found.

The source of such a component is its class and whatever top-level statements of the same cell or script
its names refer to. A run keeps it and is not continued with another. Names from other cells are not
followed.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterable
from types import FunctionType

from ldpflow.errors import InputError
from ldpflow.settings import Settings

MAIN = "__main__"

KERNEL_FUNCTIONS = {
    *("gradient", "gradient_bit", "bit_probability", "residual", "feature", "square_norm"),
    *("randomise", "randomise_probability", "recursion", "sample"),
}
"""Functions that belong to a component without being named in its class."""


def is_importable(component: Settings) -> bool:
    """Whether another process can run a component: a kernel is compiled from its file.

    An interval method has no kernel, and travels by value.
    """
    return type(component).__module__ != MAIN or component.group == "method"


def check_importable(components: Iterable[Settings]) -> None:
    """Refuse components that another process could not run.

    Raises
    ------
    InputError
        Naming the component.
    """
    for component in components:
        if not is_importable(component):
            name = type(component).__name__
            raise InputError(
                f"{component.group}.kind", component.kind, "a component in a file of its own on Ray",
                f"Ray's workers cannot compile what a notebook or a script defines. Write {name} with its "
                "kernel function to a file (in a notebook: %%writefile my_plugin.py at the top of the cell) "
                "and load that with lf.load_plugin('my_plugin.py'), or compute in this process.",
            )  # fmt: skip


def source_of(component: type) -> str | None:
    """Source of a class of a notebook or script; None where it is not to be found."""
    files = [v.__code__.co_filename for v in vars(component).values() if isinstance(v, FunctionType)]
    if not files:
        return None
    text = "".join(linecache.getlines(files[0]))
    try:
        statements = ast.parse(text).body
    except SyntaxError:
        return None
    wanted = {component.__name__}
    if getattr(component, "group", "") != "method":
        wanted |= KERNEL_FUNCTIONS
    chosen: dict[int, str] = {}
    grown = True
    while grown:
        grown = False
        for place, statement in enumerate(statements):
            if place not in chosen and defined_by(statement) & wanted:
                chosen[place] = lines_of(statement, text)
                wanted |= {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
                grown = True
    return "\n".join(chosen[place] for place in sorted(chosen)) + "\n" if chosen else None


def lines_of(statement: ast.stmt, text: str) -> str:
    """The lines of a statement, its decorators included."""
    decorators = getattr(statement, "decorator_list", ())
    first = min([statement.lineno, *(decorator.lineno for decorator in decorators)])
    return "\n".join(text.splitlines()[first - 1 : statement.end_lineno])


def defined_by(statement: ast.stmt) -> set[str]:
    """Names that a statement defines."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return {statement.name}
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return {(name.asname or name.name).partition(".")[0] for name in statement.names}
    if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        return {n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)}
    return set()
