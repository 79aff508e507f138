"""Fewest users and smallest budget with which a protocol reaches a half width."""

from __future__ import annotations

import math

from ldpflow.planning.forecast import Forecast, Simulated

__all__ = ["EPSILONS", "MOST_USERS", "fewest_users", "first_budget", "least_budget", "users_by_simulation"]

EPSILONS: tuple[float, ...] = tuple(round(0.05 + 0.001 * i, 3) for i in range(11951))
"""Budgets among which the smallest that is enough is looked for: .05, .051, .. 12."""

MOST_USERS = 10**12
PER_DECADE = 20
CORRECTIONS = 4  # rounds of simulation that correct a formula's n or epsilon


def users_by_simulation(
    forecast: Forecast, epsilon: float, half_width: float, replicates: int, seed: int
) -> tuple[int | None, int | None]:
    """Fewest users by the formula, and with the formula corrected by simulation; None beyond 10^12."""
    formula = fewest_users(forecast, epsilon, half_width)
    needed, ratio = formula, 1.0
    for _ in range(CORRECTIONS):
        if needed is None:
            break
        found = forecast.simulate(needed, epsilon, replicates, seed)
        if found is None:
            break
        measured = half_width_ratio(forecast, found, needed, epsilon)
        if abs(measured / ratio - 1.0) < 0.01:
            break
        ratio = measured
        needed = fewest_users(forecast, epsilon, half_width / ratio)
    return formula, needed


def half_width_ratio(forecast: Forecast, found: Simulated, n: int, epsilon: float) -> float:
    """Simulated RMSE over the formula's standard error."""
    return found.rmse(forecast.target.truth) / forecast.standard_error(n, epsilon)


def fewest_users(forecast: Forecast, epsilon: float, half_width: float) -> int | None:
    """Smallest n whose formula's half width is at most that wanted.

    The number of bins is chosen again at every n, so the curve has steps: the first of 20 points per
    decade that is enough is found, then the place between it and the point before.
    """

    def enough(n: int) -> bool:
        return forecast.target.z * forecast.standard_error(n, epsilon) <= half_width

    low = 1
    for i in range(PER_DECADE * 12 + 1):
        high = math.ceil(10.0 ** (i / PER_DECADE))
        if enough(high):
            break
        low = high
    else:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return 1 if enough(1) else high


def least_budget(forecast: Forecast, n: int, half_width: float, replicates: int, seed: int) -> float | None:
    """Smallest of EPSILONS with which n users reach the half width, the formula corrected by simulation."""
    ratio = 1.0
    chosen: float | None = None
    for _ in range(CORRECTIONS):
        chosen = first_budget(forecast, n, half_width / ratio)
        if chosen is None:
            # Judged at the largest budget: the correction may be what forbids it, wrongly.
            found = forecast.simulate(n, EPSILONS[-1], replicates, seed)
            if found is None:
                return None
            measured = half_width_ratio(forecast, found, n, EPSILONS[-1])
        else:
            found = forecast.simulate(n, chosen, replicates, seed)
            if found is None:
                return chosen
            measured = half_width_ratio(forecast, found, n, chosen)
        if abs(measured / ratio - 1.0) < 0.01:
            break
        ratio = measured
    return chosen


def first_budget(forecast: Forecast, n: int, half_width: float) -> float | None:
    """Smallest of EPSILONS whose formula's half width is at most that wanted."""

    def enough(epsilon: float) -> bool:
        return forecast.target.z * forecast.standard_error(n, epsilon) <= half_width

    # The number of bins is chosen again at every epsilon: the curve has steps, so no plain bisection.
    low, high = -1, len(EPSILONS) - 1
    for i in (*range(0, high, 200), high):
        if enough(EPSILONS[i]):
            high = i
            break
        low = i
    else:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(EPSILONS[middle]) else (middle, high)
    return float(EPSILONS[high])
