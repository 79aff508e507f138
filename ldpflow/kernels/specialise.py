"""Specialised functions: a kernel function compiled for one case.

A kernel function is plain Python for one lane. What depends on the case it reads from its first argument,
``kernel``: constants (``kernel.D``), other parts of the kernel (``kernel.gradient(g, ...)``), and tuples of
those (``kernel.samplers[v]``). To specialise it, its own source is rewritten for the case (.rewriting),
without that argument, and compiled over the globals of its own module: so it may call functions of its
module (which are specialised with it) and use its constants, wherever its file lies. Code objects keep
the file and the lines of the source.

Every specialised function has a digest of all that it is made of: the rewritten source, the numbers in
it, and the digests of the functions that it calls, transitively, in whatever file they are. Equal digests
mean equal code. The compiled entry of a kernel is cached on disk under it (.cache).
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import linecache
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from ldpflow.kernels.forms import Text
from ldpflow.kernels.inlining import Writer
from ldpflow.kernels.parameters import Layout
from ldpflow.kernels.rewriting import Rewriter
from ldpflow.kernels.sources import code_digest, names_in, source_tree
from ldpflow.random import Deferred

__all__ = ["Case", "Part", "Specialised", "specialised"]

Function = Callable[..., Any]

INLINING: dict[str, dict[str, Any]] = {
    "called": {},
    "inlined": {"forceinline": True},  # by LLVM, where it is not written into the kernel beforehand
    "apart": {"forceinline": True},  # by LLVM, always: sums of matrices are not vectorised otherwise
    "written": {"inline": "always"},  # by Numba, before types are inferred: that compiles sooner
}


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
    inlining : str
        How functions become part of where they are called, unless a Part says otherwise.
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
        Names in it, and the functions that they stand for.
    digest : str
        SHA-256 of all that it is made of.
    inlining : str
    """

    function: Any
    tree: ast.FunctionDef
    references: dict[str, Any] = field(repr=False)
    digest: str
    inlining: str

    def plain(self) -> FunctionType:
        """The rewritten function; each function that it calls is compiled by itself."""
        return self.made(self.tree.body, {**visible(self.function), **self.references})

    def whole(self) -> FunctionType:
        """The function with all that it calls written into it."""
        writer = Writer(text_of)
        text = text_of(self)
        assert text is not None
        return self.made(writer.written(text), writer.names)

    def outline(self) -> FunctionType:
        """A function with the same name and arguments that does nothing: for code loaded from a cache."""
        return self.made([ast.Pass()], {})

    def made(self, body: list[ast.stmt], names: Mapping[str, Any]) -> FunctionType:
        """A function with the name and arguments of the specialised one, over these globals."""
        # Not only the place in the file tells two specialised functions apart: compiled code that was
        # cached by different processes is linked by name.
        name = f"{self.function.__name__}_{self.digest[:16]}"
        namespace: dict[str, Any] = {"__name__": self.function.__module__}
        for known, value in names.items():
            namespace[known] = value.dispatcher if isinstance(value, Specialised) else value
        tree = ast.copy_location(ast.FunctionDef(name, self.tree.args, body, [], None), self.tree)
        module = ast.fix_missing_locations(ast.Module([tree], []))
        exec(compile(module, self.function.__code__.co_filename, "exec", dont_inherit=True), namespace)
        plain: FunctionType = namespace[name]
        plain.__module__ = self.function.__module__
        return plain

    @cached_property
    def dispatcher(self) -> Any:
        """For calls from compiled code."""
        from numba import njit

        # numpy's error model: no check for division by zero, which would stop vectorisation.
        # No entries for Python and C: only compiled code calls it, and they take their time to compile.
        options = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, **INLINING[self.inlining]}
        return njit(error_model="numpy", **options)(self.plain())


def text_of(value: Any) -> Text | None:
    """How a function is written into another one."""
    if not isinstance(value, Specialised) or value.inlining == "apart":
        return None
    arguments = value.tree.args
    if arguments.vararg or arguments.kwarg or arguments.defaults or arguments.kwonlyargs:
        return None
    return Text(
        [argument.arg for argument in arguments.args],
        {**visible(value.function), **value.references},
        value.tree.body,
    )


