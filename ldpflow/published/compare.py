"""Published numbers beside those of a run: z values, and one Holm test for all of them.

For a published number p with standard error SE_p, printed to a unit whose half is h, and ours o:

    z = (o - p) / sqrt(SE_o^2 + SE_p^2 + h^2/3)

h^2/3 is the variance of a rounding error uniform on (-h, h). The comparison passes when no
Holm-adjusted two-sided p value is below 1%, so a correct program fails it about once in a hundred
runs, however many numbers are compared and whatever their dependence.

The standard error of a coverage is itself estimated, and poorly by few replicates: 49 misses out of
50 make it far too small. With fewer replicates than the published study had, or when ours is 0, SE_o
of a coverage is at least sqrt(p (1 - p)/replicates), its value under the hypothesis tested.
"""

from __future__ import annotations

import csv
import difflib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal

from ldpflow.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "COMPARED",
    "NAMES",
    "Comparison",
    "MissingCell",
    "PublishedNumber",
    "Row",
    "compare",
    "holm",
    "load",
]

Measure = Literal["coverage", "length"]
Cell = tuple[int, str, float, int, str, int]
Columns = Mapping[str, Any]

# Published tables by the name that `verify --against` takes.
NAMES: dict[str, str] = {"dette-graw": "dette_graw.csv"}

# Our column and its standard error, for each published measure.
COMPARED: dict[Measure, tuple[str, str]] = {
    "coverage": ("coverage", "coverage_mcse"),
    "length": ("length_mean", "length_mcse"),
}

# Coverages are printed to three digits.
COVERAGE_HALF_UNIT = 0.0005
PUBLISHED_REPLICATES = 500

# What a summary must have for a published number to be looked up in it.
IDENTITY = ("problem", "tau", "coordinate", "method", "n")
NEEDED = (
    *IDENTITY,
    *("mechanism", "epsilon", "gamma", "c", "level", "beta", "B", "multiplier", "M"),
    *("replicates", "coverage", "coverage_mcse", "length_mean", "length_mcse"),
)

