"""Result of an analysis: rows, flags, verdicts, words and JSON.

The truth is unknown. So z = (average - root)/se compares the average of the iterates with the root of the
regression of degree 3 (2 if that has none), which has the standard error se. The start and the size of the
steps bias the average, and bias the root far less. With K >= 25 relaxation times and no bias of the average,
z has standard deviation .5 to .65. So |z| > 2 almost never happens by chance. |z| <= 1 does not exclude a
bias of about one standard error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpflow import __version__
from ldpflow.components.intervals import INTERVAL_METHODS
from ldpflow.documents import templates
from ldpflow.practice.transcripts.collection import Collection
from ldpflow.practice.transcripts.methods import Row, columns_of, number
from ldpflow.results.arrival import mean_decay

Floats = NDArray[np.float64]
Arrival = Literal["arrived", "doubtful", "not_arrived", "steps_too_large", "unknown"]

ROOTS = ("TR", "TR-BM")
"""Methods whose intervals are around the root of the regression, not around an average of iterates."""

SHORT, TOO_SHORT = 25.0, 15.0
"""Relaxation times below which a run is short, and below which it has not arrived."""

SIGNIFICANT = 2.576
MOVED = 1.0  # shift of an estimate by the first steps, in standard errors, that raises early_steps
CLEAR, DOUBTFUL = 1.0, 2.0  # largest |z| of a run that arrived, and of a doubtful one

ARRIVAL = {
    "arrived": "the run arrived: the average agrees with the root of the regression",
    "short": "doubtful: the run is short: report TR, no interval around the average",
    "doubtful": "doubtful for intervals around the average alone, which is somewhat off the root of the "
    "regression: report TR",
    "not_arrived": "not arrived: the average still carries the start",
    "steps_too_large": "steps too large: they bias the average",
    "unknown": "unknown: the regression has no root",
}
"""Meaning of a verdict."""

MEANING = {
    "too_short": "the run is short for its steps: TR's interval is wide and somewhat unreliable, "
    "intervals around the average (BB, BM, SN, ...) are far too narrow",
    "poor_fit": "degree 2 does not describe the run: use degree 3",
    "poor_fit_3": "degree 3 does not describe the run: trust no interval here",
    "early_steps": "the first 3 to 6% of the steps move the estimate by more than a standard error: take "
    'burn_in = "0.1n"',
    "undefined": "there is no interval: more users are needed, or a smaller adversarial share if one is set",
    "undefined_3": "degree 3 has no interval here (its fit has no root on an increasing branch, or the "
    "interval no end): degree 2 is reported",
    "not_arrived": "the average still carries the start: use TR or TR-BM, no interval around the average",
    "steps_too_large": "the average is biased by the size of the steps: use TR or TR-BM, no interval "
    "around the average",
    "odd_reports": "the reports do not look like reports of the mechanism",
    "range_end": "the interval ends at the public range, so that its length measures nothing: more users are "
    "needed, or a wider range",
    "unasked": "no user got one of the questions: take fewer bins",
}
"""Meaning of a flag, and what to do."""

SHOWN = (
    ("estimate", "estimate", 7), ("lower", "lower", 7), ("upper", "upper", 7), ("SE", "se", 4),
    ("K", "relaxation_times", 4), ("lack of fit", "lack_of_fit", 3), ("computed", "status", 0),
)  # fmt: skip
"""Columns of tables: title, key of the row, and digits. A status says whether there is an interval."""

IN_UNITS = ("estimate", "lower", "upper", "se")
"""Numbers in the unit of the values."""

NAMED = ("base", "beta", "degree", "separate", "limits")
"""Settings that are always part of a method's name."""


@dataclass(frozen=True)
class Verdict:
    """Diagnosis of a transcript for one coordinate.

    ``relaxation_times`` is K from TR's slope. ``distance`` is z = (average - root)/se of the highest degree
    whose fit has a root. ``start`` is the part of z that the start makes if the gradient is linear. A number
    that is undefined is NaN. ``reported`` is the row to report. ``arrival`` is None for a protocol without a
    path.
    """

    arrival: Arrival | None
    flags: tuple[str, ...]
    relaxation_times: float
    distance: float
    start: float
    reported: Row | None

    @property
    def words(self) -> list[str]:
        """Flags with their meaning."""
        return [f"{flag}: {MEANING[flag]}" for flag in self.flags]

    @property
    def meaning(self) -> str:
        """Meaning of the arrival, empty for a protocol without a path."""
        short = self.arrival == "doubtful" and self.relaxation_times < SHORT
        return "" if self.arrival is None else ARRIVAL["short" if short else self.arrival]

    def exit_code(self, strict: bool, averages_asked: bool) -> int:
        """1 if a requested interval cannot be used, or with ``strict`` if there is a flag; otherwise 0."""
        flags = set(self.flags)
        if {"undefined", "poor_fit_3"} & flags or {"poor_fit", "undefined_3"} <= flags:
            return 1
        if averages_asked and {"not_arrived", "steps_too_large"} & flags:
            return 1
        return 1 if strict and self.flags else 0


