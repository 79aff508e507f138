"""Specialisation of kernel functions for a case: problem, mechanism, algorithm and dimension.

A kernel function is plain Python. Its first argument ``kernel`` stands for the case. ``kernel.D`` is a
constant, ``kernel.gradient(g, ...)`` calls a function of another component, and ``kernel.samplers[v]`` is an
entry of a tuple. A kernel function may use functions and constants of its module. These functions are
specialised with it.

The syntax tree of a function is rewritten for a case, without the argument ``kernel``. ``kernel.NAME``
becomes a constant or a name. ``problem.NAME`` becomes a place in the flat array of parameters. A loop over
``range(kernel.D)`` is written out. An ``if`` with a constant condition becomes one of its branches. Nodes
keep the line numbers of the source.

With loops over coordinates written out, the loop over the lanes is the innermost one. If it contained a
loop over coordinates, the compiler would vectorise it in part or, from about eight coordinates on, not at
all. A step would then take two and a half to three times as long. Rewriting keeps the order of operations, so
results have the same bits.
"""

from __future__ import annotations

import ast
import builtins
import copy
import inspect
import linecache
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import CodeType, FunctionType, ModuleType
from typing import Any, TypeGuard

import numpy as np

from ldpflow.errors import LdpflowError
from ldpflow.numerics import Deferred, scratch_array

FOLDED = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)
"""Operations on constant integers whose value is written in place of the operation."""


Layout = tuple[tuple[str, int, int | None], ...]
"""Name, first place and length of every parameter. A number has length None."""


def source_tree(function: FunctionType) -> ast.FunctionDef:
    """Copy of a function's syntax tree. The file must be the one from which the function was imported."""
    code = function.__code__
    linecache.checkcache(code.co_filename)
    text = "".join(linecache.getlines(code.co_filename, function.__globals__))
    trees, codes = parse_functions(code.co_filename, text)
    place = (code.co_firstlineno, code.co_name)
    if place not in trees or instructions(codes[place]) != instructions(code):
        raise LdpflowError(
            f"{code.co_filename} lacks the source of the kernel function {function.__name__}: it cannot be "
            "read, or it was changed after its import. Start Python again."
        )
    copied: ast.FunctionDef = pickle.loads(pickle.dumps(trees[place]))  # faster than copy.deepcopy
    return copied


def instructions(code: CodeType) -> tuple[object, ...]:
    """Parts of a function's code that do not depend on where the file is."""
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


