"""From a transcript to intervals: read, check, fold, and ask the interval methods."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpflow.algorithms import Algorithm
from ldpflow.errors import InputError
from ldpflow.intervals import IntervalMethod
from ldpflow.intervals.record import PathRecord
from ldpflow.transcripts.checks import LARGEST_USERS, Checks, Meaning, Users
from ldpflow.transcripts.collection import Collection, merged, read_collection
from ldpflow.transcripts.faults import RowError
from ldpflow.transcripts.fold import Fold, Folded
from ldpflow.transcripts.plausibility import Answers, Moments, Plausibility
from ldpflow.transcripts.reading import CHUNK, Transcript
from ldpflow.transcripts.record import (
    Collected,
    UnknownLaw,
    default_methods,
    needed,
    regressions,
    settled,
    unusable,
)
from ldpflow.transcripts.result import Analysis, Progress
from ldpflow.transcripts.rows import Row, rows_of
from ldpflow.transcripts.verdict import Verdict, verdict_of

__all__ = ["FEWEST", "analyse"]

FEWEST = 1000
TRACE_POINTS = 240

Floats = NDArray[np.float64]


def analyse(source: object, settings: Mapping[str, Any] | None = None, chunk: int = CHUNK) -> Analysis:
    """Intervals from private reports that were really collected.

    The reports are private already: this is post-processing, and sees no value of any user.

    Parameters
    ----------
    source : path, pyarrow.Table, data frame or mapping of columns
        Columns ``report`` and ``theta`` (what the user was asked), or ``report_0, ...`` and ``theta_0, ...``;
        optional ``step``, ``epsilon``, ``round``, ``user``. Files are read in chunks.
    settings : mapping, optional
        As in TOML: ``{"problem": {"kind": "quantile", "tau": 0.9}, "mechanism": {"kind":
        "randomized_response", "epsilon": 1.0}, "algorithm": {"c": 40.0, "gamma": 0.51}}``. Settings in the
        file's metadata must agree with them.
    chunk : int
        Rows at a time; no result depends on it.

    Returns
    -------
    Analysis

    Raises
    ------
    InputError
        If settings are missing or impossible.
    RowError
        At the first row that cannot be right.
    """
    opened = Transcript.of(source)
    stored = opened.settings()
    tables = merged(settings or {}, tomllib.loads(stored) if stored else {}, "the file")
    return Reader(opened, read_collection(tables), chunk).analysis()


class Reader:
    """One pass through a transcript."""

    def __init__(self, source: Transcript, collection: Collection, chunk: int) -> None:
        self.source = source
        self.chunk = chunk
        self.d = dimension_of(source, collection)
        self.rows = source.rows
        self.first = next(source.chunks(min(FEWEST, chunk) if chunk > 1 else 2), None)
        self.notes: list[str] = []
        if source.columns.ignored:
            self.notes.append("columns not used: " + ", ".join(source.columns.ignored))
        self.collection = self.completed(collection)
        assert self.collection.algorithm is not None
        self.algorithm: Algorithm = self.collection.algorithm
        self.check_size()
        self.origin = self.vector("origin", self.collection.origin) or self.start()
        several = self.collection.problem == "quantiles"
        problem = UnknownLaw(d=self.d, taus=self.collection.taus, several=several)
        mechanism = self.collection.mechanism
        self.made = Collected(problem, mechanism, self.algorithm, self.collection.path)
        self.meaning = self.meaning_of()

    def completed(self, collection: Collection) -> Collection:
        """The collection with gamma and c read off the column ``step`` where they were not given."""
        if collection.algorithm is not None:
            return collection
        if "step" not in self.source.columns.optional or self.first is None or len(self.first) < 2:
            hint = "Or a column step with the sizes of all steps."
            raise InputError("algorithm.c", None, "c and gamma of the steps c i^-gamma", hint)
        steps = self.first.steps
        assert steps is not None
        if not 0 < steps[1] < steps[0]:
            raise InputError("step", steps[:2].tolist(), "step sizes c i^-gamma, which fall")
        gamma = round(math.log2(float(steps[0]) / float(steps[1])), 9)
        own: dict[str, object] = {"kind": "ldp_sgd", "c": float(steps[0]), "gamma": gamma}
        if collection.start is not None:
            own["theta0"] = collection.start
        self.notes.append(f"read off the column step: c = {own['c']!r}, gamma = {gamma!r}")
        return collection.with_algorithm(own)

    def check_size(self) -> None:
        """Refuse a transcript that is too short, or whose last round is not complete."""
        if self.rows < FEWEST:
            raise InputError("rows", self.rows, f"at least {FEWEST:,} reports")
        size = self.collection.batch_size
        if self.rows % size:
            hint = "The last round is not complete: leave its rows out."
            raise InputError("rows", self.rows, f"a multiple of batch_size = {size}", hint)
        n = self.collection.n
        if n is not None and self.algorithm.steps(n) != self.algorithm.steps(self.rows):
            raise InputError("n", n, f"{self.rows}, the reports of the file")
        if not self.source.columns.thetas and self.collection.start is None:
            hint = "Without a column theta it follows from theta0 and the reports."
            raise InputError("algorithm.theta0", None, "the start theta0", hint)

    def vector(self, name: str, values: tuple[float, ...] | None) -> tuple[float, ...] | None:
        """One value for every coordinate."""
        if values is None:
            return None
        if len(values) not in (1, self.d):
            raise InputError(name, list(values), f"{self.d} numbers, or one for all coordinates")
        return values if len(values) == self.d else values * self.d

    def start(self) -> tuple[float, ...]:
        """theta_0."""
        if self.collection.start is not None:
            return (self.collection.start,) * self.d
        assert self.first is not None and self.first.thetas is not None
        return tuple(self.first.thetas[0].tolist())

    def meaning_of(self) -> Meaning:
        """The private gradient that a report stands for."""
        mechanism, problem = self.made.mechanism, self.made.problem
        if mechanism.kind == "randomized_response":
            values: Any = mechanism.kernel_parameters(problem)
            return Meaning(((values["zero"],), (values["one"],)))
        if mechanism.kind == "cells":
            values = mechanism.kernel_parameters(problem)
            # In cell k the value lies below theta_k, theta_(k+1), ...
            pairs = list(zip(values["above"], values["below"], strict=True))
            cells = range(self.d + 1)
            return Meaning(tuple(tuple(pair[k <= j] for j, pair in enumerate(pairs)) for k in cells))
        return Meaning(None)

    def plausibility(self) -> Plausibility:
        """Expected range and law of the reports."""
        mechanism, problem = self.made.mechanism, self.made.problem
        if self.meaning.values is not None:
            parameters: Any = mechanism.kernel_parameters(problem)
            return Answers(parameters["keep"], len(self.meaning.values))
        if mechanism.kind == "none":
            return Plausibility()
        variance = mechanism.noise_covariance(problem)[0][0]
        return Moments(variance) if math.isfinite(variance) else Plausibility()

    def checks(self) -> Checks:
        """The checks of this collection."""
        thetas = bool(self.source.columns.thetas)
        return Checks(
            meaning=self.meaning,
            epsilon=getattr(self.made.mechanism, "epsilon", getattr(self.made.mechanism, "mu", None)),
            c=self.algorithm.step_constant(),
            gamma=self.algorithm.step_exponent(),
            batch_size=self.collection.batch_size,
            start=None if self.collection.start is None else self.start(),
            final=self.vector("algorithm.final_theta", self.collection.final) if thetas else None,
            ordered=self.collection.ordered,
        )

    def methods(self) -> tuple[tuple[IntervalMethod, ...], tuple[IntervalMethod, ...]]:
        """The requested methods, and the regressions that the verdict needs."""
        levels = self.collection.levels
        asked = self.collection.methods or default_methods(self.made, levels)
        for method in asked:
            reason = unusable(method, self.made, levels)
            if reason is not None:
                raise InputError("method", method.kind, "a method that a transcript is enough for", reason)
            warning = method.unsuitable(self.made)
            if warning is not None:
                self.notes.append(warning)
        asked, changed = settled(asked, self.made)
        if changed:
            self.notes.append(
                "the regressions take the residual variance: the variance of a report is known for "
                "randomised response of quantiles alone"
            )
        own, _ = settled(regressions(self.d), self.made)
        return asked, tuple(method for method in own if method not in asked)

    def analysis(self) -> Analysis:
        """Read the file and ask the methods."""
        asked, beside = self.methods()
        steps = self.algorithm.steps(self.rows)
        fractions = sorted({steps >> k for k in range(7) if steps >> k >= FEWEST} | {steps})
        everything = (*asked, *beside)
        times, marked, sums = needed(everything, self.algorithm, self.d, [steps])
        fits = [method for method in everything if method.kind == "TR"]
        extra = needed(fits, self.algorithm, self.d, fractions)
        trace = np.unique(np.geomspace(1, steps, TRACE_POINTS).astype(np.int64)).tolist()
        times = sorted({*times, *extra[0], *trace})
        marked = sorted({*marked, *extra[1]})
        sums = sorted({*sums, *extra[2]})
        folded, oddities = self.folded(times, marked, sums)
        record = self.record(folded)
        with np.errstate(all="ignore"):
            n = self.collection.n or self.rows
            rows = rows_of(record, n, asked, self.collection.levels, True)
            rows += rows_of(record, n, beside, self.collection.levels, False)
            for place, row in enumerate(rows):
                row["place"] = place
            verdicts = [self.verdict(record, rows, j, steps, bool(oddities)) for j in range(self.d)]
            progress = self.progress(record, trace, fractions, rows, verdicts, everything)
        return Analysis(
            rows=rows,
            verdicts=verdicts,
            users=self.rows,
            steps=steps,
            collection=self.collection,
            algorithm=self.algorithm,
            file=self.source.place,
            sha256=self.source.sha256(),
            oddities=oddities,
            notes=self.notes,
            progress=progress,
            users_compared="user" in self.source.columns.optional and self.rows <= LARGEST_USERS,
        )

    def folded(
        self, times: Sequence[int], marked: Sequence[int], sums: Sequence[str]
    ) -> tuple[Folded, list[str]]:
        """One pass: check and fold every chunk."""
        checks = self.checks()
        odd = self.plausibility()
        users = None
        if "user" in self.source.columns.optional:
            if self.rows <= LARGEST_USERS:
                users = Users(self.rows)
            else:
                self.notes.append(f"users are compared up to {LARGEST_USERS:,} rows: not here")
        fold = Fold(
            self.d,
            times,
            marked,
            sums,
            np.array(self.origin),
            np.array(self.start()),
            self.algorithm.step_constant(),
            self.algorithm.step_exponent(),
            self.collection.batch_size,
            self.collection.ordered,
        )
        for chunk in self.source.chunks(self.chunk):
            checks.look(chunk)
            if checks.hopeless:
                break
            if checks.sound:
                fold.add(self.meaning.gradients(chunk.reports), chunk.thetas, chunk.steps)
                odd.add(chunk)
                if users is not None:
                    users.add(chunk)
        checks.finish(self.rows)
        if users is not None:
            self.refuse_doubled(users)
        given = self.vector("algorithm.final_theta", self.collection.final)
        folded = fold.finish(None if given is None else np.array(given))
        return folded, odd.oddities()

    def refuse_doubled(self, users: Users) -> None:
        """Refuse a transcript with several reports of one user."""
        suspects = users.suspects()[:1000]
        if not suspects:
            return
        rows = {row for pair in suspects for row in pair}
        names: dict[int, object] = {}
        for chunk in self.source.chunks(self.chunk):
            names |= {
                row: chunk.users[row - chunk.first].as_py()
                for row in rows
                if chunk.first <= row < chunk.first + len(chunk)
            }
        for earlier, later in suspects:
            if names[earlier] == names[later]:
                raise RowError(
                    later, "user", names[later], "a user without an earlier report",
                    f"Row {earlier:,} is of the same user.",
                )  # fmt: skip

    def record(self, folded: Folded) -> PathRecord:
        """The record that interval methods take."""
        return PathRecord(
            seed=self.collection.seed,
            replicates=np.array([self.collection.replicate], dtype=np.int64),
            source=self.made,
            times=folded.times,
            origin=np.array(self.origin),
            prefix_sums=folded.prefix_sums,
            iterates=folded.iterates,
            running_sums=folded.running_sums,
            marked_times=folded.marked_times,
        )

    def verdict(self, record: PathRecord, rows: list[Row], j: int, steps: int, odd: bool) -> Verdict:
        """Flags of one coordinate."""
        level = self.collection.levels[0]
        own = [row for row in rows if row["coordinate"] == j and row["level"] == level]
        recommended, _ = settled(regressions(self.d), self.made)
        fits = [
            next(row for row in own if row["settings"] == method.model_dump_json()) for method in recommended
        ]
        average = self.origin[j] + float(record.sums_at(np.array([steps]))[0, j, 0]) / steps
        c, gamma = self.algorithm.step_constant(), self.algorithm.step_exponent()
        asked = [row for row in own if row["asked"]]
        return verdict_of(fits, asked, average, self.start()[j], c, gamma, steps, odd)

    def progress(
        self,
        record: PathRecord,
        trace: Sequence[int],
        fractions: Sequence[int],
        rows: list[Row],
        verdicts: list[Verdict],
        methods: Sequence[IntervalMethod],
    ) -> Progress:
        """Averages, iterates and the reported regression along the run."""
        at = np.searchsorted(record.times, trace)
        sums = record.prefix_sums[at][:, :, 0]
        steps = np.array(trace, dtype=np.int64)
        chosen = [rows[v.reported] for v in verdicts if v.reported is not None]
        settings = {row["settings"] for row in chosen if row["method"] == "TR"}
        fits: list[Row] = []
        for method in methods:
            if method.kind == "TR" and (method.model_dump_json() in settings):
                size = self.collection.batch_size
                for end in fractions:
                    fits += rows_of(record, end * size, [method], self.collection.levels[:1], True)
        return Progress(
            steps, np.array(self.origin) + sums / steps[:, None], record.iterates[at][:, :, 0], fits
        )


def dimension_of(source: Transcript, collection: Collection) -> int:
    """Coordinates of theta, of which the columns and the settings must agree.

    Raises
    ------
    InputError
        Naming what does not.
    """
    columns, taus = source.columns, collection.taus
    one_cell = collection.mechanism.kind == "cells"
    if one_cell and len(columns.reports) > 1:
        raise InputError("columns", columns.reports[1], "one column report, the number of the cell")
    d = len(taus) if one_cell else len(columns.reports)
    if columns.thetas and len(columns.thetas) != d:
        found = f"{len(columns.thetas)} of theta"
        allowed = f"{d}, one for each of " + ("the taus" if one_cell else "the reports")
        raise InputError("columns", found, allowed)
    if taus and len(taus) != d:
        raise InputError("columns", f"{d} of reports", f"{len(taus)}, one for each tau")
    return d