def verdict_of(
    fits: list[Row],
    asked: list[Row],
    planned: Row | None,
    average: float,
    theta0: float,
    c: float,
    gamma: float,
    steps: int,
    odd: bool,
) -> Verdict:
    """Find the flags and the arrival of one coordinate.

    ``fits``: rows of the recommended regressions, the lower degree first. ``asked``: rows of the requested
    methods. ``planned``: the row that the settings ask to report, or None. ``odd``: whether reports look odd.
    """
    low, high = fits[0], fits[-1]
    if planned is not None and planned.get("degree") == 3 and planned["status"] == "ok":
        low = high = planned  # a fit of degree 2 says nothing about one of degree 3
    cubic = low is planned and low.get("degree") == 3
    k = nan_for_none(low["relaxation_times"])
    flags = []
    if k < SHORT:
        flags.append("too_short")
    poor = is_significant(low)
    if poor:
        flags.append("poor_fit_3" if cubic else "poor_fit")
        if is_significant(high) and high is not low:
            flags.append("poor_fit_3")
    best = high if poor else low
    regressions = [row for row in asked if row["method"] == "TR"]
    reported = planned or (best if best["asked"] else (regressions or asked)[0])
    if reported["status"] != "ok" and reported.get("degree") == 3 and low["status"] == "ok":
        # A parabola may have a root where the cubic has none.
        flags.append("undefined_3")
        reported = low
    if reported["status"] != "ok":
        flags.append("undefined")
    if abs(nan_for_none(reported.get("early_shift"))) > MOVED:
        flags.append("early_steps")
    reference = low if high["se"] is None else high
    root, se = nan_for_none(reference["estimate"]), nan_for_none(reference["se"])
    distance, start = math.nan, math.nan
    if se > 0:
        distance = (average - root) / se
        length = c * (steps ** (1.0 - gamma)) / (1.0 - gamma)
        slope = max(nan_for_none(reference["relaxation_times"]), 0.0) / length
        start = (theta0 - root) * mean_decay(slope * c, gamma, steps) / se  # if the gradient is linear
    arrival = arrival_of(k, distance, start)
    if arrival in ("not_arrived", "steps_too_large"):
        flags.append(arrival)
    if odd:
        flags.append("odd_reports")
    row = reported if reported["status"] == "ok" else None
    return Verdict(arrival, tuple(flags), k, distance, start, row)


def counts_verdict(row: Row, odd: bool) -> Verdict:
    """Flags of the interval of a protocol without a path."""
    raised = {
        "undefined": row["lower"] is None,
        "range_end": row["status"] == "range_end",
        "unasked": bool(row.get("unasked")),
        "odd_reports": odd,
    }
    flags = tuple(flag for flag, is_raised in raised.items() if is_raised)
    return Verdict(None, flags, math.nan, math.nan, math.nan, None if row["lower"] is None else row)


def nan_for_none(value: float | None) -> float:
    return math.nan if value is None else value


def is_significant(row: Row) -> bool:
    return abs(nan_for_none(row["lack_of_fit"])) > SIGNIFICANT


def arrival_of(k: float, distance: float, start: float) -> Arrival:
    """Judge the arrival from K, z = ``distance``, and the start's part of z."""
    if k < TOO_SHORT:
        return "not_arrived"
    if not (math.isfinite(k) and math.isfinite(distance)):
        return "unknown"
    if k >= SHORT and abs(distance) <= CLEAR:
        return "arrived"
    if abs(distance) <= DOUBTFUL:
        return "doubtful"
    return "not_arrived" if abs(start) >= 0.5 * abs(distance) else "steps_too_large"


class EstimatesAlongRun(NamedTuple):
    """theta_i and the mean of theta_1, ..., theta_i, shape (P, d) each, at P values of i in ``steps``."""

    steps: NDArray[np.int64]
    average: Floats
    iterate: Floats


class EstimatedCdf(NamedTuple):
    """Estimated distribution function at P points. It may decrease, and leave [0, 1]."""

    points: Floats
    values: Floats


