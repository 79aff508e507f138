"""Checks of a transcript: the first row that cannot be right is named, with what is wrong with it.

Of a row, in this order: types and missing values; reports in the mechanism's range; round; epsilon; step;
theta. Users that reported twice are looked for when all rows are sound otherwise.

A row's theta must follow from the row before it: theta_i = theta_{i-1} - eta_i A_i, with A_i the value that
stands for the report. That finds a lost, doubled, moved or edited row at once, and files that were
sorted or joined. One pass; it ends at the first fault.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldpflow.transcripts.faults import RowError
from ldpflow.transcripts.reading import Chunk

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
    last: Expected | None = None

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
        last = self.last
        if last is None:  # without a column theta errors of rounding add up
            steps = rows // self.batch_size
            slack = 1e-6 * self.c * steps**-self.gamma + steps * ROUNDING * np.abs(theta)
            last = Expected(self, theta, slack, np.zeros_like(theta))
        fault = last.compare(np.array([self.final]), "final_theta", rows)
        if fault is not None:
            raise fault

    def types(self, chunk: Chunk) -> RowError | None:
        """Values that are no finite numbers."""
        found: list[tuple[int, str, float]] = []
        named = [(chunk.thetas, "theta"), (chunk.reports, "report")]
        for values, stem in named:
            if values is None:
                continue
            bad = ~np.isfinite(values)
            if bad.any():
                row, j = map(int, np.argwhere(bad)[0])
                name = stem if values.shape[1] == 1 else f"{stem}_{j}"
                found.append((row, name, float(values[row, j])))
        for column, name in ((chunk.steps, "step"), (chunk.epsilons, "epsilon")):
            if column is not None and not np.isfinite(column).all():
                row = int(np.flatnonzero(~np.isfinite(column))[0])
                found.append((row, name, float(column[row])))
        if not found:
            return None
        row, name, value = min(found, key=lambda item: item[0])
        return RowError(chunk.first + row, name, value, "a finite number")

    def reports(self, chunk: Chunk) -> RowError | None:
        """Reports that the mechanism cannot make."""
        if self.meaning.values is None:
            return None
        values, largest = chunk.reports[:, 0], len(self.meaning.values) - 1
        bad = (values != np.floor(values)) | (values < 0.0) | (values > largest)
        if not bad.any():
            return None
        row = int(np.flatnonzero(bad)[0])
        allowed = "0 or 1" if largest == 1 else f"a whole number from 0 to {largest}"
        return RowError(chunk.first + row, "report", float(values[row]), allowed)

    def rounds(self, chunk: Chunk) -> RowError | None:
        """Rounds that do not count up by one, every ``batch_size`` rows."""
        if chunk.rounds is None:
            return None
        expected = 1 + (chunk.first - 1 + np.arange(len(chunk))) // self.batch_size
        bad = chunk.rounds != expected
        if not bad.any():
            return None
        row = int(np.flatnonzero(bad)[0])
        found, wanted = int(chunk.rounds[row]), int(expected[row])
        later = np.flatnonzero(chunk.rounds[row:] == wanted)
        if found > wanted and len(later):
            hint = f"Row {chunk.first + row + int(later[0]):,} has it: rows are in another order."
        elif found > wanted and (chunk.rounds[row:] == expected[row:] + (found - wanted)).all():
            one = found == wanted + 1
            hint = (
                f"Round {wanted:,} is missing." if one else f"Rounds {wanted:,} to {found - 1:,} are missing."
            )
        elif found > wanted:
            hint = "Reports before it are missing, or rows are in another order."
        elif self.batch_size == 1 and found == wanted - 1:
            hint = "It is the round of the row before: a report was counted twice."
        elif found == 1:
            hint = "The rounds begin again here: was another file joined to this one?"
        else:
            hint = "Reports were counted twice, or rows are in another order."
        return RowError(chunk.first + row, "round", found, str(wanted), hint)

    def epsilons(self, chunk: Chunk) -> RowError | None:
        """Budgets that differ from the mechanism's."""
        if chunk.epsilons is None:
            return None
        wanted = self.epsilon
        bad = (
            np.ones(len(chunk), bool)
            if wanted is None
            else np.abs(chunk.epsilons - wanted) > TOLERANCE * abs(wanted)
        )
        if not bad.any():
            return None
        row = int(np.flatnonzero(bad)[0])
        allowed = "no budget" if wanted is None else f"{wanted!r}, the budget of the others"
        hint = "Reports with different budgets cannot be analysed together."
        return RowError(chunk.first + row, "epsilon", float(chunk.epsilons[row]), allowed, hint)

    def etas(self, chunk: Chunk) -> Floats:
        """eta of every row's step."""
        step = 1 + (chunk.first - 1 + np.arange(len(chunk))) // self.batch_size
        result: Floats = self.c * step.astype(np.float64) ** -self.gamma
        return result

    def steps(self, chunk: Chunk) -> RowError | None:
        """Step sizes that are not c i^-gamma."""
        if chunk.steps is None:
            return None
        wanted = self.etas(chunk)
        bad = np.abs(chunk.steps - wanted) > TOLERANCE * np.abs(wanted)
        if not bad.any():
            return None
        row = int(np.flatnonzero(bad)[0])
        allowed = f"{float(wanted[row])!r}, which is {self.c:g} i^-{self.gamma:g}"
        return RowError(chunk.first + row, "step", float(chunk.steps[row]), allowed)

    def recursion(self, chunk: Chunk) -> RowError | None:
        """Values of theta that do not follow from the rows before."""
        if chunk.thetas is None:
            return None
        if self.last is None:
            self.last = Expected.at_start(self, chunk)
        return self.last.follow(chunk)


