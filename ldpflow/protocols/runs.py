"""Replicates of a protocol: from key words to F^ at edges or local fits, and from those to intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ldpflow.protocols.counts.collect import collect
from ldpflow.protocols.counts.estimate import estimate_all
from ldpflow.protocols.counts.population_cdf import cdf_at
from ldpflow.protocols.counts.rounds import fieller_all, search_all
from ldpflow.protocols.population import population_of
from ldpflow.protocols.protocol import OneShot
from ldpflow.protocols.rounds import Rounds

if TYPE_CHECKING:
    from ldpflow.problems.laws import Law

__all__ = ["Histograms", "Limits", "Searches", "edge_cdf", "run_one_shot", "run_rounds"]

Floats = NDArray[np.float64]


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
        estimate_all(
            estimate,
            found,
            spread,
            self.values,
            self.received,
            self.edges,
            np.array(taus, dtype=np.float64),
            np.array(z, dtype=np.float64),
            # Of the design the variances read what does not depend on the law.
            self.protocol.design(np.arange(k + 1) / k, 1),
            self.protocol.budget(),
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
        fieller_all(found, self.fits, self.logit, low, high, np.array(z, dtype=np.float64))
        lower, upper = found[:, None, :, 0], found[:, None, :, 1]
        return Limits(self.estimate[None], lower, upper, (lower <= low) | (upper >= high))


def edge_cdf(law: Law, edges: Floats) -> Floats:
    """F at the edges, 0 and 1 at the ends: values outside the range are moved to them."""
    values: Floats = cdf_at(population_of(law), edges)
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
    collect(
        values,
        received,
        empty,
        draw,
        keys,
        float(n),
        protocol.answer_probability(tau),
        protocol.liars,
        protocol.design(protocol.responders(cdf, tau), target),
        protocol.budget(),
    )
    return Histograms(protocol, edges, values, received, empty)


def run_rounds(protocol: Rounds, law: Law, tau: float, n: int, keys: NDArray[np.uint64]) -> Searches:
    """Replicates of ``rounds``; arguments as in :func:`run_one_shot`."""
    design = protocol.design(n, tau)
    estimate, fits = np.empty(len(keys)), np.empty((len(keys), 7))
    received = np.empty(len(keys))
    search_all(estimate, fits, received, keys, population_of(law), design, protocol.budget())
    # Where nothing was learnt within the window there is no estimate either.
    estimate[~np.isfinite(estimate)] = math.nan
    return Searches(protocol, estimate, fits, received, design.logit)
