"""Run of a one-shot protocol: who answers, who lies, and F^ at the inner edges."""

from __future__ import annotations

import numpy as np

from ldpflow.random.counts import binomial

__all__ = ["collect"]

ANSWERS, LIES = 0, 1  # stages of the address


def collect(kernel, values, received, empty, keys, users, answer, liars, design, budget):  # type: ignore[no-untyped-def]
    """F^ of every replicate; ``kernel.draw`` draws the protocol's counts.

    Parameters
    ----------
    values : array, shape (replicates, edges)
        Result.
    received, empty : array, shape (replicates,)
        Result: reports, and questions that no user was asked.
    keys : array of uint64, shape (replicates, 2)
        Key words of the counter streams.
    users : float
        Users asked.
    answer : float
        Probability that a user answers.
    liars : float
        Probability that one who answers lies.
    """
    for r in range(values.shape[0]):
        key0, key1 = keys[r, 0], keys[r, 1]
        answering = binomial(key0, key1, 0, ANSWERS, 0, users, answer)
        lying = binomial(key0, key1, 0, LIES, 0, answering, liars)
        received[r] = answering
        if answering > 0.0:
            empty[r] = kernel.draw(values[r], key0, key1, answering - lying, lying, design, budget)
        else:
            empty[r] = 0
            values[r] = np.nan
