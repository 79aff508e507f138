"""Intervals from a transcript: read, check, fold, and ask the interval methods."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldpflow.components.algorithms import Algorithm
from ldpflow.components.intervals import IntervalMethod
from ldpflow.components.intervals.record import PathRecord
from ldpflow.documents import parse_toml
from ldpflow.errors import InputError
from ldpflow.practice.transcripts.checks import AnswerCounts, Checks, Moments, gradients_of
from ldpflow.practice.transcripts.collection import Collection, merge_settings, read_collection
from ldpflow.practice.transcripts.fold import CollectedPath, Fold, UnknownLaw
from ldpflow.practice.transcripts.methods import Methods, Row, rows_of
from ldpflow.practice.transcripts.reading import CHUNK, Chunk, RowError, Transcript, list_names
from ldpflow.practice.transcripts.result import Analysis, EstimatesAlongRun, Verdict, verdict_of
from ldpflow.simulators.one_pass import PathRequest
from ldpflow.simulators.simulator import Cell
from ldpflow.study.entry import read_component

Floats = NDArray[np.float64]

FEWEST = 1000
"""Fewest reports."""

TRACE_POINTS = 240
"""Steps at which the estimates along the run are kept."""

LARGEST_USERS = 10**7
"""Largest number of rows whose users are compared."""


def analyse(source: object, settings: Mapping[str, Any] | None = None, chunk: int = CHUNK) -> Analysis:
    """Intervals from private reports that were really collected.

    The reports are private already: this is post-processing, and sees no value of any user.

    Parameters
    ----------
    source : path, pyarrow.Table, data frame or mapping of columns
        Columns ``report`` and ``theta`` (the question to the user), or ``report_0, ...``, ``theta_0, ...``;
        optional ``step``, ``epsilon``, ``round``, ``user``. Files are read in chunks.
    settings : mapping, optional
        As in TOML: ``{"problem": {"kind": "quantile", "tau": 0.9}, "mechanism": {"kind":
        "randomized_response", "epsilon": 1.0}, "algorithm": {"c": 40.0, "gamma": 0.51}}``. Settings in the
        file's metadata must agree with them. ``n`` is the number of reports that the file must have, a list
        ``method`` the rows that are wanted, and one table ``method`` the interval to report.
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
    if settings is not None and not isinstance(settings, Mapping):
        raise InputError("settings", settings, "tables of settings, by name")
    tables = merge_settings(settings or {}, stored_settings(opened), "the file")
    return ReportReader(opened, read_collection(tables), chunk).analysis()


def stored_settings(source: Transcript) -> dict[str, Any]:
    text = source.settings()
    try:
        return {} if text is None else parse_toml(text, "file", source.place)
    except InputError as error:
        allowed = f"settings in its metadata that are {error.allowed}"
        raise InputError("file", source.place, allowed, error.hint) from None


