"""Amplification of privacy by a secret random sample.

A guarantee of what is computed from n records, for replacing one of them, is worth more to the N people
from whom the n were drawn at random where the sample stays secret (Balle, Barthe and Gaboardi, 2018,
Privacy amplification by subsampling, Theorem 9: without replacement, records replaced):

    (epsilon, delta) on the sample  =>  (log(1 + r (e^epsilon - 1)), r delta) on all N,   r = n/N
"""

from __future__ import annotations

import math

from ldpflow.errors import InputError

__all__ = ["sampled_pair"]


def sampled_pair(epsilon: float, delta: float, rate: float) -> tuple[float, float]:
    """(epsilon, delta) for one of N people of whom a secret random share ``rate`` is used.

    Parameters
    ----------
    epsilon : float >= 0
        Of what is released, for replacing one record of the sample.
    delta : float in [0, 1)
        The same.
    rate : float in (0, 1]
        r = n/N.

    Returns
    -------
    epsilon, delta : float
        log(1 + r (e^epsilon - 1)) and r delta.
    """
    if not 0 < rate <= 1:
        raise InputError("response_rate", rate, "a number in (0, 1]")
    if rate == 1:
        return epsilon, delta
    if epsilon > 700:  # log(r e^epsilon), without leaving floating point
        return epsilon + math.log(rate), rate * delta
    return math.log1p(rate * math.expm1(epsilon)), rate * delta
