"""Whether reports look like those of the mechanism: flag ``odd_reports``, a warning and no error.

Whatever the users' values are, a report of randomised response is 1 with probability in [1 - p, p] given
all before it, and a report of one of k cells is each cell with probability in [(1 - p)/(k - 1), p]; a report
with additive noise varies at least as much as the noise. What lies five standard deviations outside, or a
run of equal reports that is that improbable, says that the mechanism on the devices is another one, or
that somebody made reports up.

Checks of a transcript: the first row that cannot be right is named, with what is wrong with it.

Of a row, in this order: types and missing values; reports in the mechanism's range; round; epsilon; step;
theta. Users that reported twice are looked for when all rows are sound otherwise.

A row's theta must follow from the row before it: theta_i = theta_{i-1} - eta_i A_i, with A_i the value that
stands for the report. That finds a lost, doubled, moved or edited row at once, and files that were
sorted or joined. One pass; it ends at the first fault.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ldpflow.practice.transcripts.reading import Chunk
from ldpflow.practice.transcripts.values import RowError

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


Floats = NDArray[np.float64]

TOLERANCE = 1e-9
ROUNDING = 8 * 2.0**-52


@dataclass(frozen=True)
class Meaning:
    """Meaning of the reports of a mechanism.

    Parameters
    ----------
    values : tuple of tuples of float, or None
        A_i, by coordinate, for a report of 0, 1, ...; None where the report is A_i itself.
    """

    values: tuple[tuple[float, ...], ...] | None

    def gradients(self, reports: Floats) -> Floats:
        """A_i, shape (m, d)."""
        if self.values is None:
            return reports
        result: Floats = np.array(self.values)[reports[:, 0].astype(np.int64)]
        return result


@dataclass
class Checks:
    """The checks of a file whose chunks come one after the other.

    Parameters
    ----------
    meaning : Meaning
    epsilon : float or None
        The mechanism's; None where it has none, and no column ``epsilon`` is allowed to differ.
    c, gamma : float
        Of the steps eta_i = c i^-gamma.
    batch_size : int
        Reports to a step.
    start : tuple of float or None
        theta_0, where it is given beside the file.
    final : tuple of float or None
        theta_n, where it is given.
    ordered : bool
        Whether theta is put in order after every step.
    """

    meaning: Meaning
    epsilon: float | None
    c: float
    gamma: float
    batch_size: int = 1
    start: tuple[float, ...] | None = None
    final: tuple[float, ...] | None = None
    ordered: bool = False
    theta: Floats | None = None
    """theta of the next step, which ``slack`` may differ from it by rounding; ``partial`` sums the gradients
    of a round that is not complete yet."""
    slack: Floats = field(default_factory=lambda: np.zeros(1))
    partial: Floats = field(default_factory=lambda: np.zeros(1))

    def look(self, chunk: Chunk) -> None:
        """Raise the first fault of a chunk.

        Raises
        ------
        RowError
        """
        first: RowError | None = None
        # After a fault the further checks look at the rows before it alone.
        with np.errstate(all="ignore"):
            for check in (self.types, self.reports, self.rounds, self.epsilons, self.steps, self.recursion):
                fault = check(chunk) if len(chunk) else None
                if fault is not None:
                    first, chunk = fault, chunk.before(fault.row)
        if first is not None:
            raise first

    def finish(self, rows: int, theta: Floats) -> None:
        """Compare theta after the last report with the one that was given.

        Parameters
        ----------
        rows : int
        theta : ndarray, shape (d,)
            As it follows from the reports.

        Raises
        ------
        RowError
        """
        if self.final is None:
            return
        slack = self.slack
        if self.theta is None:  # without a column theta errors of rounding add up
            steps = rows // self.batch_size
            slack = 1e-6 * self.c * steps**-self.gamma + steps * ROUNDING * np.abs(theta)
        wanted = theta if self.theta is None else self.theta
        found = np.array([self.final])
        bad = apart(found, wanted[None], slack)
        if bad.any():
            j = int(np.argmax(bad[0]))
            hint = few_digits(found, 0, wanted) or "Are the last rows missing?"
            allowed = f"{float(wanted[j])!r}, which follows from the row before"
            raise RowError(rows, named("final_theta", found, j), float(found[0, j]), allowed, hint)

    def types(self, chunk: Chunk) -> RowError | None:
        """Values that are no finite numbers."""
        columns = {"theta": chunk.thetas, "report": chunk.reports}
        columns |= {"step": chunk.steps, "epsilon": chunk.epsilons}
        found: list[RowError] = []
        for name, values in columns.items():
            if values is not None and not np.isfinite(values).all():
                table = values.reshape(len(chunk), -1)
                row, j = map(int, np.argwhere(~np.isfinite(table))[0])
                wrong = float(table[row, j])
                found.append(RowError(chunk.first + row, named(name, table, j), wrong, "a finite number"))
        return min(found, key=lambda fault: fault.row, default=None)

    def reports(self, chunk: Chunk) -> RowError | None:
        """Reports that the mechanism cannot make."""
        if self.meaning.values is None:
            return None
        values, largest = chunk.reports[:, 0], len(self.meaning.values) - 1
        row = first_of((values != np.floor(values)) | (values < 0.0) | (values > largest))
        if row is None:
            return None
        allowed = "0 or 1" if largest == 1 else f"a whole number from 0 to {largest}"
        return RowError(chunk.first + row, "report", float(values[row]), allowed)

    def rounds(self, chunk: Chunk) -> RowError | None:
        """Rounds that do not count up by one, every ``batch_size`` rows."""
        if chunk.rounds is None:
            return None
        expected = self.step_numbers(chunk)
        row = first_of(chunk.rounds != expected)
        if row is None:
            return None
        found, wanted = int(chunk.rounds[row]), int(expected[row])
        later = first_of(chunk.rounds[row:] == wanted)
        if found > wanted and later is not None:
            hint = f"Row {chunk.first + row + later:,} has it: rows are in another order."
        elif found > wanted and (chunk.rounds[row:] == expected[row:] + (found - wanted)).all():
            gap = f"{wanted:,} is" if found == wanted + 1 else f"{wanted:,} to {found - 1:,} are"
            hint = f"Round{'s' if found > wanted + 1 else ''} {gap} missing."
        elif found > wanted:
            hint = "Reports before it are missing, or rows are in another order."
        elif found == 1:
            hint = "The rounds begin again here: was another file joined to this one?"
        else:
            hint = "Reports were counted twice, or rows are in another order."
        return RowError(chunk.first + row, "round", found, str(wanted), hint)

    def epsilons(self, chunk: Chunk) -> RowError | None:
        """Budgets that differ from the mechanism's."""
        if chunk.epsilons is None:
            return None
        wanted = np.nan if self.epsilon is None else self.epsilon
        row = first_of(~(np.abs(chunk.epsilons - wanted) <= TOLERANCE * abs(wanted)))
        if row is None:
            return None
        allowed = "no budget" if self.epsilon is None else f"{self.epsilon!r}, the budget of the others"
        hint = "Reports with different budgets cannot be analysed together."
        return RowError(chunk.first + row, "epsilon", float(chunk.epsilons[row]), allowed, hint)

    def step_numbers(self, chunk: Chunk) -> NDArray[np.int64]:
        """Number of every row's step, from 1."""
        result: NDArray[np.int64] = 1 + (chunk.first - 1 + np.arange(len(chunk))) // self.batch_size
        return result

    def etas(self, steps: NDArray[np.int64]) -> Floats:
        """eta of steps."""
        result: Floats = self.c * steps.astype(np.float64) ** -self.gamma
        return result

    def steps(self, chunk: Chunk) -> RowError | None:
        """Step sizes that are not c i^-gamma."""
        if chunk.steps is None:
            return None
        wanted = self.etas(self.step_numbers(chunk))
        row = first_of(np.abs(chunk.steps - wanted) > TOLERANCE * np.abs(wanted))
        if row is None:
            return None
        allowed = f"{float(wanted[row])!r}, which is {self.c:g} i^-{self.gamma:g}"
        return RowError(chunk.first + row, "step", float(chunk.steps[row]), allowed)

    def recursion(self, chunk: Chunk) -> RowError | None:
        """Values of theta that do not follow from the rows before; moves on to the end of the chunk."""
        thetas, size = chunk.thetas, self.batch_size
        if thetas is None:
            return None
        if self.theta is None:
            first = thetas[0] if self.start is None else np.broadcast_to(self.start, thetas.shape[1:])
            self.theta = np.sort(first) if self.ordered else np.array(first)
            self.slack, self.partial = np.zeros((2, thetas.shape[1]))
        numbers = self.step_numbers(chunk)
        etas = self.etas(numbers) if chunk.steps is None else chunk.steps
        gradients = self.meaning.gradients(chunk.reports)
        starts = np.flatnonzero(np.diff(numbers, prepend=0))  # of the rounds, the first of which may go on
        last = np.append(starts[1:], len(thetas)) - 1
        sums = np.add.reduceat(gradients, starts, axis=0)
        sums[0] += self.partial
        # From the theta that was asked, so that errors do not add up.
        after, near = self.after(thetas[last], etas[last, None] * (sums / size))
        place = numbers - numbers[0]
        wanted = np.concatenate([self.theta[None], after])[place]
        slack = np.concatenate([self.slack[None], near])[place]
        if (chunk.first - 1 + len(thetas)) % size == 0:
            self.theta, self.slack, self.partial = after[-1], near[-1], np.zeros_like(self.partial)
        else:
            self.theta, self.slack, self.partial = thetas[-1], np.zeros_like(self.slack), sums[-1]
        bad = apart(thetas, wanted, slack)
        if not bad.any():
            return None
        at, j = map(int, np.argwhere(bad)[0])
        allowed = f"{float(wanted[at, j])!r}, which follows from the row before"
        hint = few_digits(thetas, at, wanted[at]) or self.damage(chunk, thetas, gradients, wanted, bad)
        return RowError(chunk.first + at, named("theta", thetas, j), float(thetas[at, j]), allowed, hint)

    def after(self, asked: Floats, moves: Floats) -> tuple[Floats, Floats]:
        """theta after steps from what was asked, and how far from it is still rounding."""
        wanted = asked - moves
        slack: Floats = TOLERANCE * np.abs(moves)
        if self.ordered:
            wanted = np.sort(wanted, axis=1)
            slack = np.broadcast_to(slack.max(axis=1, keepdims=True), slack.shape)
        return wanted, slack

    def damage(
        self, chunk: Chunk, thetas: Floats, gradients: Floats, wanted: Floats, bad: NDArray[np.bool_]
    ) -> str:
        """What may have happened to the file before its first row that does not follow."""
        rows = bad.any(axis=1)
        at = int(np.argmax(rows))
        row = chunk.first + at
        shift = self.displacement(chunk, thetas, gradients, at)
        count = "one row is" if abs(shift) == 1 else f"{abs(shift)} rows are"
        near = ~apart(thetas[at:], wanted[at], TOLERANCE * np.abs(wanted[at]))
        later = first_of(np.asarray(near.all(axis=1)))
        if shift and shift == 1 - row and row > 4:
            return "The rows from there on fit as those of a new collection: was another file joined to it?"
        if shift:
            said = "missing before it." if shift > 0 else "too many before it: were reports doubled?"
            return f"The rows from there on fit if {count} {said}"
        if later is not None:
            return f"Row {row + later:,} has this theta: rows are in another order."
        if len(thetas) - at > 20 and np.all(np.diff(thetas[at:, 0]) >= 0.0):
            return "From there on theta never falls: was the file sorted?"
        if row == 1:
            return "It is not theta0."
        if float(rows.mean()) > 0.1:
            return "Many later rows do not follow: other settings, a shuffled file, or two that were joined?"
        return "A row is missing, doubled or changed there."

    def displacement(self, chunk: Chunk, thetas: Floats, gradients: Floats, at: int) -> int:
        """Number of steps by which the rows from a fault on are displaced; 0 if they fit nowhere."""
        if self.batch_size > 1:
            return 0
        if at and (thetas[at] == thetas[at - 1]).all() and (gradients[at] == gradients[at - 1]).all():
            return -1
        if chunk.steps is not None or len(thetas) - at < 10:
            return 0
        steps = chunk.first + np.arange(at, len(thetas) - 1)
        for shift in (1, -1, 2, 3, -2, -3, 1 - int(steps[0])):
            if shift and steps[0] + shift >= 1:
                moves = self.etas(steps + shift)[:, None] * gradients[at:-1]
                if not apart(thetas[at + 1 :], *self.after(thetas[at:-1], moves)).any():
                    return shift
        return 0


