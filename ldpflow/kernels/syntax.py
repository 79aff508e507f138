"""Statements of a function that is put together from others: copies, one way out, names that are needed."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable
from typing import Any

__all__ = [
    "RETURNED",
    "as_tail",
    "copied",
    "loaded",
    "names_of",
    "plus",
    "returns",
    "separated",
    "stored",
    "without_unused",
]

RETURNED = "returned"
"""The name of what a function with several ways out evaluates to."""


def copied(node: Any) -> Any:
    """A copy of a tree, or of a list of trees."""
    if isinstance(node, list):
        return [copied(item) for item in node]
    if not isinstance(node, ast.AST) or isinstance(node, (ast.expr_context, ast.operator)):
        return node
    made = type(node)(**{name: copied(getattr(node, name)) for name in node._fields if hasattr(node, name)})
    return ast.copy_location(made, node) if isinstance(node, ast.stmt) else made


def loaded(node: Any) -> bool:
    """Whether an expression is read."""
    return isinstance(node.ctx, ast.Load)


def stored(name: str) -> ast.Name:
    """A name that is assigned."""
    return ast.Name(name, ast.Store())


def names_of(node: ast.AST) -> set[str]:
    """Names in a tree."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def plus(left: ast.expr, right: ast.expr) -> ast.expr:
    """A sum; of integers that are known, the number."""
    if isinstance(left, ast.Constant) and isinstance(right, ast.Constant):
        if type(left.value) is int and type(right.value) is int:
            return ast.Constant(left.value + right.value)
    return ast.BinOp(left, ast.Add(), right)


def as_tail(body: list[ast.stmt]) -> list[ast.stmt] | None:
    """The statements with every return as the last that is executed, an assignment to :data:`RETURNED`.

    None where one returns out of a loop, or without a value, or where the end may be reached without one.
    """
    found: list[ast.stmt] = []
    for at, statement in enumerate(body):
        if isinstance(statement, ast.Return):
            if statement.value is None:
                return None
            return [*found, ast.copy_location(ast.Assign([stored(RETURNED)], statement.value), statement)]
        if not returns(statement):
            found.append(statement)
            continue
        if not isinstance(statement, ast.If) or not ends(statement.body):
            return None
        first = as_tail(statement.body)
        rest = as_tail([*statement.orelse, *body[at + 1 :]])
        if first is None or rest is None:
            return None
        return [*found, ast.copy_location(ast.If(statement.test, first, rest), statement)]
    return None


def ends(body: list[ast.stmt]) -> bool:
    """Whether statements always end with a return."""
    last = body[-1]
    return isinstance(last, ast.Return) or (
        isinstance(last, ast.If) and bool(last.orelse) and ends(last.body) and ends(last.orelse)
    )


def returns(statement: ast.stmt) -> bool:
    """Whether a return stands in a statement."""
    return any(isinstance(node, ast.Return) for node in ast.walk(statement))


def inner_blocks(statement: ast.stmt) -> list[list[ast.stmt]]:
    """The lists of statements in a statement."""
    found = (getattr(statement, name, None) for name in ("body", "orelse"))
    return [block for block in found if isinstance(block, list)]


def without_unused(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements without those that only set a name which nothing reads."""
    while True:
        nodes = [node for statement in body for node in ast.walk(statement)]
        read = {n.id for n in nodes if isinstance(n, ast.Name) and loaded(n)}
        read |= {
            n.target.id for n in nodes if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)
        }
        body = only_used(body, read)
        if sum(1 for statement in body for _ in ast.walk(statement)) == len(nodes):
            return body


def only_used(body: list[ast.stmt], read: set[str]) -> list[ast.stmt]:
    """The statements, and those in them, that call something or set what is read."""
    found = []
    for statement in body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            calls = any(isinstance(node, ast.Call) for node in ast.walk(statement.value))
            if not calls and statement.targets[0].id not in read:
                continue
        if isinstance(statement, (ast.For, ast.While, ast.If)):
            statement.body = only_used(statement.body, read) or [ast.Pass()]
            statement.orelse = only_used(statement.orelse, read)
        found.append(statement)
    return found


def single_targets(statement: ast.Assign) -> list[str]:
    """Names that an assignment sets, where it sets nothing else."""
    return [target.id for target in statement.targets if isinstance(target, ast.Name)]


def separated(body: list[ast.stmt], fresh: Callable[[str], str]) -> list[ast.stmt]:
    """The statements with a name for each value of a name that is set several times, in one block alone.

    Numba separates them too, but it goes through all statements for every such name.
    """
    homes: dict[str, set[int]] = {}
    stores: Counter[str] = Counter()
    others: set[str] = set()  # used by what is no assignment, or read first

    def look(block: list[ast.stmt]) -> None:
        for statement in block:
            if isinstance(statement, ast.Assign):
                for node in ast.walk(statement):
                    if isinstance(node, ast.Name):
                        if loaded(node) and node.id not in homes:
                            others.add(node.id)
                for name in names_of(statement):
                    homes.setdefault(name, set()).add(id(block))
                stores.update(single_targets(statement))
                continue
            for inner in inner_blocks(statement):
                look(inner)
            for _, value in ast.iter_fields(statement):
                if isinstance(value, ast.AST):
                    others.update(names_of(value))

    def rename(block: list[ast.stmt]) -> None:
        now: dict[str, str] = {}
        for statement in block:
            for inner in inner_blocks(statement):
                rename(inner)
            if not isinstance(statement, ast.Assign):
                continue
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and loaded(node):
                    node.id = now.get(node.id, node.id)
            for target in statement.targets:
                if isinstance(target, ast.Name) and target.id in several:
                    now[target.id] = fresh(target.id)
                    target.id = now[target.id]

    look(body)
    several = {n for n, count in stores.items() if count > 1 and n not in others and len(homes[n]) == 1}
    rename(body)
    return body
