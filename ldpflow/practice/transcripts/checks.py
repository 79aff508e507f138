"""Checks of a transcript: the error names the first row that cannot be right, and its fault.

Of a row, in this order: reports in the mechanism's range; round; epsilon; step; theta. A row's theta must
follow from the row before it: theta_i = theta_{i-1} - eta_i A_i, with A_i the value that stands for the
report. That finds a lost, doubled, moved or edited row at once, and files that were sorted or joined. One
pass; it ends at the first fault.

Reports that do not look like the mechanism's are no fault: they raise the flag ``odd_reports``. For any
values of the users, a report of randomised response is 1 with probability in [1 - p, p] given all before it,
a report of one of k cells is each cell with probability in [(1 - p)/(k - 1), p], and a report with additive
noise varies at least as much as the noise. A share five standard deviations outside, or a run of equal
reports that is as improbable, means that the devices have another mechanism or that reports were made up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpflow.practice.transcripts.reading import Chunk, RowError

Floats = NDArray[np.float64]

TOLERANCE = 1e-9
ROUNDING = 8 * 2.0**-52
DEVIATIONS = 5.0


def gradients_of(reports: Floats, answers: Floats | None) -> Floats:
    """A_i of reports, shape (m, d).

    ``answers`` has A by coordinate for a report of 0, 1, ..., shape (k, d); None: reports are A_i themselves.
    """
    if answers is None:
        return reports
    return np.take(answers, reports[:, 0].astype(np.int64), axis=0, mode="clip")


@dataclass
class Checks:
    """The checks of a file whose chunks come one after the other.

    Parameters
    ----------
    answers : ndarray or None
        As in :func:`gradients_of`.
    epsilon : float or None
        The mechanism's epsilon. Every value of a column ``epsilon`` must be equal to it.
    c, gamma : float
        Of the steps eta_i = c i^-gamma.
    batch_size : int
        Reports to a step.
    factors : tuple of float
        Factor of every coordinate's steps; empty for equal steps.
    start, final : tuple of float or None
        theta_0 and theta_n, if the settings give them.
    ordered : bool
        Whether theta is put in order after every step.
    """

    answers: Floats | None
    epsilon: float | None
    c: float
    gamma: float
    batch_size: int = 1
    start: tuple[float, ...] | None = None
    final: tuple[float, ...] | None = None
    ordered: bool = False
    factors: tuple[float, ...] = ()
    theta: Floats | None = field(default=None, init=False)
    """theta of the next step. That of the next row may differ by ``slack`` (rounding). ``partial`` sums the
    gradients of a round that is not complete yet."""
    slack: Floats = field(default_factory=lambda: np.zeros(1), init=False)
    partial: Floats = field(default_factory=lambda: np.zeros(1), init=False)

    def check(self, chunk: Chunk) -> None:
        numbers = 1 + (chunk.first - 1 + np.arange(len(chunk))) // self.batch_size
        etas = self.c * numbers.astype(np.float64) ** -self.gamma
        with np.errstate(all="ignore"):
            found = [
                self.reports(chunk),
                self.rounds(chunk, numbers),
                epsilon_error(chunk, self.epsilon),
                self.steps(chunk, etas),
                self.recursion(chunk, numbers, etas),
            ]
        if (fault := earliest(*found)) is not None:
            raise fault

    def finish(self, rows: int, theta: Floats) -> None:
        """Compare theta after the last report with the one that was given.

        ``theta`` is the one that follows from the reports, shape (d,).
        """
        if self.final is None:
            return
        wanted, slack = self.theta, self.slack
        if wanted is None:  # without a column theta errors of rounding add up
            steps = rows // self.batch_size
            wanted, slack = theta, 1e-6 * self.c * steps**-self.gamma + steps * ROUNDING * np.abs(theta)
        found = np.array([self.final])
        fault = first_apart("final_theta", rows, found, wanted[None], slack, "Are the last rows missing?")
        if fault is not None:
            raise fault

    def reports(self, chunk: Chunk) -> RowError | None:
        if self.answers is None:
            return None
        return whole_number_error(chunk, "report", chunk.reports[:, 0], 0, len(self.answers) - 1)

    def rounds(self, chunk: Chunk, numbers: NDArray[np.int64]) -> RowError | None:
        """Error of the first row at which rounds do not count up by one every ``batch_size`` rows."""
        if chunk.rounds is None:
            return None
        bad = chunk.rounds != numbers
        hint = "Rows are missing before it, counted twice, or in another order."
        return first_error(chunk, "round", chunk.rounds, bad, str(numbers[np.argmax(bad)]), hint)

    def steps(self, chunk: Chunk, wanted: Floats) -> RowError | None:
        if chunk.steps is None:
            return None
        bad = np.abs(chunk.steps - wanted) > TOLERANCE * np.abs(wanted)
        allowed = f"{float(wanted[np.argmax(bad)])!r}, which is {self.c:g} i^-{self.gamma:g}"
        return first_error(chunk, "step", chunk.steps, bad, allowed)

    def recursion(self, chunk: Chunk, numbers: NDArray[np.int64], etas: Floats) -> RowError | None:
        """Error of the first theta that does not follow from the row before. Updates the state."""
        thetas, size = chunk.thetas, self.batch_size
        if thetas is None:
            return None
        if self.theta is None:
            first = thetas[0] if self.start is None else np.broadcast_to(self.start, thetas.shape[1:])
            self.theta = np.sort(first) if self.ordered else np.array(first)
            self.slack, self.partial = np.zeros((2, thetas.shape[1]))
        etas = etas if chunk.steps is None else chunk.steps
        starts = np.flatnonzero(np.diff(numbers, prepend=0))  # of rounds; the first may continue
        last = np.append(starts[1:], len(thetas)) - 1
        sums = np.add.reduceat(gradients_of(chunk.reports, self.answers), starts, axis=0)
        sums[0] += self.partial
        # Computed from the theta that was asked, so that errors do not add up.
        steps = etas[last, None] * np.array(self.factors or (1.0,))
        after, near = self.take_step(thetas[last], steps * (sums / size))
        place = numbers - numbers[0]
        wanted = np.concatenate([self.theta[None], after])[place]
        slack = np.concatenate([self.slack[None], near])[place]
        if (chunk.first - 1 + len(thetas)) % size == 0:
            self.theta, self.slack, self.partial = after[-1], near[-1], np.zeros_like(self.partial)
        else:
            self.theta, self.slack, self.partial = thetas[-1], np.zeros_like(self.slack), sums[-1]
        return first_apart(
            "theta", chunk.first, thetas, wanted, slack, "A row is missing, doubled or changed."
        )

    def take_step(self, asked: Floats, moves: Floats) -> tuple[Floats, Floats]:
        """theta after steps from the theta that was asked, and how far off rounding may be."""
        wanted = asked - moves
        slack: Floats = TOLERANCE * np.abs(moves)
        if self.ordered:
            wanted = np.sort(wanted, axis=1)
            slack = np.broadcast_to(slack.max(axis=1, keepdims=True), slack.shape)
        return wanted, slack


def earliest(*faults: RowError | None) -> RowError | None:
    return min((fault for fault in faults if fault is not None), key=lambda fault: fault.row, default=None)


def whole_number_error(
    chunk: Chunk, column: str, values: Floats | None, least: int, most: int
) -> RowError | None:
    assert values is not None
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


def first_apart(
    stem: str, first: int, found: Floats, wanted: Floats, slack: Floats, hint: str
) -> RowError | None:
    """Error of the first theta, shape (m, d), that is not the wanted one; rows count from ``first``."""
    bad = np.abs(found - wanted) > slack + ROUNDING * np.maximum(np.abs(found), np.abs(wanted))
    if not bad.any():
        return None
    at, j = map(int, np.argwhere(bad)[0])
    column = stem if found.shape[1] == 1 else f"{stem}_{j}"
    allowed = f"{float(wanted[at, j])!r}, which follows from the row before"
    if first + at == 1:
        hint = "It is not theta0."
    # Digits of the shortest texts that read back as the values.
    texts = [repr(abs(value)).partition("e")[0] for value in found[:200].reshape(-1).tolist()]
    digits = max(len(text.replace(".", "").strip("0")) for text in texts)
    unit = 10.0 ** (1 - digits) * float(np.abs(found[at]).max())
    if digits < 15 and bool((np.abs(found[at] - wanted[at]) <= unit).all()):
        hint = f"{digits} digits are too few: write 17."
    return RowError(first + at, column, float(found[at, j]), allowed, hint)


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
        found = []
        q = (1.0 - self.p) / (self.count - 1)
        low = max(0.0, q - DEVIATIONS * math.sqrt(q * (1.0 - q) / self.rows))
        high = min(1.0, self.p + DEVIATIONS * math.sqrt(self.p * (1.0 - self.p) / self.rows))
        shares = (np.asarray(self.reported) / self.rows).tolist()
        for answer, share in enumerate(shares):
            # Of two answers one determines the share of the other.
            if low <= share <= high or (self.count == 2 and answer == 0):
                continue
            name = "ones" if self.count == 2 else f"reports {answer}"
            expected = f"with this mechanism it lies in [{low:.4f}, {high:.4f}]"
            found.append(f"the share of {name} is {share:.4f}; {expected}")
        limit = math.ceil(60.0 / -math.log2(self.p))
        if self.longest > limit:
            found.append(
                f"{self.longest:,} equal reports in a row, up to row {self.longest_ends:,}; with this "
                f"mechanism no run is longer than {limit:,}"
            )
        return found


@dataclass
class Moments:
    """Reports with additive noise of known variance, in the square of the report's unit, by coordinate."""

    variance: float
    rows: int = 0
    sums: Floats | float = 0.0
    """Sums of the reports, their squares and their fourth powers, shape (3, d)."""

    def add(self, chunk: Chunk) -> None:
        values = chunk.reports
        self.rows += len(values)
        squares = values * values
        self.sums = self.sums + np.array([values.sum(0), squares.sum(0), (squares * squares).sum(0)])

    def oddities(self) -> list[str]:
        found = []
        means = (np.asarray(self.sums) / self.rows).T.tolist()
        for j, (mean, square, fourth) in enumerate(means):
            spread = math.sqrt(max(fourth - square * square, 0.0) / self.rows)
            if square - mean * mean + DEVIATIONS * spread < self.variance:
                where = f" of coordinate {j}" if len(means) > 1 else ""
                found.append(
                    f"the reports{where} have variance {square - mean * mean:.4g}, less than the "
                    f"{self.variance:.4g} of the mechanism's noise alone"
                )
        return found
