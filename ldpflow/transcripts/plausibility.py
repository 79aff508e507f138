"""Whether reports look like those of the mechanism: flag ``odd_reports``, a warning and no error.

Whatever the users' values are, a report of randomised response is 1 with probability in [1 - p, p] given
all before it; a report with additive noise varies at least as much as the noise. What lies five standard
deviations outside, or a run of equal reports that is that improbable, says that the mechanism on the
devices is another one, or that somebody made reports up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ldpflow.transcripts.reading import Chunk

__all__ = ["Bits", "Moments", "Plausibility"]

DEVIATIONS = 5.0


class Plausibility:
    """Running counts of reports; ``oddities`` after the last chunk."""

    def add(self, chunk: Chunk) -> None:
        """Take in a chunk."""

    def oddities(self) -> list[str]:
        """What is odd, in words; empty where nothing is."""
        return []


@dataclass
class Bits(Plausibility):
    """Reports of randomised response.

    Parameters
    ----------
    p : float
        Probability that the true bit is reported.
    """

    p: float
    rows: int = 0
    ones: int = 0
    last: float = math.nan
    run: int = 0
    longest: int = 0
    longest_ends: int = 0

    def add(self, chunk: Chunk) -> None:
        values = chunk.reports[:, 0]
        self.rows += len(values)
        self.ones += int(values.sum())
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
        share = self.ones / self.rows
        q = 1.0 - self.p
        slack = DEVIATIONS * math.sqrt(self.p * q / self.rows)
        if not q - slack <= share <= self.p + slack:
            found.append(
                f"the share of ones is {share:.4f}; with this mechanism it lies in "
                f"[{max(0.0, q - slack):.4f}, {min(1.0, self.p + slack):.4f}]"
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
