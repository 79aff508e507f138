"""Distribution function of a population, and the run of protocol ``rounds``.

A population is the law of the values of the users. In ``rounds`` the thresholds of a round follow from
earlier answers, by the posterior of quantile theta and scale sigma on a grid under the working model

    P(report 1 at x) = (1 - p) + (2p - 1) expit(logit tau + (x - theta)/sigma)

with p the probability of a true report. The last step is a local logistic fit to the randomised bits, and
Fieller's interval from this fit.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from mpmath import mpf
from numpy.typing import NDArray

from ldpflow.components.problems.column_law import ColumnLaw
from ldpflow.components.problems.laws import Law, Mixture
from ldpflow.components.problems.standard_laws import FORMULAS
from ldpflow.components.protocols.histogram_counts import bits
from ldpflow.components.protocols.protocol import Array
from ldpflow.components.protocols.rounds import FIRST, INNER, LAST, MOST_ROUNDS, SCALES
from ldpflow.numerics import constants
from ldpflow.numerics.counts import binomial
from ldpflow.numerics.distributions import (
    cdf_bimodal,
    cdf_exponential,
    cdf_gamma,
    cdf_laplace,
    cdf_logistic,
    cdf_lognormal,
    cdf_normal,
    cdf_pareto,
    cdf_student_t,
    cdf_uniform,
    cdf_weibull,
    law_constants,
)
from ldpflow.numerics.elementary import exp, jit, log

CODES = {name: code for code, name in enumerate((*FORMULAS, "empirical"))}  # laws of Z in compiled functions


class LawComponents(NamedTuple):
    """A mixture of laws of location + scale Z, as arrays over its components.

    The quantile function of an empirical law has pieces. The piece that begins at u = p is
    q + d (slope + d bend) with d = u - p. Mixtures without an empirical law have no pieces.
    """

    codes: NDArray[np.int64]  # law of Z, by CODES
    weights: Array  # their sum is 1
    locations: Array
    scales: Array
    shapes: Array  # shape parameter of the law of Z, or 0
    norms: Array  # norming constant of the law of Z, or 0
    p: Array
    q: Array
    slope: Array
    bend: Array
    end: float  # largest value of the empirical law


@lru_cache(maxsize=16)
def population_of(law: Law) -> LawComponents:
    """Arrays of a law for the compiled distribution function."""
    parts = Mixture(law.components).parts() if law.components else [(1.0, law)]
    rows: list[tuple[float, ...]] = []
    pieces: tuple[Array, ...] = (np.empty(0),) * 4
    end = 0.0
    outer = (law.location, law.scale) if law.components else (0.0, 1.0)
    for weight, part in parts:
        with constants.workdps(constants.DIGITS):
            location = float(mpf(outer[0]) + mpf(outer[1]) * mpf(part.location))
            scale = float(mpf(outer[1]) * mpf(part.scale))
        shape, norm = (*law_constants(part.name, part.parameter), 0.0, 0.0)[:2]
        table = part.table
        if isinstance(table, ColumnLaw):
            pieces = (table.p[:-1], table.q[:-1], table.s[:-1], table.r)
            end = float(table.q[-1])
        rows.append((float(weight), location, scale, shape, norm))
    weights, locations, scales, shapes, norms = np.array(rows).T.copy()
    codes = np.array([CODES[part.name] for _, part in parts], dtype=np.int64)
    p, q, slope, bend = (np.ascontiguousarray(piece) for piece in pieces)
    return LawComponents(codes, weights, locations, scales, shapes, norms, p, q, slope, bend, end)


@jit
def empirical_cdf(x, population):  # type: ignore[no-untyped-def]
    """u with Q(u) = x for the quantile function Q of the empirical law. 0 below all values, 1 above them."""
    q = population.q
    if x <= q[0]:
        return 0.0
    if x >= population.end:
        return 1.0
    low = 0
    high = q.shape[0]
    while high - low > 1:
        middle = (low + high) // 2
        if q[middle] <= x:
            low = middle
        else:
            high = middle
    slope = population.slope[low]
    rise = x - q[low]
    # The root d of bend d^2 + slope d = rise, in a form without cancellation.
    root = np.sqrt(max(slope * slope + 4.0 * population.bend[low] * rise, 0.0))
    return population.p[low] + 2.0 * rise / (slope + root)


@jit
def standard_cdf(code, x, shape, norm):  # type: ignore[no-untyped-def]
    """P(Z <= x) for the law of Z with this code, which is not the empirical law."""
    if code == 0:
        return cdf_normal(x)
    if code == 1:
        return cdf_laplace(x)
    if code == 2:
        return cdf_exponential(x)
    if code == 3:
        return cdf_uniform(x)
    if code == 4:
        return cdf_logistic(x)
    if code == 5:
        return cdf_student_t(x, shape, norm)
    if code == 6:
        return cdf_bimodal(x)
    if code == 7:
        return cdf_lognormal(x, shape)
    if code == 8:
        return cdf_weibull(x, shape)
    if code == 9:
        return cdf_pareto(x, shape)
    return cdf_gamma(x, shape, norm)


@jit
def cdf(population, x):  # type: ignore[no-untyped-def]
    """F(x), the weighted sum of the distribution functions of the components."""
    total = 0.0
    for i in range(population.codes.shape[0]):
        z = (x - population.locations[i]) / population.scales[i]
        code = population.codes[i]
        if code == 11:
            value = empirical_cdf(z, population)
        else:
            value = standard_cdf(code, z, population.shapes[i], population.norms[i])
        total += population.weights[i] * value
    return min(max(total, 0.0), 1.0)


def cdf_at(kernel, out, population, points):  # type: ignore[no-untyped-def]
    for i in range(points.shape[0]):
        out[i] = cdf(population, points[i])


@jit
def log_likelihood(shift, logit, x, asked, ones, budget):  # type: ignore[no-untyped-def]
    """Log likelihood of the reports at all thresholds, with ``shift`` = (theta, 1/sigma)."""
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
    """Posterior mean and sd of theta, and exp(posterior mean of log sigma), for a flat prior on a grid.

    ``asked`` counts the answers at each threshold of ``x``, and ``ones`` the reports of 1. The grid
    of theta has the midpoints of ``points`` equal parts of [low, high]. The grid of sigma is ``scales``.
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
    # The second term is the variance inside a part of the grid.
    sd = np.sqrt(second / total + cell * cell / 12.0)
    return low + mean, sd, exp(size / total)


