"""Published numbers as data: every number of a table with its printed standard error."""

from __future__ import annotations

import csv
import difflib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal

from ldpflow.errors import InputError

__all__ = [
    "MEASURES",
    "NAMES",
    "PUBLISHED_REPLICATES",
    "Cell",
    "Measure",
    "Place",
    "PublishedNumber",
    "load",
]

Measure = Literal["coverage", "length"]
Cell = tuple[int, str, float, int, str, int]

MEASURES: tuple[Measure, ...] = ("coverage", "length")

# Published tables by the name that `verify` takes.
NAMES: dict[str, str] = {"dette-graw": "dette_graw.csv"}

# Coverages are printed to three digits.
COVERAGE_HALF_UNIT = 0.0005
PUBLISHED_REPLICATES = 500

# The settings of the published study. The DEFAULTS are asked for only where a summary has such a
# column, and null there means the default, which is the published value.
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
class Place:
    """Where a number stands in print.

    Parameters
    ----------
    table : int
        Number of the table in the paper.
    problem : str
    tau : float
    coordinate : int
    method : str
    n : int
    """

    table: int
    problem: str
    tau: float
    coordinate: int
    method: str
    n: int

    @property
    def cell(self) -> Cell:
        """As a tuple; coverage and length of one cell agree in it."""
        return (self.table, self.problem, self.tau, self.coordinate, self.method, self.n)


@dataclass(frozen=True)
class PublishedNumber(Place):
    """One printed number and the cell of the design that it stands in.

    Parameters
    ----------
    measure : {"coverage", "length"}
    value : float
        As printed.
    se : float
        Its printed standard error.
    half_unit : float
        Half a unit of the last printed digit.
    """

    measure: Measure
    value: float
    se: float
    half_unit: float

    def settings(self) -> dict[str, Any]:
        """Settings that a row must have to be this cell."""
        return {**PROBLEM[self.problem], **STUDY, **METHOD[self.method]}

    def default_settings(self) -> dict[str, Any]:
        """Further settings, for summaries that have a column for them."""
        return {**DEFAULTS, **PROBLEM_DEFAULTS[self.problem]}


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
        raise InputError("against", name, "one of " + ", ".join(sorted(NAMES)), hint)
    text = (files("ldpflow.published") / NAMES[name]).read_text(encoding="utf-8")
    numbers = []
    for line in csv.DictReader(text.splitlines()):
        for measure in MEASURES:
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
                        COVERAGE_HALF_UNIT if measure == "coverage" else float(line["length_half_unit"])
                    ),
                )
            )
    return numbers
