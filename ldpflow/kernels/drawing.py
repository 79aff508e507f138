"""Drawing the variates of a chunk of steps: what a problem or a mechanism asks for becomes calls.

Columns, gamma laws and mixtures are drawn from tables.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from mpmath import mpf
from numpy.typing import NDArray

from ldpflow.kernels.cache import cache_folder, read_private, write_private
from ldpflow.kernels.functions import part_of
from ldpflow.kernels.specialise import Case, Part
from ldpflow.problems.laws import Law, Variate
from ldpflow.random import fill_uniform
from ldpflow.random.lockstep import LANES, PLANE, STRIDE

Floats = NDArray[np.float64]


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


def is_tabulated(variate: Variate) -> bool:
    """Whether a draw needs a table and not one number."""
    return variate.name in ("gamma", "empirical", "mixture")


def sampler_of(variate: Variate) -> object:
    """The function that fills a plane, or the part of a kernel that does."""
    from ldpflow.random.quantile_tables import TABLE_SAMPLERS
    from ldpflow.random.samplers import SAMPLERS

    if variate.name in SAMPLERS:
        return SAMPLERS[variate.name]
    if variate.name in TABLE_SAMPLERS:
        return TABLE_SAMPLERS[variate.name]
    if variate.law is not None and variate.law.own is not None:
        own = variate.law.own
        values = {"fill_base": SAMPLERS[own.base], "sample": part_of(own, "sample")}
        return Part(fill_own, Case(tuple(values.items())))
    variates = [law.variate for law in components(variate)]
    starts = np.cumsum([0, *(3 + len(numbers_of(v)) for v in variates)]).tolist()
    values = {
        "COMPONENTS": len(variates),
        "samplers": tuple(sampler_of(v) for v in variates),
        "TABULATED": tuple(is_tabulated(v) for v in variates),
        "STARTS": tuple(starts[:-1]),
        "ENDS": tuple(starts[1:]),
    }
    return Part(draw_mixture, Case(tuple(values.items()), unrolled=frozenset({"COMPONENTS"})))


def fill_own(kernel, state, parameter, out):  # type: ignore[no-untyped-def]
    """The law of a plug-in: one draw of its base, made into Z by its own function."""
    kernel.fill_base(state, 0.0, out)
    for i in range(PLANE):
        out[i] = kernel.sample(out[i], parameter)


def components(variate: Variate) -> list[Law]:
    """The laws of a mixture."""
    assert variate.law is not None
    return [part.law for part in variate.law.components]


def table_of(variate: Variate) -> Floats:
    """The table of a variate."""
    if variate.name == "gamma":
        return gamma_table(variate.parameter)
    law = variate.law
    assert law is not None
    if law.table is not None:
        return law.table.sampling_table()
    total = sum(mpf(part.weight) for part in law.components)
    parts: list[Floats] = []
    below = mpf(0)
    for part in law.components:
        below += mpf(part.weight)
        head = [float(below / total), part.law.location, part.law.scale]
        parts += [np.array(head), numbers_of(part.law.variate)]
    return np.concatenate(parts)


def numbers_of(variate: Variate) -> Floats:
    """Parameters of the sampler of one component of a mixture: a table, or one number."""
    return table_of(variate) if is_tabulated(variate) else np.array([variate.parameter])


def draw_mixture(kernel, state, table, out):  # type: ignore[no-untyped-def]
    """A uniform says which component is taken; all are drawn, so that a draw has a fixed position.

    ``table`` holds for every component the sum of the weights up to it, its location and scale, and what
    its sampler takes.
    """
    which = np.empty(PLANE)
    drawn = np.empty(PLANE)
    fill_uniform(state, 0.0, which)
    below = 0.0
    for k in range(kernel.COMPONENTS):
        start = kernel.STARTS[k]
        if kernel.TABULATED[k]:
            kernel.samplers[k](state, table[kernel.STARTS[k] + 3 : kernel.ENDS[k]], drawn)
        else:
            kernel.samplers[k](state, table[kernel.STARTS[k] + 3], drawn)
        upto = table[start]
        location = table[start + 1]
        scale = table[start + 2]
        for i in range(PLANE):
            x = location + scale * drawn[i]
            out[i] = x if (which[i] >= below) & (which[i] < upto) else out[i]
        below = upto


@lru_cache(maxsize=16)
def gamma_table(shape: float) -> Floats:
    """The table of a gamma law, kept in the cache of compiled kernels: it takes seconds to make."""
    from ldpflow.problems import gamma_table as made

    source = hashlib.sha256(Path(made.__file__).read_bytes()).hexdigest()
    name = hashlib.sha256(f"{shape.hex()}/{source}".encode()).hexdigest()[:40]
    file = cache_folder() / f"gamma-{name}.bin"
    content = read_private(file)
    if content is not None and hashlib.sha256(content[32:]).digest() == content[:32]:
        return np.frombuffer(content[32:], dtype=np.float64)
    table = made.gamma_table(shape)
    write_private(file, hashlib.sha256(table.tobytes()).digest() + table.tobytes())
    return table
