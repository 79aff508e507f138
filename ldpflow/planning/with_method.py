"""Users whose interval by the recommended method is as short as wanted."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ldpflow import constants
from ldpflow.planning.advice import expected
from ldpflow.simulators.approach import Approach
from ldpflow.theory.arrival import Arrival, approaches

PER_DOUBLING = 4
DOUBLINGS = 14
BETWEEN = 8
MOST_USERS = 10**12


class UsersWithMethod(NamedTuple):
    """Users, and the method that is recommended where so many answer."""

    users: int
    method: str


def users_with_method(
    path: Callable[[int], Approach | None],
    method: Callable[[Arrival, Approach], str | None],
    half_width: float,
    level: float,
    first: int,
) -> UsersWithMethod | None:
    """Fewest users for whom a method is recommended whose median half width is at most ``half_width``.

    Lengths are those of paths with as many relaxation times and as much bias in the study of
    :mod:`ldpflow.planning.advice`; users are found to 2%.

    Parameters
    ----------
    path : callable
        The path of so many users.
    method : callable
        The method that is recommended for an arrival and its path.
    half_width : float
        Unit of the data.
    level : float
    first : int
        Users that the oracle's interval takes: no method needs fewer.

    Returns
    -------
    UsersWithMethod or None
        None where 16,000 times as many users as the oracle's are not enough.
    """
    z = constants.normal_quantile(0.5 + level / 2)

    def first_of(counts: Sequence[int]) -> int | None:
        """Place of the first number of users that is enough."""
        cases = [path(count) for count in counts]
        known = [(k, case) for k, case in enumerate(cases) if case is not None]
        found = approaches([case for _, case in known])
        for (k, case), arrival in zip(known, found, strict=True):
            if z * arrival.standard_error > half_width:
                continue  # no method is shorter than the oracle
            name = method(arrival, case)
            length = None if name is None else expected(arrival, name)
            if name is not None and length is not None:
                if length.length * z * arrival.standard_error <= half_width:
                    names[counts[k]] = name
                    return k
        return None

    names: dict[int, str] = {}
    factors = [2.0 ** (k / PER_DOUBLING) for k in range(DOUBLINGS * PER_DOUBLING + 1)]
    counts = [count for f in factors if (count := math.ceil(max(first, 1) * f)) <= MOST_USERS]
    at = first_of(counts)
    if at is None:
        return None
    if at > 0:
        low, high = counts[at - 1], counts[at]
        finer = [low + (high - low) * k // BETWEEN for k in range(1, BETWEEN + 1)]
        nearest = first_of(finer)
        users = high if nearest is None else finer[nearest]
    else:
        users = counts[0]
    return UsersWithMethod(users, names[users])
