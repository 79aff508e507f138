"""Recommended interval method of a path: expected coverage and length, and users needed.

Coverages and lengths of 90% intervals come from a simulation study of 384 paths with 400 replicates each:
normal, exponential and lognormal laws, tau .5, .9 and .99, eps .5, 1 and 2, n = 1e4 and 1e5, c over a factor
of 128 (docs/pilot_to_plan.md has the whole table).

The bias of regression on the transcript (TR) is predicted without simulation. The Gaussian closure
(ldpflow.results.arrival) gives mean and variance of the iterates along the run. The expected sums of TR's fit
follow from them. If no polynomial of TR's degree fits the mean gradient, the root of the expected fit differs
from theta*. The difference, in standard errors of TR, is the bias.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ldpflow.components.intervals.transcript import TranscriptRegression
from ldpflow.components.intervals.transcript_fit import fit_polynomial
from ldpflow.numerics import constants
from ldpflow.options import MOST_USERS
from ldpflow.results.arrival import (
    Arrival,
    equal_probability,
    follow_path,
    predict_arrivals,
    relaxation_units,
)
from ldpflow.simulators.approach import Approach

RATIO = 1.08  # ratio of consecutive times; the iterates between two times get one normal law
NODES = 40  # points that represent a normal law
MARGIN = 10.0  # factor on the rounding errors, since replicates of a path differ


class ExpectedFit(NamedTuple):
    """Bias of TR's root in standard errors (or NaN), and whether enough digits are left after rounding."""

    bias: float
    defined: bool


def expected_fit(case: Approach, method: TranscriptRegression) -> ExpectedFit:
    """Predict the bias of TR for a quantile's path, from a fit of the expected sums."""
    first, order, degree = method.first(case.steps), method.order(), method.degree
    if case.steps - first < order + 2:
        return ExpectedFit(math.nan, False)
    truth, density, _ = relaxation_units(case.law, case.tau)
    begin = 1 << (first.bit_length() - 1)  # running sums start again at powers of two
    times = [begin, first] if begin < first else [first]
    while times[-1] < case.steps:
        times.append(min(case.steps, max(times[-1] + 1, int(times[-1] * RATIO))))
    out = follow_path(case, times)
    mean, deviation = out[:, 3], np.sqrt(out[:, 4])
    centre, spread = 0.5 * (mean[1:] + mean[:-1]), 0.5 * (deviation[1:] + deviation[:-1])
    points = centre[:, None] + spread[:, None] * equal_probability(NODES)
    gradient = case.law.cdf_values(truth + points / density) - case.tau
    weights = np.diff(times)[:, None] / NODES
    with np.errstate(all="ignore"):  # no fit if the path diverges
        powers = [weights * points**k for k in range(1, 2 * order + 1)]
        crossed = [weights * gradient * points**k for k in range(order + 1)]
        squares = weights * (gradient**2 + case.variance())
        gross = np.array([part.sum(axis=1) for part in (*powers, *crossed, squares)])
        summed = (gross[:, 1:] if begin < first else gross).sum(axis=1)
        fit = fit_polynomial(summed[:, None], MARGIN * gross.sum(axis=1)[:, None], case.steps - first, order)
        u, slope = fit.root(degree)
        error = fit.sd * np.sqrt(case.variance() * fit.leverage(u, degree)) / slope
        bias = float(((fit.mean + fit.sd * u) / error)[0])
    return ExpectedFit(bias, math.isfinite(bias) and bool(fit.sound[degree][0]))


class Expected(NamedTuple):
    """Median coverage of a 90% interval, and its median length over the oracle's."""

    coverage: float
    length: float


TABLE = (
    (25.0, 0.5, Expected(0.90, 1.3), Expected(0.91, 2.1)),
    (45.0, 0.25, Expected(0.91, 1.18), Expected(0.93, 1.9)),
    (45.0, 1.5, Expected(0.90, 1.2), Expected(0.92, 1.8)),
    (math.inf, 0.25, Expected(0.91, 1.14), Expected(0.92, 1.3)),
    (math.inf, 1.0, Expected(0.91, 1.12), Expected(0.92, 1.35)),
    (math.inf, 1.5, Expected(0.88, 1.12), Expected(0.91, 1.28)),
)
"""Upper limit of K (relaxation times), upper limit of |b| (bias in standard errors of the oracle), results of
TR of degree 2, results of TR of degree 3."""

TR_LENGTH = 1.12
"""Length of TR's intervals over the oracle's, in long runs."""

