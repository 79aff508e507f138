"""Steering model of ``rounds``: posterior of (quantile, scale) on a grid, from randomised bits.

Working model: P(report 1 at x) = (1 - p) + (2p - 1) expit(logit tau + (x - theta)/sigma).
"""

from __future__ import annotations

import numpy as np

from ldpflow.random.elementary import exp, jit, log

__all__ = ["SCALES", "grid_posterior"]

SCALES = 6
"""Values of sigma on the grid."""


@jit
def log_likelihood(shift, logit, x, asked, ones, budget):  # type: ignore[no-untyped-def]
    """Of the reports at all thresholds; shift = (theta, 1/sigma)."""
    theta, slope = shift
    total = 0.0
    for d in range(x.shape[0]):
        if asked[d] > 0.0:
            # expit(z) and 1 - expit(z) = expit(-z), each without cancellation.
            z = logit + (x[d] - theta) * slope
            tail = exp(-abs(z))
            large = 1.0 / (1.0 + tail)
            small = tail * large
            above = large if z > 0.0 else small
            below = small if z > 0.0 else large
            total += ones[d] * log(budget.flip + budget.gap * above)
            total += (asked[d] - ones[d]) * log(budget.flip + budget.gap * below)
    return total


@jit
def grid_posterior(x, asked, ones, low, high, scales, points, logit, budget):  # type: ignore[no-untyped-def]
    """Posterior mean and sd of theta and the exponential of the mean log sigma, flat on the grid.

    Parameters
    ----------
    x, asked, ones : array
        Thresholds, users asked there, reports of 1.
    low, high : float
        Bracket of theta, cut into ``points`` equal cells whose midpoints form the grid.
    scales : array, shape (SCALES,)
        Grid of sigma.
    logit : float
        log(tau/(1 - tau)).
    """
    weights = np.empty((points, SCALES))
    most = -np.inf
    cell = (high - low) / points
    for i in range(points):
        theta = low + cell * (i + 0.5)
        for j in range(SCALES):
            value = log_likelihood((theta, 1.0 / scales[j]), logit, x, asked, ones, budget)
            weights[i, j] = value
            most = max(most, value)
    total = 0.0
    first = 0.0
    size = 0.0
    for i in range(points):
        theta = cell * (i + 0.5)
        for j in range(SCALES):
            w = exp(weights[i, j] - most)
            weights[i, j] = w
            total += w
            first += w * theta
            size += w * log(scales[j])
    mean = first / total
    second = 0.0
    for i in range(points):
        gap = cell * (i + 0.5) - mean
        for j in range(SCALES):
            second += weights[i, j] * gap * gap
    # The grid's own width enters the standard deviation.
    sd = np.sqrt(second / total + cell * cell / 12.0)
    return low + mean, sd, exp(size / total)
