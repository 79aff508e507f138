"""Blocks that grow along the path: non-overlapping (NOL) and fully online overlapping (OBM) estimates.

Source: Zhu, Chen & Wu (2023), "Online covariance matrix estimation in stochastic gradient descent".
Steps are numbered from 1.
"""

from decimal import Decimal, localcontext

import numpy as np

from tests.oracles.safe_floor import DIGITS, decimal_of, safe_floor


def block_starts(n, gamma, c):
    """1 and every distinct a_k = floor(c k^(2/(1 - gamma))) in 2..n, k = 1, 2, ..."""
    found = {1}
    k = 1
    with localcontext() as context:
        context.prec = DIGITS
        power = 2 / (1 - decimal_of(gamma))
        while True:
            start = safe_floor(decimal_of(c) * Decimal(k) ** power)
            if start > n:
                return sorted(found)
            if start >= 1:
                found.add(start)
            k += 1


def deviations_in_blocks(path, starts):
    """theta_i - thetabar over the steps of each block; the last one ends at n."""
    return np.split(path - path.mean(axis=0), [start - 1 for start in starts[1:]])


def nonoverlapping_variance(path, starts):
    """V = n^-1 sum_k (sum over block k of (theta_i - thetabar))^2 by coordinate; NaN with one block."""
    if len(starts) < 2:
        return np.full(path.shape[1], np.nan)
    return sum(block.sum(axis=0) ** 2 for block in deviations_in_blocks(path, starts)) / len(path)


def effective_blocks(n, starts):
    """nu0 = n^2 / sum of squared block lengths."""
    return n**2 / sum(int(length) ** 2 for length in np.diff([*starts, n + 1]))


def overlapping_variance(path, starts):
    """V = sum_i (sum_{j = a(i)}^i (theta_j - thetabar))^2 / sum_i l_i, a(i) the start of i's block.

    l_i = i - a(i) + 1. NaN with fewer than two blocks.
    """
    if len(starts) < 2:
        return np.full(path.shape[1], np.nan)
    blocks = deviations_in_blocks(path, starts)
    lengths = sum(sum(range(1, len(block) + 1)) for block in blocks)
    return sum((np.cumsum(block, axis=0) ** 2).sum(axis=0) for block in blocks) / lengths
