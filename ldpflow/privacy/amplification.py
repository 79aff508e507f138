"""Amplification of privacy by a secret random sample.

A guarantee of what is computed from a set of n records, for replacing one of them, is worth more to the N
people from whom the n were drawn at random where the sample stays secret (Balle, Barthe and Gaboardi, 2018,
Privacy amplification by subsampling, Theorem 9: without replacement, records replaced):

    (epsilon, delta) on the sample  =>  (log(1 + r (e^epsilon - 1)), r delta) on all N,   r = n/N

The theorem is about sets: what is computed depends on which records were drawn and on no order of theirs.
Reports that are seen in the order of invitation, or in any order that an observer knows something about, are
no function of a set, and the formula is false for them: with three people invited in a known order, a uniform
two of whom respond with epsilon = 3, an observer gains 2.956 where it gives 2.619.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ldpflow.errors import InputError


def sampled_pair(epsilon: float, delta: float, rate: float, *, secret_sample: bool) -> tuple[float, float]:
    """(epsilon, delta) for one of N people of whom a random share ``rate`` is used.

    Parameters
    ----------
    epsilon : float >= 0
        Of what is released, for replacing one record of the sample.
    delta : float in [0, 1)
        The same.
    rate : float in (0, 1]
        r = n/N.
    secret_sample : bool
        Whether the observer is so ignorant as the theorem needs. Three things must hold:

        * order: the records of the sample are seen without order, or in a uniformly random order that the
          observer knows nothing about;
        * who answered: the sample is uniform among all sets of its size, whatever the values are, and the
          observer does not know who is in it;
        * how often: its size n was fixed beforehand, and every member sends as many reports as the others.

    Returns
    -------
    epsilon, delta : float
        log(1 + r (e^epsilon - 1)) and r delta; without ``secret_sample`` what was given, which holds for
        every sample that does not depend on the values.
    """
    if not 0 < rate <= 1:
        raise InputError("response_rate", rate, "a number in (0, 1]")
    if rate == 1 or not secret_sample:
        return epsilon, delta
    if epsilon > 700:  # log(r e^epsilon), without leaving floating point
        return epsilon + math.log(rate), rate * delta
    return math.log1p(rate * math.expm1(epsilon)), rate * delta


def sampled_epsilon(
    epsilon_at: Callable[[float], float | None], delta: float, rate: float, *, secret_sample: bool
) -> float | None:
    """epsilon at delta for one of N people of whom a random share is used; see :func:`sampled_pair`.

    ``epsilon_at`` gives the epsilon of the sample at a delta, or None where none is proved.
    """
    inner = delta / rate if secret_sample else delta
    if inner >= 1:  # not even drawn with a larger probability
        return 0.0
    epsilon = epsilon_at(inner)
    return None if epsilon is None else sampled_pair(epsilon, inner, rate, secret_sample=secret_sample)[0]
