"""Rewriting a kernel function for one case: what is known beforehand is put into its syntax tree.

``kernel.NAME`` becomes a constant or the name of a compiled part, ``problem.NAME`` a place in the flat
array of parameters, a loop over ``range(kernel.D)`` its iterations, and an ``if`` that is decided by
constants one of its branches. Line numbers stay those of the source.

Loops over coordinates are written out so that the loop over the lanes stays the innermost one. Inside it
even a loop of one iteration keeps the compiler from vectorising all lanes, and from about eight
coordinates on it vectorises none: a step then takes two and a half to three times as long. The same
operations in the same order: no bit of a result depends on it.

Specialised functions: a kernel function compiled for one case.

A kernel function is plain Python for one lane. What depends on the case it reads from its first argument,
``kernel``: constants (``kernel.D``), other parts of the kernel (``kernel.gradient(g, ...)``), and tuples of
those (``kernel.samplers[v]``). To specialise it, its own source is rewritten for the case (.rewriting),
without that argument. It may call functions of its module, which are specialised with it, and use its
constants. All functions of a kernel are then written into one module, which Numba compiles (.module).
"""

from __future__ import annotations

import ast
import builtins
import copy
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from ldpflow.numerics import Deferred, scratch_array
from ldpflow.numerics.kernel_functions import Layout, names_in, source_tree

