"""Inlining of the functions that a kernel calls, in its source, before anything is compiled.

Numba compiles every function into a module of its own, which LLVM optimises and translates; then it inlines
them into the kernel and optimises that again. Here the source is put together first, and one function is
compiled.

A function is written where it is called: its local names get a number; arguments that are names, constants
or parts of arrays stand in the place of its parameters, and what it returns in the place of the call. An
index into a part of an array, ``x[8:16]``, becomes one into the array, so it has to count from the start.
Tuples that are only passed on are resolved. What cannot be written stays a call: of a function that returns
out of a loop, or changes arrays in the middle of an expression, or is more than an expression where it may
not be evaluated.
"""

from __future__ import annotations

import ast
import builtins
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ldpflow.kernels.forms import Form, Several, Span, Text, single_exit
from ldpflow.kernels.syntax import (
    copied,
    loaded,
    names_of,
    plus,
    separated,
    stored,
    without_unused,
)

__all__ = ["Writer"]


class Writer:
    """Writes one function with all that it calls.

    Parameters
    ----------
    text_of : callable
        The text of what a name stands for, or None where that is not a function to be written.
    """

    def __init__(self, text_of: Callable[[Any], Text | None]) -> None:
        self.text_of = text_of
        self.names: dict[str, Any] = {}
        self.taken: set[str] = set(dir(builtins))
        self.stable: set[str] = set()
        self.forms: dict[int, Form | None] = {}
        self.open: list[int] = []

    def written(self, text: Text) -> list[ast.stmt]:
        """The statements of a function, and those of all that it calls."""
        form = Form(text, text.body, None)
        self.taken.update(text.parameters)
        self.stable.update(set(text.parameters) - form.changed)
        scope: dict[str, Any] = {name: ast.Name(name, ast.Load()) for name in text.parameters}
        body = Frame(self, form, scope, 0).block(copied(text.body))
        return without_unused(separated(body, self.fresh))

    def fresh(self, name: str) -> str:
        """A name that nothing else has."""
        made, number = name, 0
        while made in self.taken:
            number += 1
            made = f"{name}_{number}"
        self.taken.add(made)
        return made

    def refer(self, name: str, value: Any) -> str:
        """The name under which the function refers to what it does not contain."""
        for known, other in self.names.items():
            if other is value:
                return known
        made = self.fresh(name)
        self.names[made] = value
        return made

    def form_of(self, value: Any) -> Form | None:
        """The form of a function, where it can be written."""
        if id(value) not in self.forms:
            text = self.text_of(value)
            self.forms[id(value)] = None if text is None else single_exit(text)
        return None if id(value) in self.open else self.forms[id(value)]

    def changes_arrays(self, form: Form) -> bool:
        """Whether a function may do more than evaluate to something."""
        if form.stores:
            return True
        for function in form.calls:
            value = form.visible.get(function.id) if isinstance(function, ast.Name) else None
            inner = None if value is None else self.form_of(value)
            if inner is not None:
                if self.changes_arrays(inner):
                    return True
            elif hasattr(value, "py_func") or self.text_of(value) is not None:
                return True  # it is called as it is
        return False


