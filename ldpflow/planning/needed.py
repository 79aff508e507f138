"""Fewest users and smallest budget with which a protocol's default interval is as short as wanted.

The median half width of simulated intervals decides. That of a histogram falls in steps, since intervals end
at edges and the number of bins is chosen again at every n and epsilon; that of LDP-SGD takes a simulation of
every user, so the length that its method has on such paths is corrected by few of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from ldpflow.planning.forecast import Forecast
from ldpflow.planning.path_forecast import SgdForecast

EPSILONS: tuple[float, ...] = tuple(round(0.05 + 0.001 * i, 3) for i in range(11951))
"""Budgets among which the smallest that is enough is looked for: .05, .051, .. 12."""

MOST_USERS = 10**12
USERS: tuple[int, ...] = tuple(
    dict.fromkeys(math.floor(10.0 ** (i / 100) * (1 + 1e-12)) for i in range(1201))
)
"""Numbers of users among which the fewest are looked for, 100 a decade: found to 2.3%."""

T = TypeVar("T", int, float)

REPLICATES = 500  # of a search: a median length is known well with fewer than a coverage
CORRECTIONS = 2
CLOSE = 0.01


def fewest_users(
    forecast: Forecast, epsilon: float, half_width: float, replicates: int, seed: int
) -> int | None:
    """Fewest users to ask; None beyond 10^12, or where no interval is recommended at any number."""
    count = min(replicates, REPLICATES)
    if isinstance(forecast, SgdForecast):
        users = forecast.expected_users(epsilon, half_width)
        for _ in range(CORRECTIONS):
            found = None if users is None else forecast.simulate(users, epsilon, count, seed)
            if users is None or found is None:
                break
            ratio = found.half_width() / half_width
            corrected = math.ceil(users * ratio * ratio) if math.isfinite(ratio) else MOST_USERS
            if abs(ratio - 1.0) < CLOSE or corrected > MOST_USERS:
                break
            if corrected < users and forecast.judgement(corrected, epsilon)[2] is None:
                break  # so few would be too few for the method
            users = corrected
        return users
    return first_of(USERS, lambda n: reaches(forecast, n, epsilon, half_width, count, seed))


def least_budget(forecast: Forecast, n: int, half_width: float, replicates: int, seed: int) -> float | None:
    """Smallest of EPSILONS with which n users are enough; None where none is."""
    count = min(replicates, REPLICATES)
    if not isinstance(forecast, SgdForecast):
        return first_of(EPSILONS, lambda epsilon: reaches(forecast, n, epsilon, half_width, count, seed))
    ratio, chosen = 1.0, None
    for _ in range(CORRECTIONS + 1):
        chosen = first_of(EPSILONS, partial(expects_half_width, forecast, n, half_width / ratio))
        found = None if chosen is None else forecast.simulate(n, chosen, count, seed)
        if chosen is None or found is None:
            break
        measured = found.half_width() / forecast.expected_half_width(n, chosen)
        if not math.isfinite(measured) or abs(measured / ratio - 1.0) < CLOSE:
            break
        ratio = measured
    return chosen


def reaches(
    forecast: Forecast, n: int, epsilon: float, half_width: float, replicates: int, seed: int
) -> bool:
    """Whether more than half of the simulated half widths are at most that wanted, by two standard errors.

    Half widths of histograms are multiples of half a bin: at a jump of the median other replicates would
    have another one.
    """
    found = forecast.simulate(n, epsilon, replicates, seed)
    return found is not None and found.share_within(half_width) >= 0.5 + 1.0 / math.sqrt(replicates)


def expects_half_width(forecast: SgdForecast, n: int, half_width: float, epsilon: float) -> bool:
    """Whether the method's half width on such paths is at most that wanted."""
    return forecast.expected_half_width(n, epsilon) <= half_width


def first_of(values: Sequence[T], enough: Callable[[T], bool]) -> T | None:
    """First of ascending values that is enough, where those after it are; None where the last is not."""
    low, high = -1, len(values) - 1
    if not enough(values[high]):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(values[middle]) else (middle, high)
    return values[high]
