"""Run of protocol ``rounds``: thresholds of a round follow from the answers of those before it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpflow.protocols.counts.bits import bits
from ldpflow.protocols.counts.local_fit import fieller, fit_logistic
from ldpflow.protocols.counts.population_cdf import cdf
from ldpflow.protocols.counts.posterior import grid_posterior
from ldpflow.random.counts import binomial
from ldpflow.random.elementary import jit

__all__ = ["FIRST", "INNER", "LAST", "RoundsDesign", "fieller_all", "search_all"]

ANSWERS, LIES, ONES = 0, 1, 2  # stages of the address; the round is its third word
FIRST, INNER, LAST = 8, 3, 2  # thresholds of the first round, of a later one, of the last
MOST_ROUNDS = 12
MOST_THRESHOLDS = FIRST + INNER * (MOST_ROUNDS - 2) + LAST
COARSE, FINE = 91, 45  # points of the grid of the quantile, first round and later
BRACKET = 5.0  # standard deviations on either side that the grid spans
KEEP = 4.0  # steering forgets thresholds farther away, in standard deviations
FLOOR = 6.0  # the standard deviation is at least the gap between thresholds over this
SPREAD = 2.0  # outer thresholds of a round, in standard deviations
WINDOW = 2.5  # half width of the final fit, in standard deviations


class RoundsDesign(NamedTuple):
    """Settings of a run.

    Parameters
    ----------
    low, high : float
        The range.
    tau, logit : float
        Level of the quantile and log(tau/(1 - tau)).
    asked : ndarray, shape (rounds,)
        Users asked at each threshold of a round.
    scales : ndarray
        Grid of the working model's scale.
    answer_below, answer_above, liars, lie : float
        Who answers (see Protocol), share of liars and their report.
    worth : float
        How many independent bits the answers of one user are worth: 1 for one answer.
    """

    low: float
    high: float
    tau: float
    logit: float
    asked: NDArray[np.float64]
    scales: NDArray[np.float64]
    answer_below: float
    answer_above: float
    liars: float
    lie: float
    worth: float


@jit
def ask(x, key0, key1, index, turn, users, population, design, budget):  # type: ignore[no-untyped-def]
    """Answers at one threshold: how many, and how many reports of 1.

    Several answers of a user count as ``worth`` independent ones: the number whose mean varies as theirs
    does at the quantile.
    """
    # Values outside the range are moved to its ends.
    below = 1.0 if x >= design.high else cdf(population, x)
    share, whole = below, design.answer_below
    if design.answer_below != design.answer_above:
        tau = design.tau
        whole = design.answer_below * tau + design.answer_above * (1.0 - tau)
        share = design.answer_below * min(below, tau) + design.answer_above * max(below - tau, 0.0)
        share /= whole
    count = binomial(key0, key1, index, ANSWERS, turn, users, whole)
    lying = binomial(key0, key1, index, LIES, turn, count, design.liars)
    chance = budget.flip + budget.gap * share
    honest = bits(key0, key1, index, ONES, turn, count - lying, share, chance, budget)
    return count * design.worth, (honest / budget.answers + design.lie * lying) * design.worth


@jit
def steer(x, asked, ones, mean, sd, first, design, budget):  # type: ignore[no-untyped-def]
    """Posterior mean, sd and scale after a round; the sd not below the local gap over FLOOR."""
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
    # The working model is not trusted between two thresholds.
    return mean, max(sd, (right - left) / FLOOR), sigma


@jit
def search(key0, key1, x, asked, ones, population, design, budget):  # type: ignore[no-untyped-def]
    """All rounds of one replicate; returns thresholds used, and centre, sd and scale for the fit."""
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
                at = min(max(at, design.low), design.high)
            x[used] = at
            asked[used], ones[used] = ask(
                at, key0, key1, j, turn, design.asked[turn], population, design, budget
            )
            used += 1
        if not last:
            mean, sd, sigma = steer(x[:used], asked[:used], ones[:used], mean, sd, turn == 0, design, budget)
    return used, mean, sd, sigma


def search_all(kernel, estimates, fits, received, keys, population, design, budget):  # type: ignore[no-untyped-def]
    """Run of all replicates.

    Parameters
    ----------
    estimates : array, shape (replicates,)
        Result: a + b u = logit tau, cut to the range.
    fits : array, shape (replicates, 7)
        Result: centre, half width of the window, a, b and the information matrix (A, B, C).
    received : array, shape (replicates,)
        Result: reports.
    keys : array of uint64, shape (replicates, 2)
    """
    x = np.empty(MOST_THRESHOLDS)
    asked = np.empty(MOST_THRESHOLDS)
    ones = np.empty(MOST_THRESHOLDS)
    u = np.empty(MOST_THRESHOLDS)
    for r in range(estimates.shape[0]):
        used, mean, sd, sigma = search(keys[r, 0], keys[r, 1], x, asked, ones, population, design, budget)
        half = WINDOW * sd
        total = 0.0
        for d in range(used):
            total += asked[d]
            u[d] = (x[d] - mean) / half
            if abs(u[d]) > 1.0:
                asked[d] = 0.0
        fit = fit_logistic(u[:used], asked[:used], ones[:used], half / sigma, budget)
        found = mean + half * (design.logit - fit[0]) / fit[1]
        estimates[r] = min(max(found, design.low), design.high)
        received[r] = total / design.worth
        fits[r, 0] = mean
        fits[r, 1] = half
        for i in range(5):
            fits[r, 2 + i] = fit[i]


def fieller_all(kernel, limits, fits, logit, low, high, z):  # type: ignore[no-untyped-def]
    """Fieller's limits, cut to the range; shape (levels, replicates, 2), NaN where there are none."""
    for level in range(z.shape[0]):
        for r in range(fits.shape[0]):
            fit = (fits[r, 2], fits[r, 3], fits[r, 4], fits[r, 5], fits[r, 6])
            left, right = fieller(fit, logit, z[level])
            if left == left and right == right:
                left = min(max(fits[r, 0] + fits[r, 1] * left, low), high)
                right = min(max(fits[r, 0] + fits[r, 1] * right, low), high)
            limits[level, r, 0] = left
            limits[level, r, 1] = right
