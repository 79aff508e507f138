"""Checks of a transcript: the error names the first row that cannot be right, and its fault.

Of a row, in this order: epsilon; reports in the mechanism's range; round; theta. A row's theta must
follow from the row before it: theta_i = theta_{i-1} - eta_i A_i, with A_i the private gradient that the
report gives. So a lost, doubled, moved or edited row is found at once, and so are files that were sorted or
joined. The pass ends at the first fault.

Reports that do not look like the mechanism's are no fault: they raise the flag ``odd_reports``. For any
values of the users, a report of randomised response is 1 with probability in [1 - p, p] given all before it,
and a report of one of k cells is each cell with probability in [(1 - p)/(k - 1), p]. A share five standard
deviations outside, or a run of equal reports that is as improbable, suggests that the devices have another
mechanism or that reports were made up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpflow.practice.transcripts.reading import Chunk, RowError

Floats = NDArray[np.float64]

TOLERANCE = 1e-9
ROUNDING = 8 * 2.0**-52
DEVIATIONS = 5.0


def earliest(*faults: RowError | None) -> RowError | None:
    return min((fault for fault in faults if fault is not None), key=lambda fault: fault.row, default=None)


def whole_number_error(chunk: Chunk, column: str, values: Floats, least: int, most: int) -> RowError | None:
    bad = (values != np.floor(values)) | (values < least) | (values > most)
    allowed = "0 or 1" if (least, most) == (0, 1) else f"a whole number from {least} to {most}"
    return first_error(chunk, column, values, bad, allowed)


def epsilon_error(chunk: Chunk, epsilon: float | None) -> RowError | None:
    if chunk.epsilons is None:
        return None
    wanted = np.nan if epsilon is None else epsilon
    bad = ~(np.abs(chunk.epsilons - wanted) <= TOLERANCE * abs(wanted))
    allowed = "no budget" if epsilon is None else f"{epsilon!r}, as the design or the other rows have"
    hint = "Reports with different budgets cannot be analysed together."
    return first_error(chunk, "epsilon", chunk.epsilons, bad, allowed, hint)


def first_error(
    chunk: Chunk, column: str, values: NDArray[Any], bad: NDArray[np.bool_], allowed: str, hint: str = ""
) -> RowError | None:
    if not bad.any():
        return None
    row = int(np.argmax(bad))
    return RowError(chunk.first + row, column, values[row].item(), allowed, hint)


def theta_error(row: int, asked: Floats, at: tuple[int, int], wanted: Floats) -> RowError:
    """Error of asked[at], shape (m, d), which is not the ``wanted`` theta."""
    column = "theta" if len(wanted) == 1 else f"theta_{at[1]}"
    allowed = f"{float(wanted[at[1]])!r}, which follows from the row before"
    damage = "A row is missing, doubled or changed, or the settings are others."
    hint = "It is not theta0." if row == 1 else damage
    # Digits of the shortest texts that read back as the values.
    texts = [repr(abs(value)).partition("e")[0] for value in asked[:200].reshape(-1).tolist()]
    digits = max(len(text.replace(".", "").strip("0")) for text in texts)
    unit = 10.0 ** (1 - digits) * float(np.abs(asked[at[0]]).max())
    if digits < 15 and bool((np.abs(asked[at[0]] - wanted) <= unit).all()):
        hint = f"{digits} digits are too few: write 17."
    return RowError(row, column, float(asked[at]), allowed, hint)


def odd_shares(
    names: Sequence[str], ones: NDArray[Any], asked: NDArray[Any], low: float, high: float
) -> list[str]:
    """Shares that are five standard deviations below ``low`` or above ``high``, in words."""
    asked = np.maximum(asked, 1.0)
    shares, reach = ones / asked, DEVIATIONS / np.sqrt(asked)
    least = np.maximum(low - reach * math.sqrt(low * (1.0 - low)), 0.0)
    most = np.minimum(high + reach * math.sqrt(high * (1.0 - high)), 1.0)
    return [
        f"the share of {names[j]} is {shares[j]:.4f}; with this randomiser it lies in "
        f"[{least[j]:.4f}, {most[j]:.4f}]"
        for j in np.flatnonzero((shares < least) | (shares > most)).tolist()
    ]


@dataclass
class AnswerCounts:
    """Counts of reports 0, ..., count - 1 of randomised response, each true with probability p."""

    p: float
    count: int
    rows: int = 0
    reported: NDArray[np.int64] | int = 0
    last: float = math.nan
    run: int = 0
    longest: int = 0
    longest_ends: int = 0

    def add(self, chunk: Chunk) -> None:
        values = chunk.reports[:, 0]
        self.rows += len(values)
        self.reported = self.reported + np.bincount(values.astype(np.int64), minlength=self.count)
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
        counts = np.asarray(self.reported)
        names = [f"reports {answer}" for answer in range(self.count)]
        if self.count == 2:  # one determines the share of the other
            counts, names = counts[1:], ["ones"]
        low = (1.0 - self.p) / (self.count - 1)
        found = odd_shares(names, counts, np.full(len(names), self.rows), low, self.p)
        limit = math.ceil(60.0 / -math.log2(self.p))
        if self.longest > limit:
            found.append(
                f"{self.longest:,} equal reports in a row, up to row {self.longest_ends:,}; with this "
                f"mechanism no run is longer than {limit:,}"
            )
        return found