@dataclass
class Expected:
    """theta of the next step, and how far from it is still rounding.

    ``partial`` sums the gradients of a round that is not complete yet.
    """

    checks: Checks
    theta: Floats
    slack: Floats
    partial: Floats

    @classmethod
    def at_start(cls, checks: Checks, chunk: Chunk) -> Expected:
        """theta_0: as given, or the first row's."""
        assert chunk.thetas is not None
        d = chunk.thetas.shape[1]
        start = checks.start
        if start is None:
            theta = chunk.thetas[0].copy()
        else:
            theta = np.array(start * d if len(start) == 1 else start)
        if checks.ordered:
            theta = np.sort(theta)
        return cls(checks, theta, np.zeros(d), np.zeros(d))

    def after(self, asked: Floats, moves: Floats) -> tuple[Floats, Floats]:
        """theta after steps from what was asked, and how far from it is still rounding."""
        wanted = asked - moves
        slack: Floats = TOLERANCE * np.abs(moves)
        if self.checks.ordered:
            wanted = np.sort(wanted, axis=1)
            slack = np.broadcast_to(slack.max(axis=1, keepdims=True), slack.shape)
        return wanted, slack

    def compare(self, found: Floats, name: str, row: int) -> RowError | None:
        """The first row of ``found`` whose theta is not the expected one."""
        wanted = self.theta[None]
        bad = np.abs(found - wanted) > self.slack + ROUNDING * np.maximum(np.abs(found), np.abs(wanted))
        if not bad.any():
            return None
        at, j = map(int, np.argwhere(bad)[0])
        column = name if found.shape[1] == 1 else f"{name}_{j}"
        allowed = f"{float(self.theta[j])!r}, which follows from the row before"
        hint = few_digits(found, 0, wanted[0]) or "Are the last rows missing?"
        return RowError(row + at, column, float(found[at, j]), allowed, hint)

    def follow(self, chunk: Chunk) -> RowError | None:
        """Compare a chunk with what is expected of it, and move on to its end."""
        thetas = chunk.thetas
        assert thetas is not None
        size = self.checks.batch_size
        etas = self.checks.etas(chunk) if chunk.steps is None else chunk.steps
        gradients = self.checks.meaning.gradients(chunk.reports)
        if size > 1:
            return self.follow_rounds(chunk, thetas, etas, gradients)
        after, near = self.after(thetas, etas[:, None] * gradients)
        wanted = np.concatenate([self.theta[None], after[:-1]])
        slack = np.concatenate([self.slack[None], near[:-1]])
        bad = np.abs(thetas - wanted) > slack + ROUNDING * np.maximum(np.abs(thetas), np.abs(wanted))
        self.theta, self.slack = after[-1], near[-1]
        if not bad.any():
            return None
        return fault_of(chunk, thetas, wanted, slack, bad, self.displacement(chunk, gradients, bad))

    def displacement(self, chunk: Chunk, gradients: Floats, bad: NDArray[np.bool_]) -> int:
        """Number of steps by which the rows from the first fault on are displaced; 0 if they fit nowhere."""
        thetas, rows = chunk.thetas, bad.any(axis=1)
        assert thetas is not None
        at = int(np.argmax(rows))
        if at and (thetas[at] == thetas[at - 1]).all() and (gradients[at] == gradients[at - 1]).all():
            return -1
        if chunk.steps is not None or len(thetas) - at < 10:
            return 0
        step = chunk.first + np.arange(at, len(thetas) - 1)
        for shift in (1, -1, 2, 3, -2, -3, 1 - int(step[0])):
            if step[0] + shift < 1 or shift == 0:
                continue
            etas = self.checks.c * (step + shift).astype(np.float64) ** -self.checks.gamma
            wanted, slack = self.after(thetas[at:-1], etas[:, None] * gradients[at:-1])
            found = thetas[at + 1 :]
            near = np.abs(found - wanted) <= slack + ROUNDING * np.maximum(np.abs(found), np.abs(wanted))
            if near.all():
                return shift
        return 0

    def follow_rounds(self, chunk: Chunk, thetas: Floats, etas: Floats, gradients: Floats) -> RowError | None:
        """The same where several reports make a step."""
        size = self.checks.batch_size
        before = (chunk.first - 1) % size  # rows of the first round that earlier chunks had
        starts = np.arange(-before, len(thetas), size)
        starts[0] = 0
        ends = np.append(starts[1:], len(thetas))
        sums = np.add.reduceat(gradients, starts, axis=0)
        sums[0] += self.partial
        asked = thetas[ends - 1]
        # From the theta that was asked, so that errors do not add up.
        moved, near_moved = self.after(asked, etas[ends - 1, None] * (sums / size))
        after = np.concatenate([self.theta[None], moved])
        slack = np.concatenate([self.slack[None], near_moved])
        counts = ends - starts
        wanted = np.repeat(after[:-1], counts, axis=0)
        near = np.repeat(slack[:-1], counts, axis=0)
        if (chunk.first - 1 + len(thetas)) % size == 0:
            self.theta, self.slack, self.partial = after[-1], slack[-1], np.zeros_like(self.partial)
        else:
            self.theta, self.slack, self.partial = asked[-1], np.zeros_like(self.slack), sums[-1]
        bad = np.abs(thetas - wanted) > near + ROUNDING * np.maximum(np.abs(thetas), np.abs(wanted))
        return fault_of(chunk, thetas, wanted, near, bad) if bad.any() else None


