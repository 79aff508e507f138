"""Arrival of the paths of a run: what was predicted, beside what was measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ldpflow.simulators.simulator import Simulator
from ldpflow.theory.arrival import Arrival
from ldpflow.theory.arrivals import arrivals

__all__ = ["Compared", "compared"]

AVERAGES = ("BB", "BM", "SN", "oracle")
"""Methods whose centre is the average of the iterates."""

FACTOR = 2.0  # predicted and measured bias agree if one is at most this times the other


@dataclass(frozen=True)
class Compared:
    """Predicted and measured bias of the average in one row of a summary.

    Parameters
    ----------
    arrival : Arrival
    measured : float
        Bias over the standard error of the oracle.
    start, truth : float
        theta0 and theta*, unit of theta.
    """

    arrival: Arrival
    measured: float
    start: float
    truth: float

    def source(self) -> str | None:
        """``start`` or ``steps``, whichever part of the predicted bias is larger.

        None where predicted and measured bias differ in sign or by more than a factor of 2.
        """
        predicted = self.arrival.bias
        if predicted * self.measured <= 0:
            return None
        ratio = predicted / self.measured
        if not 1 / FACTOR <= ratio <= FACTOR:
            return None
        return "start" if abs(self.arrival.bias_start) >= abs(self.arrival.bias_steps) else "steps"

    def sentence(self) -> str:
        """Where the path came to, for one that does not arrive; empty otherwise."""
        found = self.arrival
        if not found.refused:
            return ""
        words = found.verdict.replace("_", " ")
        k = (
            f"{found.relaxation_times:.1f}"
            if found.relaxation_times < 100
            else f"{found.relaxation_times:,.0f}"
        )
        moved = (
            ""
            if math.isnan(found.last_mean)
            else f", theta went from {self.start:g} to {found.last_mean:.3g} of {self.truth:.3g}"
        )
        return (
            f"{words.capitalize()}: {k} relaxation times{moved}; start {found.bias_start:+.2f} SE, steps "
            f"{found.bias_steps:+.2f} SE (predicted), bias {self.measured:+.2f} SE (measured)."
        )


def compared(
    rows: Sequence[Mapping[str, Any]], paths: Mapping[str, Simulator[Any, Any]]
) -> list[Compared | None]:
    """Predicted beside measured for rows of a summary.

    Parameters
    ----------
    rows : sequence of mapping
    paths : mapping of str to Simulator
        By the rows' ``path``.

    Returns
    -------
    list of Compared or None
        None for methods that are not around the average, and where nothing is predicted.
    """
    asked = dict.fromkeys((row["path"], row["n"]) for row in rows if row["method"] in AVERAGES)
    known = [(path, n) for path, n in asked if path in paths]
    found = dict(zip(known, arrivals([(paths[path], n) for path, n in known]), strict=True))
    result: list[Compared | None] = []
    for row in rows:
        at = found.get((row["path"], row["n"])) if row["method"] in AVERAGES else None
        bias = row["bias"]
        if at is None or bias is None:
            result.append(None)
            continue
        arrival = at[row["coordinate"]]
        start = row.get("theta0")
        result.append(
            Compared(
                arrival,
                bias / arrival.standard_error,
                math.nan if start is None else start,
                row["truth"],
            )
        )
    return result
