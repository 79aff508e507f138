"""Loops over coordinates written out, so that the lanes stay the innermost loop.

LLVM unrolls ``for j in range(D)`` by itself up to about seven coordinates. Beyond that the loop over
lanes is no longer innermost and is not vectorised: a step then takes two and a half to three times
as long. The same operations in the same order: no bit of a result depends on it.
"""

from __future__ import annotations

import ast
from copy import deepcopy

__all__ = ["unrolled"]

FROM = 2  # coordinates from which on the loops are written out


class Unroller(ast.NodeTransformer):
    """Replaces ``for j in range([first,] D): ...`` by its iterations."""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension

    def visit_For(self, node: ast.For) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        bounds = node.iter.args if isinstance(node.iter, ast.Call) else []
        last = bounds[-1] if bounds else None
        if not (isinstance(last, ast.Name) and last.id == "D" and isinstance(node.target, ast.Name)):
            return node
        first = ast.literal_eval(bounds[0]) if len(bounds) == 2 else 0
        body: list[ast.stmt] = []
        for j in range(first, self.dimension):
            index = Substitution(node.target.id, j)
            body += [index.visit(deepcopy(statement)) for statement in node.body]
        return body


class Substitution(ast.NodeTransformer):
    """Replaces a loop variable by its value."""

    def __init__(self, name: str, value: int) -> None:
        self.name = name
        self.value = value

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(self.value) if node.id == self.name else node


def unrolled(source: str, dimension: int) -> str:
    """The module with its loops over D coordinates written out, where LLVM would not do it."""
    if dimension < FROM:
        return source
    tree = Unroller(dimension).visit(ast.parse(source))
    # Functions this long are not inlined unless they must be, and a call is not vectorised.
    return ast.unparse(ast.fix_missing_locations(tree)).replace("@jit\n", "@inlined\n")
