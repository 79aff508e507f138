"""Equal batches (EBS), and the lugsail combination of two batch sizes (LUG), from a stored path.

Sources: Singh, Shukla & Vats (2025), "On the utility of equal batch sizes for inference in stochastic
gradient descent"; Vats & Flegal (2022), "Lugsail lag windows for estimating time-average covariance
matrices".
"""

from decimal import Decimal, localcontext

import numpy as np

from tests.oracles import batch_means
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
    deviations = path - path.mean(axis=0)
    squares = sum(deviations[k * b : (k + 1) * b].mean(axis=0) ** 2 for k in range(a))
    rest = deviations[a * b :]
    if len(rest) <= 1:
        return squares * b / (a - 1)
    return squares * b / a + rest.sum(axis=0) ** 2 / n


def lugsail(long, short, kappa):
    """(V_b - kappa V_(b/r))/(1 - kappa), NaN unless positive."""
    v = (long - kappa * short) / (1 - kappa)
    return np.where(v > 0, v, np.nan)


def lugsail_equal(path, b, r, kappa):
    return lugsail(variance(path, b), variance(path, b // r), kappa)


def lugsail_increasing(path, M, gamma, r, kappa):
    """Lugsail of BM and of BM's formula on every batch cut into r pieces."""
    ends = batch_means.batch_ends(len(path), M, gamma)
    lengths = np.diff(ends)
    if M < 2 or min(lengths) < r:
        return np.full(path.shape[1], np.nan)
    fine = [ends[0]]
    for begin, length in zip(ends, lengths.tolist(), strict=False):
        fine += [begin + j * length // r for j in range(1, r + 1)]
    centre = path[ends[0] :].mean(axis=0)
    long, short = (np.diag(batch_means.covariance(path, cuts, centre)) for cuts in (ends, fine))
    return lugsail(long, short, kappa)
