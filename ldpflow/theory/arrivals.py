"""The arrival of simulators: by the Gaussian closure for a quantile, linearised for other problems."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ldpflow.simulators.approach import Approach, approach, linear_approach
from ldpflow.simulators.simulator import Simulator
from ldpflow.theory.arrival import Arrival, approaches
from ldpflow.theory.linear_arrival import linear_arrivals

__all__ = ["LATTICE", "arrivals", "lattice_ratio"]

LATTICE = 1.5
"""Spacings of a lattice of values, in standard deviations of the last iterates, from which on it shows."""


def arrivals(
    wanted: Sequence[tuple[Simulator[Any, Any], int]],
) -> list[tuple[Arrival, ...] | None]:
    """Predict the arrival of simulators after numbers of users.

    Parameters
    ----------
    wanted : sequence of (Simulator, n)

    Returns
    -------
    list of tuple of Arrival, or None
        One per coordinate of theta; None for a simulator without a path or without a prediction.
    """
    paths = [approach(simulator, n) for simulator, n in wanted]
    places = [place for place, path in enumerate(paths) if path is not None]
    closed = approaches([path for path in paths if path is not None])
    found: list[tuple[Arrival, ...] | None] = [None] * len(wanted)
    for place, arrival in zip(places, closed, strict=True):
        found[place] = (arrival,)
    for place, (simulator, n) in enumerate(wanted):
        if found[place] is None:
            linear = linear_approach(simulator, n)
            found[place] = None if linear is None else tuple(linear_arrivals(linear))
    return found


def lattice_ratio(case: Approach) -> float:
    """Spacing of the lattice that the values of a column lie on, over the last iterates' deviation.

    0 where there is no lattice. The law of a column smooths its ties, but real users send them: up to
    1.5 nothing shows, at 7 the average's standard deviation is .39 of the theory's and it settles between
    the values.
    """
    table = case.law.table
    if table is None or table.spacing == 0.0:
        return 0.0
    density = case.law.density_at_quantile(case.tau)
    eta = case.c * case.steps**-case.gamma
    return table.spacing / math.sqrt(eta * case.variance() / (2.0 * density))