@dataclass(frozen=True)
class Analysis:
    """Intervals from a transcript, and diagnostics of its soundness.

    Parameters
    ----------
    rows : list of dict
        A row for each method, level and coordinate: method, its settings, level, coordinate, estimate, se,
        lower, upper, status, and the method's diagnostics. ``asked``: whether the row was requested.
    verdicts : list of Verdict
        A verdict for each coordinate, at the first level.
    users, steps : int
        ``steps`` of a protocol without a path is its number of rounds.
    collection : Collection
    start : tuple of float
        theta0. Empty for a protocol without a path.
    file : str
    sha256 : str or None
        Digest of the files, None for tables in memory.
    oddities : list of str
        Sentences on reports that the mechanism rarely makes.
    notes : list of str
        Warnings about methods, columns that are not used, and checks that were left out.
    progress : EstimatesAlongRun or EstimatedCdf
    users_compared : bool
        Whether a column of users showed that no user has two reports.
    files : int
        Number of files, or of tables in memory.
    """

    rows: list[Row]
    verdicts: list[Verdict]
    users: int
    steps: int
    collection: Collection
    start: tuple[float, ...]
    file: str
    sha256: str | None
    oddities: list[str]
    notes: list[str]
    progress: EstimatesAlongRun | EstimatedCdf = field(repr=False)
    users_compared: bool = False
    files: int = 1

    @property
    def unit(self) -> str:
        """Unit of the values; empty if none was given."""
        return self.collection.unit

    @property
    def asked(self) -> list[Row]:
        return [row for row in self.rows if row["asked"]]

    @property
    def flags(self) -> list[str]:
        """Flags of all coordinates, each once."""
        return list(dict.fromkeys(flag for verdict in self.verdicts for flag in verdict.flags))

    def exit_code(self, strict: bool = False) -> int:
        """1 if a requested interval cannot be used, or with ``strict`` if there is a flag; otherwise 0."""
        methods = [method.model_dump() for method in self.collection.methods]
        averages = any((method.get("base") or method["kind"]) not in ROOTS for method in methods)
        return max(verdict.exit_code(strict, averages) for verdict in self.verdicts)

    def reported(self, coordinate: int = 0) -> Row | None:
        """The row to report of a coordinate, or None if it has no interval (flag ``undefined``)."""
        return self.verdicts[coordinate].reported

    def coordinate_name(self, j: int) -> str:
        """Name of what a coordinate estimates, empty if there is only one coordinate."""
        if len(self.verdicts) == 1:
            return ""
        taus = self.collection.taus
        return f"{taus[j]:g}-quantile" if taus else f"coordinate {j}"

    def methods_paragraph(self) -> str:
        """A paragraph for a methods section."""
        intervals = []
        for j in range(len(self.verdicts)):
            row = self.reported(j)
            what = (None, None) if row is None else (method_words(row), row["level"])
            intervals.append((*what, self.coordinate_name(j)))
        return self.words("methods", intervals, __version__)

    def words(self, name: str, *more: object) -> str:
        """Sentences of the template: ``methods``, ``privacy``, ``scale`` or ``adversaries``."""
        template = templates("ldpflow.practice.transcripts").get_template("analysis.txt.jinja")
        macro = getattr(template.module, name)
        return " ".join(macro(self, *more).split())

    def to_dict(self) -> dict[str, Any]:
        """The analysis as values for JSON. What is undefined is None."""
        collection = self.collection
        statement = collection.randomiser.privacy()
        made = {collection.randomiser.group: collection.randomiser.model_dump()}
        if collection.algorithm is not None:
            theta0 = self.start[0] if len(self.start) == 1 else list(self.start)
            made["algorithm"] = collection.algorithm.model_dump() | {"theta0": theta0}
        return {
            "file": self.file,
            "sha256": self.sha256,
            "version": __version__,
            "users": self.users,
            "steps": self.steps,
            "problem": {
                "kind": collection.problem,
                "taus": list(collection.taus),
                "scale": collection.scale,
                "jitter": collection.jitter,
            },
            "unit": collection.unit,
            "adversarial_share": collection.adversarial_share,
            **made,
            "privacy": {"notion": statement.notion, "unit": statement.unit},
            "rows": [own_columns(row) for row in self.asked],
            "verdicts": [
                {
                    "coordinate": j,
                    "arrival": verdict.arrival,
                    "flags": list(verdict.flags),
                    "relaxation_times": number(verdict.relaxation_times),
                    "distance": number(verdict.distance),
                    "start": number(verdict.start),
                    "reported": None if (row := self.reported(j)) is None else own_columns(row),
                }
                for j, verdict in enumerate(self.verdicts)
            ],
            "oddities": self.oddities,
            "notes": self.notes,
            "methods": self.methods_paragraph(),
        }

    def place_words(self, j: int) -> str:
        name = self.coordinate_name(j)
        return f"{name}: " if name else ""

    def interval_line(self, j: int) -> str:
        row = self.reported(j)
        if row is None:
            return f"{self.place_words(j)}no interval to report"
        return f"{self.place_words(j)}report {method_label(row)}: {interval_words(row, self.unit)}"

    def remarks(self) -> list[str]:
        """Notes, and what the scale and a share of adversarial users mean for the intervals."""
        return [text for text in (*self.notes, self.words("scale"), self.words("adversaries")) if text]

    def __str__(self) -> str:
        """The intervals to report, arrival, flags with their meaning, oddities and notes."""
        found = []
        for j, verdict in enumerate(self.verdicts):
            where = self.place_words(j)
            found.append(self.interval_line(j))
            numbers = ""
            if verdict.arrival not in ("unknown", None):
                numbers = f"K = {verdict.relaxation_times:.1f} relaxation times"
                if math.isfinite(verdict.distance):
                    numbers += f"; average less root {verdict.distance:+.1f} se, "
                    numbers += f"{round(verdict.start, 1) + 0.0:+.1f} of it from the start"
                numbers = f" ({numbers})"
            if verdict.meaning:
                found.append(f"{where}{verdict.meaning}{numbers}")
            found += [f"{where}flag {words}" for words in verdict.words]
        found += [f"odd: {text}" for text in self.oddities]
        return "\n".join([*found, *(f"note: {text}" for text in self.remarks())])

    __repr__ = __str__


