"""Intervals from a transcript: read, check, fold, and ask the interval methods."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ldpflow.components.algorithms import Algorithm
from ldpflow.components.intervals import IntervalMethod
from ldpflow.components.intervals.record import PathRecord
from ldpflow.components.intervals.transcript import TranscriptRegression
from ldpflow.components.problems.transform import inverse
from ldpflow.documents import parse_toml
from ldpflow.errors import InputError
from ldpflow.practice.transcripts.checks import (
    TOLERANCE,
    AnswerCounts,
    Moments,
    earliest,
    epsilon_error,
    first_error,
    theta_error,
    whole_number_error,
)
from ldpflow.practice.transcripts.collection import (
    OF_THE_SCALE,
    Collection,
    merge_settings,
    read_collection,
    read_settings,
    read_share,
    read_table,
)
from ldpflow.practice.transcripts.counts import OneShotReader, RoundsReader
from ldpflow.practice.transcripts.fold import CollectedPath, Fold, UnknownLaw
from ldpflow.practice.transcripts.methods import Methods, Row, rows_of
from ldpflow.practice.transcripts.reader import FEWEST, ReportReader
from ldpflow.practice.transcripts.reading import CHUNK, Chunk, Joined, RowError
from ldpflow.practice.transcripts.result import (
    Analysis,
    EstimatesAlongRun,
    Verdict,
    is_significant,
    nan_for_none,
    verdict_of,
)
from ldpflow.simulators.one_pass import PathRequest
from ldpflow.simulators.simulator import Cell
from ldpflow.study.entry import read_component

Floats = NDArray[np.float64]

TRACE_POINTS = 240
"""Steps at which the estimates along the run are kept."""


def analyse(
    source: object,
    settings: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    chunk: int = CHUNK,
    *,
    n: int | None = None,
    adversarial_share: float = 0.0,
) -> Analysis:
    """Intervals from private reports that were really collected.

    The reports are private already: this is post-processing, and sees no value of any user.

    Parameters
    ----------
    source : path, pyarrow.Table, data frame, mapping of columns, or a list of them
        Columns ``report`` and ``theta`` (the question to the user), or ``report_0, ...``, ``theta_0, ...``;
        of a protocol ``report`` and ``question``; optional ``step``, ``epsilon``, ``round``, ``user``. Files
        are read in chunks. Several are one collection: the parts of a path in their order, of ``rounds``
        round by round, and otherwise in any order.
    settings : mapping or path, optional
        A design file (docs/analyse.md), or settings as in TOML: ``{"problem": {"kind": "quantile", "tau":
        0.9}, "mechanism": {"kind": "randomized_response", "epsilon": 1.0}, "algorithm": {"c": 40.0, "gamma":
        0.51}}``. Settings in the file's metadata must agree with them. ``n`` is the number of reports that
        there must be, a list ``method`` the rows that are wanted, and one table ``method`` the interval to
        report. A protocol has a table ``protocol`` instead of mechanism and algorithm.
    chunk : int
        Rows at a time; no result depends on it.
    n : int, optional
        Number of reports that there must be, instead of the settings'.
    adversarial_share : float in [0, 0.5)
        Share of the users who may send any report that the mechanism or protocol can make, in place of their
        own. Intervals are widened by the most that this can shift them (docs/analyse.md has the conditions).

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
    opened = Joined.of(source)
    if isinstance(settings, (str, os.PathLike)):
        settings = read_settings(os.fspath(settings))
    if settings is not None and not isinstance(settings, Mapping):
        raise InputError("settings", settings, "a file, or tables of settings by name")
    given = dict(settings or {}) | ({} if n is None else {"n": n})
    collection = read_collection(merge_settings(given, stored_settings(opened, given), "the files"))
    collection = replace(collection, adversarial_share=read_share(adversarial_share, collection))
    reader: type[PathReader | OneShotReader | RoundsReader] = PathReader
    if collection.protocol is None:
        opened = opened.by_round()
    else:
        reader = RoundsReader if collection.protocol.kind == "rounds" else OneShotReader
    try:
        return reader(opened, collection, chunk).analysis()
    except RowError as error:
        raise error if error.place else error.at(*opened.find(error.row)) from None