class Frame(ast.NodeTransformer):
    """One function where it is written.

    Parameters
    ----------
    writer : Writer
    form : Form
    scope : dict
        What stands in the place of its names.
    depth : int
        Loops that it is written into.
    """

    def __init__(self, writer: Writer, form: Form, scope: dict[str, Any], depth: int) -> None:
        self.writer = writer
        self.form = form
        self.scope = scope
        self.depth = depth
        self.pending: list[ast.stmt] = []
        self.conditional = 0
        self.whole: ast.expr | None = None

    # Statements

    def block(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Statements, each after those that its calls were written as."""
        found: list[ast.stmt] = []
        for statement in statements:
            outer, self.pending = self.pending, []
            made = self.statement(statement)
            found += [ast.copy_location(s, statement) for s in self.pending]
            found += made
            self.pending = outer
        return found

    def statement(self, node: ast.stmt) -> list[ast.stmt]:
        if isinstance(node, ast.Expr):
            self.whole = node.value
            node.value = self.visit(node.value)
            return [] if isinstance(node.value, ast.Constant) else [node]
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            self.whole = node.value
            return self.assignment(node)
        if isinstance(node, ast.If):
            node.test = self.visit(node.test)
            node.body = self.block(node.body) or [ast.Pass()]
            node.orelse = self.block(node.orelse)
            return [node]
        if isinstance(node, (ast.For, ast.While)):
            if isinstance(node, ast.For):
                node.iter = self.visit(node.iter)
                node.target = self.visit(node.target)
            self.depth += 1
            if isinstance(node, ast.While):
                self.conditional += 1
                node.test = self.visit(node.test)
                self.conditional -= 1
            node.body = self.block(node.body) or [ast.Pass()]
            self.depth -= 1
            node.orelse = self.block(node.orelse)
            return [node]
        return [self.visit(node)]

    def assignment(self, node: ast.Assign) -> list[ast.stmt]:
        target = node.targets[0]
        if isinstance(target, ast.Name) and self.form.assigned[target.id] == 1:
            bound = self.bound(node.value)
            if bound is not None:
                self.scope[target.id] = bound
                return []
        value = self.visit(node.value)
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            if len(target.elts) == len(value.elts) and all(isinstance(t, ast.Name) for t in target.elts):
                return self.one_by_one(target.elts, value.elts)
        return self.assigned(target, value)

    def assigned(self, target: ast.expr, value: ast.expr) -> list[ast.stmt]:
        if isinstance(target, ast.Name) and self.form.assigned[target.id] == 1 and self.depth == 0:
            if isinstance(value, ast.Name) and value.id in self.writer.stable:
                self.scope[target.id] = value
                return []
            made = self.visit(target)
            self.writer.stable.add(made.id)
            return [ast.Assign([made], value)]
        return [ast.Assign([self.visit(target)], value)]

    def one_by_one(self, targets: list[Any], values: list[ast.expr]) -> list[ast.stmt]:
        """Several assignments; over names of their own where a later value reads what an earlier one sets."""
        set_before: set[str] = set()
        clash = False
        for target, value in zip(targets, values, strict=True):
            clash |= bool(set_before & names_of(value))
            set_before.add(self.own(target.id))
        found: list[ast.stmt] = []
        if clash:
            kept = [ast.Name(self.writer.fresh(target.id), ast.Load()) for target in targets]
            found = [ast.Assign([stored(name.id)], value) for name, value in zip(kept, values, strict=True)]
            values = list(kept)
        for target, value in zip(targets, values, strict=True):
            found += self.assigned(target, value)
        return found

    def bound(self, value: ast.expr) -> Any:
        """A tuple or a part of an array, where a name may stand for it."""
        several: Several | None = None
        if isinstance(value, ast.Tuple) and self.depth == 0:
            several = Several(tuple(value.elts))
        elif isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and self.depth == 0:
            kind = self.form.visible.get(value.func.id)
            if isinstance(kind, type) and hasattr(kind, "_fields") and len(kind._fields) == len(value.args):
                several = Several(tuple(value.args), value.func, kind._fields)
        if several is not None:
            items = tuple(self.visit(copied(item)) for item in several.items)
            if all(isinstance(i, ast.Name) and i.id in self.writer.stable for i in items):
                kind_ = None if several.kind is None else self.visit(several.kind)
                return Several(items, kind_, several.fields)
            return None
        return self.span(value)

    def span(self, value: ast.expr) -> Span | None:
        """The part of an array that an expression stands for."""
        if not (isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Slice)):
            return None
        part = value.slice
        if self.conditional or part.step is not None or part.upper is None:
            return None
        if not isinstance(value.value, ast.Name):
            return None
        base = self.scope.get(value.value.id)
        if isinstance(base, Span):
            array, start = base.array, base.start
        elif isinstance(base, ast.Name) and base.id in self.writer.stable:
            array, start = base.id, ast.Constant(0)
        else:
            return None
        ends = []
        for end in (part.lower or ast.Constant(0), part.upper):
            made = plus(copied(start), self.visit(copied(end)))
            if not isinstance(made, ast.Constant):
                made = self.kept("start", made)
            ends.append(made)
        return Span(array, *ends)

    def kept(self, name: str, value: ast.expr) -> ast.Name:
        """A name for a value, assigned before the statement."""
        made = self.writer.fresh(name)
        self.pending.append(ast.Assign([stored(made)], value))
        return ast.Name(made, ast.Load())

    # Expressions

    def own(self, name: str) -> str:
        """A local name, as it is written."""
        if name not in self.scope:
            self.scope[name] = ast.Name(self.writer.fresh(name), ast.Load())
        found: str = self.scope[name].id
        return found

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.scope or self.form.assigned[node.id]:
            if not loaded(node):
                return stored(self.own(node.id))
            if node.id not in self.scope:
                self.own(node.id)
            return self.expression(self.scope[node.id])
        if node.id in self.form.visible:
            return ast.Name(self.writer.refer(node.id, self.form.visible[node.id]), ast.Load())
        return node

    def expression(self, value: Any) -> ast.expr:
        """What a name stands for, as an expression."""
        if isinstance(value, Span):
            place = ast.Slice(copied(value.start), copied(value.stop))
            return ast.Subscript(ast.Name(value.array, ast.Load()), place, ast.Load())
        if isinstance(value, Several):
            items = [copied(item) for item in value.items]
            return ast.Tuple(items, ast.Load()) if value.kind is None else ast.Call(value.kind, items, [])
        found: ast.expr = copied(value)
        return found

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if isinstance(node.value, ast.Name):
            value = self.scope.get(node.value.id)
            if isinstance(value, Several) and node.attr in value.fields:
                return self.expression(value.items[value.fields.index(node.attr)])
        self.generic_visit(node)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        value = self.scope.get(node.value.id) if isinstance(node.value, ast.Name) else None
        node.slice = self.visit(node.slice)
        if isinstance(value, Several) and isinstance(node.slice, ast.Constant):
            place: Any = node.slice.value
            return self.expression(value.items[place])
        # Unsigned: an index that might be negative would count from the end, and loops would not vectorise.
        if isinstance(value, Span) and not isinstance(node.slice, (ast.Slice, ast.Tuple, ast.UnaryOp)):
            index = plus(copied(value.start), node.slice)
            if not isinstance(index, ast.Constant):
                index = ast.Call(ast.Name(self.writer.refer("uint64", np.uint64), ast.Load()), [index], [])
            return ast.Subscript(ast.Name(value.array, ast.Load()), index, node.ctx)
        node.value = self.visit(node.value)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        node.test = self.visit(node.test)
        self.conditional += 1
        node.body = self.visit(node.body)
        node.orelse = self.visit(node.orelse)
        self.conditional -= 1
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        first, *rest = node.values
        first = self.visit(first)
        self.conditional += 1
        node.values = [first, *(self.visit(value) for value in rest)]
        self.conditional -= 1
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.op, ast.Add):
            return plus(node.left, node.right)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        whole, self.whole = self.whole is node, None
        arguments: list[ast.expr] = []
        for argument in node.args:
            value = argument.value if isinstance(argument, ast.Starred) else None
            several = self.scope.get(value.id) if isinstance(value, ast.Name) else None
            if isinstance(several, Several):
                for place, item in enumerate(several.items):
                    name = f"{ast.unparse(argument)}{place}"  # no name that a function could have
                    self.scope[name] = item
                    arguments.append(ast.Name(name, ast.Load()))
            else:
                arguments.append(argument)
        node.args = arguments
        if isinstance(node.func, ast.Name) and node.func.id not in self.scope and not node.keywords:
            target = self.form.visible.get(node.func.id)
            form = None if target is None else self.writer.form_of(target)
            if form is not None and len(form.parameters) == len(node.args):
                made = self.written(target, form, node.args, whole)
                if made is not None:
                    return made
        self.generic_visit(node)
        return node

    def written(self, target: Any, form: Form, arguments: list[ast.expr], whole: bool) -> ast.expr | None:
        """What a call evaluates to, its statements written; None where it stays a call."""
        plain = not form.body and form.result is not None
        if self.conditional and not plain:
            return None
        if not whole and self.writer.changes_arrays(form):
            return None
        result = [] if form.result is None else list(ast.walk(form.result))
        uses = Counter(node.id for node in result if isinstance(node, ast.Name))
        scope: dict[str, Any] = {}
        for parameter, argument in zip(form.parameters, arguments, strict=True):
            bound = self.argument(copied(argument) if self.conditional else argument)
            if parameter in form.changed:
                scope[parameter] = self.kept(parameter, self.expression(bound))
            elif isinstance(bound, (ast.Name, ast.Constant, Span, Several)) or (
                plain and uses[parameter] <= 1
            ):
                scope[parameter] = bound
            elif self.conditional:
                return None  # it may not be evaluated before the statement
            else:
                scope[parameter] = self.kept(parameter, bound)
        frame = Frame(self.writer, form, scope, self.depth)
        self.writer.open.append(id(target))
        frame.conditional = self.conditional
        self.pending += frame.block(copied(form.body))
        value: ast.expr = ast.Constant(None)
        if form.result is not None:
            value = frame.visit(copied(form.result))
            self.pending += frame.pending
        self.writer.open.pop()
        return value

    def argument(self, node: ast.expr) -> Any:
        """An argument: what a name stands for, or an expression."""
        if isinstance(node, ast.Name) and isinstance(self.scope.get(node.id), (Span, Several)):
            return self.scope[node.id]
        return self.span(node) or self.visit(node)
