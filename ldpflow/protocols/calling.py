"""Calls of the protocols' kernels: compiled for the types of their arguments, and kept on disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

from ldpflow.kernels.module import compiled
from ldpflow.kernels.specialise import Case

__all__ = ["call"]


def call(function: Callable[..., Any], *arguments: Any, **parts: Callable[..., Any]) -> None:
    """Call a kernel function that fills arrays.

    Parameters
    ----------
    function : callable
        Its first argument is ``kernel``, which stands for the parts.
    arguments
        Arrays, numbers and named tuples of those.
    parts : callable
        What ``kernel.NAME`` stands for.
    """
    signature = numba.void(*map(numba.typeof, arguments))
    compiled(function, Case(tuple(parts.items())), signature)(*arguments)
