"""Drawing the variates of a chunk of steps: what a problem or a mechanism asks for becomes calls."""

from __future__ import annotations

from collections.abc import Sequence

from ldpflow.kernels.specialise import Case, Part
from ldpflow.problems.laws import Variate
from ldpflow.random.lockstep import LANES, STRIDE

__all__ = ["drawing", "roles_of"]


def roles_of(variates: Sequence[Variate]) -> list[str | None]:
    """The roles whose streams are needed: None, that of the component that asks, then the others."""
    return list(dict.fromkeys([None, *(v.role for v in variates)]))


def drawing(variates: Sequence[Variate], inlining: str = "called") -> Part:
    """The part that fills one plane per variate, each from the stream of its role."""
    from ldpflow.random.samplers import SAMPLERS

    roles = roles_of(variates)
    values = {
        "VARIATES": len(variates),
        "ROLES": tuple(roles.index(v.role) for v in variates),
        "samplers": tuple(SAMPLERS[v.name] for v in variates),
    }
    return Part(draw, Case(tuple(values.items()), unrolled=frozenset({"VARIATES"})), inlining)


def draw(kernel, state, parameters, planes):  # type: ignore[no-untyped-def]
    """Fill the planes; ``state`` has 4 LANES words per role."""
    for v in range(kernel.VARIATES):
        kernel.samplers[v](
            state[kernel.ROLES[v] * 4 * LANES : (kernel.ROLES[v] + 1) * 4 * LANES],
            parameters[v],
            planes[v * STRIDE : (v + 1) * STRIDE],
        )
