"""Equal batches (EBS), and the lugsail combination of two batch sizes (LUG), from a stored path.

Sources: Singh, Shukla & Vats (2025), "On the utility of equal batch sizes for inference in stochastic
gradient descent"; Vats & Flegal (2022), "Lugsail lag windows for estimating time-average covariance
matrices".
"""

from decimal import Decimal, localcontext
from itertools import pairwise

import numpy as np

from tests.oracles import batch_means
from tests.oracles.recursion import average
from tests.oracles.safe_floor import DIGITS, SNAP, decimal_of


def batch_size(n, gamma, rule, c):
    """Smallest power of two, 2 or more, that is >= c n^beta; beta (gamma + 1)/2 or (2 gamma + 1)/3."""
    with localcontext() as context:
        context.prec = DIGITS
        g = decimal_of(gamma)
        beta = {"half": (g + 1) / 2, "third": (2 * g + 1) / 3}[rule]
        wanted = decimal_of(c) * Decimal(n) ** beta
        nearest = wanted.to_integral_value()
        if abs(wanted - nearest) <= SNAP * wanted:
            wanted = nearest
        size = 2
        while size < wanted:
            size = 2 * size
        return size


def variance(path, b):
    """V by coordinate; NaN with fewer than two full batches.

    With a rest of at most one step b/(a - 1) sum_k (X_k - thetabar)^2, otherwise b/a times the sum and
    (sum of the rest - r thetabar)^2 / n.
    """
    n, d = path.shape
    a = n // b if b else 0
    if a < 2:
        return np.full(d, np.nan)
    mean = average(path)
    squares = np.zeros(d)
    for k in range(a):
        squares += (average(path[k * b : (k + 1) * b]) - mean) ** 2
    rest = path[a * b :]
    if len(rest) <= 1:
        return squares * b / (a - 1)
    total = np.zeros(d)
    for theta in rest:
        total += theta - mean
    return squares * b / a + total**2 / n


def lugsail(long, short, kappa):
    """(V_b - kappa V_(b/r))/(1 - kappa), NaN unless positive."""
    v = (long - kappa * short) / (1 - kappa)
    return np.where(v > 0, v, np.nan)


def lugsail_equal(path, b, r, kappa):
    """Lugsail of EBS with b and floor(b/r)."""
    if b < r:
        return np.full(path.shape[1], np.nan)
    return lugsail(variance(path, b), variance(path, b // r), kappa)


def lugsail_increasing(path, M, gamma, r, kappa):
    """Lugsail of BM and of BM's formula on every batch cut into r pieces."""
    d = path.shape[1]
    ends = batch_means.batch_ends(len(path), M, gamma)
    lengths = np.diff(ends)
    if len(lengths) < 2 or (lengths < r).any():
        return np.full(d, np.nan)
    centre = average(path[ends[0] :])
    fine = [ends[0]]
    for begin, length in zip(ends, lengths.tolist(), strict=False):
        fine += [begin + j * length // r for j in range(1, r + 1)]

    def spread(limits):
        total = np.zeros(d)
        for begin, end in pairwise(limits):
            total += (end - begin) * (average(path[begin:end]) - centre) ** 2
        return total / (len(limits) - 1)

    return lugsail(spread(ends), spread(fine), kappa)
