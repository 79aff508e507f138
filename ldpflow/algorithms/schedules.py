"""Length of the momentum algorithms' runs: the theorems' T, and the balancing number of epochs.

Theorems 6 and 9 of Tran and Cutkosky (2022) set T so that optimisation and noise are of the same order,
without constants and, in Theorem 9, without logarithms; at practical sizes this leaves the noise
of Algorithm 2 far above the gradient. What is balanced here instead is the descent lemma's bound,

    (gap + 6 L) / sqrt(q) + 2 E||noise||(q),    eta = 1/sqrt(M T), alpha = 1/M, q = T/M epochs,

with the noise that is added at this budget, from the variances of .privacy.tree and upper bounds of
the accountant's c. The first term falls like q^-1/2; the noise grows like q^1/2 (Algorithm 1) and q^1/4
(Algorithm 2). The optimum depends on the constants that are bounds only: shorter or longer runs may do
better.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from mpmath import mp, mpf

from ldpflow.constants import workdps

DIGITS = 40


def first_theorem_steps(n: int, d: int, epsilon: float, delta: float) -> float:
    """T of Theorem 6: T log2 T = epsilon N^2 / sqrt(d log(1/delta)), solved; not rounded."""
    with workdps(DIGITS):
        target = mpf(epsilon) * n**2 / mp.sqrt(d * mp.log(1 / mpf(delta))) * mp.log(2)
        return float(mp.exp(mp.lambertw(target).real))


def reduced_theorem_steps(n: int, d: int, epsilon: float) -> float:
    """T of Theorem 9: N^(7/3) epsilon^(4/3) / d^(2/3); not rounded."""
    with workdps(DIGITS):
        third = mp.cbrt(mpf(n) ** 7 * mpf(epsilon) ** 4 / mpf(d) ** 2)
        return float(third)


def best_epochs(least: int, most: float, slope: float, noise: Callable[[int], float]) -> int:
    """The q in a grid with ratio 9/8 that minimises slope / sqrt(q) + 2 noise(q).

    Parameters
    ----------
    least : int
    most : float
        Longest run allowed, in epochs.
    slope : float
        gap + 6 L.
    noise : callable
        E||noise|| after q epochs.
    """
    q, best, found = least, math.inf, least
    while q <= most:
        value = slope / math.sqrt(q) + 2.0 * noise(q)
        if value < best:
            best, found = value, q
        elif value > 2.0 * best:
            break
        q = max(q + 1, q * 9 // 8)
    return found
