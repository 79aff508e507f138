"""Counts of generalised randomised response over the bins (protocol ``grr``)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpflow.random.counts import binomial, multinomial
from ldpflow.random.elementary import jit

__all__ = ["GrrDesign", "draw_grr", "spread_grr"]

REPORTS = 2
USERS, OWN, OTHERS = 3, 4, 5  # stages where users answer several times


class GrrDesign(NamedTuple):
    """Probabilities of the reports (k of them) and of the bins, and the bin that liars report."""

    chances: NDArray[np.float64]
    bins: NDArray[np.float64]
    lie: int


@jit
def several_answers(reports, key0, key1, users, design, budget):  # type: ignore[no-untyped-def]
    """All answers of users who answer several times about their bin.

    GRR is the own bin with probability 1 - k q', else a uniform one of all k bins.
    """
    k = reports.shape[0]
    true = np.empty(k)
    multinomial(true, key0, key1, USERS, 0, users, design.bins)
    truthful = budget.excess / (budget.odds + k - 1.0)
    rest = budget.answers * users
    for j in range(k):
        true[j] = binomial(key0, key1, j, OWN, 0, budget.answers * true[j], truthful)
        rest -= true[j]
    multinomial(reports, key0, key1, OTHERS, 0, rest, np.full(k, 1.0 / k))
    for j in range(k):
        reports[j] += true[j]


@jit
def draw_grr(values, key0, key1, honest, liars, design, budget):  # type: ignore[no-untyped-def]
    """F^(t_m) = (C_m/n - m q')/(p' - q'), C_m the reports of the first m bins."""
    k = design.chances.shape[0]
    reports = np.empty(k)
    if budget.answers == 1.0:
        multinomial(reports, key0, key1, REPORTS, 0, honest, design.chances)
    else:
        several_answers(reports, key0, key1, honest, design, budget)
    reports[design.lie] += liars * budget.answers
    n = (honest + liars) * budget.answers
    width = (budget.odds + k - 1.0) / budget.excess  # 1/(p' - q')
    below = 0.0
    for m in range(k - 1):
        below += reports[m]
        values[m] = below / n * width - (m + 1.0) / budget.excess
    return 0


@jit
def spread_grr(out, isotonic, tau, design, budget):  # type: ignore[no-untyped-def]
    """A(1 - A)/(p' - q')^2 with A = P(report among the first m bins); of several answers the mean's."""
    k = design.chances.shape[0]
    total = budget.odds + k - 1.0
    width = total / budget.excess
    for m in range(k - 1):
        a = (m + 1.0 + tau * budget.excess) / total
        out[m] = a * (1.0 - a) * width * width
        if budget.answers > 1.0:
            truth = tau * (1.0 - tau)
            out[m] = truth + (out[m] - truth) / budget.answers