class Rewriter(ast.NodeTransformer):
    """Rewrites the body of one function for a case.

    ``what`` is the function in messages, ``visible`` has its globals and closure variables, and ``local`` the
    names that it assigns or takes as arguments. ``parts`` gets the objects of the case, by their names in the
    rewritten function.
    """

    def __init__(self, what: str, visible: Mapping[str, Any], case: Case, local: set[str]) -> None:
        self.what = what
        self.visible = visible
        self.values = dict(case.values)
        self.layouts = {
            name: {field: (place, length) for field, place, length in layout} for name, layout in case.layouts
        }
        self.unrolled = case.unrolled
        self.local = local
        self.parts: dict[str, Any] = {}

    def rewrite_block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """Rewrite a block up to its first return, break or continue. An empty block becomes ``pass``."""
        result: list[ast.stmt] = []
        for statement in body:
            made = self.visit(statement)
            result.extend(made if isinstance(made, list) else [made])
            if result and isinstance(result[-1], (ast.Return, ast.Break, ast.Continue)):
                break
        return [s for s in result if not isinstance(s, ast.Pass)] or [ast.Pass()]

    def visit_For(self, node: ast.For) -> Any:
        bounds = self.unrolled_range(node)
        if bounds is None:
            node.iter = self.visit(node.iter)
            node.body = self.rewrite_block(node.body)
            return node
        assert isinstance(node.target, ast.Name)
        copies: list[ast.stmt] = []
        for value in bounds:
            substitution = Substitution({node.target.id: ast.Constant(value)})
            for statement in node.body:
                made = self.visit(substitution.visit(copy.deepcopy(statement)))
                copies.extend(made if isinstance(made, list) else [made])
        return copies or [ast.Pass()]

    def unrolled_range(self, node: ast.For) -> range | None:
        match node.iter:
            case ast.Call(ast.Name("range"), [*_, ast.Attribute(ast.Name("kernel"), name)] as bounds):
                if name in self.unrolled and isinstance(node.target, ast.Name):
                    ends = [self.visit(copy.deepcopy(bound)) for bound in bounds]
                    return range(*(end.value for end in ends)) if all(map(is_integer, ends)) else None
        return None

    def visit_While(self, node: ast.While) -> Any:
        node.test = self.visit(node.test)
        node.body = self.rewrite_block(node.body)
        return node

    def visit_If(self, node: ast.If) -> Any:
        node.test = self.visit(node.test)
        if isinstance(node.test, ast.Constant):
            return self.rewrite_block(node.body if node.test.value else node.orelse)
        node.body = self.rewrite_block(node.body)
        node.orelse = self.rewrite_block(node.orelse) if node.orelse else []
        return node

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        node.test = self.visit(node.test)
        if isinstance(node.test, ast.Constant):
            return self.visit(node.body if node.test.value else node.orelse)
        node.body = self.visit(node.body)
        node.orelse = self.visit(node.orelse)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        deciding = isinstance(node.op, ast.Or)
        rest: list[ast.expr] = []
        for value in map(self.visit, node.values):
            if not isinstance(value, ast.Constant):
                rest.append(value)
            elif bool(value.value) == deciding:
                rest.append(ast.Constant(deciding))
                break
        node.values = rest or [ast.Constant(not deciding)]
        return node if len(rest) > 1 else ast.copy_location(node.values[0], node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        return evaluated(node) if isinstance(node.op, ast.Not) else node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        return evaluated(node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        foldable = isinstance(node.op, FOLDED) and is_integer(node.left) and is_integer(node.right)
        return evaluated(node) if foldable else node

    def visit_Name(self, node: ast.Name) -> Any:
        if node.id in self.local or not isinstance(node.ctx, ast.Load):
            return node
        value = self.visible.get(node.id)
        if type(value) in (int, float, bool):
            return ast.copy_location(ast.Constant(value), node)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        if is_kernel(node):
            return self.constant_or_name(node, self.case_value(node.attr), f"kernel_{node.attr}")
        if self.is_parameter(node):
            place, length = self.place_of(node)
            index: ast.expr = ast.Constant(place)
            if length is not None:
                index = ast.Slice(index, ast.Constant(place + length))
            return ast.copy_location(ast.Subscript(node.value, index, node.ctx), node)
        if isinstance(node.value, ast.Name) and node.value.id not in self.local:
            module = self.visible.get(node.value.id)
            if isinstance(module, ModuleType) and module.__name__.split(".")[0] not in ("numpy", "math"):
                name = f"{node.value.id}_{node.attr}"
                return self.constant_or_name(node, getattr(module, node.attr), name)
        return self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        target = node.value
        node.slice = self.visit(node.slice)
        if is_kernel(target) and isinstance(node.slice, ast.Constant):
            values = self.case_value(target.attr)
            index: Any = node.slice.value
            if isinstance(values, tuple):
                return self.constant_or_name(node, values[index], f"kernel_{target.attr}_{index}")
        if self.is_parameter(target):
            place, length = self.place_of(target)
            if length is not None:
                index = self.visit_BinOp(ast.BinOp(ast.Constant(place), ast.Add(), node.slice))
                return ast.copy_location(ast.Subscript(target.value, index, node.ctx), node)
        node.value = self.visit(target)
        return node

    def visit_Call(self, node: ast.Call) -> Any:
        match node:
            case ast.Call(ast.Name("len"), [argument]):
                length = self.length_of(argument)
                if length is not None:
                    return ast.copy_location(ast.Constant(length), node)
            case ast.Call(_, [ast.Name("kernel"), *others]):
                node.args = others
        self.generic_visit(node)
        match node:
            case ast.Call(ast.Attribute(ast.Name(owner), "empty"), [ast.Constant()], []):
                if self.visible.get(owner) is np:
                    node.func = self.constant_or_name(node.func, scratch_array, "scratch_array")
        return node

    def length_of(self, node: ast.expr) -> int | None:
        if self.is_parameter(node):
            return self.place_of(node)[1]
        if is_kernel(node) and isinstance(values := self.case_value(node.attr), tuple):
            return len(values)
        return None

    def constant_or_name(self, node: ast.expr, value: Any, name: str) -> ast.expr:
        if type(value) in (int, float, bool):
            return ast.copy_location(ast.Constant(value), node)
        self.parts[name] = value
        return ast.copy_location(ast.Name(name, ast.Load()), node)

    def case_value(self, name: str) -> Any:
        if name not in self.values:
            raise NameError(f"{self.what}: nothing supplies kernel.{name}")
        return self.values[name]

    def is_parameter(self, node: ast.expr) -> TypeGuard[ast.Attribute]:
        """Whether the expression is ``problem.NAME``, or an attribute of another argument with a layout."""
        return (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in self.layouts
        )

    def place_of(self, parameter: ast.Attribute) -> tuple[int, int | None]:
        """First place and length of a parameter. The length of a number is None."""
        owner: str = parameter.value.id  # type: ignore[attr-defined]
        layout = self.layouts[owner]
        if parameter.attr not in layout:
            known = ", ".join(layout) or "none"
            raise NameError(
                f"{self.what}: no parameter {owner}.{parameter.attr} (there are: {known}); "
                "kernel_parameters() has to return it, in a subclass by {**super().kernel_parameters(), ...}"
            )
        return layout[parameter.attr]


class Substitution(ast.NodeTransformer):
    def __init__(self, expressions: Mapping[str, ast.expr]) -> None:
        self.expressions = expressions

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self.expressions:
            return node
        return ast.copy_location(copy.copy(self.expressions[node.id]), node)


def evaluated(node: ast.expr) -> ast.expr:
    """Evaluate an expression if all its parts are constants."""
    if any(
        isinstance(part, ast.expr) and not isinstance(part, ast.Constant)
        for part in ast.iter_child_nodes(node)
    ):
        return node
    code = compile(ast.Expression(ast.fix_missing_locations(node)), "<constants>", "eval")
    return ast.copy_location(ast.Constant(eval(code)), node)


def is_integer(node: ast.expr) -> TypeGuard[ast.Constant]:
    return isinstance(node, ast.Constant) and type(node.value) is int


def is_kernel(node: ast.expr) -> TypeGuard[ast.Attribute]:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "kernel"


Function = Callable[..., Any]

INLINING: dict[str, dict[str, Any]] = {
    "called": {},
    "inlined": {"forceinline": True},
    "written": {"inline": "always"},
}
"""Options of numba.njit by kind of inlining."""


@dataclass(frozen=True)
class Case:
    """Case of a kernel: constants, functions and parameters.

    ``values`` has the value of ``kernel.NAME``: a number, a function, a KernelPart, or a tuple of such
    values. ``layouts`` has the parameters of the arguments problem, mechanism and settings. ``unrolled``
    has the names of the constants whose loops ``for j in range(kernel.NAME)`` are written out. ``inlining``
    says how functions become part of their callers: as LLVM decides (``called``), all by LLVM
    (``inlined``), or all by Numba before it infers types (``written``).
    """

    values: tuple[tuple[str, Any], ...] = ()
    layouts: tuple[tuple[str, Layout], ...] = ()
    unrolled: frozenset[str] = frozenset()
    inlining: str = "called"

    def with_values(self, values: Mapping[str, Any]) -> Case:
        return replace(self, values=tuple({**dict(self.values), **values}.items()))

    def with_layout(self, name: str, layout: Layout) -> Case:
        return replace(self, layouts=(*self.layouts, (name, layout)))


@dataclass(frozen=True)
class KernelPart:
    """Function of a kernel. By default it has the case of its caller, and the inlining of this case."""

    function: Function
    case: Case | None = None
    inlining: str | None = None


@dataclass(frozen=True, eq=False)
class Specialised:
    """Function rewritten for a case, with the objects of its global names and its options of numba.njit."""

    function: FunctionType
    tree: ast.FunctionDef
    references: dict[str, Specialised | Imported] = field(repr=False)
    options: dict[str, Any]


@dataclass(frozen=True)
class Imported:
    """Object that a kernel imports: an intrinsic, a class, a module, an array."""

    module: str
    name: str
    value: Any


@lru_cache(maxsize=4096)
def specialise(
    function: Function, case: Case, inlining: str | None = None, options: tuple[tuple[str, Any], ...] = ()
) -> Specialised:
    """Rewrite a kernel function for a case, with all functions that it calls.

    Without ``inlining`` the function has the inlining of the case. ``options`` are further options of
    numba.njit. A NameError names a value that the case lacks, or an unknown name.
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
        tree.body = tree.body[1:] or [ast.Pass()]
    local = {name for name in code.co_varnames if name != "kernel"}
    visible: dict[str, Any] = function.__globals__ | dict(inspect.getclosurevars(function).nonlocals)
    rewriter = Rewriter(what, visible, case, local)
    tree.body = rewriter.rewrite_block(tree.body)
    ast.fix_missing_locations(tree)  # a new `pass` has no line number yet
    inlining = inlining or case.inlining
    references: dict[str, Any] = {}
    targets = visible | rewriter.parts
    read = {
        node.id
        for statement in tree.body
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    for name in sorted(read - local):
        if name in targets:
            references[name] = resolve(function, name, targets[name], case, inlining)
        elif not hasattr(builtins, name):
            raise NameError(f"{what}: name {name} is not defined")
    return Specialised(function, tree, references, INLINING[inlining] | dict(options))


def resolve(function: FunctionType, name: str, target: Any, case: Case, inlining: str) -> Any:
    """Specialise a function that a kernel function calls, or import another object."""
    module = function.__module__
    if isinstance(target, Deferred):
        module, name = target.module, target.name
        target = target.load()
    if isinstance(target, KernelPart):
        return specialise(target.function, target.case or case, target.inlining)
    plain = getattr(target, "py_func", target)
    if isinstance(plain, FunctionType) and not hasattr(plain, "implemented_for_numba"):
        options = getattr(target, "targetoptions", {})  # of a function that numba.njit decorates
        own = tuple((option, value) for option, value in options.items() if option not in STANDARD)
        # The functions that an inlined function calls are inlined too.
        return specialise(plain, case, "inlined" if inlining == "inlined" else None, own)
    return Imported(module, name, target)


STANDARD = {"nopython", "boundscheck", "error_model", "no_cfunc_wrapper", "no_cpython_wrapper", "nogil"}
"""Options of numba.njit that a kernel sets for all its functions, whatever their decorators say."""
