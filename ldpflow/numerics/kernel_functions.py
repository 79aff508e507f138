"""Kernel functions of components: lookup, parameters and source.

Numbers of a component are named (``kernel_parameters()``): floats, and tuples of floats. Kernel functions
read them by name, ``problem.tau`` or ``problem.coefficients[j]``. Compiled code gets one flat array, and the
names become places in it, because a record passed into the loop over the steps can double its time.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import pickle
import sys
from functools import lru_cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpflow.errors import InputError, LdpflowError
from ldpflow.settings import Parameters

Layout = tuple[tuple[str, int, int | None], ...]
"""Name, first place and length of every parameter. A number has length None."""


def layout_of(parameters: Parameters) -> Layout:
    layout = []
    place = 0
    for name, value in parameters.items():
        length = len(value) if isinstance(value, tuple) else None
        layout.append((name, place, length))
        place += 1 if length is None else length
    return tuple(layout)


def size_of(layout: Layout) -> int:
    return sum(1 if length is None else length for _, _, length in layout)


def flat(parameters: Parameters) -> NDArray[np.float64]:
    values: list[float] = []
    for value in parameters.values():
        values.extend(value if isinstance(value, tuple) else (value,))
    return np.array(values, dtype=np.float64)


PARAMETERS = {
    "gradient": ("g", "theta", "data", "at", "lane", "problem"),
    "randomise": ("g", "noise", "at", "lane", "mechanism", "counts"),
    "recursion": ("users", "noises", "problem", "mechanism", "settings", "record"),
    "sample": ("base", "shape"),
}
"""Parameters of kernel functions after ``kernel``, which is optional."""

BY_NAME = ("problem", "mechanism", "settings")
"""Parameters with fixed names: their attributes become places in the flat array."""


def kernel_function(component: type, name: str) -> Any:
    """Find a kernel function in the module of a class or base class; None if there is none."""
    for ancestor in component.__mro__:
        function = getattr(sys.modules[ancestor.__module__], name, None)
        if function is not None:
            return function
    return None


def part_of(component: object, name: str, required: bool = True) -> Any:
    """Kernel function of a component, see :func:`kernel_function`. An error if it is required and missing."""
    kind = type(component)
    function = kernel_function(kind, name)
    if function is None and required:
        file = getattr(sys.modules[kind.__module__], "__file__", kind.__module__)
        raise LdpflowError(f"{file} lacks the kernel function {name} of {kind.__name__}")
    return function


def check_parameters(function: Any, name: str) -> None:
    """Refuse a kernel function whose parameters are not those of :data:`PARAMETERS`, naming its file."""
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


def source_tree(function: FunctionType) -> ast.FunctionDef:
    """A copy of the function's syntax tree, with the line numbers of its file, which must not change."""
    code = function.__code__
    linecache.checkcache(code.co_filename)
    text = "".join(linecache.getlines(code.co_filename, function.__globals__))
    if not text:
        raise LdpflowError(
            f"the source of kernel function {function.__name__} cannot be read from {code.co_filename}; "
            "kernels are compiled from source"
        )
    trees, codes = parse_functions(code.co_filename, text)
    place = (code.co_firstlineno, code.co_name)
    if place not in trees or instructions(codes[place]) != instructions(code):
        raise LdpflowError(
            f"{code.co_filename} changed after it was imported: kernel function {function.__name__} "
            "differs from its source; start again"
        )
    copied: ast.FunctionDef = pickle.loads(pickle.dumps(trees[place]))  # in 0.37 of deepcopy's time
    return copied


def instructions(code: CodeType) -> tuple[object, ...]:
    """Bytecode with its names and constants, without flags and places."""
    return code.co_code, code.co_names, code.co_consts


@lru_cache(maxsize=256)
def parse_functions(
    filename: str, text: str
) -> tuple[dict[tuple[int, str], ast.FunctionDef], dict[tuple[int, str], CodeType]]:
    """Syntax tree and code of every function of a file, by its first line and its name."""
    tree = ast.parse(text, filename)
    trees = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            trees[first, node.name] = node
    codes = {}
    todo = [compile(text, filename, "exec", dont_inherit=True)]
    while todo:
        inner = [constant for constant in todo.pop().co_consts if isinstance(constant, CodeType)]
        codes.update({(code.co_firstlineno, code.co_name): code for code in inner})
        todo.extend(inner)
    return trees, codes