class ReportReader:
    def __init__(self, source: Transcript, collection: Collection, chunk: int) -> None:
        self.source = source
        self.chunk = chunk
        self.d = dimension_of(source, collection)
        self.rows = source.rows
        self.first = next(source.chunks(2), None)
        self.notes: list[str] = []
        if source.columns.ignored:
            self.notes.append(f"columns not used: {list_names(source.columns.ignored)}")
        self.algorithm = collection.algorithm or self.read_algorithm(collection)
        self.collection = replace(collection, algorithm=self.algorithm)
        self.c, self.gamma = self.algorithm.step_constant(), self.algorithm.step_exponent()
        self.check_size()
        self.start = self.first_theta()
        self.origin = self.vector("origin", collection.origin) or self.start
        several = collection.problem == "quantiles"
        problem = UnknownLaw(d=self.d, taus=collection.taus, several=several)
        self.path = CollectedPath(problem, collection.mechanism, self.algorithm, collection.path)
        self.methods = Methods(self.path, self.collection)
        self.answers = answers_of(self.path)

    def read_algorithm(self, collection: Collection) -> Algorithm:
        if "step" not in self.source.columns.optional or self.first is None or len(self.first) < 2:
            hint = "Or a column step with the sizes of all steps."
            raise InputError("algorithm.c", None, "c and gamma of the steps c i^-gamma", hint)
        steps = self.first.steps
        assert steps is not None
        if not 0 < steps[1] < steps[0]:
            raise InputError("step", steps[:2].tolist(), "step sizes c i^-gamma, which fall")
        gamma = round(math.log2(float(steps[0]) / float(steps[1])), 9)
        settings: dict[str, object] = {"kind": "ldp_sgd", "c": float(steps[0]), "gamma": gamma}
        if collection.start is not None and len(set(collection.start)) == 1:
            settings["theta0"] = collection.start[0]
        self.notes.append(f"read off the column step: c = {settings['c']!r}, gamma = {gamma!r}")
        return cast(Algorithm, read_component("algorithm", settings))

    def check_size(self) -> None:
        size = self.algorithm.records_per_step()
        if self.rows < FEWEST or self.rows % size:
            self.check_n()
        if self.rows < FEWEST:
            raise InputError("rows", self.rows, f"at least {FEWEST:,} reports")
        if self.rows % size:
            hint = "The last round is not complete: leave its rows out."
            raise InputError("rows", self.rows, f"a multiple of batch_size = {size}", hint)
        if not self.source.columns.thetas and self.collection.start is None:
            hint = "Without a column theta it follows from theta0 and the reports."
            raise InputError("algorithm.theta0", None, "the start theta0", hint)

    def check_n(self) -> None:
        n, steps = self.collection.n, self.algorithm.steps
        if n is not None and steps(n) != steps(self.rows):
            short = "Was the file cut off?" if n > self.rows else "Was another file joined to it?"
            raise InputError("n", n, f"{self.rows}, the reports of the file", short)

    def vector(self, name: str, values: tuple[float, ...] | None) -> tuple[float, ...] | None:
        if values is None:
            return None
        if len(values) not in (1, self.d):
            raise InputError(name, list(values), f"{self.d} numbers, or one for all coordinates")
        return values if len(values) == self.d else values * self.d

    def first_theta(self) -> tuple[float, ...]:
        given = self.vector("algorithm.theta0", self.collection.start)
        if given is None:
            assert self.first is not None and self.first.thetas is not None
            return tuple(self.first.thetas[0].tolist())
        if len(self.collection.taus) > 1 and list(given) != sorted(given):
            hint = "Quantiles of one value are in the order of their levels."
            raise InputError("algorithm.theta0", list(given), "numbers that do not decrease", hint)
        return given

    def analysis(self) -> Analysis:
        steps, size = self.algorithm.steps(self.rows), self.algorithm.records_per_step()
        self.methods.check(steps)
        self.notes += self.methods.notes()
        methods, levels = self.methods.all, self.collection.levels
        regressions = [method for method in methods if method.kind == "TR"]
        fractions = sorted({steps >> k for k in range(7) if steps >> k >= FEWEST} | {steps})
        wanted = [(steps, method) for method in methods]
        wanted += [(end, method) for end in fractions for method in regressions]
        cells = tuple(Cell(end * size, method, level) for end, method in wanted for level in levels)
        request = PathRequest(cells, path=cast(Any, self.path))
        trace = np.unique(np.geomspace(1, steps, TRACE_POINTS).astype(np.int64)).tolist()
        record, oddities = self.read(request, trace)
        length = self.c * steps ** (1.0 - self.gamma) / (1.0 - self.gamma)
        with np.errstate(all="ignore"):
            rows = rows_of(record, self.collection.n or self.rows, methods, levels)
            for place, row in enumerate(rows):
                row |= {"place": place, "asked": row["of"] in self.methods.asked}
            verdicts = [self.verdict(record, rows, j, bool(oddities)) for j in range(self.d)]
            reported = [rows[v.reported]["of"] for v in verdicts if v.reported is not None]
            for row in rows:
                row["asked"] |= row["of"] in reported
            self.notes += self.methods.cautions([v.relaxation_times / length for v in verdicts], self.rows)
            fits = [
                row
                for method in regressions
                if method in reported
                for end in fractions
                for row in rows_of(record, end * size, [method], levels[:1])
            ]
        at = np.searchsorted(record.times, trace)
        averages = np.array(self.origin) + record.prefix_sums[at][:, :, 0] / np.array(trace)[:, None]
        return Analysis(
            rows=rows,
            verdicts=verdicts,
            users=self.rows,
            steps=steps,
            collection=self.collection,
            algorithm=self.algorithm,
            start=self.start,
            file=self.source.place,
            sha256=self.source.sha256(),
            oddities=oddities,
            notes=self.notes,
            progress=EstimatesAlongRun(np.array(trace), averages, record.iterates[at][:, :, 0], fits),
            users_compared="user" in self.source.columns.optional and self.rows <= LARGEST_USERS,
        )

    def read(self, request: PathRequest, trace: Sequence[int]) -> tuple[PathRecord, list[str]]:
        """Check and fold every chunk: the record, and the oddities of the reports."""
        mechanism, collection = self.path.mechanism, self.collection
        final = self.vector("algorithm.final_theta", collection.final)
        checks = Checks(
            answers=self.answers,
            epsilon=getattr(mechanism, "epsilon", getattr(mechanism, "mu", None)),
            c=self.c,
            gamma=self.gamma,
            batch_size=self.algorithm.records_per_step(),
            start=None if collection.start is None else self.start,
            final=final,
            ordered=self.path.problem.ordered,
        )
        odd = plausibility_of(self.path, self.answers)
        users = None
        if "user" in self.source.columns.optional:
            if self.rows <= LARGEST_USERS:
                users = Users(self.rows)
            else:
                self.notes.append(f"users are compared up to {LARGEST_USERS:,} rows: not here")
        times = sorted({*request.times, *trace})
        origin, start = np.array(self.origin), np.array(self.start)
        fold = Fold(self.path, times, request.marked, request.sums, origin, start)
        rows = 0
        for chunk in self.source.chunks(self.chunk):
            rows += len(chunk)
            checks.check(chunk)
            if rows > self.rows:
                break
            with np.errstate(all="ignore"):
                fold.add(gradients_of(chunk.reports, self.answers), chunk.thetas, chunk.steps)
                if odd is not None:
                    odd.add(chunk)
            if users is not None:
                users.add(chunk)
        if rows != self.rows:
            raise InputError("file", self.source.place, f"a file of {self.rows:,} reports, one a line")
        self.check_n()
        checks.finish(self.rows, fold.last)
        last = np.array(final) if final is not None and self.source.columns.thetas else None
        record = fold.record(last, collection.seed, collection.replicate)
        if users is not None:
            users.refuse_doubled()
        return record, [] if odd is None else odd.oddities()

    def verdict(self, record: PathRecord, rows: list[Row], j: int, odd: bool) -> Verdict:
        level = self.collection.levels[0]
        own = [row for row in rows if row["coordinate"] == j and row["level"] == level]
        steps = self.algorithm.steps(self.rows)

        def row_of(method: IntervalMethod) -> Row:
            return next(row for row in own if row["of"] == method)

        return verdict_of(
            fits=[row_of(method) for method in self.methods.fits],
            asked=[row for row in own if row["asked"]],
            planned=None if self.methods.planned is None else row_of(self.methods.planned),
            average=self.origin[j] + float(record.sums_at(np.array([steps]))[0, j, 0]) / steps,
            theta0=self.start[j],
            c=self.c,
            gamma=self.gamma,
            steps=steps,
            odd=odd,
        )


