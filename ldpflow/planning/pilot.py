"""Step size and start from a pilot's law or from public bounds, and how well a pilot knows its law."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ldpflow import constants
from ldpflow.errors import InputError
from ldpflow.problems.column_law import ColumnLaw, column_law
from ldpflow.problems.laws import Law
from ldpflow.simulators.approach import Approach
from ldpflow.theory.arrival import VERDICTS, Arrival, approaches

Floats = NDArray[np.float64]

RELAXATION_TIMES = 60.0
"""Relaxation times that the rule for c aims at: four times too few or too many is what it survives."""

GAMMA = 0.51
RESAMPLES = 200
BLOCKS = 20_000  # of neighbouring values: columns with more values are resampled by blocks
SHARE = 0.9  # of the resampled pilots, between the ends of a range


@dataclass(frozen=True)
class Design:
    """Steps c i^-gamma and a start, in the unit of the data."""

    c: float
    gamma: float
    theta0: float


@dataclass(frozen=True)
class Bounds:
    """Public bounds of the data."""

    lower: float
    upper: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.upper - self.lower) and self.lower < self.upper):
            raise InputError("bounds", [self.lower, self.upper], "two finite numbers, the lower first")

    def law(self) -> Law:
        """The normal law that stands for an unknown one: an eighth of the range is its deviation."""
        return Law("normal", (self.lower + self.upper) / 2, (self.upper - self.lower) / 8)

    def family(self) -> dict[str, tuple[Law, bool]]:
        """Laws that values within the bounds may have, by name, and whether they are to be mirrored.

        The normal one, and skewed ones that start at a bound: most values near it, few at the other end.
        One from the upper bound is the mirror image of one from the lower.
        """
        width = self.upper - self.lower
        skewed = {
            "exponential": Law("exponential", self.lower, width / 8),
            "lognormal": Law("lognormal", self.lower, width / 20, shape=1.0),
        }
        found = {"normal": (self.law(), False)}
        for name, law in skewed.items():
            found[f"{name} from the lower bound"] = law, False
            found[f"{name} from the upper bound"] = law, True
        return found


def design(law: Law, tau: float, steps: int, gamma: float = GAMMA) -> Design:
    """c for 60 relaxation times, and a start on the side of the quantile from which travel is fast.

    c = 60 / (G sum_{i <= steps} i^-gamma); theta0 is the quantile of level 1/2 + .8 (tau - 1/2): the
    iterates move up by at most tau per unit of step size and down by at most 1 - tau.
    """
    total = constants.sum_of_powers(1, steps, gamma)
    c = RELAXATION_TIMES / (law.density_at_quantile(tau) * total)
    return Design(c, gamma, law.quantile(0.5 + 0.8 * (tau - 0.5)))


def design_within(bounds: Bounds, tau: float, steps: int, gamma: float = GAMMA) -> Design:
    """The rule's c for the normal law that the bounds suggest.

    theta0 is the middle for tau in [.25, .75], else a quarter of the range from the end that travel
    starts fast from (the lower for a high quantile).
    """
    rule = design(bounds.law(), tau, steps, gamma)
    width = bounds.upper - bounds.lower
    start = bounds.lower + width * (0.5 if 0.25 <= tau <= 0.75 else 0.25 if tau > 0.75 else 0.75)
    return Design(rule.c, gamma, start)


def resampled_laws(values: Floats, seed: int, count: int = RESAMPLES) -> list[ColumnLaw]:
    """Laws of columns drawn with replacement from a column (its bootstrap).

    Parameters
    ----------
    values : ndarray, shape (N,)
    seed : int
        Draws have their own role, ``pilot``.
    count : int
    """
    from ldpflow.random.counts import multinomial
    from ldpflow.random.streams import counter_keys

    x = np.sort(values)
    blocks = np.array_split(x, min(len(x), BLOCKS))
    sizes = np.array([len(block) for block in blocks], dtype=np.float64)
    means = x if len(blocks) == len(x) else np.array([block.mean() for block in blocks])
    laws = []
    counts = np.empty(len(blocks))
    for replicate in range(count):
        first, second = (np.uint64(word) for word in counter_keys(seed, "pilot", "", replicate))
        multinomial(counts, first, second, 0, 0, float(len(x)), sizes)
        laws.append(column_law(means, counts.astype(np.int64)))
    return laws


def percentile_range(values: list[float]) -> tuple[float, float]:
    """5% and 95% points of the values of resampled pilots."""
    low, high = np.quantile(values, [(1 - SHARE) / 2, (1 + SHARE) / 2])
    return float(low), float(high)


def worst_arrival(case: Approach, laws: list[ColumnLaw], level: float) -> Arrival:
    """The arrival that a pilot vouches for: the worst but 5% of those under resampled pilots.

    Worse is a later verdict of :data:`ldpflow.theory.arrival.VERDICTS`, then a lower coverage.
    """
    found = approaches([replace(case, law=replace(case.law, table=table)) for table in laws])
    found.sort(key=lambda arrival: badness(arrival, level))
    return found[math.ceil((1 + SHARE) / 2 * len(found)) - 1]


def badness(arrival: Arrival, level: float) -> tuple[int, float]:
    """Key that sorts arrivals from good to bad: the verdict, then the coverage."""
    return min(VERDICTS.index(arrival.verdict), 2), -arrival.coverage(level)
