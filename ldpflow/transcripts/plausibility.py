"""Whether reports look like those of the mechanism: flag ``odd_reports``, a warning and no error.

Whatever the users' values are, a report of randomised response is 1 with probability in [1 - p, p] given
all before it, and a report of one of k cells is each cell with probability in [(1 - p)/(k - 1), p]; a report
with additive noise varies at least as much as the noise. What lies five standard deviations outside, or a
run of equal reports that is that improbable, says that the mechanism on the devices is another one, or
that somebody made reports up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ldpflow.transcripts.reading import Chunk

DEVIATIONS = 5.0


class Plausibility:
    """Running counts of reports; ``oddities`` after the last chunk."""

    def add(self, chunk: Chunk) -> None:
        """Take in a chunk."""

    def oddities(self) -> list[str]:
        """Oddities in words; empty where there are none."""
        return []


@dataclass
class Answers(Plausibility):
    """Reports of randomised response, of a bit or of one of several cells.

    Parameters
    ----------
    p : float
        Probability that the true answer is reported.
    count : int
        Number of answers that there are: 0, ..., count - 1.
    """

    p: float
    count: int = 2
    rows: int = 0
    reported: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    last: float = math.nan
    run: int = 0
    longest: int = 0
    longest_ends: int = 0

    def add(self, chunk: Chunk) -> None:
        values = chunk.reports[:, 0]
        self.rows += len(values)
        counted = np.bincount(values.astype(np.int64), minlength=self.count)
        self.reported = self.reported + counted if len(self.reported) else counted
        changes = np.flatnonzero(values[1:] != values[:-1]) + 1
        edges = np.concatenate([[0], changes, [len(values)]])
        lengths = np.diff(edges)
        if values[0] == self.last:
            lengths[0] += self.run
        place = int(np.argmax(lengths))
        if lengths[place] > self.longest:
            self.longest = int(lengths[place])
            self.longest_ends = chunk.first - 1 + int(edges[place + 1])
        self.run = int(lengths[-1])
        self.last = float(values[-1])

    def oddities(self) -> list[str]:
        found = []
        q = (1.0 - self.p) / (self.count - 1)
        low = max(0.0, q - DEVIATIONS * math.sqrt(q * (1.0 - q) / self.rows))
        high = min(1.0, self.p + DEVIATIONS * math.sqrt(self.p * (1.0 - self.p) / self.rows))
        # Of two answers one says what the other does.
        for answer in range(1 if self.count == 2 else 0, self.count):
            share = float(self.reported[answer]) / self.rows
            if not low <= share <= high:
                name = "ones" if self.count == 2 else f"reports {answer}"
                found.append(
                    f"the share of {name} is {share:.4f}; with this mechanism it lies in "
                    f"[{low:.4f}, {high:.4f}]"
                )
        limit = math.ceil(60.0 / -math.log2(self.p))
        if self.longest > limit:
            found.append(
                f"{self.longest:,} equal reports in a row, up to row {self.longest_ends:,}; with this "
                f"mechanism no run is longer than {limit:,}"
            )
        return found


@dataclass
class Moments(Plausibility):
    """Reports with additive noise of known variance, by coordinate.

    Parameters
    ----------
    variance : float
        Of the noise, in the square of the report's unit.
    """

    variance: float
    rows: int = 0
    sums: list[NDArray[np.float64]] = field(default_factory=list)

    def add(self, chunk: Chunk) -> None:
        values = chunk.reports
        self.rows += len(values)
        squares = values * values
        sums = [values.sum(0), squares.sum(0), (squares * squares).sum(0)]
        self.sums = [a + b for a, b in zip(self.sums, sums, strict=True)] if self.sums else sums

    def oddities(self) -> list[str]:
        first, second, fourth = (total / self.rows for total in self.sums)
        found = []
        for j, (mean, square, quad) in enumerate(zip(first, second, fourth, strict=True)):
            spread = math.sqrt(max(quad - square * square, 0.0) / self.rows)
            if square - mean * mean + DEVIATIONS * spread < self.variance:
                where = f" of coordinate {j}" if len(first) > 1 else ""
                found.append(
                    f"the reports{where} have variance {square - mean * mean:.4g}, less than the "
                    f"{self.variance:.4g} of the mechanism's noise alone"
                )
        return found
