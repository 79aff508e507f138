"""Flags and the arrival verdict of an analysed transcript, and the exit code that follows.

There is no truth to compare with. Instead the average, which inherits the bias of the start and of the
curvature, is held against the root of the degree 3 fit, which does not: z = (average - root)/se. With K >= 25
relaxation times z has standard deviation .5 to .65 where the average has no bias, so that |z| > 2 almost
never happens by chance and |z| <= 1 leaves a bias of about one standard error possible.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from ldpflow.transcripts.methods import Row

ROOTS = ("TR", "TR-BM")
"""Methods around the root of the regression; all others are around an average of iterates."""
SHORT = 25.0
TOO_SHORT = 15.0
SIGNIFICANT = 2.576
MOVED = 1.0  # standard errors by which the first steps move an estimate that they do not suit
CLEAR, DOUBTFUL = 1.0, 2.0
EXACT = 4096

NO_ROOT = "its fit has no root on an increasing branch"
NO_END = "its interval has no end"

ARRIVAL = {
    "arrived": "the run arrived: the average agrees with the root of the regression",
    "doubtful": "doubtful: the run is short, or the average is somewhat off the root of the regression",
    "not_arrived": "not arrived: the average still carries the start",
    "steps_too_large": "steps too large: they bias the average",
    "unknown": "unknown: the regression has no root",
}
"""What the verdicts mean."""

MEANING = {
    "too_short": "the run is short for its steps: TR's interval is wide and somewhat unreliable, "
    "those around the average (BB, BM, SN, ...) are far too narrow",
    "poor_fit": "degree 2 does not describe the run: use degree 3",
    "poor_fit_3": "degree 3 does not describe the run either: trust no interval here",
    "early_steps": "the first 3 to 6% of the steps move the estimate by more than a standard error: take "
    'burn_in = "0.1n"',
    "undefined": "there is no interval: more users are needed",
    "undefined_3": "{why}, and degree 3 has no interval here ({reason}): degree 2 is reported",
    "not_arrived": "the average still carries the start: use TR or TR-BM, no interval around the average",
    "steps_too_large": "the average is biased by the size of the steps: use TR or TR-BM, no interval "
    "around the average",
    "odd_reports": "the reports do not look like the mechanism's",
}
"""What the flags mean, and what to do."""


@dataclass(frozen=True)
class Verdict:
    """Diagnosis of a transcript for one coordinate.

    Parameters
    ----------
    arrival : str
        ``arrived``, ``doubtful``, ``not_arrived`` or ``steps_too_large``; ``unknown`` without a root.
    flags : tuple of str
        Keys of the meanings that :attr:`words` gives.
    relaxation_times : float
        K from TR's slope; NaN where it is undefined.
    distance : float
        (average - root of the fit of the highest degree that has one)/se.
    start : float
        The part of it that a linear run from theta0 would have.
    reported : int or None
        Place, among the analysis's rows, of the row to report; None where there is none.
    """

    arrival: Literal["arrived", "doubtful", "not_arrived", "steps_too_large", "unknown"]
    flags: tuple[str, ...]
    relaxation_times: float
    distance: float
    start: float
    reported: int | None
    words: tuple[str, ...] = field(default=())

    def exit_code(self, strict: bool, averages_asked: bool) -> int:
        """0, or 1 where no interval that was asked for can be used."""
        flags = set(self.flags)
        if {"undefined", "poor_fit_3"} & flags or {"poor_fit", "undefined_3"} <= flags:
            return 1
        if averages_asked and {"not_arrived", "steps_too_large"} & flags:
            return 1
        return 1 if strict and self.flags else 0


def around_average(settings: Mapping[str, Any]) -> bool:
    """Whether a method with these settings has an interval around an average of iterates."""
    return (settings.get("base") or settings["kind"]) not in ROOTS


def linear_start(theta0: float, root: float, slope: float, c: float, gamma: float, steps: int) -> float:
    """Bias that the start leaves in the average of a linear run: (theta0 - root) mean exp(-slope s_i)."""
    exact = min(steps, EXACT)
    i = np.arange(1.0, exact + 1)
    s = np.cumsum(c * i**-gamma)
    area = float(np.sum(np.exp(-np.minimum(slope * s, 700.0))))
    if steps > exact:
        i = np.geomspace(exact, steps, 1000)
        later = s[-1] + c * (i ** (1.0 - gamma) - i[0] ** (1.0 - gamma)) / (1.0 - gamma)
        weights = np.exp(-np.minimum(slope * later, 700.0))
        area += float(np.sum(0.5 * (weights[1:] + weights[:-1]) * np.diff(i)))
    return (theta0 - root) * area / steps


def finite(value: float | None) -> float:
    """NaN for None."""
    return math.nan if value is None else value


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
    """Flags and arrival of one coordinate.

    Parameters
    ----------
    fits : list of dict
        Rows of the recommended regressions, the lower degree first.
    asked : list of dict
        Rows that were asked for.
    planned : dict or None
        The row that the settings want to have reported.
    average, theta0 : float
    c, gamma : float
    steps : int
    odd : bool
        Whether the reports look odd.
    """
    low, high = fits[0], fits[-1]
    k = finite(low["relaxation_times"])
    flags: list[str] = []
    if k < SHORT:
        flags.append("too_short")
    poor = significant(low)
    if poor:
        flags.append("poor_fit")
        if significant(high) and high is not low:
            flags.append("poor_fit_3")
    best = high if poor else low
    regressions = [row for row in asked if row["method"] == "TR"]
    reported = planned or (best if best["asked"] else (regressions or asked)[0])
    words = dict(MEANING)
    if reported["status"] != "ok" and reported.get("degree") == 3 and low["status"] == "ok":
        # A parabola may have a root where the cubic has none.
        flags.append("undefined_3")
        words["undefined_3"] = MEANING["undefined_3"].format(
            why="degree 2 does not fit" if reported is not planned and poor else "degree 3 was asked for",
            reason=NO_ROOT if reported["estimate"] is None else NO_END,
        )
        reported = low
    if reported["status"] != "ok":
        flags.append("undefined")
    if abs(finite(reported.get("early_shift"))) > MOVED:
        flags.append("early_steps")
    reference = low if high["se"] is None else high
    root, se = finite(reference["estimate"]), finite(reference["se"])
    distance = (average - root) / se if se > 0 else math.nan
    start = math.nan
    if math.isfinite(distance):
        length = c * (steps ** (1.0 - gamma)) / (1.0 - gamma)
        slope = max(finite(reference["relaxation_times"]), 0.0) / length
        start = linear_start(theta0, root, slope, c, gamma, steps) / se
    arrival = arrival_of(k, distance, start)
    if arrival in ("not_arrived", "steps_too_large"):
        flags.append(arrival)
    if odd:
        flags.append("odd_reports")
    return Verdict(
        arrival,
        tuple(flags),
        k,
        distance,
        start,
        reported["place"] if reported["status"] == "ok" else None,
        tuple(f"{flag}: {words[flag]}" for flag in flags),
    )


def significant(row: Row) -> bool:
    """Whether the next power of the fit is significant at 1%."""
    statistic = row["lack_of_fit"]
    return statistic is not None and abs(statistic) > SIGNIFICANT


def arrival_of(
    k: float, distance: float, start: float
) -> Literal["arrived", "doubtful", "not_arrived", "steps_too_large", "unknown"]:
    """The verdict from K, the distance of the average from the root, and the start's part of it."""
    if k < TOO_SHORT:
        return "not_arrived"
    if not (math.isfinite(k) and math.isfinite(distance)):
        return "unknown"
    if k >= SHORT and abs(distance) <= CLEAR:
        return "arrived"
    if abs(distance) <= DOUBTFUL:
        return "doubtful"
    return "not_arrived" if abs(start) >= 0.5 * abs(distance) else "steps_too_large"
