"""Functions in the form in which they are inlined (.inlining): with one return, at the end."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ldpflow.kernels.syntax import RETURNED, as_tail, loaded, returns

__all__ = ["Form", "Several", "Span", "Text", "single_exit"]


@dataclass
class Text:
    """A function to be written: parameters, names that it uses, statements."""

    parameters: list[str]
    visible: Mapping[str, Any]
    body: list[ast.stmt]


class Form:
    """The same with one way out: what it evaluates to stands at its end.

    Attributes
    ----------
    assigned : Counter
        How often a name gets a value; being a parameter counts.
    """

    def __init__(self, text: Text, body: list[ast.stmt], result: ast.expr | None) -> None:
        self.parameters = text.parameters
        self.visible = text.visible
        self.body = body
        self.result = result
        nodes = [node for statement in body for node in ast.walk(statement)]
        self.assigned = Counter(n.id for n in nodes if isinstance(n, ast.Name) and not loaded(n))
        self.changed = {name for name in self.parameters if self.assigned[name]}
        self.assigned.update(self.parameters)
        nodes += [] if result is None else ast.walk(result)
        self.calls = [node.func for node in nodes if isinstance(node, ast.Call)]
        self.stores = any(
            isinstance(node, ast.Expr) or (isinstance(node, ast.Subscript) and not loaded(node))
            for node in nodes
        )


@dataclass(frozen=True)
class Span:
    """Part of an array, from ``start`` to ``stop``: an index into it is one into the array."""

    array: str
    start: ast.expr
    stop: ast.expr


@dataclass(frozen=True)
class Several:
    """A tuple of names and constants, and the names of its fields where it has some."""

    items: tuple[ast.expr, ...]
    kind: ast.expr | None = None
    fields: tuple[str, ...] = ()


NOT_WRITTEN = (ast.FunctionDef, ast.Lambda, ast.ListComp, ast.GeneratorExp, ast.With, ast.Try)


def single_exit(text: Text) -> Form | None:
    """The form of a text, or None where it is not known how it ends, or has names of another scope."""
    if any(isinstance(node, NOT_WRITTEN) for statement in text.body for node in ast.walk(statement)):
        return None
    *rest, last = text.body
    if isinstance(last, ast.Return) and not any(map(returns, rest)):
        return Form(text, rest, last.value)
    if not any(map(returns, text.body)):
        return Form(text, [s for s in text.body if not isinstance(s, ast.Pass)], None)
    tail = as_tail(text.body)
    return None if tail is None else Form(text, tail, ast.Name(RETURNED, ast.Load()))
