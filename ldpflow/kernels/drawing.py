"""Drawing the variates of a chunk of steps: what a problem or a mechanism asks for becomes calls."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ldpflow.kernels.law_tables import is_tabulated, sampler_of, table_of
from ldpflow.kernels.specialise import Case, Part
from ldpflow.problems.laws import Variate
from ldpflow.random.lockstep import LANES, STRIDE

__all__ = ["drawing", "drawing_parameters", "roles_of"]


def roles_of(variates: Sequence[Variate]) -> list[str | None]:
    """The roles whose streams are needed: None, that of the component that asks, then the others."""
    return list(dict.fromkeys([None, *(v.role for v in variates)]))


def drawing(variates: Sequence[Variate], inlining: str = "called") -> Part:
    """The part that fills one plane per variate, each from the stream of its role."""
    roles = roles_of(variates)
    places = places_of(variates)
    values = {
        "VARIATES": len(variates),
        "ROLES": tuple(roles.index(v.role) for v in variates),
        "samplers": tuple(sampler_of(v) for v in variates),
        "TABULATED": tuple(is_tabulated(v) for v in variates),
        "STARTS": tuple(start for start, _ in places),
        "ENDS": tuple(end for _, end in places),
    }
    return Part(draw, Case(tuple(values.items()), unrolled=frozenset({"VARIATES"})), inlining)


def places_of(variates: Sequence[Variate]) -> list[tuple[int, int]]:
    """Where the table of each variate lies in the parameters; empty where it has none."""
    places = []
    end = len(variates)
    for variate in variates:
        start, end = end, end + (len(table_of(variate)) if is_tabulated(variate) else 0)
        places.append((start, end))
    return places


def drawing_parameters(variates: Sequence[Variate]) -> NDArray[np.float64]:
    """What :func:`draw` gets as ``parameters``: a number of every variate, then the tables."""
    tables = [table_of(variate) for variate in variates if is_tabulated(variate)]
    return np.concatenate([np.array([v.parameter for v in variates], dtype=np.float64), *tables])


def draw(kernel, state, parameters, planes):  # type: ignore[no-untyped-def]
    """Fill the planes; ``state`` has 4 LANES words per role."""
    for v in range(kernel.VARIATES):
        if kernel.TABULATED[v]:
            kernel.samplers[v](
                state[kernel.ROLES[v] * 4 * LANES : (kernel.ROLES[v] + 1) * 4 * LANES],
                parameters[kernel.STARTS[v] : kernel.ENDS[v]],
                planes[v * STRIDE : (v + 1) * STRIDE],
            )
        else:
            kernel.samplers[v](
                state[kernel.ROLES[v] * 4 * LANES : (kernel.ROLES[v] + 1) * 4 * LANES],
                parameters[v],
                planes[v * STRIDE : (v + 1) * STRIDE],
            )
