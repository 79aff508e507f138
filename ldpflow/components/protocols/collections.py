"""Simulation of protocols: replicates of F^ at the edges, or of local fits, and their intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from numpy.typing import NDArray

from ldpflow.components.intervals.interval import Intervals
from ldpflow.components.protocols.histogram_counts import (
    collect,
    estimate_all,
    find_crossing,
    fold_counts,
    isotonic_fit,
    variance_at_edges,
)
from ldpflow.components.protocols.protocol import Array, OneShot
from ldpflow.components.protocols.round_counts import (
    MOST_THRESHOLDS,
    ask,
    cdf_at,
    fieller,
    look_up,
    population_of,
    search,
    search_all,
)
from ldpflow.components.protocols.rounds import FIRST, Rounds, RoundsDesign
from ldpflow.numerics.kernels import compile_kernel
from ldpflow.numerics.specialise import Case

if TYPE_CHECKING:
    from ldpflow.components.problems.laws import Law


def call(function: Callable[..., Any], *arguments: Any, **parts: Callable[..., Any]) -> None:
    """Compile and call a kernel function that fills arrays; ``kernel.NAME`` there is the part NAME."""
    signature = numba.void(*map(numba.typeof, arguments))
    compile_kernel(function, Case(tuple(parts.items())), signature)(*arguments)


@dataclass(frozen=True)
class Histograms:
    """F^ of replicates of a one-shot protocol."""

    protocol: OneShot
    edges: Array  # shape (k + 1,)
    values: Array  # raw F^ at the inner edges, shape (replicates, k - 1); need not be monotone
    received: Array  # reports, shape (replicates,)
    empty: Array  # questions that no user was asked, shape (replicates,)
    asked: Array  # answers to every question in the last replicate
    found: Array  # reports of 1 among them, or sums of signs

    def intervals(self, taus: Sequence[float], z: Sequence[float], limits: str) -> Intervals:
        """Quantiles by isotonic regression, intervals by inversion of the test of F(x) = tau."""
        estimate, found = self.inverted(taus, z)
        first = 0 if limits == "line" else 2
        lower, upper, ended = found[..., first], found[..., first + 1], found[..., 4] > 0.0
        unasked = np.broadcast_to(self.empty, estimate.shape)
        diagnosis = {"range_end": ended.astype(np.float64), "unasked": unasked}
        return Intervals(estimate, None, lower, upper, diagnosis, ended)

    def widened(self, tau: float, z: float, limits: str, share: float) -> tuple[float, float, bool]:
        """Interval of one collection for the honest users' quantile if a share of users sends any report.

        Where F = tau, such users move the mean of F^ to between tau + share (least - tau) and tau + share
        (largest - tau), with the ends of :func:`report_range`: the lower limit is that of a test of the
        first, the upper one of the second. The variance is at most that of the honest reports plus that of
        the number of adversarial users at each question, which is drawn by the public coin:
        share (1 - share)(1/a_g - 1/n) W_g^2 for a question, or level of a tree, g. The last value says
        whether a limit is an end of the range.
        """
        k, n = len(self.edges) - 1, self.received[0]
        *bounds, starts, weights = report_range(self.protocol, k)
        spread = weights**2 * (n / np.maximum(self.asked[starts], 1.0) - 1.0)
        coin = share * (1.0 - share) * spread.sum(axis=1)
        design = self.protocol.design(np.linspace(0.0, 1.0, k + 1), 1)
        fitted, ends, ended = np.empty(k + 1), [0.0, 0.0], False
        for side, sign in enumerate((1.0, -1.0)):
            moved = self.values[0] - share * (bounds[side] - tau)
            isotonic_fit.py_func(fitted, moved)
            variance = edge_variances(self.protocol, fitted, tau, design)
            moved += sign * z * (np.sqrt((variance + coin) / n) - np.sqrt(variance / n))
            found = replace(self, values=moved[None]).inverted([tau], [z])[1][0, 0, 0]
            ends[side] = float(found[side if limits == "line" else 2 + side])
            ended |= bool(found[2 + side] == self.edges[-side])
        return ends[0], ends[1], ended

    def inverted(self, taus: Sequence[float], z: Sequence[float]) -> tuple[Array, Array]:
        """Estimates, and for every level, quantile and replicate what ``invert`` finds."""
        estimate = np.empty((len(taus), len(self.values)))
        found = np.empty((len(z), *estimate.shape, 5))
        # The variances read only the parts of the design that do not depend on the law.
        design = self.protocol.design(np.linspace(0.0, 1.0, len(self.edges)), 1)
        levels = np.array(taus, dtype=np.float64), np.array(z, dtype=np.float64)
        reports = self.values, self.received, self.edges
        arguments = (*reports, *levels, design, self.protocol.budget())
        call(estimate_all, estimate, found, *arguments, spread=self.protocol.spread)
        return estimate, found


@dataclass(frozen=True)
class Searches:
    """Local fits of replicates of ``rounds``."""

    protocol: Rounds
    estimate: Array  # shape (replicates,)
    fits: Array  # filled by :func:`search_all`, shape (replicates, 7)
    received: Array  # reports, shape (replicates,)
    logit: float  # log(tau/(1 - tau))
    last: Array  # thresholds, answers and reports of 1 in the last replicate, shape (rounds, 8, 3)

    def intervals(self, z: Sequence[float]) -> Intervals:
        """Fieller's intervals, cut to the range."""
        low, high = self.protocol.ends
        centre, half, *fit = self.fits.T
        with np.errstate(all="ignore"):
            found = fieller(fit, self.logit, np.array(z, dtype=np.float64)[:, None, None])
            lower, upper = (np.clip(centre + half * limit, low, high) for limit in found)
        ended = (lower <= low) | (upper >= high)
        diagnosis = {"range_end": np.where(np.isfinite(lower), ended, np.nan)}
        return Intervals(self.estimate[None], None, lower, upper, diagnosis, ended)

    @property
    def thresholds(self) -> Array:
        """Thresholds of the last replicate by round, shape (rounds, 8), NaN where a round has fewer."""
        return self.last[:, :, 0]


