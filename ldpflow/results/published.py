"""Published tables as data, and the comparison of a run with them by one Holm test of all numbers.

For a published number p with standard error SE_p, and our number o with SE_o,

    z = (o - p) / sqrt(SE_o^2 + SE_p^2 + h^2/3)

where h is half a unit of the last printed digit of p. h^2/3 is the variance of a rounding error that is
uniform on (-h, h). The comparison passes if no Holm-adjusted two-sided p value is below 1%. So a correct
program fails it in about one of a hundred runs, however many numbers are compared and whatever their
dependence. A comparison that passes proves little by itself: the size of the differences that it would find
depends on its power.

The standard error of a coverage is itself an estimate, and a poor one if there are few replicates: 49 hits in
50 make it far too small. With fewer replicates than the published study had, or if SE_o is 0, SE_o of a
coverage is raised to sqrt(p (1 - p)/replicates), its value under the hypothesis tested.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from statistics import NormalDist, median
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from pyarrow.csv import read_csv
from scipy.special import ndtr

from ldpflow.errors import InputError
from ldpflow.settings import closest

Columns = Mapping[str, Any]
Measure = Literal["coverage", "length"]

NAMES: dict[str, str] = {"dette-graw": "dette_graw.csv"}

# Coverages are printed to three digits.
COVERAGE_HALF_UNIT = 0.0005
PUBLISHED_REPLICATES = 500

# Settings of the published study, by columns of a summary.
STUDY: dict[str, Any] = {
    "epsilon": 1.0, "gamma": 0.51, "c": 1.0, "level": 0.9, "algorithm": "ldp_sgd", "theta0": 0.0
}  # fmt: skip
PROBLEM: dict[str, dict[str, Any]] = {
    "quantile": {"mechanism": "randomized_response", "law": "normal", "location": 0.0, "scale": 1.0},
    "quantile_regression": {
        "mechanism": "laplace",
        "coefficients": "[0.0, 0.0, 1.0, -1.0]",
        "covariates": "truncated_normal",
        "bound": 1.0,
        "errors": "normal",
        "error_scale": 1.0,
    },
}
METHOD: dict[str, dict[str, Any]] = {
    "BB": {"beta": 0.75, "B": 500, "multiplier": "uniform"},
    "BM": {"M": None},
    "SN": {},
}

# Our columns of each published measure: the value and its standard error.
COMPARED: dict[Measure, tuple[str, str]] = {
    "coverage": ("coverage", "coverage_mcse"),
    "length": ("length_mean", "length_mcse"),
}

# Columns of a summary that must equal Place.cell without its first value, the table.
IDENTITY = ("problem", "tau", "coordinate", "method", "n")


@dataclass(frozen=True)
class Place:
    """Cell of a published table."""

    table: int
    problem: str
    tau: float
    coordinate: int
    method: str
    n: int

    @property
    def cell(self) -> tuple[int, str, float, int, str, int]:
        """Key of a cell. The coverage and the length of a cell have one key."""
        return (self.table, self.problem, self.tau, self.coordinate, self.method, self.n)


@dataclass(frozen=True)
class PublishedRow(Place):
    """A printed number, half a unit of its last digit, and our number from the path ``path`` of the run."""

    measure: Measure
    path: str | None = None
    replicates: int = 0
    ours: float = math.nan
    ours_se: float = math.nan
    printed: float = math.nan
    printed_se: float = math.nan
    half_unit: float = math.nan
    z: float = math.nan
    p_value: float = math.nan
    p_adjusted: float = math.nan

    def spread(self) -> float:
        return math.sqrt(self.ours_se**2 + self.printed_se**2 + self.half_unit**2 / 3.0)


def load(name: str) -> list[PublishedRow]:
    """Published numbers of one of :data:`NAMES`, in the order of publication."""
    if name not in NAMES:
        raise InputError("against", name, "one of " + ", ".join(sorted(NAMES)), closest(name, NAMES))
    table = read_csv(pa.py_buffer((files("ldpflow.results") / NAMES[name]).read_bytes()))
    return [
        PublishedRow(
            **{name: line[name] for name in ("table", *IDENTITY)},
            measure=measure,
            printed=line[measure],
            printed_se=line[f"{measure}_se"],
            half_unit=COVERAGE_HALF_UNIT if measure == "coverage" else line["length_half_unit"],
        )
        for line in table.to_pylist()
        for measure in COMPARED
    ]


ABSENT = "not in the run with the published settings"


@dataclass(frozen=True)
class MissingCell(Place):
    """A published cell that is not compared: it is :data:`ABSENT`, or its value or error is not finite."""

    reason: str


@dataclass(frozen=True, repr=False)
class Comparison:
    """Result of :func:`compare`, with the rows in the order of publication.

    ``level_of_test`` is the probability that a correct run fails, over all numbers compared. ``findings`` has
    sentences about numbers of a summary that do not follow from the rows of the run.
    """

    name: str
    level_of_test: float = 0.01
    rows: list[PublishedRow] = field(default_factory=list)
    missing: list[MissingCell] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        counts = f"{len(self.rows):,} numbers compared, {len(self.missing):,} cells not"
        return f"Comparison with {self.name}: {self.verdict} ({counts})"

    @property
    def passed(self) -> bool:
        """Whether numbers were compared, all are usable and follow from rows, and the Holm test rejects none.

        Published cells that the run does not have are allowed: a smaller study may be verified too.
        """
        unusable = any(cell.reason != ABSENT for cell in self.missing)
        return bool(self.rows) and not (self.findings or unusable or self.refuted)

    @property
    def refuted(self) -> bool:
        return any(row.p_adjusted < self.level_of_test for row in self.rows)

    @property
    def verdict(self) -> str:
        if not self.rows:
            return "nothing to compare"
        if self.refuted:
            return "REFUTED"
        return "not refuted" if self.passed else "not refuted, and not all can be compared"

    def power(self) -> Iterator[str]:
        counts = [row.replicates for row in self.rows]
        for measure in COMPARED:
            if (found := self.detectable(measure)) is not None:
                size = f"{found:.3g}" if measure == "coverage" else f"{100 * found:.3g}%"
                each = " to ".join(f"{count:,}" for count in dict.fromkeys((min(counts), max(counts))))
                yield (
                    f"power: with {each} replicates a true difference of {size} in {measure} (median of the "
                    "numbers) is found with probability 80%"
                )

    def detectable(self, measure: Measure) -> float | None:
        """Median over the numbers of the difference that is found with probability .8.

        For one of m numbers it is (z(1 - a / (2 m)) + z(.8)) sqrt(SE_o^2 + SE_p^2 + h^2/3), with normal
        quantiles z(), from the first step of Holm's test at level a. For coverage it is a difference of
        shares, and for length a share of the printed length. None if no number of this measure was compared.
        """
        if not (rows := [row for row in self.rows if row.measure == measure]):
            return None
        z = NormalDist().inv_cdf(1.0 - self.level_of_test / (2 * len(self.rows))) + NormalDist().inv_cdf(0.8)
        return median(z * row.spread() / (1.0 if measure == "coverage" else row.printed) for row in rows)


def compare(summary: pa.Table, name: str) -> Comparison:
    """Compare the summary of a run with the published tables called ``name``."""
    at_hand: dict[tuple[Any, ...], list[Columns]] = {}
    for columns in summary.to_pylist():
        at_hand.setdefault(tuple(columns.get(key) for key in IDENTITY), []).append(columns)
    rows: list[PublishedRow] = []
    missing: dict[tuple[Any, ...], MissingCell] = {}
    for number in load(name):
        wanted = {**PROBLEM[number.problem], **STUDY, **METHOD[number.method]}.items()
        candidates = at_hand.get(number.cell[1:], [])
        matching = [row for row in candidates if all(row.get(name) == value for name, value in wanted)]
        if not matching:
            missing.setdefault(number.cell, MissingCell(*number.cell, ABSENT))
        for row in matching:
            ours, se = our_number(number, row)
            if not (math.isfinite(ours) and math.isfinite(se)):
                reason = f"the run's {number.measure} or its standard error is not a number"
                missing.setdefault(number.cell, MissingCell(*number.cell, reason))
                continue
            found = replace(number, path=row.get("path"), replicates=row["replicates"], ours=ours, ours_se=se)
            z = (ours - number.printed) / found.spread()
            rows.append(replace(found, z=z, p_value=float(2.0 * ndtr(-abs(z)))))
    adjusted = holm([row.p_value for row in rows])
    rows = [replace(row, p_adjusted=p) for row, p in zip(rows, adjusted, strict=True)]
    return Comparison(name, rows=rows, missing=list(missing.values()))


def our_number(number: PublishedRow, row: Columns) -> tuple[float, float]:
    value, se = (
        math.nan if row[column] is None else float(row[column]) for column in COMPARED[number.measure]
    )
    finished = row["replicates"] - (row.get("failures") or 0)
    if number.measure == "coverage" and finished > 0:
        if se == 0.0 or finished < PUBLISHED_REPLICATES:
            se = max(se, math.sqrt(number.printed * (1.0 - number.printed) / finished))
    return value, se


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p values: the k-th smallest of m values times m - k + 1, made monotone.

    If all hypotheses with an adjusted value below a are rejected, the probability of a false rejection is at
    most a, whatever the dependence of the values (Holm, 1979).
    """
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p)
    adjusted = np.empty(len(p))
    adjusted[order] = np.maximum.accumulate(np.minimum(1.0, np.arange(len(p), 0, -1) * p[order]))
    return list(adjusted.tolist())
