"""Counts of randomised bits: one threshold per user, drawn at random (protocol ``thresholds``)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpflow.random.counts import binomial, split_evenly
from ldpflow.random.elementary import jit

__all__ = ["ThresholdDesign", "bits", "draw_thresholds", "spread_thresholds"]

HONEST, LIARS, ONES = 2, 3, 4  # stages of the address; 0 and 1 count who answers and who lies
TRUTHS = 16  # stages of bits that are answered about several times


class ThresholdDesign(NamedTuple):
    """F at the inner edges, and the report of a liar (0 or 1)."""

    cdf: NDArray[np.float64]
    lie: float


@jit
def bits(key0, key1, index, stage, turn, users, truth, chance, budget):  # type: ignore[no-untyped-def]
    """Reports of 1 among all answers of users whose bit is 1 with probability ``truth``.

    ``chance`` is the probability of a report of 1. Answers of one user are about the same bit: with
    several of them, the bits are drawn first. The stages from ``stage + TRUTHS`` on are theirs.
    """
    if budget.answers == 1.0:
        return binomial(key0, key1, index, stage, turn, users, chance)
    true = binomial(key0, key1, index, stage + TRUTHS, turn, users, truth)
    kept = binomial(key0, key1, index, stage + TRUTHS + 1, turn, budget.answers * true, budget.keep)
    false = budget.answers * (users - true)
    return kept + binomial(key0, key1, index, stage + TRUTHS + 2, turn, false, budget.flip)


@jit
def draw_thresholds(values, key0, key1, honest, liars, design, budget):  # type: ignore[no-untyped-def]
    """A random edge per user and the randomised bit 1{value below it}; no user: F^ = 1/2."""
    k = values.shape[0]
    asked = np.empty(k)
    lying = np.empty(k)
    split_evenly(asked, key0, key1, HONEST, 0, honest)
    split_evenly(lying, key0, key1, LIARS, 0, liars)
    empty = 0
    for m in range(k):
        chance = budget.flip + budget.gap * design.cdf[m]
        ones = bits(key0, key1, m, ONES, 0, asked[m], design.cdf[m], chance, budget)
        ones += design.lie * lying[m] * budget.answers
        total = (asked[m] + lying[m]) * budget.answers
        if total == 0.0:
            empty += 1
            values[m] = 0.5
        else:
            values[m] = (ones / total - budget.flip) / budget.gap
    return empty


@jit
def spread_thresholds(out, isotonic, tau, design, budget):  # type: ignore[no-untyped-def]
    """(k - 1) (tau (1 - tau) + v/(4 a)), a answers per user: (k - 1) S(tau, eps) for one."""
    k = out.shape[0]
    out[:] = k * (tau * (1.0 - tau) + 0.25 * budget.noise / budget.answers)
