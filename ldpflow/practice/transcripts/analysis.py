"""Intervals from a transcript: read and check it chunk by chunk, make its record, and call interval methods.

A path is folded into its record, the reports of a protocol are counted. What a report is depends on the
protocol:

* ``thresholds``, ``hrr``, ``haar``: a bit, the answer to ``question``
* ``grr``: a bin
* ``oue``: a text of k bits, one for each bin
* ``tree``: a text of 4^l bits at level l = ``question``
* ``rounds``: a bit at threshold ``question`` (from 0) of ``round`` (from 1)

The thresholds of a round follow from the reports of earlier rounds. If there is a column ``theta``, it shows
whether an earlier row was lost, doubled or edited.
"""

from __future__ import annotations

import hashlib
import math
import os
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldpflow.components.algorithms import Algorithm
from ldpflow.components.intervals.counts import Fieller, Inversion
from ldpflow.components.intervals.record import PathRecord
from ldpflow.components.intervals.transcript import TranscriptRegression
from ldpflow.components.problems.transform import inverse
from ldpflow.components.protocols.collections import Histograms, Searches, fold_one_shot, fold_rounds
from ldpflow.components.protocols.rounds import FIRST
from ldpflow.documents import parse_toml
from ldpflow.errors import InputError
from ldpflow.numerics import constants
from ldpflow.practice.transcripts.collection import (
    OF_THE_SCALE,
    Collection,
    merge_settings,
    read_collection,
    read_settings,
    read_share,
    read_table,
)
from ldpflow.practice.transcripts.fold import CollectedPath, Fold, UnknownLaw, answers_of
from ldpflow.practice.transcripts.methods import Methods, Row, rows_of
from ldpflow.practice.transcripts.reading import (
    TOLERANCE,
    Chunk,
    Joined,
    RowError,
    answer_oddities,
    earliest,
    epsilon_error,
    first_error,
    list_names,
    odd_shares,
    theta_error,
    whole_number_error,
)
from ldpflow.practice.transcripts.result import (
    Analysis,
    EstimatedCdf,
    EstimatesAlongRun,
    Verdict,
    counts_verdict,
    is_significant,
    nan_for_none,
    verdict_of,
)
from ldpflow.simulators.one_pass import PathRequest
from ldpflow.simulators.simulator import Cell

Floats = NDArray[np.float64]

TRACE_POINTS = 240
"""Number of steps at which estimates along the run are kept."""


def analyse(
    source: object,
    settings: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    *,
    n: int | None = None,
    adversarial_share: float = 0.0,
) -> Analysis:
    """Compute intervals from collected private reports.

    The reports are private already. This is post-processing, which needs no value of a user.

    Parameters
    ----------
    source : path, pyarrow.Table, data frame, mapping of columns, or a list of them
        Columns of a path: ``report`` and ``theta`` (the question to the user), or ``report_0, ...`` and
        ``theta_0, ...``. Columns of a protocol: ``report``, and ``question`` if users answer different
        questions. ``epsilon``, ``round`` and ``user`` are optional. Several sources are one collection. Those
        of a path or of ``rounds`` must be in their order.
    settings : mapping or path, optional
        A design file (docs/analyse.md), or settings as in TOML: ``{"problem": {"kind": "quantile", "tau":
        0.9}, "mechanism": {"kind": "randomized_response", "epsilon": 1.0}, "algorithm": {"c": 40.0, "gamma":
        0.51}}``. A protocol has a table ``protocol`` in place of mechanism and algorithm. One table
        ``method`` is the interval to report, a list of tables the intervals to compute. Settings in the
        metadata of a file must agree with these settings.
    n : int, optional
        Required number of reports, in place of the number in the settings.
    adversarial_share : float in [0, 0.5)
        Share of users who may send any report that the mechanism or protocol can make. Intervals are widened
        by the most that such reports can shift them (docs/analyse.md has the conditions).

    Returns
    -------
    Analysis

    Raises
    ------
    InputError
        If settings are missing or wrong, or a file cannot be read.
    RowError
        At the first row that cannot be right.
    """
    opened = Joined.of(source)
    if isinstance(settings, (str, os.PathLike)):
        settings = read_settings(os.fspath(settings))
    if settings is not None and not isinstance(settings, Mapping):
        raise InputError("settings", settings, "a file, or tables of settings by name")
    given = dict(settings or {}) | ({} if n is None else {"n": n})
    collection = read_collection(with_stored_settings(opened, given))
    collection = replace(collection, adversarial_share=read_share(adversarial_share, collection))
    reader: type[PathReader | OneShotReader | RoundsReader] = PathReader
    if collection.protocol is not None:
        reader = RoundsReader if collection.protocol.kind == "rounds" else OneShotReader
    try:
        return reader(opened, collection).analysis()
    except RowError as error:
        raise error if error.place else error.at(*opened.find(error.row)) from None


