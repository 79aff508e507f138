"""Timing two things in turn, so that whatever else runs on the machine slows both alike."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

from benchmarks.measurement import Measurement

Work = Callable[[], object]


@dataclass(frozen=True)
class Pairs:
    """CPU seconds per unit of work of two contestants, one pair per repetition."""

    first: list[float]
    second: list[float]

    def ratios(self) -> list[float]:
        """first/second, pair by pair."""
        return [a / b for a, b in zip(self.first, self.second, strict=True)]

    def row(
        self,
        name: str,
        what: str,
        unit: str,
        target: float | None,
        labels: tuple[str, str],
        better: Literal["higher", "lower"] = "lower",
        scale: float = 1e9,
        values: list[float] | None = None,
        **details: Any,
    ) -> Measurement:
        """A row of the table: the ratios unless values are given, and the median of either side.

        Parameters
        ----------
        labels : pair of str
            Names of the two medians, which are multiplied by ``scale``: nanoseconds per unit.
        """
        medians = (scale * median(self.first), scale * median(self.second))
        details = dict(zip(labels, medians, strict=True)) | details
        values = self.ratios() if values is None else values
        return Measurement(name, what, unit, values, target, better, details)


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
