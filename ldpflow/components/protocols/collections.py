"""Replicates of a protocol: from key words to F^ at edges or local fits, and from those to intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from numpy.typing import NDArray

from ldpflow.components.protocols.histogram_counts import (
    collect,
    estimate_all,
    first_crossing,
    variance_at_edge,
)
from ldpflow.components.protocols.protocol import OneShot
from ldpflow.components.protocols.round_counts import cdf_at, fieller_all, population_of, search_all
from ldpflow.components.protocols.rounds import Rounds
from ldpflow.numerics.kernels import compiled
from ldpflow.numerics.specialise import Case

if TYPE_CHECKING:
    from ldpflow.components.problems.laws import Law

Floats = NDArray[np.float64]


def call(function: Callable[..., Any], *arguments: Any, **parts: Callable[..., Any]) -> None:
    """Call a kernel function that fills arrays.

    Parameters
    ----------
    function : callable
        Its first argument is ``kernel``, which stands for the parts.
    arguments
        Arrays, numbers and named tuples of those.
    parts : callable
        What ``kernel.NAME`` stands for.
    """
    signature = numba.void(*map(numba.typeof, arguments))
    compiled(function, Case(tuple(parts.items())), signature)(*arguments)


@dataclass(frozen=True)
class Limits:
    """Estimates and intervals.

    Parameters
    ----------
    estimate : ndarray, shape (quantiles, replicates)
    lower, upper : ndarray, shape (levels, quantiles, replicates)
        NaN where the interval is undefined.
    range_end : ndarray of bool, same shape
        Whether the interval is bounded by the range alone on one side at least.
    """

    estimate: Floats
    lower: Floats
    upper: Floats
    range_end: NDArray[np.bool_]


@dataclass(frozen=True)
class Histograms:
    """F^ of replicates of a one-shot protocol.

    Parameters
    ----------
    protocol : OneShot
    edges : ndarray, shape (k + 1,)
    values : ndarray, shape (replicates, k - 1)
        F^ at the inner edges, unbiased, neither monotone nor within [0, 1].
    received, empty : ndarray, shape (replicates,)
        Reports, and questions that no user was asked.
    """

    protocol: OneShot
    edges: Floats
    values: Floats
    received: Floats
    empty: Floats

    def intervals(self, taus: Sequence[float], z: Sequence[float], limits: str) -> Limits:
        """Quantiles by isotonic regression, intervals by inversion of the test of F(x) = tau.

        Parameters
        ----------
        taus : sequence of float
        z : sequence of float
            Normal quantiles of the intervals' levels.
        limits : str
            ``outer``: rounded outwards to edges, valid whatever the law does inside a bin;
            ``line``: by lines between edges, honest up to the bins' bias.
        """
        replicates = len(self.values)
        estimate = np.empty((len(taus), replicates))
        found = np.empty((len(z), len(taus), replicates, 5))
        k = len(self.edges) - 1
        _, spread = self.protocol.kernels()
        call(
            estimate_all,
            estimate,
            found,
            self.values,
            self.received,
            self.edges,
            np.array(taus, dtype=np.float64),
            np.array(z, dtype=np.float64),
            # Of the design the variances read what does not depend on the law.
            self.protocol.design(np.arange(k + 1) / k, 1),
            self.protocol.budget(),
            spread=spread,
        )
        first = 0 if limits == "line" else 2
        return Limits(estimate, found[..., first], found[..., first + 1], found[..., 4] > 0.0)


@dataclass(frozen=True)
class Searches:
    """Local fits of replicates of ``rounds``.

    Parameters
    ----------
    protocol : Rounds
    estimate : ndarray, shape (replicates,)
    fits : ndarray, shape (replicates, 7)
        See counts.rounds.search_all.
    received : ndarray, shape (replicates,)
        Reports that entered the fit.
    logit : float
        log(tau/(1 - tau)).
    """

    protocol: Rounds
    estimate: Floats
    fits: Floats
    received: Floats
    logit: float

    def intervals(self, z: Sequence[float]) -> Limits:
        """Fieller's intervals, cut to the range."""
        low, high = self.protocol.ends
        found = np.empty((len(z), len(self.estimate), 2))
        levels = np.array(z, dtype=np.float64)
        call(fieller_all, found, self.fits, self.logit, low, high, levels)
        lower, upper = found[:, None, :, 0], found[:, None, :, 1]
        return Limits(self.estimate[None], lower, upper, (lower <= low) | (upper >= high))


