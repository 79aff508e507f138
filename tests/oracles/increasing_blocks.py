"""Blocks that grow along the path: non-overlapping (NOL) and fully online overlapping (OBM) estimates.

Source: Zhu, Chen & Wu (2023), "Online covariance matrix estimation in stochastic gradient descent".
Iterates are numbered from 1; every sum below goes over the iterates themselves, one by one.
"""

from decimal import Decimal, localcontext

import numpy as np

from tests.oracles.recursion import average
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


def blocks(n, starts):
    """Steps of every block; the last one ends at n."""
    ends = [*starts[1:], n + 1]
    return [range(a, b) for a, b in zip(starts, ends, strict=True)]


def nonoverlapping_variance(path, starts):
    """V = n^-1 sum_k (sum over block k of (theta_i - thetabar))^2 by coordinate; NaN with one block."""
    n, d = path.shape
    if len(starts) < 2:
        return np.full(d, np.nan)
    mean = average(path)
    v = np.zeros(d)
    for block in blocks(n, starts):
        total = np.zeros(d)
        for i in block:
            total += path[i - 1] - mean
        v += total * total
    return v / n


def effective_blocks(n, starts):
    """nu0 = n^2 / sum of squared block lengths."""
    return n**2 / sum(len(block) ** 2 for block in blocks(n, starts))


def overlapping_variance(path, starts):
    """V = sum_i (sum_{j = a(i)}^i (theta_j - thetabar))^2 / sum_i l_i, a(i) the start of i's block.

    l_i = i - a(i) + 1. NaN with fewer than two blocks.
    """
    n, d = path.shape
    if len(starts) < 2:
        return np.full(d, np.nan)
    mean = average(path)
    squares, lengths = np.zeros(d), 0
    for block in blocks(n, starts):
        total = np.zeros(d)
        for place, i in enumerate(block, 1):
            total = total + (path[i - 1] - mean)
            squares = squares + total**2
            lengths += place
    return squares / lengths
