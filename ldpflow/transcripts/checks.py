"""Checks of a transcript, in their order: what is wrong first is named, with its row.

    types and missing values; reports in the mechanism's range; round; epsilon; step; theta; user

A row's theta must follow from the row before it: theta_i = theta_{i-1} - eta_i A_i, with A_i the value that
stands for the report. That finds a lost, doubled, moved or edited row at once, and files that were
sorted. All checks run over one pass through the file; after a fault only the checks before it go on.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ldpflow.transcripts.faults import RowError
from ldpflow.transcripts.reading import Chunk

__all__ = ["LARGEST_USERS", "Checks", "Meaning", "Users"]

Floats = NDArray[np.float64]

TOLERANCE = 1e-9
ROUNDING = 8 * 2.0**-52
LARGEST_USERS = 10**7
"""Rows up to which users are compared."""


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
        theta_n, the same.
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
    faults: dict[int, RowError] = field(default_factory=dict)
    last: Expected | None = None
    first_round: int | None = None

    def look(self, chunk: Chunk) -> None:
        """Run over a chunk those checks that no earlier fault makes pointless."""
        for order, check in enumerate(
            (self.types, self.reports, self.rounds, self.epsilons, self.steps, self.recursion)
        ):
            if self.faults and order >= min(self.faults):
                return
            fault = check(chunk)
            if fault is not None:
                self.faults[order] = fault
                return

    @property
    def sound(self) -> bool:
        """Whether nothing was found so far."""
        return not self.faults

    @property
    def hopeless(self) -> bool:
        """Whether no later row can change which fault comes first."""
        return 0 in self.faults

    def finish(self, rows: int) -> None:
        """Raise the first fault in the order of the checks.

        Raises
        ------
        RowError
        """
        if not self.faults and self.last is not None and self.final is not None:
            fault = self.last.compare(np.array([self.final]), "final_theta", rows)
            if fault is not None:
                raise fault
        if self.faults:
            raise self.faults[min(self.faults)]

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
        if self.first_round is None:
            self.first_round = int(chunk.rounds[0])
            if self.first_round != 1:
                return RowError(chunk.first, "round", self.first_round, "1")
        expected = 1 + (chunk.first - 1 + np.arange(len(chunk))) // self.batch_size
        bad = chunk.rounds != expected
        if not bad.any():
            return None
        row = int(np.flatnonzero(bad)[0])
        found, wanted = int(chunk.rounds[row]), int(expected[row])
        if found > wanted:
            hint = "Rows before it are missing."
        elif self.batch_size == 1 and found == wanted - 1:
            hint = "It is the round of the row before: a report was counted twice."
        else:
            hint = "Rows are doubled, or not in the order in which they came."
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
        return RowError(row + at, column, float(found[at, j]), allowed, few_digits(found))

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
        return fault_of(chunk, thetas, wanted, bad, self.displaced(chunk, gradients, bad))

    def displaced(self, chunk: Chunk, gradients: Floats, bad: NDArray[np.bool_]) -> int:
        """Number of steps by which the rows from the first fault on are displaced; 0 if they fit nowhere."""
        thetas, rows = chunk.thetas, bad.any(axis=1)
        assert thetas is not None
        if chunk.steps is not None or rows.sum() < 10:
            return 0
        at = int(np.argmax(rows))
        step = chunk.first + np.arange(at, len(thetas) - 1)
        for shift in (1, -1, 2, 3, -2, -3):
            if step[0] + shift < 1:
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
        return fault_of(chunk, thetas, wanted, bad)


def fault_of(
    chunk: Chunk, thetas: Floats, wanted: Floats, bad: NDArray[np.bool_], shift: int = 0
) -> RowError | None:
    """The first theta that does not follow, with what may have happened to the file.

    ``shift`` is by how many steps the rows from there on are displaced, 0 where that is not known.
    """
    if not bad.any():
        return None
    at, j = map(int, np.argwhere(bad)[0])
    row = chunk.first + at
    column = "theta" if thetas.shape[1] == 1 else f"theta_{j}"
    wrong = float(bad.any(axis=1).mean())
    hint = few_digits(thetas)
    if not hint and shift > 0:
        hint = f"The rows from there on fit if {counted(shift)} missing before it."
    elif not hint and shift < 0:
        hint = f"The rows from there on fit if {counted(-shift)} too many before it: were reports doubled?"
    elif not hint and wrong > 0.1:
        hint = (
            "Many other rows do not follow either: were they sorted or shuffled, or are the settings others?"
        )
    elif not hint and row == 1:
        hint = "It is not theta0."
    elif not hint:
        hint = "A row is missing, doubled or changed there."
    allowed = f"{float(wanted[at, j])!r}, which follows from the row before"
    return RowError(row, column, float(thetas[at, j]), allowed, hint)


def counted(rows: int) -> str:
    """A number of rows as the subject of a sentence."""
    return "one row is" if rows == 1 else f"{rows} rows are"


def few_digits(thetas: Floats) -> str:
    """A hint where the numbers were written with too few digits."""
    shown = [significant(value) for value in thetas[:200].reshape(-1).tolist()]
    most = max(shown)
    return f"{most} digits are too few: write 17." if most < 15 and len(shown) > 20 else ""


def significant(value: float) -> int:
    """Digits of the shortest text that reads back as the value."""
    text = repr(abs(value)).partition("e")[0].replace(".", "").strip("0")
    return len(text)


@dataclass
class Users:
    """Whether any user reported twice, by 64-bit hashes; two equal hashes are looked up in the file."""

    rows: int
    hashes: NDArray[np.uint64] = field(init=False)

    def __post_init__(self) -> None:
        self.hashes = np.empty(self.rows, np.uint64)

    def add(self, chunk: Chunk) -> None:
        """Take in the users of a chunk."""
        import hashlib

        for row, user in enumerate(chunk.users.to_pylist(), start=chunk.first - 1):
            digest = hashlib.blake2b(str(user).encode(), digest_size=8).digest()
            self.hashes[row] = int.from_bytes(digest, "little")

    def suspects(self) -> list[tuple[int, int]]:
        """Pairs of rows with equal hashes, (earlier, later) from 1, by the later one."""
        order = np.argsort(self.hashes, kind="stable")
        equal = np.flatnonzero(self.hashes[order[1:]] == self.hashes[order[:-1]])
        pairs = zip((order[equal] + 1).tolist(), (order[equal + 1] + 1).tolist(), strict=True)
        return sorted(pairs, key=lambda pair: pair[1])