def cdf_values(law: Law, points: Floats) -> Floats:
    """F at the points."""
    values = np.empty(len(points))
    call(cdf_at, values, population_of(law), points)
    return values


def edge_cdf(law: Law, edges: Floats) -> Floats:
    """F at the edges, 0 and 1 at the ends: values outside the range are moved to them."""
    values = cdf_values(law, edges)
    values[0], values[-1] = 0.0, 1.0
    return values


def run_one_shot(protocol: OneShot, law: Law, tau: float, n: int, keys: NDArray[np.uint64]) -> Histograms:
    """Replicates of a one-shot protocol from the exact law of its counts.

    Parameters
    ----------
    protocol : OneShot
    law : Law
        Of the users' values.
    tau : float
        Level of the quantile where drop-out depends on the value and at which liars aim.
    n : int
        Users asked, at most 2^52.
    keys : ndarray of uint64, shape (replicates, 2)
        Key words of the replicates' counter streams (see random.streams.counter_keys).
    """
    k = protocol.bins(n)
    edges = protocol.edges(k)
    cdf = edge_cdf(law, edges)
    low, high = protocol.ends
    nearest = math.floor((law.quantile(tau) - low) / (high - low) * k + 0.5)
    target = min(max(nearest, 1), k - 1)
    draw, _ = protocol.kernels()
    values = np.empty((len(keys), k - 1))
    received, empty = np.empty(len(keys)), np.empty(len(keys))
    call(
        collect,
        values,
        received,
        empty,
        keys,
        float(n),
        protocol.answer_probability(tau),
        protocol.liars,
        protocol.design(protocol.responders(cdf, tau), target),
        protocol.budget(),
        draw=draw,
    )
    return Histograms(protocol, edges, values, received, empty)


def line_quantile(cdf: Floats, edges: Floats, tau: float) -> float:
    """First crossing of tau by the line through F at the edges."""
    found = np.empty(1)
    call(first_crossing, found, cdf, edges, tau)
    return float(found[0])


def variance_at(protocol: OneShot, law: Law, tau: float, k: int) -> float:
    """Variance of F^ at the tau-quantile per answer, between the variances at the edges next to it."""
    cdf = edge_cdf(law, protocol.edges(k))
    design = protocol.design(cdf, 1)
    _, spread = protocol.kernels()
    low, high = protocol.ends
    place = (law.quantile(tau) - low) / (high - low) * k
    j = min(max(math.floor(place), 0), k - 1)
    found = []
    for m in (max(j, 1), min(j + 1, k - 1)):
        out = np.empty(k - 1)
        call(variance_at_edge, out, cdf, float(cdf[m]), design, protocol.budget(), spread=spread)
        found.append(float(out[m - 1]))
    share = min(max(place - j, 0.0), 1.0)
    return (1.0 - share) * found[0] + share * found[1]


def run_rounds(protocol: Rounds, law: Law, tau: float, n: int, keys: NDArray[np.uint64]) -> Searches:
    """Replicates of ``rounds``; arguments as in :func:`run_one_shot`."""
    design = protocol.design(n, tau)
    estimate, fits = np.empty(len(keys)), np.empty((len(keys), 7))
    received = np.empty(len(keys))
    population = population_of(law)
    call(search_all, estimate, fits, received, keys, population, design, protocol.budget())
    # Where nothing was learnt within the window there is no estimate either.
    estimate[~np.isfinite(estimate)] = math.nan
    return Searches(protocol, estimate, fits, received, design.logit)