RECOMMENDED: dict[str, dict[str, Any]] = {"TR": {"degree": 2}, "TR3": {"degree": 3, "burn_in": "0.01n"}}
"""Settings of the methods that a plan recommends, all of kind TR."""

FEWEST_TIMES = {"TR": 25.0, "TR3": 45.0}
"""Relaxation times that a run needs for each method."""

MOST_BIAS = 0.25
"""Largest predicted bias of TR, in its standard errors, at which it is recommended.

The bound was chosen on 620 random paths (13 laws, tau .1 to .9, eps .5 to 2, n = 1e4 to 1e5, 400 replicates
of 90% intervals) and checked on 300 others. TR covers .87 or more in the 184 of the 300 paths where it is
recommended, TR3 .865 or more in 155. In paths that are excluded by this bound alone, TR covers as little as
.66 and TR3 as little as .13.
"""

Number = TypeVar("Number", int, float)

PER_DOUBLING = 4  # numbers of users per factor of 2 in a search
DOUBLINGS = 14
BETWEEN = 8  # paths that are followed at once


def recommend_method(arrival: Arrival, case: Approach | None = None) -> str | None:
    """Recommended method of a path: ``TR``, ``TR3`` (degree 3, burn_in "0.01n"), or None.

    Intervals around averages (BB, BM, SN) need many relaxation times: with fewer they are too short, even
    without bias. Transcript regression does not inherit the average's bias, but is biased if its polynomial
    does not fit the law of ``case``. If ``case`` is None, this bias is not predicted and not considered.
    """
    k, bias = arrival.relaxation_times, abs(arrival.bias)
    long = k >= FEWEST_TIMES["TR3"]
    if k >= FEWEST_TIMES["TR"] and bias <= (1.0 if long else 0.5) and fits(case, "TR"):
        return "TR"
    return "TR3" if long and bias <= 1.5 and fits(case, "TR3") else None


def own_fit(case: Approach, method: str) -> ExpectedFit:
    return expected_fit(case, TranscriptRegression(**RECOMMENDED[method]))


def fits(case: Approach | None, method: str) -> bool:
    if case is None:
        return True
    found = own_fit(case, method)
    return found.defined and abs(found.bias) <= MOST_BIAS


def expected_interval(arrival: Arrival, method: str) -> Expected | None:
    """Coverage and length of a method's 90% interval in the study, at these relaxation times and this bias.

    None with fewer than 15 relaxation times, or with a larger bias than the study has.
    """
    k, bias = arrival.relaxation_times, abs(arrival.bias)
    if k < 15:
        return None
    for most_k, most_bias, tr, tr3 in TABLE:
        if k < most_k and bias <= most_bias:
            return tr if method == "TR" else tr3
    return None


def first_of(values: Sequence[Number], enough: Callable[[Number], bool]) -> Number | None:
    """Smallest of ascending values that is enough, by bisection; None if none is."""
    at = bisect_left(values, True, key=enough)
    return values[at] if at < len(values) else None


def users_with_method(
    path: Callable[[int], Approach],
    method: Callable[[Arrival, Approach], str | None],
    half_width: float,
    level: float,
    first: int,
) -> tuple[int, str] | None:
    """Fewest users (to 2.4%) for a median half width of at most ``half_width``, and their method.

    ``path`` makes the path of n users, and ``method`` recommends a method for a path. The search starts at
    ``first``, the users that the oracle's interval needs. It ends at 16,000 times as many, and returns None
    if they are too few.
    """
    z = constants.normal_quantile(0.5 + level / 2)

    def first_short(counts: Sequence[int]) -> tuple[int, str] | None:
        for start in range(0, len(counts), BETWEEN):  # paths with equal steps are followed in one run
            cases = [path(count) for count in counts[start : start + BETWEEN]]
            for case, arrival in zip(cases, predict_arrivals(cases), strict=True):
                oracle = z * arrival.standard_error
                # No method has a shorter interval than the oracle.
                name = method(arrival, case) if oracle <= half_width else None
                length = None if name is None else expected_interval(arrival, name)
                if name is not None and length is not None and length.length * oracle <= half_width:
                    return counts[start + cases.index(case)], name
        return None

    factors = [2.0 ** (k / PER_DOUBLING) for k in range(DOUBLINGS * PER_DOUBLING + 1)]
    counts = [count for f in factors if (count := math.ceil(max(first, 1) * f)) <= MOST_USERS]
    found = first_short(counts)
    if found is None or found[0] == counts[0]:
        return found
    low = counts[counts.index(found[0]) - 1]
    return first_short([low + (found[0] - low) * k // BETWEEN for k in range(1, BETWEEN + 1)]) or found
