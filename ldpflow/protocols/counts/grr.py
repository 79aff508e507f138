"""Counts of generalised randomised response over the bins (protocol ``grr``)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpflow.random.counts import multinomial
from ldpflow.random.elementary import jit

__all__ = ["GrrDesign", "draw_grr", "spread_grr"]

REPORTS = 2


class GrrDesign(NamedTuple):
    """Probabilities of the reports (k of them), and the bin that liars report."""

    chances: NDArray[np.float64]
    lie: int


@jit
def draw_grr(values, key0, key1, honest, liars, design, budget):  # type: ignore[no-untyped-def]
    """F^(t_m) = (C_m/n - m q')/(p' - q'), C_m the reports of the first m bins."""
    k = design.chances.shape[0]
    reports = np.empty(k)
    multinomial(reports, key0, key1, REPORTS, 0, honest, design.chances)
    reports[design.lie] += liars
    n = honest + liars
    width = (budget.odds + k - 1.0) / budget.excess  # 1/(p' - q')
    below = 0.0
    for m in range(k - 1):
        below += reports[m]
        values[m] = below / n * width - (m + 1.0) / budget.excess
    return 0


@jit
def spread_grr(out, isotonic, tau, design, budget):  # type: ignore[no-untyped-def]
    """A(1 - A)/(p' - q')^2 with A = P(report among the first m bins)."""
    k = design.chances.shape[0]
    total = budget.odds + k - 1.0
    width = total / budget.excess
    for m in range(k - 1):
        a = (m + 1.0 + tau * budget.excess) / total
        out[m] = a * (1.0 - a) * width * width
