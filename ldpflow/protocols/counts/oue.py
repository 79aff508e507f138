"""Counts of optimised unary encoding over the bins (protocol ``oue``)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpflow.random.counts import binomial, multinomial
from ldpflow.random.elementary import jit

__all__ = ["OueDesign", "draw_oue", "frequencies", "spread_oue"]

USERS, OWN, OTHERS = 2, 3, 4


class OueDesign(NamedTuple):
    """Probabilities of the bins, and the bits that a liar sends."""

    bins: NDArray[np.float64]
    lie: NDArray[np.float64]


@jit
def frequencies(out, key0, key1, turn, honest, liars, bins, lie, budget):  # type: ignore[no-untyped-def]
    """Unbiased frequencies of the bins: (ones/n - q)/(1/2 - q).

    Given the users N_j of a bin, its ones are Bin(N_j, 1/2) + Bin(n - N_j, q), independent; with a
    answers of every user Bin(a N_j, 1/2) + Bin(a (n - N_j), q), and a n in the place of n.
    """
    k = out.shape[0]
    a = budget.answers
    n = (honest + liars) * a
    multinomial(out, key0, key1, USERS, turn, honest, bins)
    for j in range(k):
        own = binomial(key0, key1, j, OWN, turn, a * out[j], 0.5)
        others = binomial(key0, key1, j, OTHERS, turn, a * (honest - out[j]), budget.flip)
        ones = own + others + lie[j] * liars * a
        out[j] = 2.0 * (ones / n - budget.flip) / budget.gap


@jit
def draw_oue(values, key0, key1, honest, liars, design, budget):  # type: ignore[no-untyped-def]
    """Frequencies moved to the sum 1 by the same amount each, then added up."""
    k = design.bins.shape[0]
    found = np.empty(k)
    frequencies(found, key0, key1, 0, honest, liars, design.bins, design.lie, budget)
    total = 0.0
    for j in range(k):
        total += found[j]
    shift = (total - 1.0) / k
    below = 0.0
    for m in range(k - 1):
        below += found[m] - shift
        values[m] = below
    return 0


@jit
def spread_oue(out, isotonic, tau, design, budget):  # type: ignore[no-untyped-def]
    """F(1 - F) + [v m(k - m)/k + F(1 - m/k)^2 + (1 - F)(m/k)^2]/a with F = tau, a answers."""
    k = design.bins.shape[0]
    for m in range(1, k):
        s = m / k
        rest = 1.0 - s
        noise = budget.noise * m * rest
        if budget.answers == 1.0:
            out[m - 1] = tau * (1.0 - tau) + noise + tau * rest * rest + (1.0 - tau) * s * s
        else:
            noise += tau * rest * rest + (1.0 - tau) * s * s
            out[m - 1] = tau * (1.0 - tau) + noise / budget.answers