@lru_cache(maxsize=4096)
def specialised(function: Function, case: Case, inlining: str | None = None) -> Specialised:
    """Rewrite a kernel function for a case, and whatever it calls.

    Raises
    ------
    NameError
        If it asks for something that the case does not have, or uses an unknown name.
    LdpflowError
        If its source cannot be read, or changed after it was imported.
    """
    assert isinstance(function, FunctionType)
    code = function.__code__
    what = f"{function.__name__} ({code.co_filename}, line {code.co_firstlineno})"
    tree = source_tree(function)
    if tree.args.args and tree.args.args[0].arg == "kernel":
        tree.args.args = tree.args.args[1:]
    for argument in (*tree.args.args, *filter(None, (tree.args.vararg, tree.args.kwarg))):
        argument.annotation = None
    if tree.body and isinstance(tree.body[0], ast.Expr) and isinstance(tree.body[0].value, ast.Constant):
        tree.body = tree.body[1:] or [ast.Pass(lineno=tree.lineno, col_offset=0)]
    local = {name for name in code.co_varnames if name != "kernel"}
    globals_ = visible(function)
    rewriter = Rewriter(what, globals_, dict(case.values), dict(case.layouts), case.unrolled, local)
    tree.body = rewriter.statements(tree.body)
    references: dict[str, Any] = {}
    digest = hashlib.sha256()
    inlining = inlining or case.inlining
    # Compiled code names its module when it is loaded again.
    named = f"{function.__module__}.{function.__name__}"
    digest.update(f"{named}\n{inlining}\n{ast.unparse(tree)}\n".encode())
    for name in names_in(tree, local):
        if name in rewriter.parts:
            target = rewriter.parts[name]
        elif name in globals_:
            target = globals_[name]
        elif hasattr(builtins, name):
            continue
        else:
            raise NameError(f"{what}: name {name} is not defined")
        if isinstance(target, Deferred):
            references[name] = target = target.load()
        if is_ours(target):
            target = target.py_func
        if isinstance(target, Part):
            target = specialised(target.function, target.case or case, target.inlining)
        elif isinstance(target, FunctionType) and not implemented(target):
            # A function that is called by one which is inlined must be too.
            target = specialised(target, case, inlining if inlining in ("inlined", "apart") else None)
        if isinstance(target, Specialised) or name in rewriter.parts:
            references[name] = target
        digest.update(f"{name}={fingerprint(target, what)}\n".encode())
    return Specialised(function, tree, references, digest.hexdigest(), inlining)


OPTIONS = {
    "nopython",
    "boundscheck",
    "error_model",
    "no_cfunc_wrapper",
    "no_cpython_wrapper",
    "forceinline",
}


def is_ours(value: Any) -> bool:
    """Whether a function was compiled by Numba with the options of kernels: then it can be part of one."""
    options = getattr(value, "targetoptions", {})
    return hasattr(value, "py_func") and options.get("error_model") == "numpy" and options.keys() <= OPTIONS


def visible(function: Any) -> dict[str, Any]:
    """Globals of a function and what it closes over."""
    names = function.__code__.co_freevars
    closed = (cell.cell_contents for cell in function.__closure__ or ())
    return {**function.__globals__, **dict(zip(names, closed, strict=True))}


def fingerprint(value: Any, what: str) -> str:
    """Text that is the same for what compiles to the same code, in every process.

    Raises
    ------
    TypeError
        For what a kernel cannot use.
    """
    if isinstance(value, Specialised):
        return value.digest
    if hasattr(value, "py_func"):  # compiled by Numba itself
        return function_digest(value.py_func)
    if isinstance(value, (bool, int, float, str, np.generic, type(None))):
        return f"{type(value).__name__} {value!r}"
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return f"({', '.join(fingerprint(item, what) for item in value)})"
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
    if isinstance(value, ModuleType):
        return f"module {value.__name__} {getattr(value, '__version__', '')}"
    if isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields"):
        return f"{value.__name__}{value._fields}"
    if isinstance(value, (type, np.ufunc, BuiltinFunctionType)):
        return f"{getattr(value, '__module__', '')}.{value.__name__}"
    implementation = getattr(value, "_defn", None)  # an intrinsic
    if isinstance(implementation, FunctionType):
        return function_digest(implementation)
    if isinstance(value, FunctionType):
        return f"{value.__qualname__} {file_digest(value.__code__.co_filename)}"  # implemented for Numba
    raise TypeError(f"{what}: a kernel cannot use {value!r}")


@cache
def implemented(function: FunctionType) -> bool:
    """Whether Numba has an implementation of the function, and compiles calls of it by that."""
    from numba.core.errors import NumbaError
    from numba.core.registry import cpu_target

    context = cpu_target.typing_context
    context.refresh()
    try:
        context.resolve_value_type(function)
    except (NumbaError, ValueError):
        return False
    return True


@cache
def file_digest(filename: str) -> str:
    """Digest of a file: of an implementation that stands beside its function."""
    return hashlib.sha256("".join(linecache.getlines(filename)).encode()).hexdigest()


@lru_cache(maxsize=4096)
def function_digest(function: FunctionType) -> str:
    """Digest of a function that Numba compiles by itself, and of those that it calls."""
    return digest_of(function, set())


def digest_of(function: FunctionType, seen: set[int]) -> str:
    """The same, without going round in circles."""
    if id(function) in seen:
        return ""
    seen.add(id(function))
    digest = hashlib.sha256(function.__qualname__.encode())
    globals_ = visible(function)
    todo = [function.__code__]
    while todo:
        code = todo.pop()
        digest.update(code_digest(code).encode())
        todo.extend(constant for constant in code.co_consts if isinstance(constant, CodeType))
        for name in sorted({*code.co_names, *code.co_freevars}):
            if name not in globals_:
                continue
            value = globals_[name]
            inner = getattr(value, "py_func", getattr(value, "_defn", value))
            if isinstance(inner, FunctionType) and not (inner is value and implemented(inner)):
                text = digest_of(inner, seen)
            else:
                try:
                    text = fingerprint(value, function.__qualname__)
                except TypeError:
                    text = type(value).__name__
            digest.update(f"{name}={text}".encode())
    return digest.hexdigest()
