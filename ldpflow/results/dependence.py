"""Effect on coverage of the dependence between the error of an estimate and the length of its interval."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ldpflow.results.cells import CellRows, Floats

__all__ = ["Dependence", "dependence"]

GROUPS = 20


@dataclass(frozen=True)
class Dependence:
    """What long intervals for large errors, or the reverse, do to coverage; NaN where undefined.

    Parameters
    ----------
    effect, effect_mcse : float
        Share of centred intervals ``|error| <= length / 2`` minus that share with the lengths dealt out to
        the replicates at random (its mean over all pairs), and its delete-a-group jackknife error.
    correlation : float
        Of ``|error|`` and length.
    constant : float
        Coverage of centred intervals that all have the mean length.
    """

    effect: float
    effect_mcse: float
    correlation: float
    constant: float

    @property
    def real(self) -> bool:
        """Whether the effect exceeds two of its MCSE."""
        return abs(self.effect) > 2 * self.effect_mcse

    def phrase(self) -> str:
        """The effect in words."""
        return (
            f"error and length depend on each other (correlation {self.correlation:+.2f}; independent ones "
            f"would change coverage by {-self.effect:+.3f}, constant lengths would cover {self.constant:.3f})"
        )


def dependence(rows: CellRows) -> Dependence:
    """The dependence in a cell, from its finished rows."""
    rows = rows.finished()
    count = len(rows.ok)
    if count < 3:
        return Dependence(*[math.nan] * 4)
    error, half = np.abs(rows.estimate - rows.truth), rows.lengths() / 2
    groups = min(GROUPS, count)
    at = np.arange(count) % groups
    parts = [paired(error[at != g], half[at != g]) for g in range(groups)]
    varies = np.ptp(error) > 0 and np.ptp(half) > 0
    with np.errstate(all="ignore"):
        correlation = float(np.corrcoef(error, half)[0, 1]) if varies else 0.0
    mcse = math.sqrt((groups - 1) * float(np.var(parts)))
    return Dependence(paired(error, half), mcse, correlation, float(np.mean(error <= np.mean(half))))


def paired(error: Floats, half: Floats) -> float:
    """Share covered as paired, minus the share over all pairs of an error and a half length."""
    shorter = np.searchsorted(np.sort(half), error, side="left")  # half lengths below each error
    return float(np.mean(error <= half) - np.mean(1.0 - shorter / len(half)))