# The settings of the published study; those after `level` are asked for only where a summary has
# such a column, and null there means the default, which is the published value.
STUDY: dict[str, Any] = {"epsilon": 1.0, "gamma": 0.51, "c": 1.0, "level": 0.9}
DEFAULTS: dict[str, Any] = {"algorithm": "ldp_sgd", "theta0": 0.0}
PROBLEM: dict[str, dict[str, Any]] = {
    "quantile": {"mechanism": "randomized_response"},
    "quantile_regression": {"mechanism": "laplace"},
}
PROBLEM_DEFAULTS: dict[str, dict[str, Any]] = {
    "quantile": {"law": "normal", "location": 0.0, "scale": 1.0},
    "quantile_regression": {
        "coefficients": (0.0, 0.0, 1.0, -1.0),
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


@dataclass(frozen=True)
class PublishedNumber:
    """One printed number and the cell of the design that it stands in.

    Parameters
    ----------
    table : int
        Number of the table in the paper.
    problem : str
    tau : float
    coordinate : int
    method : str
    n : int
    measure : {"coverage", "length"}
    value : float
        As printed.
    se : float
        Its printed standard error.
    half_unit : float
        Half a unit of the last printed digit.
    """

    table: int
    problem: str
    tau: float
    coordinate: int
    method: str
    n: int
    measure: Measure
    value: float
    se: float
    half_unit: float

    @property
    def cell(self) -> Cell:
        """Where it stands; coverage and length of one cell agree in it."""
        return (self.table, self.problem, self.tau, self.coordinate, self.method, self.n)

    def settings(self) -> dict[str, Any]:
        """Settings that a row must have to be this cell."""
        return {**PROBLEM[self.problem], **STUDY, **METHOD[self.method]}

    def default_settings(self) -> dict[str, Any]:
        """Further settings, for summaries that have a column for them."""
        return {**DEFAULTS, **PROBLEM_DEFAULTS[self.problem]}


@dataclass(frozen=True)
class Row:
    """A published number beside ours. ``path`` says which path of the run ours comes from."""

    table: int
    problem: str
    tau: float
    coordinate: int
    method: str
    n: int
    measure: Measure
    path: str | None
    replicates: int
    ours: float
    ours_se: float
    printed: float
    printed_se: float
    half_unit: float
    z: float
    p_value: float
    p_adjusted: float


@dataclass(frozen=True)
class MissingCell:
    """A published cell that could not be compared, and why.

    ``kind`` is ``absent`` (nothing like it in the run), ``other settings`` (in the run, but not
    with the settings of the publication) or ``unusable`` (in the run, without a finite value or
    standard error); ``reason`` is a sentence for people.
    """

    table: int
    problem: str
    tau: float
    coordinate: int
    method: str
    n: int
    kind: Literal["absent", "other settings", "unusable"]
    reason: str


@dataclass(frozen=True)
class Comparison:
    """Result of :func:`compare`.

    Parameters
    ----------
    name : str
        Name of the published tables.
    level_of_test : float
        Error rate of the family of all compared numbers.
    rows : list of Row
        In the order of publication.
    missing : list of MissingCell
    """

    name: str
    level_of_test: float
    rows: list[Row] = field(default_factory=list)
    missing: list[MissingCell] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether something was compared, all of it was usable, and the Holm test keeps it all.

        Cells that the run does not have are no failure: a smaller study may be verified too.
        """
        if not self.rows or any(cell.kind == "unusable" for cell in self.missing):
            return False
        return all(row.p_adjusted >= self.level_of_test for row in self.rows)

    def as_table(self) -> pa.Table:
        """The rows as an Arrow table, one column per field."""
        import pyarrow as pa

        integers = ("table", "coordinate", "n", "replicates")
        strings = ("problem", "method", "measure", "path")
        types = {**dict.fromkeys(integers, pa.int64()), **dict.fromkeys(strings, pa.string())}
        names = Row.__dataclass_fields__
        schema = pa.schema([(name, types.get(name, pa.float64())) for name in names])
        return pa.Table.from_pylist([asdict(row) for row in self.rows], schema=schema)


def load(name: str) -> list[PublishedNumber]:
    """Published numbers, in the order of publication.

    Parameters
    ----------
    name : str
        One of :data:`NAMES`.

    Raises
    ------
    InputError
        If there are no tables of that name.
    """
    if name not in NAMES:
        near = difflib.get_close_matches(str(name), NAMES, n=1, cutoff=0.4)
        hint = f"Did you mean {near[0]!r}?" if near else ""
        raise InputError("--against", name, "one of " + ", ".join(sorted(NAMES)), hint)
    text = (files("ldpflow.published") / NAMES[name]).read_text(encoding="utf-8")
    numbers = []
    for line in csv.DictReader(text.splitlines()):
        for measure in COMPARED:
            numbers.append(
                PublishedNumber(
                    table=int(line["table"]),
                    problem=line["problem"],
                    tau=float(line["tau"]),
                    coordinate=int(line["coordinate"]),
                    method=line["method"],
                    n=int(line["n"]),
                    measure=measure,
                    value=float(line[measure]),
                    se=float(line[f"{measure}_se"]),
                    half_unit=(
                        COVERAGE_HALF_UNIT
                        if measure == "coverage"
                        else float(line["length_half_unit"])
                    ),
                )
            )
    return numbers


def compare(summary: pa.Table, name: str, level_of_test: float = 0.01) -> Comparison:
    """Compare the summary of a run with published tables.

    Parameters
    ----------
    summary : pyarrow.Table
        One row per cell, as in a run's ``summary.parquet``.
    name : str
        Name of the published tables.
    level_of_test : float
        Probability that a correct run fails, over all numbers compared.

    Raises
    ------
    InputError
        If the name is unknown, or the summary lacks a column.
    """
    published = load(name)
    absent = [column for column in NEEDED if column not in summary.column_names]
    if absent:
        allowed = "a table with the columns of a run's summary"
        raise InputError(
            "summary", summary.column_names, allowed, f"It lacks {', '.join(absent)}."
        )
    at_hand: dict[Cell, list[Columns]] = {}
    for columns in summary.to_pylist():
        at_hand.setdefault(tuple(columns[name] for name in IDENTITY), []).append(columns)  # type: ignore[arg-type]

    found: list[tuple[PublishedNumber, Columns, float, float, float]] = []
    missing: dict[Cell, MissingCell] = {}
    for number in published:
        candidates = at_hand.get(number.cell[1:], [])  # type: ignore[call-overload]
        matching = [row for row in candidates if not differences(number, row)]
        if not matching:
            missing.setdefault(number.cell, why_missing(number, candidates))
        for row in matching:
            ours, se = our_number(number, row)
            if math.isfinite(ours) and math.isfinite(se):
                spread = math.sqrt(se**2 + number.se**2 + number.half_unit**2 / 3.0)
                found.append((number, row, ours, se, (ours - number.value) / spread))
            else:
                reason = f"the run's {number.measure} or its standard error is not a number"
                missing.setdefault(number.cell, MissingCell(*number.cell, "unusable", reason))
    p_values = [two_sided(z) for *_, z in found]
    rows = [
        Row(
            *number.cell,
            measure=number.measure,
            path=row.get("path"),
            replicates=row["replicates"],
            ours=ours,
            ours_se=se,
            printed=number.value,
            printed_se=number.se,
            half_unit=number.half_unit,
            z=z,
            p_value=p,
            p_adjusted=adjusted,
        )
        for (number, row, ours, se, z), p, adjusted in zip(
            found, p_values, holm(p_values), strict=True
        )
    ]
    return Comparison(name, level_of_test, rows, list(missing.values()))
