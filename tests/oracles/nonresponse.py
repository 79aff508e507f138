"""Outcomes of one invitation, one by one: no answer, or several bits by randomised response.

Whether a user answers depends on the side of the quantile on which the value lies; what the user answers
depends on the side of a threshold, which need not be the quantile.
"""

import itertools
import math

SILENCE = None


def outcomes(value, quantile, threshold, epsilon, answers, below, above):
    """Probability of silence and of every sequence of bits; the answers share epsilon equally."""
    rate = below if value <= quantile else above
    keep = 1.0 / (1.0 + math.exp(-epsilon / answers))
    bit = int(value <= threshold)
    found = {SILENCE: 1.0 - rate}
    for bits in itertools.product((0, 1), repeat=answers):
        found[bits] = rate * math.prod(keep if b == bit else 1.0 - keep for b in bits)
    return found


def loss(first, second):
    """log(P/Q) of an outcome; infinite where Q alone is 0, and 0 where neither can happen."""
    if first == second:
        return 0.0
    return math.inf if second == 0.0 else math.log(first / second) if first > 0.0 else -math.inf


def largest_loss(epsilon, answers, below, above):
    """The largest loss over values, thresholds and outcomes: the exact epsilon of all that is seen."""
    values, quantile = (0, 1, 2, 3), 1
    worst = 0.0
    for threshold in (0, 1, 2):
        tables = [outcomes(v, quantile, threshold, epsilon, answers, below, above) for v in values]
        for first, second in itertools.permutations(tables, 2):
            worst = max(worst, *(loss(first[outcome], second[outcome]) for outcome in first))
    return worst