def with_stored_settings(source: Joined, given: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the given settings with those in the metadata of all sources.

    Given settings of :data:`WISHES` replace those in the metadata. All others must agree.
    """
    found = dict(given)
    users: list[Any] = []
    for part in source.parts:
        text = part.settings()
        own = {} if text is None else parse_toml(text, f"settings in the metadata of {part.place}")
        users.append(own.pop("n", None))
        if "problem" in own:
            problem = dict.fromkeys(OF_THE_SCALE[:2]) | dict(read_table(own, "problem"))
            if "protocol" in own and read_table(given, "protocol").get("kind") != "rounds":
                # A histogram serves every tau.
                if "problem" in given:
                    problem = {name: problem[name] for name in OF_THE_SCALE if name in problem}
            own["problem"] = problem
        kept = {name: value for name, value in own.items() if name not in given or name not in WISHES}
        found = merge_settings(found, kept, part.place)
    if "n" not in given and all(isinstance(count, int) for count in users):
        found["n"] = sum(users)
    return found


WISHES = ("method", "level")
"""Settings that say what is computed, not what was collected."""

FEWEST = 1000
"""Fewest reports of an analysis."""

LARGEST_USERS = 10**7
"""Most rows whose users are compared."""


class ReportReader:
    """Reader of a transcript in chunks."""

    counts_of_answers: NDArray[np.int64] | None = None  # if there are finitely many different reports
    keep = math.nan  # probability of a true answer

    def __init__(self, source: Joined, collection: Collection) -> None:
        self.source = source
        self.collection = collection
        self.rows = source.offsets[-1]
        self.notes: list[str] = []
        if source.columns.ignored:
            self.notes.append(f"columns not used: {list_names(source.columns.ignored)}")
        if self.rows < FEWEST:
            self.check_n()
            raise InputError("rows", self.rows, f"at least {FEWEST:,} reports")
        self.users_compared = "user" in source.columns.optional and self.rows <= LARGEST_USERS

    def check_n(self) -> None:
        n, steps = self.collection.n, self.collection.steps
        if n is not None and steps(n) != steps(self.rows) and self.rows != self.collection.users_asked(n):
            hint = "Was a file cut off or added? If all reports that came are here, give their number as `n`."
            raise InputError("n", n, f"{self.rows}, the reports of the file", hint)

    def read(self) -> None:
        hashes = np.empty((self.rows, 2), np.uint64) if self.users_compared else None
        if hashes is None and "user" in self.source.columns.optional:
            self.notes.append(f"users are not compared: there are more than {LARGEST_USERS:,} rows")
        randomiser, rows = self.collection.randomiser, 0
        epsilon = getattr(randomiser, "epsilon", getattr(randomiser, "mu", None))
        for chunk in self.source.chunks():
            rows += len(chunk)
            if rows > self.rows:
                break
            fault = earliest(epsilon_error(chunk, epsilon), self.take(chunk))
            if fault is not None:
                raise fault
            if (counts := self.counts_of_answers) is not None:
                counts += np.bincount(chunk.reports[:, 0].astype(np.int64), minlength=len(counts))
            if hashes is not None:
                hashes[chunk.first - 1 : chunk.first - 1 + len(chunk)] = hash_users(chunk.users)
        if rows != self.rows:
            raise InputError("file", self.source.place, f"a file of {self.rows:,} reports, one a line")
        self.check_n()
        if hashes is not None:
            refuse_doubled(hashes, self.source)

    @abstractmethod
    def take(self, chunk: Chunk) -> RowError | None:
        """Count or fold a chunk. Return the error of its first row that cannot be right, or None."""

    def oddities(self) -> list[str]:
        return [] if (counts := self.counts_of_answers) is None else answer_oddities(counts, self.keep)

    def result(self, rows: list[Row], **own: Any) -> Analysis:
        for row in rows if self.collection.scale is not None else ():
            row.in_unit(self.collection.scale)
        return Analysis(
            rows=rows,
            users=self.rows,
            collection=self.collection,
            file=self.source.place,
            sha256=self.source.sha256(),
            files=len(self.source.parts),
            notes=self.notes,
            users_compared=self.users_compared,
            **own,
        )


def hash_users(users: pa.Array) -> NDArray[np.uint64]:
    """Hashes of 128 bits of m users, shape (m, 2)."""
    places = np.arange(len(users))
    if pa.types.is_dictionary(users.type):
        used, places = np.unique(users.indices.to_numpy(), return_inverse=True)
        users = users.dictionary.take(pa.array(used))
    names = [user if isinstance(user, bytes) else str(user).encode() for user in users.to_pylist()]
    digests = [hashlib.blake2b(name, digest_size=16).digest() for name in names]
    return np.frombuffer(b"".join(digests), np.uint64).reshape(-1, 2)[places]


def refuse_doubled(hashes: NDArray[np.uint64], source: Joined) -> None:
    """Refuse a user that reported twice. ``hashes``: those of all rows, shape (rows, 2)."""
    order = np.lexsort(hashes.T)
    equal = np.flatnonzero((hashes[order[1:]] == hashes[order[:-1]]).all(axis=1))
    if len(equal):
        earlier, later = min(zip(order[equal] + 1, order[equal + 1] + 1, strict=True), key=max)
        row, place = source.find(int(earlier))
        found = f"the user of row {row:,}" + (f" of {place}" if len(source.parts) > 1 else "")
        raise RowError(int(later), "user", found, "a user without an earlier report")


class CountsReader(ReportReader):
    """Reader of the reports of a protocol without a path."""

    defaults: Sequence[Inversion | Fieller]  # interval methods
    needed: tuple[str, ...] = ("round", "question")  # required columns
    used: tuple[str, ...] = ("epsilon", "user")  # optional columns
    answers = 2  # number of different reports
    widths: tuple[int, ...] = ()  # number of bits of a report by question, if it is a text of bits

    def __init__(self, source: Joined, collection: Collection) -> None:
        self.protocol, self.taus = cast(Any, collection.protocol), collection.taus
        texts = ("user", "report") if self.widths else ("user",)
        parts = tuple(replace(part, texts=texts, further=("question",)) for part in source.parts)
        super().__init__(Joined(parts), collection)
        columns = self.source.columns
        if columns.reports != ("report",):
            raise InputError("columns", columns.reports[-1], "one column report")
        for name in self.needed:
            if name not in columns.optional:
                raise InputError("columns", None, f"a column {name}, for {self.protocol.kind}")
        used = (*self.needed, *self.used)
        if unused := [name for name in (*columns.optional, *columns.thetas) if name not in used]:
            self.notes.append(f"columns not used: {', '.join(unused)}")
        if not self.widths:
            odds = self.protocol.budget().odds
            self.counts_of_answers = np.zeros(self.answers, np.int64)
            self.keep = odds / (odds + self.answers - 1.0)

    def analysis(self) -> Analysis:
        collection = self.collection
        asked: Sequence[Any] = collection.methods or self.defaults
        for method in asked:
            if not isinstance(method, type(self.defaults[0])):
                raise InputError("method", method.kind, f"{self.defaults[0].kind}, the protocol's interval")
        self.read()
        found, cdf = self.fold()
        truth = np.full(len(self.taus), math.nan)
        record = type(asked[0]).record(0, np.zeros(1, np.int64), truth, self.taus, found)
        oddities = self.oddities()
        rows = rows_of(record, collection.n or self.rows, asked, collection.levels)
        for row in rows:
            row["asked"] = True
            if collection.adversarial_share and row["lower"] is not None:
                z = constants.normal_quantile(0.5 + row["level"] / 2.0)
                tau, share = self.taus[row["coordinate"]], collection.adversarial_share
                limits = cast(Any, row.of).limits
                row.set_limits(*cast(Histograms, found).widened(tau, z, limits, share))
        first = [row for row in rows if row.of == asked[0] and row["level"] == collection.levels[0]]
        return self.result(
            rows,
            verdicts=[counts_verdict(row, bool(oddities)) for row in first],
            steps=self.protocol.interaction_rounds(),
            start=(),
            oddities=oddities,
            progress=EstimatedCdf(inverse(collection.scale, cdf[0]), cdf[1]),
        )

    @abstractmethod
    def fold(self) -> tuple[Histograms | Searches, tuple[Floats, Floats]]:
        """Estimate from the counts. The second result has points and the estimated cdf at them."""


class OneShotReader(CountsReader):
    """Reader of the reports of a protocol of one round. It counts them by question, bin or node."""

    defaults = (Inversion(), Inversion(limits="line"))

    def __init__(self, source: Joined, collection: Collection) -> None:
        protocol: Any = collection.protocol
        self.k = k = int(protocol.k)
        self.widths, self.answers = protocol.widths(k), protocol.reports(k)
        self.needed = ("question",) if protocol.public_coin else ()
        super().__init__(source, collection)
        self.asked, self.ones = np.zeros((2, self.protocol.questions(self.k)))

    def take(self, chunk: Chunk) -> RowError | None:
        found = []
        if self.needed:
            largest = len(self.widths) or self.k - 1
            found.append(whole_number_error(chunk, "question", chunk.questions, 1, largest))
        if self.widths:
            return earliest(*found, self.count_texts(chunk))
        reports_error = whole_number_error(chunk, "report", chunk.reports[:, 0], 0, self.answers - 1)
        fault = earliest(*found, reports_error)
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
        found, first = [], 0
        for level, width in enumerate(self.widths, start=1):
            among = np.ones(len(chunk), bool) if chunk.questions is None else chunk.questions == level
            bits, fault = read_bits(chunk, among, width)
            found.append(fault)
            self.asked[first : first + width] += among.sum()
            self.ones[first : first + width] += bits.sum(axis=0, dtype=np.int64)
            first += width
        return earliest(*found)

    def fold(self) -> tuple[Histograms, tuple[Floats, Floats]]:
        found = 2.0 * self.ones - self.asked if self.protocol.signs else self.ones
        histograms = fold_one_shot(self.protocol, self.k, self.asked, found, self.rows)
        return histograms, (histograms.edges[1:-1], histograms.values[0])

    def oddities(self) -> list[str]:
        """Sentences on odd shares, with at most three about ones at a question, bin or node."""
        found = super().oddities()
        if self.answers > 2:
            return found
        low, what = self.protocol.budget().flip, "bin or node" if self.widths else "question"
        names = [f"ones at {what} {q + 1}" for q in range(len(self.ones))]
        return found + odd_shares(names, self.ones, self.asked, low, 0.5 if self.widths else 1.0 - low)[:3]


IN_ORDER = "Rows are in the order of their rounds: sort those of several files into one."


class RoundsReader(CountsReader):
    """Reader of the reports of ``rounds``. It counts them by round and threshold."""

    defaults = (Fieller(),)
    used = ("theta", "epsilon", "user")

    def __init__(self, source: Joined, collection: Collection) -> None:
        super().__init__(source, collection)
        self.counts = np.zeros((self.protocol.rounds, FIRST, 2))
        self.turn = 0
        self.thresholds = np.full(FIRST, math.nan)

    def take(self, chunk: Chunk) -> RowError | None:
        last = np.maximum.accumulate(np.concatenate([[self.turn], chunk.rounds]))[:-1]
        follows = (chunk.rounds == np.maximum(last, 1)) | (chunk.rounds == last + 1)
        bad = ~follows | (chunk.rounds > self.protocol.rounds)
        wanted = f"{max(last[np.argmax(bad)], 1):g}, or the round after it up to {self.protocol.rounds}"
        fault = earliest(
            first_error(chunk, "round", chunk.rounds, bad, wanted, IN_ORDER),
            whole_number_error(chunk, "question", chunk.questions, 0, FIRST - 1),
            whole_number_error(chunk, "report", chunk.reports[:, 0], 0, 1),
        )
        # Before a fault there may be rows whose threshold does not follow from earlier rounds.
        rows = len(chunk) if fault is None else fault.row - chunk.first
        turns, questions = (values[:rows].astype(np.int64) for values in (chunk.rounds, chunk.questions))
        for turn in np.unique(turns).tolist():
            if turn != self.turn:
                self.thresholds = fold_rounds(self.protocol, self.taus[0], self.counts).last[turn - 1, :, 0]
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
        """Error of the first row in ``here`` whose threshold does not follow from earlier rounds, or None."""
        expected = self.thresholds[questions]
        least = f"a threshold of the round, from 0 to {np.isfinite(self.thresholds).sum() - 1}"
        fault = first_error(chunk, "question", chunk.questions, here & ~np.isfinite(expected), least)
        if chunk.thetas is None:
            return fault
        low, high = self.protocol.range
        thetas = chunk.thetas[: len(questions), 0]
        apart = here & (np.abs(thetas - expected) > TOLERANCE * (high - low))
        wanted = f"{float(expected[int(np.argmax(apart))])!r}, which follows from the rounds before"
        hint = f"An earlier row is missing, doubled or changed, or the design is another. {IN_ORDER}"
        return earliest(fault, first_error(chunk, "theta", thetas, apart, wanted, hint))

    def fold(self) -> tuple[Searches, tuple[Floats, Floats]]:
        if self.turn < self.protocol.rounds:
            raise InputError("round", self.turn, f"{self.protocol.rounds} in the last row")
        searches = fold_rounds(self.protocol, self.taus[0], self.counts)
        x, asked, ones = searches.last[searches.last[:, :, 1] > 0.0].T
        order, b = np.argsort(x), self.protocol.budget()
        return searches, (x[order], ((ones / asked - b.flip) / b.gap)[order])


def read_bits(
    chunk: Chunk, among: NDArray[np.bool_], width: int
) -> tuple[NDArray[np.uint8], RowError | None]:
    """Bits of the rows ``among``, shape (rows, width), and the error of the first text that is wrong."""
    rows = np.flatnonzero(among)
    texts = chunk.texts.take(rows)
    right = pc.and_(pc.match_substring_regex(texts, r"\A[01]*\z"), pc.equal(pc.binary_length(texts), width))
    wrong = pc.index(right, False).as_py()
    if wrong < 0:
        return np.frombuffer(b"".join(texts.to_pylist()), np.uint8).reshape(-1, width) - ord("0"), None
    shown = texts[wrong].as_py().decode("utf-8", "backslashreplace")
    found = shown if len(shown) <= 40 else f"{shown[:40]}..."
    error = RowError(chunk.first + int(rows[wrong]), "report", found, f"a text of {width} digits 0 and 1")
    return np.empty((0, width), np.uint8), error


class PathReader(ReportReader):
    def __init__(self, source: Joined, collection: Collection) -> None:
        super().__init__(source, collection)
        self.d = dimension_of(source, collection)
        self.algorithm = cast(Algorithm, collection.algorithm)
        self.size = self.algorithm.records_per_step()
        self.factors = self.algorithm.step_factors() or (1.0,) * self.d
        if len(self.factors) != self.d:
            allowed = f"{self.d} numbers, or one for all coordinates"
            raise InputError("algorithm.c", list(self.factors), allowed)
        if self.rows % self.size:
            self.check_n()
            raise InputError("rows", self.rows, f"a multiple of batch_size = {self.size}")
        self.start = self.first_theta()
        self.origin = self.vector("origin", collection.origin) or self.start
        several = collection.problem == "quantiles"
        problem = UnknownLaw(d=self.d, taus=collection.taus, several=several)
        mechanism: Any = collection.mechanism
        self.path = CollectedPath(problem, mechanism, self.algorithm, name=collection.path)
        self.methods = Methods(self.path, self.collection)
        self.answers = answers_of(self.path)
        if self.answers is not None:
            self.counts_of_answers = np.zeros(len(self.answers), np.int64)
            self.keep = mechanism.kernel_parameters(problem)["keep"]

    def vector(self, name: str, values: tuple[float, ...] | None) -> tuple[float, ...] | None:
        if values is None:
            return None
        if len(values) not in (1, self.d):
            raise InputError(name, list(values), f"{self.d} numbers, or one for all coordinates")
        return values if len(values) == self.d else values * self.d

    def first_theta(self) -> tuple[float, ...]:
        given = self.vector("algorithm.theta0", self.collection.start)
        if given is None:
            return tuple(cast(Floats, next(self.source.chunks()).thetas)[0].tolist())
        if len(self.collection.taus) > 1 and list(given) != sorted(given):
            raise InputError("algorithm.theta0", list(given), "numbers that do not decrease")
        return given

    def analysis(self) -> Analysis:
        steps = self.rows // self.size
        self.methods.check(steps)
        methods, levels = self.methods.all, self.collection.levels
        cells = tuple(Cell(self.rows, method, level) for method in methods for level in levels)
        request = PathRequest(cells, path=self.path)
        trace = np.unique(np.geomspace(1, steps, TRACE_POINTS).astype(np.int64))
        times = sorted({*request.times, *trace.tolist()})
        origin, start = np.array(self.origin), np.array(self.start)
        self.fold = Fold(self.path, times, request.marked, request.sums, origin, start)
        self.read()
        record = self.fold.record(self.collection.seed, self.collection.replicate)
        oddities = self.oddities()
        c, gamma = self.algorithm.step_constant(), self.algorithm.step_exponent()
        length = c * steps ** (1.0 - gamma) / (1.0 - gamma)
        with np.errstate(all="ignore"):
            rows = rows_of(record, self.collection.n or self.rows, methods, levels)
            for row in rows:
                row["asked"] = row.of in self.methods.asked
            if self.collection.adversarial_share:
                self.widen(record, rows)
            verdicts = [self.verdict(record, rows, j, bool(oddities)) for j in range(self.d)]
            reported = [v.reported.of for v in verdicts if v.reported is not None]
            for row in rows:
                row["asked"] |= row.of in reported
            slopes = [v.relaxation_times / (f * length) for v, f in zip(verdicts, self.factors, strict=True)]
            self.notes += self.methods.notes(slopes, self.rows)
        scale, at = self.collection.scale, np.searchsorted(record.times, trace)
        averages = np.array(self.origin) + record.prefix_sums[at][:, :, 0] / trace[:, None]
        iterates = record.iterates[at][:, :, 0]
        return self.result(
            rows,
            verdicts=verdicts,
            steps=steps,
            start=self.start,
            oddities=oddities,
            progress=EstimatesAlongRun(trace, inverse(scale, averages), inverse(scale, iterates)),
        )

    def take(self, chunk: Chunk) -> RowError | None:
        found, gradients, thetas = [], chunk.reports, cast(Floats, chunk.thetas)
        with np.errstate(all="ignore"):
            if self.answers is not None:
                places, largest = gradients[:, 0], len(self.answers) - 1
                found.append(whole_number_error(chunk, "report", places, 0, largest))
                # Reports that cannot be right are clipped, and refused.
                gradients = np.take(self.answers, places.astype(np.int64), axis=0, mode="clip")
            if chunk.rounds is not None:
                numbers = 1 + np.arange(chunk.first - 1, chunk.first - 1 + len(chunk)) // self.size
                bad = chunk.rounds != numbers
                hint = "Rows are missing before it, counted twice, or in another order."
                allowed = str(numbers[np.argmax(bad)])
                found.append(first_error(chunk, "round", chunk.rounds, bad, allowed, hint))
            if (wrong := self.fold.add(gradients, thetas)) is not None:
                found.append(theta_error(chunk.first + wrong[0], thetas, wrong, self.fold.last))
        return earliest(*found)

    def verdict(self, record: PathRecord, rows: list[Row], j: int, odd: bool) -> Verdict:
        level = self.collection.levels[0]
        own = {row.of: row for row in rows if row["coordinate"] == j and row["level"] == level}
        steps = self.rows // self.size
        return verdict_of(
            fits=[own[method] for method in self.methods.fits],
            asked=[row for row in own.values() if row["asked"]],
            planned=None if self.methods.planned is None else own[self.methods.planned],
            average=self.origin[j] + float(record.sums_at(np.array([steps]))[0, j, 0]) / steps,
            theta0=self.start[j],
            c=self.algorithm.step_constant() * self.factors[j],
            gamma=self.algorithm.step_exponent(),
            steps=steps,
            odd=odd,
        )

    def widen(self, record: PathRecord, rows: list[Row]) -> None:
        """Widen all rows for adversarial users.

        A share of such users moves the mean of the private gradients by at most this share times the smallest
        or largest one. A regression of one coordinate computes its limits under this shift. The limits of
        other methods move by as much as those of the recommended regression.
        """
        assert self.answers is not None
        share, fits = self.collection.adversarial_share, self.methods.fits
        low, high = share * self.answers.min(axis=0), share * self.answers.max(axis=0)
        honest = {(row.of, row["level"], row["coordinate"]): copy(row) for row in rows}
        for row in rows:
            level, j, own = row["level"], row["coordinate"], row.of
            together = self.d > 1 and not getattr(own, "separate", False)
            if not isinstance(own, TranscriptRegression) or together:
                own = fits[-1 if is_significant(honest[fits[0], level, j]) else 0]
            assert isinstance(own, TranscriptRegression)
            limits = own.limits_under_shift(record, row["n"], [level], j, float(low[j]), float(high[j]))
            lower, upper = (
                nan_for_none(row[name]) + float(limit[0, 0]) - nan_for_none(honest[own, level, j][name])
                for name, limit in zip(("lower", "upper"), limits, strict=True)
            )
            row.set_limits(lower, upper)


def dimension_of(source: Joined, collection: Collection) -> int:
    """Number of coordinates of theta, from the columns. Settings must agree with it."""
    columns, taus = source.columns, collection.taus
    one_cell = collection.mechanism is not None and collection.mechanism.kind == "cells"
    if one_cell and len(columns.reports) > 1:
        raise InputError("columns", columns.reports[1], "one column report, the number of the cell")
    d = len(taus) if one_cell else len(columns.reports)
    if len(columns.thetas) != d:
        names = [f"theta_{j}" for j in range(d)]
        wanted = "a column theta" if d == 1 else f"the columns {', '.join(names)}"
        hint = "The collector writes it: what this user was asked."
        raise InputError("columns", ", ".join(columns.thetas) or None, wanted, hint)
    if taus and len(taus) != d:
        raise InputError("columns", f"{d} of reports", f"{len(taus)}, one for each tau")
    return d
