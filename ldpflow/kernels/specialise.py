"""Specialised functions: a kernel function compiled for one case.

A kernel function is plain Python for one lane. What depends on the case it reads from its first argument,
``kernel``: constants (``kernel.D``), other parts of the kernel (``kernel.gradient(g, ...)``), and tuples of
those (``kernel.samplers[v]``). To specialise it, its own source is rewritten for the case (.rewriting),
without that argument. It may call functions of its module, which are specialised with it, and use its
constants. All functions of a kernel are then written into one module, which Numba compiles (.module).
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import FunctionType
from typing import Any

from ldpflow.kernels.functions import Layout, names_in, source_tree
from ldpflow.kernels.rewriting import Rewriter
from ldpflow.random import Deferred

Function = Callable[..., Any]

INLINING: dict[str, dict[str, Any]] = {
    "called": {},
    "inlined": {"forceinline": True},
    "written": {"inline": "always"},
}
"""Options of numba.njit by the way of inlining."""


@dataclass(frozen=True)
class Case:
    """The case that a kernel is specialised for.

    Parameters
    ----------
    values : tuple of (str, value)
        What ``kernel.NAME`` stands for: a number, a function, a Part, or a tuple of those.
    layouts : tuple of (str, Layout)
        Parameters by the name of the argument that holds them: problem, mechanism, settings.
    unrolled : frozenset of str
        Names of the constants whose loops ``for j in range(kernel.NAME)`` are written out.
    inlining : {"called", "inlined", "written"}
        How functions become part of where they are called: as LLVM decides, by LLVM always, or by Numba
        before types are inferred. A Part may have its own.
    """

    values: tuple[tuple[str, Any], ...] = ()
    layouts: tuple[tuple[str, Layout], ...] = ()
    unrolled: frozenset[str] = frozenset()
    inlining: str = "called"

    def __getitem__(self, name: str) -> Any:
        return dict(self.values)[name]

    def with_values(self, values: Mapping[str, Any]) -> Case:
        """The case with further values, or others."""
        return replace(self, values=tuple({**dict(self.values), **values}.items()))

    def with_layout(self, name: str, layout: Layout) -> Case:
        """The case with the parameters of one argument more."""
        return replace(self, layouts=(*self.layouts, (name, layout)))


@dataclass(frozen=True)
class Part:
    """A function of a kernel, with a case or a way of inlining of its own."""

    function: Function
    case: Case | None = None
    inlining: str | None = None


@dataclass(frozen=True, eq=False)
class Specialised:
    """A function rewritten for a case, not compiled yet.

    Parameters
    ----------
    function : callable
        The kernel function.
    tree : ast.FunctionDef
        Its rewritten source.
    references : dict
        Global names in it: specialised functions, and objects that are imported.
    options : dict
        Options of ``numba.njit`` for it.
    """

    function: FunctionType
    tree: ast.FunctionDef
    references: dict[str, Specialised | Imported] = field(repr=False)
    options: dict[str, Any]


@dataclass(frozen=True)
class Imported:
    """An object that a kernel imports: an intrinsic, a class, a module, an array.

    Parameters
    ----------
    module, name : str
        Where it is found; without a name, the module itself.
    value : object
    """

    module: str
    name: str
    value: Any


@lru_cache(maxsize=4096)
def specialised(
    function: Function, case: Case, inlining: str | None = None, options: tuple[tuple[str, Any], ...] = ()
) -> Specialised:
    """Rewrite a kernel function for a case, with all functions that it calls.

    Parameters
    ----------
    function : callable
    case : Case
    inlining : str, optional
        That of the case by default.
    options : tuple of (str, value)
        Further options of ``numba.njit``, of a function that was decorated with some.

    Raises
    ------
    NameError
        If it asks for something that the case does not have, or uses an unknown name.
    TypeError
        If it uses an object that cannot be imported.
    LdpflowError
        If its source cannot be read, or changed after it was imported.
    """
    assert isinstance(function, FunctionType)
    code = function.__code__
    what = f"{function.__name__} ({code.co_filename}, line {code.co_firstlineno})"
    tree = source_tree(function)
    if tree.args.args and tree.args.args[0].arg == "kernel":
        tree.args.args = tree.args.args[1:]
    tree.returns = None
    tree.decorator_list = []
    for argument in (*tree.args.args, *filter(None, (tree.args.vararg, tree.args.kwarg))):
        argument.annotation = None
    if ast.get_docstring(tree) is not None:
        tree.body = tree.body[1:] or [ast.Pass(lineno=tree.lineno, col_offset=0)]
    local = {name for name in code.co_varnames if name != "kernel"}
    globals_ = visible(function)
    rewriter = Rewriter(what, globals_, dict(case.values), dict(case.layouts), case.unrolled, local)
    tree.body = rewriter.statements(tree.body)
    inlining = inlining or case.inlining
    references: dict[str, Any] = {}
    for name in names_in(tree, local):
        if name in rewriter.parts:
            target = rewriter.parts[name]
        elif name in globals_:
            target = globals_[name]
        elif hasattr(builtins, name):
            continue
        else:
            raise NameError(f"{what}: name {name} is not defined")
        references[name] = referenced(function, name, target, case, inlining)
    return Specialised(function, tree, references, INLINING[inlining] | dict(options))


def referenced(function: FunctionType, name: str, target: Any, case: Case, inlining: str) -> Any:
    """A function that is called, specialised with its own or the caller's case; anything else, imported."""
    module = function.__module__
    if isinstance(target, Deferred):
        module, name = target.module, target.name
        target = target.load()
    if isinstance(target, Part):
        return specialised(target.function, target.case or case, target.inlining)
    plain = getattr(target, "py_func", target)
    if isinstance(plain, FunctionType) and not hasattr(plain, "implemented_for_numba"):
        options = getattr(target, "targetoptions", {})  # of a function that numba.njit decorates
        own = tuple((option, value) for option, value in options.items() if option not in STANDARD)
        # A function that is called by one which is inlined must be too.
        return specialised(plain, case, "inlined" if inlining == "inlined" else None, own)
    return Imported(module, name, target)


STANDARD = {"nopython", "boundscheck", "error_model", "no_cfunc_wrapper", "no_cpython_wrapper", "nogil"}
"""Options of functions of ldpflow that a kernel decides for all its functions."""


def visible(function: FunctionType) -> dict[str, Any]:
    """Globals of a function and what it closes over."""
    names = function.__code__.co_freevars
    closed = (cell.cell_contents for cell in function.__closure__ or ())
    return {**function.__globals__, **dict(zip(names, closed, strict=True))}
