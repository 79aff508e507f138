"""The interval method that suits a path, what it gives there, and the users whom its length takes.

The coverages of methods come from a simulation study of ours: normal, exponential and lognormal laws, tau
.5, .9 and .99, eps .5, 1 and 2, n = 1e4 and 1e5, c over a factor of 128: 384 paths of 400 replicates, 90%
intervals (docs/pilot_to_plan.md has the whole table).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ldpflow import constants
from ldpflow.intervals.transcript import TranscriptRegression
from ldpflow.planning.expected_fit import ExpectedFit, expected_fit
from ldpflow.simulators.approach import Approach
from ldpflow.theory.arrival import Arrival, approaches


class Expected(NamedTuple):
    """Median coverage of a 90% interval, and its median length over the oracle's."""

    coverage: float
    length: float


class Row(NamedTuple):
    """Paths with K and |b| up to these, and what TR of degree 2 and of degree 3 have there."""

    k: float
    bias: float
    tr: Expected
    tr3: Expected


TABLE = (
    Row(25.0, 0.5, Expected(0.90, 1.3), Expected(0.91, 2.1)),
    Row(45.0, 0.25, Expected(0.91, 1.18), Expected(0.93, 1.9)),
    Row(45.0, 1.5, Expected(0.90, 1.2), Expected(0.92, 1.8)),
    Row(math.inf, 0.25, Expected(0.91, 1.14), Expected(0.92, 1.3)),
    Row(math.inf, 1.0, Expected(0.91, 1.12), Expected(0.92, 1.35)),
    Row(math.inf, 1.5, Expected(0.88, 1.12), Expected(0.91, 1.28)),
)

TR_LENGTH = 1.12
"""Length of TR's intervals over the oracle's, of long runs."""

RECOMMENDED: dict[str, dict[str, Any]] = {
    "TR": {"degree": 2},
    "TR3": {"degree": 3, "burn_in": "0.01n"},
}
"""Settings of the methods that a plan recommends, all of kind TR."""

FEWEST_TIMES = {"TR": 25.0, "TR3": 45.0}
"""Relaxation times that a run needs for each."""

MOST_BIAS = 0.25
"""SE of TR's own predicted bias up to which it is recommended.

Chosen on 620 random paths (13 laws, tau .1 to .9, eps .5 to 2, n = 1e4 to 1e5, 400 replicates of 90%
intervals) and checked on 300 others: TR covers .87 or more in the 184 of them where it is recommended, TR3
.865 or more in 155. In the paths that this bound alone excludes the least are .66 and .13.
"""

PER_DOUBLING = 4
DOUBLINGS = 14
BETWEEN = 8
MOST_USERS = 10**12


def recommended(arrival: Arrival, case: Approach | None = None) -> str | None:
    """The method that a path allows: ``TR``, ``TR3`` (degree 3, burn_in "0.01n"), or None.

    Averages (BB, BM, SN) are too short for want of relaxation times long before they are biased, and
    below :func:`ldpflow.theory.arrival.feasible_n` no steps make them honest; transcript regression
    does not inherit the average's bias, but has one of its own where its polynomial does not fit the
    law of ``case``.
    """
    k, bias = arrival.relaxation_times, abs(arrival.bias)
    long = k >= FEWEST_TIMES["TR3"]
    if k >= FEWEST_TIMES["TR"] and bias <= (1.0 if long else 0.5) and fits(case, "TR"):
        return "TR"
    return "TR3" if long and bias <= 1.5 and fits(case, "TR3") else None


def own_fit(case: Approach, method: str) -> ExpectedFit:
    """The expected fit of a recommended method on a path."""
    return expected_fit(case, TranscriptRegression(**RECOMMENDED[method]))


def fits(case: Approach | None, method: str) -> bool:
    """Whether a method's polynomial fits the law of a path; it counts as fitting for a path without one."""
    if case is None:
        return True
    found = own_fit(case, method)
    return found.defined and abs(found.bias) <= MOST_BIAS


def expected(arrival: Arrival, method: str) -> Expected | None:
    """Coverage and length of the recommended method's 90% interval in the study, for paths like this one."""
    k, bias = arrival.relaxation_times, abs(arrival.bias)
    if k < 15:
        return None
    for row in TABLE:
        if k < row.k and bias <= row.bias:
            return row.tr if method == "TR" else row.tr3
    return None


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

    Lengths are those of paths with as many relaxation times and as much bias in the study; users are found
    to 2%.

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
    names: dict[int, str] = {}

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

    factors = [2.0 ** (k / PER_DOUBLING) for k in range(DOUBLINGS * PER_DOUBLING + 1)]
    counts = [count for f in factors if (count := math.ceil(max(first, 1) * f)) <= MOST_USERS]
    at = first_of(counts)
    if at is None:
        return None
    users = counts[at]
    if at > 0:
        low = counts[at - 1]
        finer = [low + (users - low) * k // BETWEEN for k in range(1, BETWEEN + 1)]
        nearest = first_of(finer)
        users = users if nearest is None else finer[nearest]
    return UsersWithMethod(users, names[users])