def first_of(bad: NDArray[np.bool_]) -> int | None:
    """Place of the first True."""
    return int(np.argmax(bad)) if bad.any() else None


def apart(found: Floats, wanted: Floats, slack: Floats) -> NDArray[np.bool_]:
    """Where values differ by more than the slack and rounding."""
    near = slack + ROUNDING * np.maximum(np.abs(found), np.abs(wanted))
    result: NDArray[np.bool_] = np.abs(found - wanted) > near
    return result


def named(stem: str, values: Floats, j: int) -> str:
    """Name of the column of a coordinate."""
    return stem if values.shape[1] == 1 else f"{stem}_{j}"


def few_digits(thetas: Floats, at: int, wanted: Floats) -> str:
    """A hint where a theta is the wanted one as far as the digits of all of them go, which are too few."""
    most = max(significant(value) for value in thetas[:200].reshape(-1).tolist())
    unit = 10.0 ** (1 - most) * float(np.abs(thetas[at]).max())
    near = bool((np.abs(thetas[at] - wanted) <= unit).all())
    return f"{most} digits are too few: write 17." if most < 15 and near else ""


def significant(value: float) -> int:
    """Digits of the shortest text that reads back as the value."""
    text = repr(abs(value)).partition("e")[0].replace(".", "").strip("0")
    return len(text)
