"""From F^ at edges to quantiles and intervals: isotonic projection, crossings, test inversion."""

from __future__ import annotations

import numpy as np

from ldpflow.random.elementary import jit

__all__ = [
    "crossing",
    "estimate_all",
    "first_crossing",
    "fit_all",
    "invert",
    "isotonic_fit",
    "variance_at_edge",
]


@jit
def isotonic_fit(out, values, means, sizes):  # type: ignore[no-untyped-def]
    """Isotonic regression with equal weights, clipped to [0, 1], with 0 and 1 at the ends.

    Pool adjacent violators. ``out`` has two places more than ``values``; ``means`` and ``sizes``
    are scratch of the size of ``values``.
    """
    count = values.shape[0]
    blocks = 0
    for i in range(count):
        mean = values[i]
        size = 1.0
        while blocks > 0 and means[blocks - 1] >= mean:
            blocks -= 1
            together = sizes[blocks] + size
            mean = (means[blocks] * sizes[blocks] + mean * size) / together
            size = together
        means[blocks] = mean
        sizes[blocks] = size
        blocks += 1
    out[0] = 0.0
    out[count + 1] = 1.0
    at = 1
    for b in range(blocks):
        value = min(max(means[b], 0.0), 1.0)
        for _ in range(int(sizes[b])):
            out[at] = value
            at += 1


@jit
def crossing(heights, edges, tau):  # type: ignore[no-untyped-def]
    """Where the line through (edge, height) first reaches tau, 0 < tau < 1, heights from 0 to 1."""
    j = 1
    while heights[j] < tau:
        j += 1
    low = heights[j - 1]
    return edges[j - 1] + (edges[j] - edges[j - 1]) * ((tau - low) / (heights[j] - low))


@jit
def invert(limits, values, spread, edges, tau, z, users):  # type: ignore[no-untyped-def]
    """Hull of the points x where |F^(x) - tau| <= z se(x), se = sqrt(spread/users).

    Writes to ``limits`` the limits of the lines F^ -+ z se between the edges, those limits rounded
    outwards to edges, and the number of sides on which no inner edge was rejected.
    """
    count = values.shape[0]
    ends = 0.0
    j = 1
    low = 0.0
    high = 1.0
    while j <= count:
        high = values[j - 1] + z * np.sqrt(spread[j - 1] / users)
        if high >= tau:
            break
        low = high
        high = 1.0
        j += 1
    if j == 1:
        ends += 1.0
    limits[0] = edges[j - 1] + (edges[j] - edges[j - 1]) * ((tau - low) / (high - low))
    limits[2] = edges[j - 1]
    i = count
    low = 0.0
    high = 1.0
    while i >= 1:
        low = values[i - 1] - z * np.sqrt(spread[i - 1] / users)
        if low <= tau:
            break
        high = low
        low = 0.0
        i -= 1
    if i == count:
        ends += 1.0
    limits[1] = edges[i] + (edges[i + 1] - edges[i]) * ((tau - low) / (high - low))
    limits[3] = edges[i + 1]
    limits[4] = ends


def variance_at_edge(kernel, out, cdf, tau, design, budget):  # type: ignore[no-untyped-def]
    """Variance of F^ per answer at all inner edges, were F tau there (``kernel.spread``)."""
    kernel.spread(out, cdf, tau, design, budget)


def first_crossing(kernel, out, heights, edges, tau):  # type: ignore[no-untyped-def]
    """out[0] = :func:`crossing`."""
    out[0] = crossing(heights, edges, tau)


def fit_all(kernel, out, values):  # type: ignore[no-untyped-def]
    """:func:`isotonic_fit` of every row."""
    means = np.empty(values.shape[1])
    sizes = np.empty(values.shape[1])
    for r in range(values.shape[0]):
        isotonic_fit(out[r], values[r], means, sizes)


def estimate_all(kernel, estimates, limits, values, received, edges, taus, z, design, budget):  # type: ignore[no-untyped-def]
    """Estimates and intervals of all replicates; ``kernel.spread`` is the protocol's variance of F^.

    Parameters
    ----------
    estimates : array, shape (quantiles, replicates)
        Result: first crossing of tau by the isotonic estimate.
    limits : array, shape (levels, quantiles, replicates, 5)
        Result, see :func:`invert`.
    values : array, shape (replicates, edges)
        F^ at the inner edges.
    received : array, shape (replicates,)
        Reports.
    edges : array, shape (edges + 2,)
    taus, z : array
        Quantiles' levels, and normal quantiles of the intervals' levels.
    """
    count = values.shape[1]
    fitted = np.empty(count + 2)
    means = np.empty(count)
    sizes = np.empty(count)
    variance = np.empty(count)
    for r in range(values.shape[0]):
        if not received[r] > 0.0:
            estimates[:, r] = np.nan
            limits[:, :, r, :] = np.nan
            continue
        isotonic_fit(fitted, values[r], means, sizes)
        for q in range(taus.shape[0]):
            estimates[q, r] = crossing(fitted, edges, taus[q])
            if z.shape[0] > 0:
                kernel.spread(variance, fitted, taus[q], design, budget)
            for level in range(z.shape[0]):
                invert(limits[level, q, r], values[r], variance, edges, taus[q], z[level], received[r])
