"""Loops over coordinates written out, so that the lanes stay the innermost loop.

Inside the loop over the lanes even a loop of one iteration keeps the compiler from vectorising all
lanes, and from about eight coordinates on it vectorises none: a step then takes two and a half to three
times as long. The same operations in the same order: no bit of a result depends on it.
"""

from __future__ import annotations

import ast
import copy
import re

__all__ = ["unrolled", "written_out"]

INLINED_FROM = 5
"""Coordinates from which on functions are so long that they are inlined on demand only."""


class Unrolled(ast.NodeTransformer):
    """Replaces ``for j in range([first,] D): ...`` by its iterations, D being any name."""

    def __init__(self, name: str, count: int) -> None:
        self.bounds = re.compile(rf"range\((?:(\d+), )?{name}\)")
        self.count = count

    def visit_For(self, node: ast.For) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        bounds = self.bounds.fullmatch(ast.unparse(node.iter))
        if bounds is None or not isinstance(node.target, ast.Name):
            return node
        name = node.target.id
        copies: list[ast.stmt] = []
        for value in range(int(bounds[1] or 0), self.count):
            for statement in node.body:
                copies.append(Replaced(name, value).visit(copy.deepcopy(statement)))
        return copies or ast.Pass()


class Replaced(ast.NodeTransformer):
    """A name, replaced by a number."""

    def __init__(self, name: str, value: int) -> None:
        self.name = name
        self.value = value

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Constant(self.value) if node.id == self.name else node


def written_out(source: str, name: str, count: int) -> str:
    """The module with its loops over ``range(name)`` written out."""
    return ast.unparse(ast.fix_missing_locations(Unrolled(name, count).visit(ast.parse(source))))


def unrolled(source: str, dimension: int) -> str:
    """The module with its loops over the D coordinates written out."""
    text = written_out(source, "D", dimension)
    # A call inside the loop over the lanes would not be vectorised.
    return text.replace("@jit\n", "@inlined\n") if dimension >= INLINED_FROM else text