def edge_cdf(law: Law, edges: Array) -> Array:
    """F at the edges, 0 and 1 at the ends: values outside the range are moved to its ends."""
    values = np.empty(len(edges))
    if law.name == "records":
        values[:] = law.cdf_values(edges)
    else:
        call(cdf_at, values, population_of(law), edges)
    values[0], values[-1] = 0.0, 1.0
    return values


def run_one_shot(protocol: OneShot, law: Law, tau: float, n: int, keys: NDArray[np.uint64]) -> Histograms:
    """Simulate replicates of a one-shot protocol from the exact law of its counts.

    ``law`` is that of the values of n <= 2^52 users. Liars aim at the tau-quantile, and the probability of an
    answer changes there. ``keys``, shape (replicates, 2), are words of counter streams.
    """
    k = protocol.bins(n)
    edges = protocol.edges(k)
    cdf = protocol.responders(edge_cdf(law, edges), tau)
    target = min(max(math.floor(bins_below(protocol, law, tau, k) + 0.5), 1), k - 1)
    values = np.empty((len(keys), k - 1))
    received, empty = np.empty(len(keys)), np.empty(len(keys))
    asked, found = np.zeros((2, protocol.questions(k)))
    shares = protocol.answer_probability(tau), protocol.liars
    arguments = (asked, found, keys, float(n), *shares, protocol.design(cdf, target), protocol.budget())
    call(collect, values, received, empty, *arguments, draw=protocol.draw, fold=protocol.fold)
    return Histograms(protocol, edges, values, received, empty, asked, found)


def fold_one_shot(protocol: OneShot, k: int, asked: Array, found: Array, received: int) -> Histograms:
    """F^ from the counts of one collection: answers to every question, and reports of 1 or sums of signs."""
    values, empty = np.empty((1, k - 1)), np.empty(1)
    call(fold_counts, values, empty, asked, found, protocol.budget(), fold=protocol.fold)
    edges, total = protocol.edges(k), np.array([float(received)])
    return Histograms(protocol, edges, values, total, empty, asked, found)