def stored_settings(source: Joined, given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings in the metadata of all parts, without wishes that were given."""
    found: dict[str, Any] = {}
    users: list[Any] = []
    for part in source.parts:
        text = part.settings()
        own = {} if text is None else parse_toml(text, f"settings in the metadata of {part.place}")
        users.append(own.pop("n", None))
        if "problem" in own:
            problem = dict.fromkeys(OF_THE_SCALE[:2]) | dict(read_table(own, "problem"))
            if "protocol" in own and read_table(given, "protocol").get("kind") != "rounds":
                if "problem" in given:  # a histogram serves every level
                    problem = {name: problem[name] for name in OF_THE_SCALE if name in problem}
            own["problem"] = problem
        kept = {name: value for name, value in own.items() if name not in given or name not in WISHES}
        merge_settings(given, kept, part.place)
        found = merge_settings(found, kept, part.place)
    if "n" not in given and all(isinstance(count, int) for count in users):
        found["n"] = sum(users)
    return found


WISHES = ("method", "level")
"""Settings that say what is computed, not what was collected."""


class PathReader(ReportReader):
    """Reader of the transcript of a path."""

    def __init__(self, source: Joined, collection: Collection, chunk: int) -> None:
        super().__init__(source, collection, chunk)
        self.d = dimension_of(source, collection)
        self.first = next(source.chunks(2))
        self.algorithm = collection.algorithm or self.read_algorithm(collection)
        self.collection = replace(collection, algorithm=self.algorithm)
        self.size = self.algorithm.records_per_step()
        self.c, self.gamma = self.algorithm.step_constant(), self.algorithm.step_exponent()
        self.factors = self.algorithm.step_factors() or (1.0,) * self.d
        if len(self.factors) != self.d:
            allowed = f"{self.d} numbers, or one for all coordinates"
            raise InputError("algorithm.c", list(self.factors), allowed)
        if self.rows % self.size:
            self.check_n()
            hint = "The last round is not complete: leave its rows out."
            raise InputError("rows", self.rows, f"a multiple of batch_size = {self.size}", hint)
        self.start = self.first_theta()
        self.origin = self.vector("origin", collection.origin) or self.start
        several = collection.problem == "quantiles"
        problem = UnknownLaw(d=self.d, taus=collection.taus, several=several)
        assert collection.mechanism is not None
        self.path = CollectedPath(problem, collection.mechanism, self.algorithm, name=collection.path)
        self.methods = Methods(self.path, self.collection)
        self.answers = answers_of(self.path)
        self.final = self.vector("algorithm.final_theta", collection.final)

    def read_algorithm(self, collection: Collection) -> Algorithm:
        steps = self.first.steps
        if steps is None or len(steps) < 2:
            hint = "Or a column step with the sizes of all steps."
            raise InputError("algorithm.c", None, "c and gamma of the steps c i^-gamma", hint)
        if not 0 < steps[1] < steps[0]:
            raise InputError("step", steps[:2].tolist(), "step sizes c i^-gamma, which fall")
        gamma = round(math.log2(float(steps[0]) / float(steps[1])), 9)
        settings: dict[str, object] = {"kind": "ldp_sgd", "c": float(steps[0]), "gamma": gamma}
        if collection.start is not None and len(set(collection.start)) == 1:
            settings["theta0"] = collection.start[0]
        self.notes.append(f"read off the column step: c = {settings['c']!r}, gamma = {gamma!r}")
        return cast(Algorithm, read_component("algorithm", settings))

    def vector(self, name: str, values: tuple[float, ...] | None) -> tuple[float, ...] | None:
        if values is None:
            return None
        if len(values) not in (1, self.d):
            raise InputError(name, list(values), f"{self.d} numbers, or one for all coordinates")
        return values if len(values) == self.d else values * self.d

    def first_theta(self) -> tuple[float, ...]:
        given = self.vector("algorithm.theta0", self.collection.start)
        if given is None:
            if self.first.thetas is None:
                hint = "Without a column theta it follows from theta0 and the reports."
                raise InputError("algorithm.theta0", None, "the start theta0", hint)
            return tuple(self.first.thetas[0].tolist())
        if len(self.collection.taus) > 1 and list(given) != sorted(given):
            hint = "Quantiles of one value are in the order of their levels."
            raise InputError("algorithm.theta0", list(given), "numbers that do not decrease", hint)
        return given

    def analysis(self) -> Analysis:
        steps = self.rows // self.size
        self.methods.check(steps)
        self.notes += self.methods.notes()
        methods, levels = self.methods.all, self.collection.levels
        regressions = [method for method in methods if method.kind == "TR"]
        fractions = sorted({steps >> k for k in range(7) if steps >> k >= FEWEST} | {steps})
        wanted = [(steps, method) for method in methods]
        wanted += [(end, method) for end in fractions for method in regressions]
        cells = tuple(Cell(end * self.size, method, level) for end, method in wanted for level in levels)
        request = PathRequest(cells, path=self.path)
        trace = np.unique(np.geomspace(1, steps, TRACE_POINTS).astype(np.int64))
        record, oddities = self.read(request, trace.tolist())
        length = self.c * steps ** (1.0 - self.gamma) / (1.0 - self.gamma)
        with np.errstate(all="ignore"):
            rows = rows_of(record, self.collection.n or self.rows, methods, levels)
            for place, row in enumerate(rows):
                row |= {"place": place, "asked": row.of in self.methods.asked}
            if self.collection.adversarial_share:
                self.widen(record, rows)
            verdicts = [self.verdict(record, rows, j, bool(oddities)) for j in range(self.d)]
            reported = [rows[v.reported].of for v in verdicts if v.reported is not None]
            for row in rows:
                row["asked"] |= row.of in reported
            slopes = [v.relaxation_times / (f * length) for v, f in zip(verdicts, self.factors, strict=True)]
            self.notes += self.methods.cautions(slopes, self.rows)
            fits = [
                row
                for method in regressions
                if method in reported
                for end in fractions
                for row in rows_of(record, end * self.size, [method], levels[:1])
            ]
        scale = self.collection.scale
        for row in fits if scale is not None else ():
            row.in_unit(scale)
        at = np.searchsorted(record.times, trace)
        averages = np.array(self.origin) + record.prefix_sums[at][:, :, 0] / trace[:, None]
        iterates = record.iterates[at][:, :, 0]
        return self.result(
            rows,
            verdicts=verdicts,
            steps=steps,
            algorithm=self.algorithm,
            start=self.start,
            oddities=oddities,
            progress=EstimatesAlongRun(trace, inverse(scale, averages), inverse(scale, iterates), fits),
        )

    def read(self, request: PathRequest, trace: Sequence[int]) -> tuple[PathRecord, list[str]]:
        """Check and fold every chunk: the record, and the oddities of the reports."""
        odd = plausibility_of(self.path, self.answers)
        times = sorted({*request.times, *trace})
        origin, start = np.array(self.origin), np.array(self.start)
        fold = Fold(self.path, times, request.marked, request.sums, origin, start)

        def take(chunk: Chunk) -> None:
            with np.errstate(all="ignore"):
                fault = self.row_error(chunk)
                gradients = chunk.reports
                if self.answers is not None:  # reports that cannot be right are clipped, and refused below
                    places = gradients[:, 0].astype(np.int64)
                    gradients = np.take(self.answers, places, axis=0, mode="clip")
                wrong = fold.add(gradients, chunk.thetas, chunk.steps)
                if wrong is not None and chunk.thetas is not None:
                    row = chunk.first + wrong[0]
                    fault = earliest(fault, theta_error(row, chunk.thetas, wrong, fold.last))
                if fault is not None:
                    raise fault
                if odd is not None:
                    odd.add(chunk)

        self.read_chunks(take)
        final = None if self.final is None else np.array([self.final])
        bare = self.first.thetas is None
        with np.errstate(all="ignore"):
            wrong = fold.finish(final, bare)
        if wrong is not None and final is not None:
            hint = "Are the last rows missing?"
            raise theta_error(self.rows, final, wrong, fold.last, "final_theta", hint)
        record = fold.record(self.collection.seed, self.collection.replicate)
        return record, [] if odd is None else odd.oddities()

    def row_error(self, chunk: Chunk) -> RowError | None:
        """Error of the first row with something wrong but its theta."""
        found = []
        if self.answers is not None:
            largest = len(self.answers) - 1
            found.append(whole_number_error(chunk, "report", chunk.reports[:, 0], 0, largest))
        numbers = 1 + np.arange(chunk.first - 1, chunk.first - 1 + len(chunk)) // self.size
        if chunk.rounds is not None:
            bad = chunk.rounds != numbers
            hint = "Rows are missing before it, counted twice, or in another order."
            allowed = str(numbers[np.argmax(bad)])
            found.append(first_error(chunk, "round", chunk.rounds, bad, allowed, hint))
        mechanism = self.path.mechanism
        epsilon = getattr(mechanism, "epsilon", getattr(mechanism, "mu", None))
        found.append(epsilon_error(chunk, epsilon))
        if chunk.steps is not None:
            etas = self.c * numbers.astype(np.float64) ** -self.gamma
            bad = np.abs(chunk.steps - etas) > TOLERANCE * np.abs(etas)
            allowed = f"{float(etas[np.argmax(bad)])!r}, which is {self.c:g} i^-{self.gamma:g}"
            found.append(first_error(chunk, "step", chunk.steps, bad, allowed))
        return earliest(*found)

    def verdict(self, record: PathRecord, rows: list[Row], j: int, odd: bool) -> Verdict:
        level = self.collection.levels[0]
        own = [row for row in rows if row["coordinate"] == j and row["level"] == level]
        steps = self.rows // self.size

        def row_of(method: IntervalMethod) -> Row:
            return next(row for row in own if row.of == method)

        return verdict_of(
            fits=[row_of(method) for method in self.methods.fits],
            asked=[row for row in own if row["asked"]],
            planned=None if self.methods.planned is None else row_of(self.methods.planned),
            average=self.origin[j] + float(record.sums_at(np.array([steps]))[0, j, 0]) / steps,
            theta0=self.start[j],
            c=self.c * self.factors[j],
            gamma=self.gamma,
            steps=steps,
            odd=odd,
            unchecked=not self.source.columns.thetas and self.collection.final is None,
        )

    def widen(self, record: PathRecord, rows: list[Row]) -> None:
        """Widen all rows for adversarial users, who move the mean of A_i to between share times its ends.

        A regression has limits of its own. Another method's limits move as much as those of the recommended
        regression, whose slope turns the shift of the mean into one of theta.
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
            row.widen(lower, upper)


def dimension_of(source: Joined, collection: Collection) -> int:
    """Number of coordinates of theta, on which columns and settings must agree."""
    columns, taus = source.columns, collection.taus
    one_cell = collection.mechanism is not None and collection.mechanism.kind == "cells"
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