def dimension_of(source: Transcript, collection: Collection) -> int:
    """Number of coordinates of theta, on which columns and settings must agree."""
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


def answers_of(path: CollectedPath) -> Floats | None:
    """A_i by coordinate for a report of 0, 1, ..., shape (k, d); None if the report is A_i itself."""
    mechanism = path.mechanism
    if mechanism.kind not in ("randomized_response", "cells"):
        return None
    values: Any = mechanism.kernel_parameters(path.problem)
    if mechanism.kind == "randomized_response":
        return np.array([[values["zero"]], [values["one"]]])
    # In cell k the value lies below theta_k, theta_(k+1), ...
    d = path.dimension
    result: Floats = np.where(np.arange(d + 1)[:, None] <= np.arange(d), values["below"], values["above"])
    return result


def plausibility_of(path: CollectedPath, answers: Floats | None) -> AnswerCounts | Moments | None:
    """Test of whether reports look like the mechanism's, or None if their law is not known."""
    mechanism = path.mechanism
    if answers is not None:
        parameters: Any = mechanism.kernel_parameters(path.problem)
        return AnswerCounts(parameters["keep"], len(answers))
    variance = math.nan if mechanism.kind == "none" else mechanism.noise_covariance(path.problem)[0][0]
    return Moments(variance) if math.isfinite(variance) else None


class Users:
    """Users that reported twice, found by hashes of 128 bits."""

    def __init__(self, rows: int) -> None:
        self.hashes = np.empty((rows, 2), np.uint64)

    def add(self, chunk: Chunk) -> None:
        users, places = chunk.users, np.arange(len(chunk))
        if pa.types.is_dictionary(users.type):
            used, places = np.unique(users.indices.to_numpy(), return_inverse=True)
            users = users.dictionary.take(pa.array(used))
        names = [user if isinstance(user, bytes) else str(user).encode() for user in users.to_pylist()]
        digests = [hashlib.blake2b(name, digest_size=16).digest() for name in names]
        found = np.frombuffer(b"".join(digests), np.uint64).reshape(-1, 2)[places]
        self.hashes[chunk.first - 1 : chunk.first - 1 + len(chunk)] = found

    def refuse_doubled(self) -> None:
        order = np.lexsort(self.hashes.T)
        equal = np.flatnonzero((self.hashes[order[1:]] == self.hashes[order[:-1]]).all(axis=1))
        if len(equal):
            earlier, later = min(zip(order[equal] + 1, order[equal + 1] + 1, strict=True), key=max)
            found = f"the user of row {earlier:,}"
            raise RowError(int(later), "user", found, "a user without an earlier report")