@lru_cache(maxsize=8)
def report_range(protocol: OneShot, k: int) -> tuple[Array, Array, NDArray[np.int64], Array]:
    """Mean F^ at the inner edges, at least and at most, if every user sends the worst of all reports.

    F^ is linear in the mean reports to the questions, and users cannot choose their questions. Two further
    results are by group of questions that one user answers together (all of ``oue``, a level of ``tree``):
    its first question, and the difference that its reports can make, shape (k - 1, groups).
    """
    count = protocol.questions(k)
    lowest = -1.0 if protocol.signs else 0.0

    def cdf(found: Array) -> Array:
        values: Array = fold_one_shot(protocol, k, np.ones(count), found, 1).values[0]
        return values

    columns = np.stack([cdf(np.where(one == 1.0, 1.0, lowest)) for one in np.eye(count)], axis=1)
    starts: NDArray[np.int64] = np.arange(count, dtype=np.int64)
    if protocol.reports(k) > 2:
        return columns.min(axis=1), columns.max(axis=1), starts[:1], np.zeros((k - 1, 1))
    if widths := protocol.widths(k):
        starts = np.cumsum([0, *widths[:-1]], dtype=np.int64)
    base = cdf(np.full(count, lowest))
    change = columns - base[:, None]
    least, largest = base + np.minimum(change, 0.0).sum(axis=1), base + np.maximum(change, 0.0).sum(axis=1)
    return least, largest, starts, np.add.reduceat(np.abs(change), starts, axis=1)


def bins_below(protocol: OneShot, law: Law, tau: float, k: int) -> float:
    """Position of the tau-quantile in the range, in bins."""
    low, high = protocol.ends
    return (law.quantile(tau) - low) / (high - low) * k


def line_quantile(cdf: Array, edges: Array, tau: float) -> float:
    """First crossing of tau by the line through F at the edges."""
    return float(find_crossing.py_func(cdf, edges, tau))


def variance_at(protocol: OneShot, law: Law, tau: float, k: int) -> float:
    """Variance of F^ per answer at the tau-quantile, interpolated between the nearest edges."""
    cdf = edge_cdf(law, protocol.edges(k))
    place = bins_below(protocol, law, tau, k)
    j = min(max(math.floor(place), 0), k - 1)
    found = []
    for m in (max(j, 1), min(j + 1, k - 1)):
        variance = edge_variances(protocol, cdf, cdf[m], protocol.design(cdf, 1))
        found.append(float(variance[m - 1]))
    share = min(max(place - j, 0.0), 1.0)
    return (1.0 - share) * found[0] + share * found[1]


def edge_variances(protocol: OneShot, cdf: Array, tau: float, design: Any) -> Array:
    """Variance of F^ per answer at the inner edges, if F were tau there."""
    variance = np.empty(len(cdf) - 2)
    arguments = (cdf, float(tau), design, protocol.budget())
    call(variance_at_edges, variance, *arguments, spread=protocol.spread)
    return variance


def run_rounds(protocol: Rounds, law: Law, tau: float, n: int, keys: NDArray[np.uint64]) -> Searches:
    """Simulate replicates of ``rounds``."""
    return search_rounds(protocol, protocol.design(n, tau), keys, population_of(law), ask)


def fold_rounds(protocol: Rounds, tau: float, counts: Array) -> Searches:
    """Fit and thresholds from the counts of one collection.

    ``counts``, shape (rounds, 8, 2), has the answers and the reports of 1 at every threshold of every round.
    Later rounds may be empty: the thresholds of the first empty round are those to ask at next.
    """
    n = max(int(counts[:, :, 0].sum()), 1)
    return search_rounds(protocol, protocol.design(n, tau), np.zeros((1, 2), np.uint64), counts, look_up)


def search_rounds(
    protocol: Rounds, design: RoundsDesign, keys: NDArray[np.uint64], source: Any, answers: Any
) -> Searches:
    """Local fits of replicates. ``answers`` is the function that reads or draws answers from ``source``."""
    estimate, received, fits = np.empty(len(keys)), np.empty(len(keys)), np.empty((len(keys), 7))
    flat = np.empty((3, MOST_THRESHOLDS))
    arguments = (estimate, fits, received, *flat, keys, source, design, protocol.budget())
    call(search_all, *arguments, search=search, ask=answers)
    # No estimate if the window holds no information.
    estimate[~np.isfinite(estimate)] = math.nan
    last = np.full((protocol.rounds, FIRST, 3), math.nan)
    sizes = protocol.thresholds()
    for turn, end in enumerate(np.cumsum(sizes).tolist()):
        last[turn, : sizes[turn]] = flat[:, end - sizes[turn] : end].T
    return Searches(protocol, estimate, fits, received, design.logit, last)