STEPS = 30
PRIOR = 0.5  # standard deviation over mean of the prior of the slope
LEAST_INFORMATION = 1e-9


@jit
def clip(x, low, high):  # type: ignore[no-untyped-def]
    return min(max(x, low), high)


@jit
def fit_logistic(u, asked, ones, expected, budget):  # type: ignore[no-untyped-def]
    """Fit P(report 1) = (1 - p) + (2p - 1) expit(a + b u) by the mode of the posterior.

    The prior is b ~ N(b0, (b0/2)^2) with b0 = ``expected``. Damped Fisher scoring starts at (0, b0), and b
    stays above b0/10. ``u`` are thresholds less the centre of the window, over half its width. Returns a, b,
    and A, B, C of the information matrix ((A, B), (B, C)).
    """
    a = 0.0
    b = expected
    prior = 1.0 / (PRIOR * expected * PRIOR * expected)
    aa = ab = bb = 0.0
    for _ in range(STEPS):
        aa = LEAST_INFORMATION
        ab = 0.0
        bb = prior
        ga = 0.0
        gb = -prior * (b - expected)
        for d in range(u.shape[0]):
            if asked[d] > 0.0:
                g = 1.0 / (1.0 + exp(-clip(a + b * u[d], -30.0, 30.0)))
                chance = budget.flip + budget.gap * g
                slope = budget.gap * g * (1.0 - g)
                weight = slope / (chance * (budget.flip + budget.gap * (1.0 - g)))
                information = asked[d] * slope * weight
                score = (ones[d] - asked[d] * chance) * weight
                aa += information
                ab += information * u[d]
                bb += information * u[d] * u[d]
                ga += score
                gb += score * u[d]
        det = aa * bb - ab * ab
        a += clip((bb * ga - ab * gb) / det, -1.0, 1.0)
        b = max(b + clip((aa * gb - ab * ga) / det, -expected, expected), 0.1 * expected)
    return a, b, aa, ab, bb


def fieller(fit: Any, logit: float, z: Any) -> tuple[Array, Array]:
    """Limits of {u : (a + b u - logit)^2 <= z^2 Var(a + b u)}, or NaN if this set is no interval.

    ``fit`` is the result of :func:`fit_logistic`, as numbers or arrays.
    """
    a, b, aa, ab, bb = fit
    square = z * z / (aa * bb - ab * ab)
    # Var(a + b u) = (C - 2 B u + A u^2)/det.
    qa = b * b - square * aa
    qb = (a - logit) * b + square * ab
    qc = (a - logit) * (a - logit) - square * bb
    inside = qb * qb - qa * qc
    bounded = (qa > 0.0) & (inside >= 0.0)
    root = np.sqrt(np.where(bounded, inside, np.nan))
    return (-qb - root) / qa, (-qb + root) / qa


ANSWERS, LIES, ONES = 0, 1, 2  # stages: part of the address of a random number
MOST_THRESHOLDS = FIRST + INNER * (MOST_ROUNDS - 2) + LAST
COARSE, FINE = 91, 45  # points of the grid of theta after the first round, and after later ones
# In standard deviations of the posterior:
BRACKET = 5.0  # half width of the grid of theta
KEEP = 4.0  # distance from the mean beyond which the posterior leaves out thresholds
SPREAD = 2.0  # distance of the outer thresholds of a round from the mean
WINDOW = 2.5  # half width of the window of the final fit
FLOOR = 6.0  # the standard deviation is at least (gap between the nearest thresholds)/FLOOR


