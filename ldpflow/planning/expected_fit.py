"""Bias of regression on the transcript, predicted without simulation.

The Gaussian closure (ldpflow.theory.closure) gives mean and variance of the iterates along the run, so the
sums that TR is made of have known expectations. TR's own fit of them has a root; its distance from theta*, in
TR's standard errors, is the bias that remains where a polynomial of that degree does not fit the mean
gradient. The digits that the fit loses are known too: it is undefined where they are too many.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ldpflow.intervals.transcript import TranscriptRegression
from ldpflow.intervals.transcript_fit import fit_polynomial
from ldpflow.simulators.approach import Approach
from ldpflow.theory.arrival import standardised
from ldpflow.theory.closure import equal_probability, few_nodes, follow_kernel, grid

RATIO = 1.08  # of the times between which the iterates count as one normal law
NODES = 40
MARGIN = 10.0  # a digit to spare: the runs of a path differ


class ExpectedFit(NamedTuple):
    """Fit of TR to the expected sums of a path.

    Parameters
    ----------
    bias : float
        Of the root, in TR's standard errors; NaN where there is no root.
    defined : bool
        Whether the fit has a root and enough digits.
    """

    bias: float
    defined: bool


def expected_fit(case: Approach, method: TranscriptRegression) -> ExpectedFit:
    """Fit the expected sums of a quantile's path.

    Parameters
    ----------
    case : Approach
    method : TranscriptRegression
        Its degree and burn-in.
    """
    first, order, degree = method.first(case.steps), method.order(), method.degree
    if case.steps - first < order + 2:
        return ExpectedFit(math.nan, False)
    truth, density, table = standardised(case.law, case.tau)
    begin = 1 << (first.bit_length() - 1)  # running sums start again at powers of two
    times = [begin, first] if begin < first else [first]
    while times[-1] < case.steps:
        times.append(min(case.steps, max(times[-1] + 1, int(times[-1] * RATIO))))
    out = np.empty((len(times), 5))
    ends, sums = grid(case.gamma, case.steps)
    settings = (case.noise, case.c * density, case.gamma, (case.theta0 - truth) * density)
    follow_kernel()(
        table, equal_probability(), few_nodes(), ends, sums, case.tau, *settings,
        float(case.records), np.array(times), out,
    )  # fmt: skip
    mean, deviation = out[:, 3], np.sqrt(out[:, 4])
    centre, spread = 0.5 * (mean[1:] + mean[:-1]), 0.5 * (deviation[1:] + deviation[:-1])
    points = centre[:, None] + spread[:, None] * equal_probability(NODES)
    gradient = case.law.cdf_values(truth + points / density) - case.tau
    weights = np.diff(times)[:, None] / NODES
    with np.errstate(all="ignore"):  # a path that is lost has no fit
        powers = [weights * points**k for k in range(1, 2 * order + 1)]
        crossed = [weights * gradient * points**k for k in range(order + 1)]
        squares = weights * (gradient**2 + case.variance())
        gross = np.array([part.sum(axis=1) for part in (*powers, *crossed, squares)])
        summed = (gross[:, 1:] if begin < first else gross).sum(axis=1)
        fit = fit_polynomial(summed[:, None], MARGIN * gross.sum(axis=1)[:, None], case.steps - first, order)
        u, slope = fit.root(degree)
        leverage = sum(q * q / fit.pivots[k] for k, q in enumerate(fit.basis(u, degree)))
        error = fit.sd * np.sqrt(case.variance() * leverage) / slope
        bias = float(((fit.mean + fit.sd * u) / error)[0])
    return ExpectedFit(bias, math.isfinite(bias) and bool(fit.sound[degree][0]))
