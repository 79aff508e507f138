"""Drawing the variates of a chunk of steps: what a problem or a mechanism asks for becomes calls."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ldpflow.kernels.law_tables import is_tabulated, sampler_of, table_of
from ldpflow.kernels.specialise import Case, Part
from ldpflow.problems.laws import Variate
from ldpflow.random.lockstep import LANES, STRIDE


def roles_of(variates: Sequence[Variate]) -> list[str | None]:
    """The roles whose streams are needed: None, that of the component that asks, then the others."""
    return list(dict.fromkeys([None, *(v.role for v in variates)]))


def drawing(variates: Sequence[Variate], inlining: str = "called") -> Part:
    """The part that fills one plane per variate, each from the stream of its role."""
    roles = roles_of(variates)
    places = places_of(variates)
    groups = alike(variates)
    values = {
        "GROUPS": len(groups),
        "FIRST": tuple(first for first, _ in groups),
        "LAST": tuple(last for _, last in groups),
        "ROLES": tuple(roles.index(variates[first].role) for first, _ in groups),
        "samplers": tuple(sampler_of(variates[first]) for first, _ in groups),
        "TABULATED": tuple(is_tabulated(variates[first]) for first, _ in groups),
        "STARTS": tuple(places[first][0] for first, _ in groups),
        "ENDS": tuple(places[first][1] for first, _ in groups),
    }
    return Part(draw, Case(tuple(values.items()), unrolled=frozenset({"GROUPS"})), inlining)


def alike(variates: Sequence[Variate]) -> list[tuple[int, int]]:
    """Runs of variates (first, last + 1) that one loop draws: the same sampler for each, no table."""
    groups: list[tuple[int, int]] = []
    for v, variate in enumerate(variates):
        before = variates[v - 1]
        if (
            v > 0
            and not is_tabulated(variate)
            and (sampler_of(variate), variate.role) == (sampler_of(before), before.role)
        ):
            groups[-1] = groups[-1][0], v + 1
        else:
            groups.append((v, v + 1))
    return groups


def places_of(variates: Sequence[Variate]) -> list[tuple[int, int]]:
    """Where the table of each variate lies in the parameters; empty where it has none."""
    places = []
    end = len(variates)
    for variate in variates:
        start, end = end, end + (len(table_of(variate)) if is_tabulated(variate) else 0)
        places.append((start, end))
    return places


def drawing_parameters(variates: Sequence[Variate]) -> NDArray[np.float64]:
    """Argument ``parameters`` of :func:`draw`: a number of every variate, then the tables."""
    tables = [table_of(variate) for variate in variates if is_tabulated(variate)]
    return np.concatenate([np.array([v.parameter for v in variates], dtype=np.float64), *tables])


def draw(kernel, state, parameters, planes):  # type: ignore[no-untyped-def]
    """Fill the planes; ``state`` has 4 LANES words per role."""
    for g in range(kernel.GROUPS):
        states = state[kernel.ROLES[g] * 4 * LANES : (kernel.ROLES[g] + 1) * 4 * LANES]
        for v in range(kernel.FIRST[g], kernel.LAST[g]):
            plane = planes[v * STRIDE : (v + 1) * STRIDE]
            if kernel.TABULATED[g]:
                kernel.samplers[g](states, parameters[kernel.STARTS[g] : kernel.ENDS[g]], plane)
            else:
                kernel.samplers[g](states, parameters[v], plane)