FOLDED: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
COMPARED: dict[type[ast.AST], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


class Rewriter(ast.NodeTransformer):
    """Rewrites the body of one function.

    Parameters
    ----------
    what : str
        Name and place of the function, for messages.
    visible : mapping
        Globals (and closure) of the function.
    values : mapping
        What ``kernel.NAME`` stands for: a number, a part, or a tuple of those.
    layouts : mapping of str to Layout
        The parameters that go by these names.
    unrolled : frozenset of str
        Names of the constants whose ranges are written out.
    local : set of str
        Names that the function assigns or takes as arguments.

    Attributes
    ----------
    parts : dict
        Names under which the rewritten function refers to parts, and what they are.
    """

    def __init__(
        self,
        what: str,
        visible: Mapping[str, Any],
        values: Mapping[str, Any],
        layouts: Mapping[str, Layout],
        unrolled: frozenset[str],
        local: set[str],
    ) -> None:
        self.what = what
        self.visible = visible
        self.values = values
        self.layouts = {
            name: {field: (place, length) for field, place, length in layout}
            for name, layout in layouts.items()
        }
        self.unrolled = unrolled
        self.local = local
        self.parts: dict[str, Any] = {}

    def statements(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """A body, rewritten; never empty."""
        result: list[ast.stmt] = []
        for statement in body:
            made = self.visit(statement)
            result.extend(made if isinstance(made, list) else [made])
            if result and isinstance(result[-1], (ast.Return, ast.Break, ast.Continue)):
                break  # what follows is never reached
        kept = [s for s in result if not isinstance(s, ast.Pass)]
        return kept or [ast.Pass()]

    def visit_For(self, node: ast.For) -> Any:
        bounds = self.bounds(node)
        if bounds is None:
            node.iter = self.visit(node.iter)
            node.body = self.statements(node.body)
            return node
        assert isinstance(node.target, ast.Name)
        copies: list[ast.stmt] = []
        for value in bounds:
            for statement in node.body:
                replaced = Replaced(node.target.id, value).visit(copy.deepcopy(statement))
                made = self.visit(replaced)
                copies.extend(made if isinstance(made, list) else [made])
        return copies or [ast.Pass()]

    def bounds(self, node: ast.For) -> range | None:
        """The range of a loop that is to be written out."""
        call = node.iter
        if not (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Name)
            and call.func.id == "range"
            and isinstance(node.target, ast.Name)
        ):
            return None
        last = call.args[-1]
        if not (is_kernel(last) and isinstance(last, ast.Attribute) and last.attr in self.unrolled):
            return None
        ends = [self.visit(copy.deepcopy(argument)) for argument in call.args]
        if not all(isinstance(end, ast.Constant) and type(end.value) is int for end in ends):
            return None
        return range(*(end.value for end in ends))

    def visit_While(self, node: ast.While) -> Any:
        node.test = self.visit(node.test)
        node.body = self.statements(node.body)
        return node

    def visit_If(self, node: ast.If) -> Any:
        node.test = self.visit(node.test)
        if isinstance(node.test, ast.Constant):
            return self.statements(node.body if node.test.value else node.orelse)
        node.body = self.statements(node.body)
        node.orelse = self.statements(node.orelse) if node.orelse else []
        return node

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        node.test = self.visit(node.test)
        if isinstance(node.test, ast.Constant):
            return self.visit(node.body if node.test.value else node.orelse)
        node.body = self.visit(node.body)
        node.orelse = self.visit(node.orelse)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        short = isinstance(node.op, ast.Or)  # the value that decides
        rest: list[ast.expr] = []
        for value in node.values:
            value = self.visit(value)
            if not isinstance(value, ast.Constant):
                rest.append(value)
            elif bool(value.value) == short:
                if not rest:
                    return ast.copy_location(ast.Constant(short), node)
                rest.append(value)
                break
        if not rest:
            return ast.copy_location(ast.Constant(not short), node)
        if len(rest) == 1:
            return rest[0]
        node.values = rest
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        node.operand = self.visit(node.operand)
        if isinstance(node.op, ast.Not) and isinstance(node.operand, ast.Constant):
            return ast.copy_location(ast.Constant(not node.operand.value), node)
        return node

    def visit_Compare(self, node: ast.Compare) -> Any:
        self.generic_visit(node)
        sides = [node.left, *node.comparators]
        if len(sides) != 2 or type(node.ops[0]) not in COMPARED:
            return node
        left, right = sides
        if isinstance(left, ast.Constant) and isinstance(right, ast.Constant):
            return ast.copy_location(ast.Constant(COMPARED[type(node.ops[0])](left.value, right.value)), node)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        node.left = self.visit(node.left)
        node.right = self.visit(node.right)
        left, right = node.left, node.right
        # Integers alone: floats are the compiler's to add.
        if (
            type(node.op) in FOLDED
            and isinstance(left, ast.Constant)
            and isinstance(right, ast.Constant)
            and type(left.value) is int
            and type(right.value) is int
        ):
            return ast.copy_location(ast.Constant(FOLDED[type(node.op)](left.value, right.value)), node)
        return node

    def visit_Name(self, node: ast.Name) -> Any:
        if node.id in self.local or not isinstance(node.ctx, ast.Load):
            return node
        value = self.visible.get(node.id)
        if type(value) in (int, float, bool):
            return ast.copy_location(ast.Constant(value), node)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        if is_kernel(node):
            return self.value_of(node, self.supplied(node.attr), f"kernel_{node.attr}")
        if isinstance(node.value, ast.Name):
            owner = node.value.id
            if owner in self.layouts:
                place, length = self.place(owner, node.attr)
                if length is None:
                    index: ast.expr = ast.Constant(place)
                else:
                    index = ast.Slice(ast.Constant(place), ast.Constant(place + length))
                return ast.copy_location(ast.Subscript(node.value, index, node.ctx), node)
            module = None if owner in self.local else self.visible.get(owner)
            if isinstance(module, ModuleType) and module.__name__.split(".")[0] not in ("numpy", "math"):
                return self.value_of(node, getattr(module, node.attr), f"{owner}_{node.attr}")
        self.generic_visit(node)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        target = node.value
        node.slice = self.visit(node.slice)
        if is_kernel(target) and isinstance(target, ast.Attribute):
            supplied = self.supplied(target.attr)
            if isinstance(supplied, tuple) and isinstance(node.slice, ast.Constant):
                index: Any = node.slice.value
                return self.value_of(node, supplied[index], f"kernel_{target.attr}_{index}")
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
            owner = target.value.id
            if owner in self.layouts:
                place, length = self.place(owner, target.attr)
                if length is not None:
                    places = ast.BinOp(ast.Constant(place), ast.Add(), node.slice)
                    return ast.copy_location(
                        ast.Subscript(target.value, self.visit_BinOp(places), node.ctx), node
                    )
        node.value = self.visit(target)
        return node

    def visit_Call(self, node: ast.Call) -> Any:
        if isinstance(node.func, ast.Name) and node.func.id == "len" and len(node.args) == 1:
            argument = node.args[0]
            if isinstance(argument, ast.Attribute) and isinstance(argument.value, ast.Name):
                if argument.value.id in self.layouts:
                    _, length = self.place(argument.value.id, argument.attr)
                    if length is not None:
                        return ast.copy_location(ast.Constant(length), node)
                if is_kernel(argument) and isinstance(self.supplied(argument.attr), tuple):
                    return ast.copy_location(ast.Constant(len(self.supplied(argument.attr))), node)
        if node.args and isinstance(node.args[0], ast.Name) and node.args[0].id == "kernel":
            node.args = node.args[1:]  # a function of the case, which is part of it already
        self.generic_visit(node)
        if is_empty(node) and self.visible.get(node.func.value.id) is np:  # type: ignore[attr-defined]
            node.func = self.value_of(node.func, scratch_array, "scratch_array")
        return node

    def value_of(self, node: ast.expr, value: Any, name: str) -> ast.expr:
        """A constant, or the name of a part."""
        if type(value) in (int, float, bool):
            return ast.copy_location(ast.Constant(value), node)
        self.parts[name] = value
        return ast.copy_location(ast.Name(name, ast.Load()), node)

    def supplied(self, name: str) -> Any:
        """Value that the case has under a name."""
        try:
            return self.values[name]
        except KeyError:
            raise NameError(f"{self.what}: nothing supplies kernel.{name}") from None

    def place(self, owner: str, name: str) -> tuple[int, int | None]:
        """Where a parameter lies."""
        try:
            return self.layouts[owner][name]
        except KeyError:
            known = ", ".join(self.layouts[owner]) or "none"
            raise NameError(f"{self.what}: no parameter {owner}.{name} (there are: {known})") from None


class Replaced(ast.NodeTransformer):
    """A name, replaced by a number."""

    def __init__(self, name: str, value: int) -> None:
        self.name = name
        self.value = value

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.copy_location(ast.Constant(self.value), node) if node.id == self.name else node


def is_empty(node: ast.Call) -> bool:
    """Whether the expression is ``np.empty(NUMBER)``."""
    return (
        isinstance(node.func, ast.Attribute)
        and node.func.attr == "empty"
        and isinstance(node.func.value, ast.Name)
        and len(node.args) == 1
        and not node.keywords
        and isinstance(node.args[0], ast.Constant)
    )


def is_kernel(node: ast.expr) -> bool:
    """Whether the expression is ``kernel.NAME``."""
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "kernel"


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