def fault_of(
    chunk: Chunk, thetas: Floats, wanted: Floats, slack: Floats, bad: NDArray[np.bool_], shift: int = 0
) -> RowError:
    """The first theta that does not follow, with what may have happened to the file.

    ``shift`` is by how many steps the rows from there on are displaced, 0 where that is not known.
    """
    at, j = map(int, np.argwhere(bad)[0])
    row = chunk.first + at
    column = "theta" if thetas.shape[1] == 1 else f"theta_{j}"
    allowed = f"{float(wanted[at, j])!r}, which follows from the row before"
    hint = few_digits(thetas, at, wanted[at]) or displaced_rows(row, shift)
    if not hint:
        near = np.abs(thetas[at:] - wanted[at]) <= slack[at] + ROUNDING * np.abs(wanted[at])
        later = np.flatnonzero(near.all(axis=1))
        if len(later):
            hint = f"Row {row + int(later[0]):,} has this theta: rows are in another order."
    if not hint and len(thetas) - at > 20 and np.all(np.diff(thetas[at:, 0]) >= 0.0):
        hint = "From there on theta never falls: was the file sorted?"
    if not hint and row == 1:
        hint = "It is not theta0."
    if not hint and float(bad.any(axis=1).mean()) > 0.1:
        hint = (
            "Many later rows do not follow either: are the settings others, is the file shuffled, or was "
            "another one joined to it?"
        )
    if not hint:
        hint = "A row is missing, doubled or changed there."
    return RowError(row, column, float(thetas[at, j]), allowed, hint)


def displaced_rows(row: int, shift: int) -> str:
    """What happened before a row where the rows from there on fit ``shift`` steps later."""
    if shift == 0:
        return ""
    if shift == 1 - row and row > 4:
        return "The rows from there on fit as those of a new collection: was another file joined to this one?"
    fit = f"The rows from there on fit if {counted(abs(shift))}"
    return f"{fit} missing before it." if shift > 0 else f"{fit} too many before it: were reports doubled?"


def counted(rows: int) -> str:
    """A number of rows as the subject of a sentence."""
    return "one row is" if rows == 1 else f"{rows} rows are"


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
