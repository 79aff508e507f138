"""Kernel parameters: named numbers of a component, laid out flat for compiled code.

A component returns them by name (``kernel_parameters()``): floats, and tuples of floats. Kernel functions
read them by name, ``problem.tau`` or ``problem.coefficients[j]``; compiled code gets one flat array, and
the names become places in it (see .rewriting): a record passed into the loop over the steps can double
its time.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpflow.settings import Parameters

Layout = tuple[tuple[str, int, int | None], ...]
"""Name, first place and length of every parameter; length None: a number, not a tuple."""


def layout_of(parameters: Parameters) -> Layout:
    """Where each parameter lies in the flat array."""
    layout = []
    place = 0
    for name, value in parameters.items():
        length = len(value) if isinstance(value, tuple) else None
        layout.append((name, place, length))
        place += 1 if length is None else length
    return tuple(layout)


def size_of(layout: Layout) -> int:
    """Length of the flat array."""
    return sum(1 if length is None else length for _, _, length in layout)


def flat(parameters: Parameters) -> NDArray[np.float64]:
    """The flat array."""
    values: list[float] = []
    for value in parameters.values():
        values.extend(value if isinstance(value, tuple) else (value,))
    return np.array(values, dtype=np.float64)
