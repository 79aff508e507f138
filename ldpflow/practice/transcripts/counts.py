"""Reports of protocols without a path: checked and counted chunk by chunk, then the record of a simulator.

A report of ``thresholds``, ``hrr`` and ``haar`` is a bit, and ``question`` says what it answers; of ``grr``
it is a bin; of ``oue`` a text of k bits; of ``tree`` a text of 4^l bits at level ``question`` = l; of
``rounds`` a bit at threshold ``question`` (from 0) of ``round`` (from 1). The thresholds of a round follow
from the rounds before, so that a lost, doubled or edited row there shows in a column ``theta``.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldpflow.components.intervals import IntervalMethod
from ldpflow.components.intervals.counts import (
    CountsRecord,
    Fieller,
    HistogramRecord,
    Inversion,
    SearchRecord,
)
from ldpflow.components.problems.transform import inverse
from ldpflow.components.protocols import OneShot
from ldpflow.components.protocols.collections import fold_one_shot, fold_rounds
from ldpflow.components.protocols.rounds import FIRST
from ldpflow.errors import InputError
from ldpflow.numerics import constants
from ldpflow.practice.transcripts.checks import (
    TOLERANCE,
    AnswerCounts,
    earliest,
    epsilon_error,
    first_error,
    odd_shares,
    whole_number_error,
)
from ldpflow.practice.transcripts.collection import Collection
from ldpflow.practice.transcripts.methods import Row, rows_of
from ldpflow.practice.transcripts.reader import ReportReader
from ldpflow.practice.transcripts.reading import Chunk, Joined, RowError
from ldpflow.practice.transcripts.result import Analysis, EstimatedCdf, counts_verdict

Floats = NDArray[np.float64]


class CountsReader(ReportReader):
    """Reader of the reports of a protocol, of one round or of ``rounds``."""

    method: type[IntervalMethod]
    defaults: Sequence[IntervalMethod]

    def __init__(self, source: Joined, collection: Collection, chunk: int) -> None:
        self.protocol, self.taus = cast(Any, collection.protocol), collection.taus
        several = not isinstance(collection.protocol, OneShot)
        self.widths: tuple[int, ...] = () if several else self.protocol.widths(self.protocol.k)
        answers = 2 if several else self.protocol.reports(self.protocol.k)
        source = source.with_columns(("user", "report") if self.widths else ("user",), ("question",))
        super().__init__(source, collection, chunk)
        self.needed: tuple[str, ...] = ("round", "question")
        if not several:
            self.needed = ("question",) if self.protocol.public_coin else ()
        columns = source.columns
        if columns.reports != ("report",):
            raise InputError("columns", columns.reports[-1], "one column report")
        for name in self.needed:
            if name not in columns.optional:
                raise InputError("columns", None, f"a column {name}, for {self.protocol.kind}")
        used = {*self.needed, *(["theta"] if several else []), "epsilon", "user"}
        if unused := [name for name in (*columns.optional, *columns.thetas) if name not in used]:
            self.notes.append(f"columns not used: {', '.join(unused)}")
        budget = self.protocol.budget()
        self.runs = AnswerCounts(budget.odds / (budget.odds + answers - 1.0), answers)

    def analysis(self) -> Analysis:
        collection, protocol = self.collection, self.protocol
        planned = () if collection.planned is None else (collection.planned,)
        asked = list(dict.fromkeys([*planned, *(collection.methods or self.defaults)]))
        for method in asked:
            if not isinstance(method, self.method):
                allowed = str(self.defaults[0].kind)
                raise InputError("method", method.kind, allowed, "It is the protocol's interval.")
        self.read_chunks(self.take, "round" in self.needed)
        record, cdf = self.record()
        oddities = ([] if self.widths else self.runs.oddities()) + self.odd_questions()
        rows = rows_of(record, collection.n or self.rows, asked, collection.levels)
        for place, row in enumerate(rows):
            row |= {"place": place, "asked": True}
            if collection.adversarial_share:
                z = constants.normal_quantile(0.5 + row["level"] / 2.0)
                row.widen(*self.widened(record, row, z, collection.adversarial_share))
        first = [row for row in rows if row.of == asked[0] and row["level"] == collection.levels[0]]
        return self.result(
            rows,
            verdicts=[counts_verdict(row, bool(oddities)) for row in first],
            steps=protocol.interaction_rounds(),
            algorithm=None,
            start=(),
            oddities=oddities,
            progress=EstimatedCdf(inverse(collection.scale, cdf[0]), cdf[1]),
        )

    def take(self, chunk: Chunk) -> None:
        fault = earliest(self.count(chunk), epsilon_error(chunk, self.protocol.epsilon))
        if fault is not None:
            raise fault
        if not self.widths:
            self.runs.add(chunk)

    @abstractmethod
    def count(self, chunk: Chunk) -> RowError | None:
        """Count the reports of a chunk, or return the error of the first that cannot be right."""

    @abstractmethod
    def record(self) -> tuple[CountsRecord, tuple[Floats, Floats]]:
        """The record of all reports, and points with F^ there."""

    @abstractmethod
    def widened(self, record: Any, row: Row, z: float, share: float) -> tuple[float, float, bool]:
        """Limits of a row for a share of adversarial users, and whether one is an end of the range."""

    def odd_questions(self) -> list[str]:
        return []


class OneShotReader(CountsReader):
    """Counts of a one-shot protocol, by question, bin or node."""

    method = Inversion
    defaults = (Inversion(), Inversion(limits="line"))

    def __init__(self, source: Joined, collection: Collection, chunk: int) -> None:
        super().__init__(source, collection, chunk)
        self.k = int(self.protocol.k)
        self.asked, self.ones = np.zeros((2, self.protocol.questions(self.k)))

    def count(self, chunk: Chunk) -> RowError | None:
        found = []
        if self.needed:
            largest = len(self.widths) or self.k - 1
            found.append(whole_number_error(chunk, "question", chunk.questions, 1, largest))
        if self.widths:
            return earliest(*found, self.count_texts(chunk))
        largest = self.protocol.reports(self.k) - 1
        fault = earliest(*found, whole_number_error(chunk, "report", chunk.reports[:, 0], 0, largest))
        if fault is not None:
            return fault
        size, reports = len(self.asked), chunk.reports[:, 0].astype(np.int64)
        if chunk.questions is None:
            self.asked += len(chunk)
            self.ones += np.bincount(reports, minlength=size)
        else:
            questions = chunk.questions.astype(np.int64) - 1
            self.asked += np.bincount(questions, minlength=size)
            self.ones += np.bincount(questions[reports == 1], minlength=size)
        return None

    def count_texts(self, chunk: Chunk) -> RowError | None:
        """Count bits that are stored level by level."""
        found, first = [], 0
        for level, width in enumerate(self.widths, start=1):
            among = np.ones(len(chunk), bool) if chunk.questions is None else chunk.questions == level
            bits, fault = read_bits(chunk, among, width)
            found.append(fault)
            self.asked[first : first + width] += among.sum()
            self.ones[first : first + width] += bits.sum(axis=0, dtype=np.int64)
            first += width
        return earliest(*found)

    def record(self) -> tuple[CountsRecord, tuple[Floats, Floats]]:
        found = 2.0 * self.ones - self.asked if self.protocol.signs else self.ones
        histograms = fold_one_shot(self.protocol, self.k, self.asked, found, self.rows)
        truth = np.full(len(self.taus), math.nan)
        cdf = histograms.edges[1:-1], histograms.values[0]
        return HistogramRecord(0, np.zeros(1, np.int64), truth, self.taus, histograms), cdf

    def widened(self, record: Any, row: Row, z: float, share: float) -> tuple[float, float, bool]:
        tau, histograms = self.taus[row["coordinate"]], record.histograms
        found: tuple[float, float, bool] = histograms.widened(tau, z, row["limits"], share, self.asked)
        return found

    def odd_questions(self) -> list[str]:
        """Shares of ones that the randomiser does not make, the first three."""
        if self.protocol.reports(self.k) > 2:
            return []
        low, what = self.protocol.budget().flip, "bin or node" if self.widths else "question"
        names = [f"ones at {what} {q + 1}" for q in range(len(self.ones))]
        return odd_shares(names, self.ones, self.asked, low, 0.5 if self.widths else 1.0 - low)[:3]


class RoundsReader(CountsReader):
    """Counts of ``rounds``, by round and threshold."""

    method = Fieller
    defaults = (Fieller(),)

    def __init__(self, source: Joined, collection: Collection, chunk: int) -> None:
        super().__init__(source, collection, chunk)
        self.counts = np.zeros((self.protocol.rounds, FIRST, 2))
        self.turn = 0
        self.thresholds = np.full(FIRST, math.nan)

    def count(self, chunk: Chunk) -> RowError | None:
        assert chunk.rounds is not None and chunk.questions is not None
        last = np.maximum.accumulate(np.concatenate([[self.turn], chunk.rounds]))[:-1]
        follows = (chunk.rounds == np.maximum(last, 1)) | (chunk.rounds == last + 1)
        bad = ~follows | (chunk.rounds > self.protocol.rounds)
        wanted = f"{max(last[np.argmax(bad)], 1):g}, or the round after it up to {self.protocol.rounds}"
        hint = "Rows are in the order of their rounds."
        fault = earliest(
            first_error(chunk, "round", chunk.rounds, bad, wanted, hint),
            whole_number_error(chunk, "question", chunk.questions, 0, FIRST - 1),
            whole_number_error(chunk, "report", chunk.reports[:, 0], 0, 1),
        )
        # Rows before the fault: a threshold that does not follow comes earlier.
        rows = len(chunk) if fault is None else fault.row - chunk.first
        turns, questions = (values[:rows].astype(np.int64) for values in (chunk.rounds, chunk.questions))
        for turn in np.unique(turns).tolist():
            if turn != self.turn:
                self.thresholds = fold_rounds(self.protocol, self.taus[0], self.counts)[1][turn - 1]
                self.turn = turn
            here = turns == turn
            if (earlier := self.threshold_error(chunk, questions, here)) is not None:
                return earlier
            ones = chunk.reports[:rows, 0] == 1.0
            self.counts[turn - 1, :, 0] += np.bincount(questions[here], minlength=FIRST)
            self.counts[turn - 1, :, 1] += np.bincount(questions[here & ones], minlength=FIRST)
        return fault

    def threshold_error(
        self, chunk: Chunk, questions: NDArray[np.int64], here: NDArray[np.bool_]
    ) -> RowError | None:
        """Error of the first of these rows of a round whose threshold does not follow."""
        assert chunk.questions is not None
        expected = self.thresholds[questions]
        least = f"a threshold of the round, from 0 to {np.isfinite(self.thresholds).sum() - 1}"
        fault = first_error(chunk, "question", chunk.questions, here & ~np.isfinite(expected), least)
        if chunk.thetas is None:
            return fault
        low, high = self.protocol.ends
        thetas = chunk.thetas[: len(questions), 0]
        apart = here & (np.abs(thetas - expected) > TOLERANCE * (high - low))
        wanted = f"{float(expected[int(np.argmax(apart))])!r}, which follows from the rounds before"
        hint = "A row of an earlier round is missing, doubled or changed."
        return earliest(fault, first_error(chunk, "theta", thetas, apart, wanted, hint))

    def record(self) -> tuple[CountsRecord, tuple[Floats, Floats]]:
        if self.turn < self.protocol.rounds:
            hint = "The collection is not finished, or its last rows are missing."
            raise InputError("round", self.turn, f"{self.protocol.rounds} in the last row", hint)
        searches, x = fold_rounds(self.protocol, self.taus[0], self.counts)
        asked, ones = self.counts[:, :, 0], self.counts[:, :, 1]
        used = asked > 0.0
        order, b = np.argsort(x[used]), self.protocol.budget()
        cdf = x[used][order], ((ones[used] / asked[used] - b.flip) / b.gap)[order]
        truth = np.full(1, math.nan)
        return SearchRecord(0, np.zeros(1, np.int64), truth, self.taus, searches), cdf

    def widened(self, record: Any, row: Row, z: float, share: float) -> tuple[float, float, bool]:
        """As of the base class; undefined limits remain so."""
        if row["lower"] is None:
            return math.nan, math.nan, False
        x = fold_rounds(self.protocol, self.taus[0], self.counts)[1]
        asked = self.counts[:, :, 0] * np.isfinite(x)
        lower, upper = record.searches.widened(z, share, np.nan_to_num(x).ravel(), asked.ravel())
        low, high = self.protocol.ends
        return lower, upper, lower <= low or upper >= high


def read_bits(
    chunk: Chunk, among: NDArray[np.bool_], width: int
) -> tuple[NDArray[np.uint8], RowError | None]:
    """Bits of some rows of a chunk, shape (rows, width), or the first text that is not of so many bits."""
    rows = np.flatnonzero(among)
    texts = chunk.texts.take(rows)
    bad = pc.binary_length(texts).to_numpy(zero_copy_only=False) != width
    sound = int(np.argmax(bad)) if bad.any() else len(rows)
    bits = np.frombuffer(b"".join(texts[:sound].to_pylist()), np.uint8).reshape(sound, width) - ord("0")
    wrong = np.flatnonzero((bits > 1).any(axis=1))
    if len(wrong):
        sound = int(wrong[0])
    if sound == len(rows):
        return bits, None
    shown = texts[sound].as_py().decode("utf-8", "backslashreplace")
    found = shown if len(shown) <= 40 else f"{shown[:40]}..."
    allowed = f"a text of {width} digits 0 and 1"
    return bits[:0], RowError(chunk.first + int(rows[sound]), "report", found, allowed)