def shown_columns(rows: Sequence[Row], unit: str = "") -> list[tuple[str, Callable[[Row], str]]]:
    """Titles of columns, and functions that write a row's values. Rows without SE have fewer columns."""
    found = SHOWN if any(row["se"] is not None for row in rows) else (*SHOWN[:3], SHOWN[-1])
    return [
        (with_unit(title, unit if name in IN_UNITS else ""), partial(shown_value, name=name, digits=digits))
        for title, name, digits in found
    ]


def with_unit(title: str, unit: str) -> str:
    return f"{title} ({unit})" if unit else title


def shown_value(row: Row, name: str, digits: int) -> str:
    """Write a value of a row. Estimate, limits and SE have the digits that the SE allows."""
    value = row.get(name)
    if value is None or isinstance(value, str):
        return value or "-"
    form = form_of(row) if name in IN_UNITS and row["lower"] is not None else f".{digits}g"
    return f"{value:{form}}"


def own_columns(row: Row) -> dict[str, Any]:
    """A row without the columns that only other methods have."""
    return {name: row[name] for name in columns_of([row])}


def interval_words(row: Row, unit: str = "") -> str:
    form = form_of(row)
    estimate = f"{row['estimate']:{form}} {unit}".rstrip()
    limits = limits_words(row["lower"], row["upper"], unit, form)
    return f"{estimate}, {100 * row['level']:g}% interval {limits}"


def form_of(row: Row) -> str:
    """Format of an estimate and its limits: decimals up to the second digit of the SE.

    Without a standard error, a quarter of the interval's length takes its place.
    """
    error = row["se"] or (row["upper"] - row["lower"]) / 4
    decimals = 1 - math.floor(math.log10(error)) if 0 < error < math.inf else -1
    return f".{decimals}f" if 0 <= decimals <= 9 else ".6g"


def limits_words(lower: float | None, upper: float | None, unit: str, form: str = ".6g") -> str:
    return f"[{lower:{form}}, {upper:{form}}] {unit}".rstrip()


def method_words(row: Row) -> str:
    title = INTERVAL_METHODS[row["method"]].title or f"the method {row['method']}"
    words = [title.replace("(ours, no proof)", "(ldpflow's own, without a proof)")]
    words += [setting_words(name, value) for name, value in row.own.items() if value is not None]
    if row["method"] == "TR":
        words.append("half widths times K/(K - 4), at most 2, for K relaxation times")
    return ", ".join(words)


def method_label(row: Row, among: Sequence[Row] = ()) -> str:
    """Name of a method with its settings :data:`NAMED`, and those that tell its rows in ``among`` apart."""
    own = row.own
    others = [other.own for other in among if other["method"] == row["method"]]
    others = [other for other in others if all(other.get(name) == own.get(name) for name in NAMED)]
    differing = [name for name, value in own.items() if any(other.get(name) != value for other in others)]
    names = dict.fromkeys([*(name for name in NAMED if name in own), *differing])
    words = [setting_words(name, own[name]) for name in names if own[name] is not None]
    return f"{row['method']} ({', '.join(words)})" if words else str(row["method"])


def setting_words(name: str, value: Any) -> str:
    if name == "separate":
        return "by quantile" if value else "together"
    shown = f"{value:g}" if isinstance(value, float) else str(value)
    return shown if name == "base" else f"{name.replace('_', ' ')} {shown}"
