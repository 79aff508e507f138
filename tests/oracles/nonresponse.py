"""Outcomes of one invitation, one by one: no answer, or several bits by randomised response.

Whether a user answers depends on the side of the quantile on which the value lies; what the user answers
depends on the side of a threshold, which need not be the quantile.
"""

import itertools
import math

import numpy as np


def outcomes(value, quantile, threshold, epsilon, answers, below, above):
    """Probabilities of silence and of every sequence of bits; the answers share epsilon equally."""
    rate = below if value <= quantile else above
    keep = 1.0 / (1.0 + math.exp(-epsilon / answers))
    bit = int(value <= threshold)
    sequences = itertools.product((0, 1), repeat=answers)
    answered = [rate * math.prod(keep if b == bit else 1.0 - keep for b in bits) for bits in sequences]
    return [1.0 - rate, *answered]


def largest_loss(epsilon, answers, below, above):
    """The largest log(P/Q) over values, thresholds and outcomes: the exact epsilon of all that is seen."""
    worst = 0.0
    for threshold in (0, 1, 2):
        table = np.array([outcomes(v, 1, threshold, epsilon, answers, below, above) for v in range(4)])
        with np.errstate(divide="ignore", invalid="ignore"):  # NaN where neither can happen
            losses = np.log(table)[:, None] - np.log(table)
        worst = max(worst, np.nanmax(losses))
    return worst