@jit
def ask(x, key0, key1, index, turn, users, population, design, budget):  # type: ignore[no-untyped-def]
    """Draw the numbers of answers and of reports of 1 at the threshold x.

    The answers of a user depend on each other. They count as ``worth`` independent answers, whose mean has an
    equal variance.
    """
    # Values outside the range are moved to its ends.
    below = 1.0 if x >= design.high else cdf(population, x)
    share, whole = below, design.answer_below
    if design.answer_below != design.answer_above:
        tau = design.tau
        whole = design.answer_below * tau + design.answer_above * (1.0 - tau)
        above = max(below - tau, 0.0)
        share = (design.answer_below * min(below, tau) + design.answer_above * above) / whole
    count = binomial(key0, key1, index, ANSWERS, turn, users, whole)
    lying = binomial(key0, key1, index, LIES, turn, count, design.liars)
    chance = budget.flip + budget.gap * share
    honest = bits(key0, key1, index, ONES, turn, count - lying, share, chance, budget)
    return count * design.worth, (honest / budget.answers + design.lie * lying) * design.worth


@jit
def look_up(x, key0, key1, index, turn, users, counts, design, budget):  # type: ignore[no-untyped-def]
    """Read the numbers of answers and of reports of 1 from ``counts``, shape (rounds, FIRST, 2)."""
    return counts[turn, index, 0], counts[turn, index, 1]


@jit
def steer(x, asked, ones, mean, sd, first, design, budget):  # type: ignore[no-untyped-def]
    """Mean, standard deviation and scale of :func:`grid_posterior` after a round."""
    near = np.empty(x.shape[0])
    for d in range(x.shape[0]):
        near[d] = asked[d] if abs(x[d] - mean) <= KEEP * sd else 0.0
    low = max(mean - BRACKET * sd, design.low)
    high = min(mean + BRACKET * sd, design.high)
    points = COARSE if first else FINE
    mean, sd, sigma = grid_posterior(x, near, ones, low, high, design.scales, points, design.logit, budget)
    left, right = design.low, design.high
    for d in range(x.shape[0]):
        if x[d] > mean:
            right = min(right, x[d])
        else:
            left = max(left, x[d])
    # Between two thresholds the working model may be wrong, so sd has a lower limit.
    return mean, max(sd, (right - left) / FLOOR), sigma


def search(kernel, key0, key1, x, asked, ones, population, design, budget):  # type: ignore[no-untyped-def]
    """Run one replicate. Returns the number of thresholds, and posterior mean, sd and scale.

    ``kernel.ask`` is :func:`ask` or :func:`look_up`.
    """
    rounds = design.asked.shape[0]
    width = design.high - design.low
    mean, sd, sigma = design.low + 0.5 * width, width, design.scales[0]
    used = 0
    for turn in range(rounds):
        last = turn == rounds - 1
        count = FIRST if turn == 0 else LAST if last else INNER
        for j in range(count):
            if turn == 0:
                at = design.low + width * ((j + 1.0) / (FIRST + 1.0))
            else:
                at = mean + sd * SPREAD * (2.0 * j / (count - 1.0) - 1.0)
                at = clip(at, design.low, design.high)
            x[used] = at
            asked[used], ones[used] = kernel.ask(
                at, key0, key1, j, turn, design.asked[turn], population, design, budget
            )
            used += 1
        if not last:
            mean, sd, sigma = steer(x[:used], asked[:used], ones[:used], mean, sd, turn == 0, design, budget)
    return used, mean, sd, sigma


def search_all(kernel, estimates, fits, received, x, asked, ones, keys, population, design, budget):  # type: ignore[no-untyped-def]
    """Run all replicates.

    Fills ``estimates`` with the solutions of a + b u = logit tau, clipped to the range, and ``received`` with
    the numbers of reports. Fills ``fits``, shape (replicates, 7), with centre and half width of the window,
    a, b, A, B and C. ``x``, ``asked`` and ``ones``, shape (MOST_THRESHOLDS,), keep thresholds and counts of
    the last replicate.
    """
    near = np.empty(MOST_THRESHOLDS)
    u = np.empty(MOST_THRESHOLDS)
    for r in range(estimates.shape[0]):
        used, mean, sd, sigma = kernel.search(
            keys[r, 0], keys[r, 1], x, asked, ones, population, design, budget
        )
        half = WINDOW * sd
        total = 0.0
        for d in range(used):
            total += asked[d]
            u[d] = (x[d] - mean) / half
            near[d] = 0.0 if abs(u[d]) > 1.0 else asked[d]
        fit = fit_logistic(u[:used], near[:used], ones[:used], half / sigma, budget)
        found = mean + half * (design.logit - fit[0]) / fit[1]
        estimates[r] = clip(found, design.low, design.high)
        received[r] = total / design.worth
        fits[r, 0] = mean
        fits[r, 1] = half
        for i in range(5):
            fits[r, 2 + i] = fit[i]
