"""Time two callables in turn, so that other programs on the machine slow both equally."""

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
    """CPU seconds per unit of work of two callables, one pair per repetition."""

    first: list[float]
    second: list[float]

    def ratios(self) -> list[float]:
        """Ratios first/second of the pairs."""
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
        """Row of the table with the ratios, or with ``values`` if they are given, and both medians.

        Parameters
        ----------
        labels : pair of str
            Names of the two medians. They are multiplied by ``scale``, which makes nanoseconds by default.
        """
        medians = (scale * median(self.first), scale * median(self.second))
        details = dict(zip(labels, medians, strict=True)) | details
        values = self.ratios() if values is None else values
        return Measurement(name, what, unit, values, target, better, details)


def cpu_seconds(work: Work) -> float:
    """CPU time of this thread. Waiting for a core does not count."""
    before = time.thread_time()
    work()
    return time.thread_time() - before


def compare(first: Work, first_units: float, second: Work, second_units: float, repetitions: int) -> Pairs:
    """Time both callables in turn: A B, B A, A B, ..., after one call of each.

    Parameters
    ----------
    first, second : callable
    first_units, second_units : float
        Units of work of one call, for example steps times replicates.
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
