"""Source and code of kernel functions."""

from __future__ import annotations

import ast
import hashlib
import linecache
import pickle
from functools import lru_cache
from types import CodeType, FunctionType

from ldpflow.errors import LdpflowError


def source_tree(function: FunctionType) -> ast.FunctionDef:
    """A copy of the function's syntax tree, with the line numbers of its file.

    Raises
    ------
    LdpflowError
        If there is no source, or not the one that was imported.
    """
    code = function.__code__
    linecache.checkcache(code.co_filename)
    text = "".join(linecache.getlines(code.co_filename, function.__globals__))
    if not text:
        raise LdpflowError(
            f"the source of kernel function {function.__name__} cannot be read from {code.co_filename}; "
            "kernels are compiled from source"
        )
    trees, codes = parsed(code.co_filename, text)
    place = (code.co_firstlineno, code.co_name)
    if place not in trees or code_digest(codes[place]) != code_digest(code):
        raise LdpflowError(
            f"{code.co_filename} changed after it was imported: kernel function {function.__name__} "
            "differs from its source; start again"
        )
    copied: ast.FunctionDef = pickle.loads(pickle.dumps(trees[place]))  # in 0.37 of deepcopy's time
    return copied


@lru_cache(maxsize=256)
def parsed(
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


def names_in(tree: ast.FunctionDef, local: set[str]) -> list[str]:
    """Global names that a function uses, sorted."""
    found = {
        node.id
        for statement in tree.body
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    return sorted(found - local)


def code_digest(code: CodeType) -> str:
    """Digest of bytecode and constants: not of names of files, lines or local variables."""
    digest = hashlib.sha256(code.co_code)
    digest.update(repr((code.co_names, code.co_argcount)).encode())
    constants = code.co_consts
    if constants and isinstance(constants[0], str):
        constants = constants[1:]  # a docstring
    for constant in constants:
        if isinstance(constant, CodeType):
            digest.update(code_digest(constant).encode())
        elif isinstance(constant, frozenset):
            digest.update(repr(sorted(constant, key=repr)).encode())
        else:
            digest.update(repr(constant).encode())
    return digest.hexdigest()
