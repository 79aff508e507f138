"""Reports of a sample of the invited, by enumeration of who responds, in which order, with which reports.

A transcript is the sequence of what responders send, as an observer sees it who knows everybody's value but
neither who responds nor, where the order is secret, in which order.
"""

import itertools
import math
from collections import defaultdict

from tests.oracles.mechanisms import keep_probability as keep


def transcripts(values, sizes, epsilon, secret_order, reports=1, threshold=lambda earlier: 1):
    """Probability of every transcript.

    ``values``: of the invited, in the order of invitation. ``sizes``: numbers of responders with their
    probabilities; given the number, all subsets of that size are equally likely. ``reports``: number of
    linked reports of every responder. ``threshold``: asked of a responder, given the transcript so far; by
    default 1 of all.
    """
    found = defaultdict(float)
    for size, chance in sizes.items():
        subsets = list(itertools.combinations(range(len(values)), size))
        for subset in subsets:
            orders = list(itertools.permutations(subset)) if secret_order else [subset]
            for order in orders:
                for transcript in itertools.product(itertools.product((0, 1), repeat=reports), repeat=size):
                    p = chance / len(subsets) / len(orders)
                    for place, person in enumerate(order):
                        bit = int(values[person] >= threshold(transcript[:place]))
                        for report in transcript[place]:
                            p *= keep(epsilon) if report == bit else 1.0 - keep(epsilon)
                    found[transcript] += p
    return dict(found)


def largest_loss(values, place, possible, *arguments, **settings):
    """max |log P(transcript | x)/P(transcript | x')| over transcripts and values x, x' of one person."""
    tables = [
        transcripts([*values[:place], value, *values[place + 1 :]], *arguments, **settings)
        for value in possible
    ]
    return max(
        abs(math.log(first[transcript] / second[transcript]))
        for first, second in itertools.combinations(tables, 2)
        for transcript in first
    )
