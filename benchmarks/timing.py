"""Timing two things in turn, so that whatever else runs on the machine slows both alike."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

__all__ = ["Pairs", "compare", "cpu_seconds"]

Work = Callable[[], object]


@dataclass(frozen=True)
class Pairs:
    """CPU seconds per unit of work of two contestants, one pair per repetition."""

    first: list[float]
    second: list[float]

    def ratios(self) -> list[float]:
        """first/second, pair by pair."""
        return [a / b for a, b in zip(self.first, self.second, strict=True)]

    def nanoseconds(self) -> tuple[float, float]:
        """Median of either, in nanoseconds per unit."""
        return 1e9 * median(self.first), 1e9 * median(self.second)


def cpu_seconds(work: Work) -> float:
    """CPU time of this thread; waiting for a core does not count."""
    before = time.thread_time()
    work()
    return time.thread_time() - before


def compare(first: Work, first_units: float, second: Work, second_units: float, repetitions: int) -> Pairs:
    """Time both in turn: A B, B A, A B, ... after a warm-up of each.

    Parameters
    ----------
    first, second : callable
    first_units, second_units : float
        Units of work that one call does, for example steps times replicates.
    repetitions : int
        Number of pairs.
    """
    first()
    second()
    pairs = Pairs([], [])
    for repetition in range(repetitions):
        if repetition % 2 == 0:
            a = cpu_seconds(first)
            b = cpu_seconds(second)
        else:
            b = cpu_seconds(second)
            a = cpu_seconds(first)
        pairs.first.append(a / first_units)
        pairs.second.append(b / second_units)
    return pairs
