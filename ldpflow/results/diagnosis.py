"""Diagnosis of coverage: the effect of each property of a method, alone and together.

For a cell with bias b, empirical standard error S, lengths L_r and level p, z = z_{(1+p)/2}, an
interval centred on a normal estimate covers with probability C(h, b) = Phi((h - b)/S)
- Phi((-h - b)/S) if its half length is h. Then

    bias alone          C(z S, b) - p
    mean length alone   C(mean L/2, 0) - p
    variability alone   mean_r C(z S L_r/mean L, 0) - p      lengths right on average
    shape alone         #(|estimate - mean| <= z S)/R - p    the estimate is not normal
    together            mean_r C(L_r/2, b)
    left                coverage - together - shape alone    dependence of length on estimate,
                                                             asymmetric limits, noise

The lengths of self-normalised intervals vary by design: their critical value is made for the mixed
normal law, with mean_r C(L_r/2, 0) = p in the limit. For a method without a standard error of its
own, mean length and variability are therefore one effect, mean_r C(L_r/2, 0) - p, called length.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from ldpflow.columns import Column
from ldpflow.columns import cautions as declared_cautions
from ldpflow.intervals import INTERVAL_METHODS
from ldpflow.results import CellRows
from ldpflow.results.cells import Floats

__all__ = [
    "CAUSES",
    "DIAGNOSIS",
    "DIAGNOSIS_COLUMNS",
    "Diagnosis",
    "cautions",
    "diagnose",
    "diagnosis_columns",
]

# Of the jackknife. Few and large, because shape_effect counts: leaving out single replicates would
# overstate its error. Twenty know a standard error to a sixth.
GROUPS = 20
CHUNK = 2**17  # values at a time
SMALL = 0.0025  # effects below a quarter of a percentage point are not worth a term of their own

CAUSES = ("bias", "length", "variability", "shape")

DIAGNOSIS: dict[str, tuple[str, str, str]] = {
    "standardised_bias": ("bias / empirical_se", "1", "bias in standard errors"),
    "length_ratio": (
        "length_mean / (2 z empirical_se)",
        "1",
        "mean length beside that of an interval with the empirical SE",
    ),
    "bias_effect": (
        "Phi(z - b/S) - Phi(-z - b/S) - level",
        "share",
        "coverage that this bias alone would give, minus the level",
    ),
    "length_effect": (
        "2 Phi(length_mean / (2 S)) - 1 - level; SN: mean(2 Phi(length / (2 S)) - 1) - level",
        "share",
        "coverage that this mean length alone would give, minus the level",
    ),
    "variability_effect": (
        "mean(2 Phi(z length / length_mean) - 1) - level; null for SN, whose lengths vary by design",
        "share",
        "coverage that lengths as variable as these alone would give, minus the level",
    ),
    "shape_effect": (
        "#(|estimate - mean| <= z S) / R - level",
        "share",
        "coverage that estimates of this shape alone would give, minus the level",
    ),
    "coverage_together": (
        "mean(Phi((length/2 - b)/S) - Phi((-length/2 - b)/S)): bias, length and variability",
        "share",
        "coverage that all of these together give",
    ),
    "coverage_left": (
        "coverage - coverage_together - shape_effect",
        "share",
        "coverage that they do not explain",
    ),
}
"""Formula, unit and meaning of what a diagnosis says; MCSE by the delete-a-group jackknife."""

DIAGNOSIS_COLUMNS: tuple[str, ...] = (
    *(n for name in DIAGNOSIS for n in (name, f"{name}_mcse")),
    "main_cause",
)
"""The columns that a diagnosis adds to the summary."""


@dataclass(frozen=True)
class Diagnosis:
    """The effects on coverage in one cell and coordinate; NaN where undefined.

    Parameters
    ----------
    level, coverage, coverage_mcse : float
        Nominal coverage, its estimate and the estimate's MCSE, shares.
    values, errors : dict of str to float
        :data:`DIAGNOSIS`, ``length_cv`` and ``skewness``, and their MCSE by the delete-a-group
        jackknife.
    """

    level: float
    coverage: float
    coverage_mcse: float
    values: dict[str, float]
    errors: dict[str, float]

    def effects(self) -> dict[str, float]:
        """The defined effects by cause; what works most towards the gap first."""
        sign = math.copysign(1.0, self.coverage - self.level)
        found = [(c, e) for c in CAUSES if math.isfinite(e := self.values[f"{c}_effect"])]
        return dict(sorted(found, key=lambda pair: -sign * pair[1]))

    def main_cause(self) -> str | None:
        """The cause with the largest effect towards the gap between coverage and level.

        ``none`` where both the gap and that effect are within two MCSE of coverage; ``left`` where
        no effect exceeds two of its own MCSE; None where nothing is defined.
        """
        effects = self.effects()
        if not effects:
            return None
        gap = self.coverage - self.level
        cause, effect = next(iter(effects.items()))
        towards = math.copysign(1.0, gap) * effect
        noise = 2 * self.coverage_mcse
        if abs(gap) <= noise and towards <= noise:
            return "none"
        return cause if towards > 2 * self.errors[f"{cause}_effect"] else "left"

    def biased(self) -> bool:
        """Whether the bias exceeds two of its MCSE, which few replicates show before coverage does."""
        return abs(self.values["standardised_bias"]) > 2 * self.errors["standardised_bias"]


def diagnose(rows: CellRows, level: float) -> Diagnosis:
    """Diagnose a cell.

    Parameters
    ----------
    rows : CellRows
        Of one cell and coordinate.
    level : float in (0, 1)
    """
    rows = rows.finished()
    return diagnosis_of(rows, level, leave_out(rows, level))


def left_out_groups(count: int) -> NDArray[np.bool_]:
    """Which replicates are kept: row 0 has all, row g leaves out each that is g modulo the groups."""
    groups = min(GROUPS, count)
    kept: NDArray[np.bool_] = np.arange(count)[None, :] % groups != np.arange(-1, groups)[:, None]
    return kept


def leave_out(rows: CellRows, level: float) -> dict[str, Floats] | None:
    """The values of a diagnosis for each row of :func:`left_out_groups`; None if rows do not differ."""
    count = len(rows.ok)
    if not (count > 2 and np.ptp(rows.estimate) > 0 and rows.length.max() > 0):
        return None
    kept = left_out_groups(count)
    chunk = max(1, CHUNK // count)
    with np.errstate(all="ignore"):
        parts = [effects(rows, level, kept[g : g + chunk]) for g in range(0, len(kept), chunk)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def diagnosis_of(rows: CellRows, level: float, found: Mapping[str, Floats] | None) -> Diagnosis:
    """The diagnosis of finished rows from what :func:`leave_out` has found."""
    count = len(rows.ok)
    coverage = float(np.mean(rows.covered)) if count else math.nan
    mcse = math.sqrt(coverage * (1 - coverage) / count) if count > 1 else math.nan
    if found is None:
        nothing = dict.fromkeys((*DIAGNOSIS, "length_cv", "skewness"), math.nan)
        return Diagnosis(level, coverage, mcse, nothing, nothing)
    values = {name: float(each[0]) for name, each in found.items()}
    groups = min(GROUPS, count)
    errors = {name: math.sqrt((groups - 1) * float(np.var(each[1:]))) for name, each in found.items()}
    return Diagnosis(level, coverage, mcse, values, errors)


def effects(rows: CellRows, level: float, kept: NDArray[np.bool_]) -> dict[str, Floats]:
    """The values of a diagnosis over the replicates ``kept``.

    Parameters
    ----------
    rows : CellRows
        Finished rows.
    level : float
    kept : ndarray of bool, shape (G, R)

    Returns
    -------
    dict of str to ndarray, shape (G,)
    """
    weights = kept.astype(float)
    weights /= weights.sum(axis=1, keepdims=True)
    size = kept.sum(axis=1)

    def mean(values: Floats | NDArray[np.bool_]) -> Floats:
        """Mean over the kept replicates; values of shape (R,) or (G, R)."""
        result: Floats = np.sum(weights * values, axis=1)
        return result

    length = rows.lengths()
    error = rows.estimate - rows.truth
    bias = mean(error)
    deviation = error - bias[:, None]
    variance = mean(deviation**2)
    s = np.sqrt(variance * size / (size - 1))
    average = mean(length)
    z = NormalDist().inv_cdf(0.5 + level / 2)
    half = length / (2 * s[:, None])
    shift = bias / s

    def covers(half: Floats | float, shift: Floats | float = 0.0) -> Floats:
        """C(half S, shift S)."""
        result: Floats = ndtr(half - shift) - ndtr(-half - shift)
        return result

    if rows.has_se():
        length_effect = covers(average / (2 * s)) - level
        variability_effect = mean(centred(z * length / average[:, None])) - level
    else:
        length_effect = mean(centred(half)) - level
        variability_effect = np.full(len(s), math.nan)
    shape = mean(np.abs(deviation) <= z * s[:, None]) - level
    together = mean(covers(half, shift[:, None]))
    spread = mean((length - average[:, None]) ** 2) * size / (size - 1)
    return {
        "standardised_bias": shift,
        "length_ratio": average / (2 * z * s),
        "bias_effect": covers(z, shift) - level,
        "length_effect": length_effect,
        "variability_effect": variability_effect,
        "shape_effect": shape,
        "coverage_together": together,
        "coverage_left": mean(rows.covered) - together - shape,
        "length_cv": np.sqrt(spread) / average,
        # As a product: a power takes a hundred times as long.
        "skewness": mean(deviation * deviation * deviation) / variance**1.5,
    }


def centred(half: Floats) -> Floats:
    """Phi(half) - Phi(-half), in the same bits; half lengths are not negative.

    From 1.5 on, ndtr computes Phi(half) as 1 - Phi(-half).
    """
    below = ndtr(-half)
    above = 1.0 - below
    near = half < 1.5
    if near.any():
        above[near] = ndtr(half[near])
    result: Floats = above - below
    return result


def diagnosis_columns(found: Diagnosis) -> dict[str, float | str | None]:
    """Diagnosis columns of a cell in the summary (:data:`DIAGNOSIS_COLUMNS`); null where undefined."""
    columns: dict[str, float | str | None] = {"main_cause": found.main_cause()}
    for name in DIAGNOSIS:
        columns[name] = found.values[name] if math.isfinite(found.values[name]) else None
        error = found.errors[name]
        columns[f"{name}_mcse"] = error if math.isfinite(error) else None
    return {name: columns[name] for name in DIAGNOSIS_COLUMNS}


def cautions(row: Mapping[str, Any], columns: Iterable[Column], vector: bool = False) -> list[str]:
    """Diagnostics of a method's intervals, with advice.

    Parameters
    ----------
    row : mapping
        A row of the summary.
    columns : iterable of Column
        The declared columns of the summary, for a method that is not installed.
    vector : bool
        Whether theta has several coordinates.

    Returns
    -------
    list of str
        Sentences; none for methods without diagnostics, nor where all is well.
    """
    method = INTERVAL_METHODS.get(row["method"])
    return declared_cautions(columns, row) if method is None else method.cautions(row, vector)
