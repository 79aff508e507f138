"""Tables from which kernels draw: of a column, of a gamma law, of a mixture."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

import numpy as np
from mpmath import mpf
from numpy.typing import NDArray

from ldpflow.kernels.cache import cache_folder, read_private, write_private
from ldpflow.kernels.specialise import Case, Part
from ldpflow.problems.laws import Law, Variate
from ldpflow.random import fill_uniform
from ldpflow.random.lockstep import PLANE

Floats = NDArray[np.float64]


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
        from ldpflow.kernels.assembly import part_of

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
