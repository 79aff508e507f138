"""Sources of a plan without a study: a pilot's column, or public bounds of the data.

c and theta0 follow from the pilot's law for every tau and n (ldpflow.planning.pilot); a verdict from a
pilot is the worst but 5% of those under resampled pilots, and at best ``doubtful`` where fewer than 50 of
its values lie beyond the quantile.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpflow.planning.advice import recommended
from ldpflow.planning.pilot import (
    Bounds,
    Design,
    design,
    design_within,
    percentile_range,
    resampled_laws,
    worst_arrival,
)
from ldpflow.problems.column_file import Column
from ldpflow.problems.column_law import ColumnLaw
from ldpflow.problems.own_column import LAW_FROM, column_of, values_of
from ldpflow.problems.quantile import Quantile
from ldpflow.simulators.one_pass import OnePass
from ldpflow.theory.arrival import Arrival, approaches

__all__ = ["Guess", "Judged", "Pilot"]

SURVEYED = tuple(2.0 ** (k / 2) for k in range(-6, 7))  # scales of the law that a guess is tried with

SURE_BIAS = 0.5
"""SE of predicted bias up to which TR of degree 2 is good enough with steps from a pilot."""

SURE_VALUES = 200
"""Values of a pilot from which on its own law is trusted with that."""


class Judged(NamedTuple):
    """An arrival, the verdict that counts, and the worst but 5% of those under resampled pilots."""

    arrival: Arrival
    verdict: str
    worst: Arrival | None = None


@dataclass(frozen=True)
class Pilot:
    """A pilot's column.

    Parameters
    ----------
    file : str
    column : str, optional
        May be left out where the file has one numeric column.
    drop : bool
        Leave out records without a value.
    jitter : float, optional
        Width of the noise that every user adds to the value.
    seed : int
        Of the resampled pilots.
    """

    file: str
    column: str | None = None
    drop: bool = False
    jitter: float | None = None
    seed: int = 0

    @cached_property
    def read(self) -> Column:
        """The column as it stands in the file."""
        return column_of(self.file, self.column, self.drop, ("pilot", "column"))[0]

    def problem(self, tau: float) -> Quantile:
        """The tau-quantile of the column."""
        return Quantile(
            tau=tau,
            law="empirical",
            file=self.file,
            column=self.read.name,
            missing="drop" if self.drop else None,
            jitter=self.jitter,
        )

    def design(self, tau: float, n: int) -> Design:
        """Steps and start for n users."""
        return design(self.problem(tau).data_law(), tau, n)

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """The column, jittered if asked for."""
        return values_of(self.read, self.jitter)

    @cached_property
    def resampled(self) -> list[ColumnLaw]:
        """Laws of columns drawn from the column with replacement."""
        return resampled_laws(self.values, self.seed)

    def sparsities(self, tau: float) -> tuple[float, float]:
        """90% range of 1/f(theta*) over resampled pilots."""
        return percentile_range([law.sparsity(tau) for law in self.resampled])

    def arrival(self, simulator: OnePass, n: int, level: float) -> Judged:
        """The arrival under the pilot's law, and the verdict that the pilot vouches for."""
        case = simulator.approach(n)
        assert case is not None
        (found,) = approaches([case])
        worst = worst_arrival(case, self.resampled, level)
        verdict, tau = worst.verdict, case.tau
        if verdict == "arrived" and len(self.values) * min(tau, 1.0 - tau) < LAW_FROM:
            verdict = "doubtful"
        return Judged(found, verdict, worst)

    def method(self, arrival: Arrival) -> str | None:
        """TR where the bias is small, TR3 above that and for small pilots; None where neither does."""
        method = recommended(arrival)
        unsure = abs(arrival.bias) > SURE_BIAS or len(self.values) < SURE_VALUES
        if method == "TR" and unsure:
            return "TR3" if arrival.relaxation_times >= 45 else None
        return method


@dataclass(frozen=True)
class Guess:
    """Public bounds in the place of a pilot: the law is guessed, the design cautious."""

    bounds: Bounds

    def problem(self, tau: float) -> Quantile:
        """The tau-quantile of the normal law that the bounds suggest."""
        law = self.bounds.law()
        return Quantile(tau=tau, law="normal", location=law.location, scale=law.scale)

    def design(self, tau: float, n: int) -> Design:
        """Steps and start for n users."""
        return design_within(self.bounds, tau, n)

    def arrival(self, simulator: OnePass, n: int, level: float) -> Judged:
        """The arrival under the guessed law."""
        case = simulator.approach(n)
        assert case is not None
        (found,) = approaches([case])
        return Judged(found, found.verdict)

    def method(self, arrival: Arrival) -> str | None:
        """TR3, which survives the largest errors of the guess; None where nothing does."""
        return None if recommended(arrival) is None else "TR3"

    def survives(self, simulator: OnePass, n: int) -> tuple[float, float] | None:
        """Factors by which the law may be narrower or wider before the verdict is a refusal."""
        case = simulator.approach(n)
        assert case is not None
        laws = [replace(case.law, scale=case.law.scale * factor) for factor in SURVEYED]
        fine = [not a.refused for a in approaches([replace(case, law=law) for law in laws])]
        middle = SURVEYED.index(1.0)
        if not fine[middle]:
            return None
        low = next((k for k in range(middle, -1, -1) if not fine[k]), -1) + 1
        high = next((k for k in range(middle, len(fine)) if not fine[k]), len(fine)) - 1
        return SURVEYED[low], SURVEYED[high]
