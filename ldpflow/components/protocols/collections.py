"""Estimates and intervals of protocols, from simulated counts or from the counts of a collection."""

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
    """Compile and call a kernel function that fills arrays. Its ``kernel.NAME`` is the argument NAME."""
    signature = numba.void(*map(numba.typeof, arguments))
    compile_kernel(function, Case(tuple(parts.items())), signature)(*arguments)


@dataclass(frozen=True)
class Histograms:
    """Estimates F^ of the distribution function F of the values, in replicates of a one-shot protocol."""

    protocol: OneShot
    edges: Array  # edges of the bins, shape (k + 1,)
    values: Array  # F^ at the inner edges, shape (replicates, k - 1)
    received: Array  # number of reports, shape (replicates,)
    empty: Array  # number of questions that were put to no user, shape (replicates,)
    asked: Array  # number of answers to each question in the last replicate
    found: Array  # number of reports of 1 to each question in the last replicate, or sum of signs

    def intervals(self, taus: Sequence[float], z: Sequence[float], limits: str) -> Intervals:
        """Quantiles by isotonic regression, intervals by inversion of the test of F(x) = tau."""
        estimate, found = self.inverted(taus, z)
        first = 0 if limits == "line" else 2
        unasked = np.broadcast_to(self.empty, estimate.shape)
        diagnosis = {"range_end": (found[..., 4] > 0.0).astype(np.float64), "unasked": unasked}
        return Intervals(estimate, None, found[..., first], found[..., first + 1], diagnosis)

    def widened(self, tau: float, z: float, limits: str, share: float) -> tuple[float, float, bool]:
        """Limits of one collection for the quantile of honest users, if a share sends arbitrary reports.

        At a point with F = tau the mean of F^ lies between tau + share (least - tau) and
        tau + share (largest - tau), with ``least`` and ``largest`` of :func:`report_range`. The lower limit
        comes from the test of the first value, the upper limit from the test of the second. The public coin
        decides how many of a_g users with question g are adversarial, which adds at most
        share (1 - share)(1/a_g - 1/n) W_g^2 to the variance. W_g is the largest difference in F^ that reports
        to question g can make.

        The third result says whether a limit is an end of the range.
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
        """The arrays ``estimates`` and ``limits`` that ``estimate_all`` fills."""
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
    fits: Array  # the result of ``search_all``, shape (replicates, 7)
    received: Array  # number of reports, shape (replicates,)
    logit: float  # log(tau/(1 - tau))
    last: Array  # thresholds, answers, reports of 1 of the last replicate, or NaN, shape (rounds, 8, 3)

    def intervals(self, z: Sequence[float]) -> Intervals:
        """Fieller's intervals, clipped to the range."""
        low, high = self.protocol.range
        centre, half, *fit = self.fits.T
        with np.errstate(all="ignore"):
            found = fieller(fit, self.logit, np.array(z, dtype=np.float64)[:, None, None])
            lower, upper = (np.clip(centre + half * limit, low, high) for limit in found)
        ended = np.where(np.isfinite(lower), (lower <= low) | (upper >= high), np.nan)
        return Intervals(self.estimate[None], None, lower, upper, {"range_end": ended})


def edge_cdf(law: Law, edges: Array) -> Array:
    """F at the edges. It is 0 and 1 at the ends of the range, since values outside are moved to the ends."""
    values = np.empty(len(edges))
    if law.name == "records":
        values[:] = law.cdf_values(edges)
    else:
        call(cdf_at, values, population_of(law), edges)
    values[0], values[-1] = 0.0, 1.0
    return values


def run_one_shot(protocol: OneShot, law: Law, tau: float, n: int, keys: NDArray[np.uint64]) -> Histograms:
    """Simulate replicates of a one-shot protocol from the exact law of its counts.

    ``law`` is the law of the values of n <= 2^52 users. Liars try to move the tau-quantile, at which the
    probability of an answer changes. ``keys``, shape (replicates, 2), are keys of random streams.
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
    """F^ of one collection. ``asked`` and ``found`` are as in :class:`Histograms`."""
    values, empty = np.empty((1, k - 1)), np.empty(1)
    call(fold_counts, values, empty, asked, found, protocol.budget(), fold=protocol.fold)
    edges, total = protocol.edges(k), np.array([float(received)])
    return Histograms(protocol, edges, values, total, empty, asked, found)


@lru_cache(maxsize=8)
def report_range(protocol: OneShot, k: int) -> tuple[Array, Array, NDArray[np.int64], Array]:
    """Least and largest mean of F^ at the inner edges over all reports that users could send.

    F^ is linear in the mean reports to the questions, and users cannot choose their questions. A group has
    the questions that a user answers together: all bits of ``oue``, or those of a level of ``tree``. The
    third result is the first question of each group. The fourth is the largest difference in F^ that the
    reports to a group can make, shape (k - 1, groups).
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
    """Distance of the tau-quantile from the lower end of the range, in bins."""
    low, high = protocol.range
    return (law.quantile(tau) - low) / (high - low) * k


def line_quantile(cdf: Array, edges: Array, tau: float) -> float:
    """First point at which the linear interpolation of F between edges reaches tau."""
    return float(find_crossing.py_func(cdf, edges, tau))


def variance_at(protocol: OneShot, law: Law, tau: float, k: int) -> float:
    """n Var F^ at the tau-quantile, interpolated between the nearest edges."""
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
    """n Var F^ at each inner edge, if F were tau at this edge."""
    variance = np.empty(len(cdf) - 2)
    arguments = (cdf, float(tau), design, protocol.budget())
    call(variance_at_edges, variance, *arguments, spread=protocol.spread)
    return variance


def run_rounds(protocol: Rounds, law: Law, tau: float, n: int, keys: NDArray[np.uint64]) -> Searches:
    """Simulate replicates of ``rounds``."""
    return search_rounds(protocol, protocol.design(n, tau), keys, population_of(law), ask)


def fold_rounds(protocol: Rounds, tau: float, counts: Array) -> Searches:
    """Fit and thresholds of one collection.

    ``counts``, shape (rounds, 8, 2), has the numbers of answers and of reports of 1 at the thresholds of each
    round. If the last rounds are empty, the thresholds of the first empty round are the next to ask at.
    """
    n = max(int(counts[:, :, 0].sum()), 1)
    return search_rounds(protocol, protocol.design(n, tau), np.zeros((1, 2), np.uint64), counts, look_up)


def search_rounds(
    protocol: Rounds, design: RoundsDesign, keys: NDArray[np.uint64], source: Any, answers: Any
) -> Searches:
    """Local fits of replicates. ``answers`` is a kernel function that gets the answers from ``source``."""
    estimate, received, fits = np.empty(len(keys)), np.empty(len(keys)), np.empty((len(keys), 7))
    flat = np.empty((3, MOST_THRESHOLDS))
    arguments = (estimate, fits, received, *flat, keys, source, design, protocol.budget())
    call(search_all, *arguments, search=search, ask=answers)
    last = np.full((protocol.rounds, FIRST, 3), math.nan)
    sizes = protocol.thresholds()
    for turn, end in enumerate(np.cumsum(sizes).tolist()):
        last[turn, : sizes[turn]] = flat[:, end - sizes[turn] : end].T
    return Searches(protocol, estimate, fits, received, design.logit, last)
