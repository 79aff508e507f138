"""Audits of protocols: what one user's report says about the own value.

The report is that of the protocol's own counts, drawn for a single user whose value lies in a given bin: F^
from one report tells which report it was. Of ``rounds`` it is the answer at one threshold.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpflow.audit.bounds import claim_of
from ldpflow.audit.distinguishing import Audit, Neighbours, audited
from ldpflow.errors import InputError
from ldpflow.problems.laws import Law
from ldpflow.protocols import Protocol
from ldpflow.protocols.counts.histograms import collect
from ldpflow.protocols.counts.rounds import ask, population_of
from ldpflow.protocols.counts.runs import call
from ldpflow.protocols.protocol import OneShot
from ldpflow.protocols.rounds import Rounds
from ldpflow.random.streams import counter_keys

Floats = NDArray[np.float64]

USERS = 10_000
"""Users that the rule for the number of bins is asked with, where the protocol leaves them open."""


def ask_once(kernel, out, keys, x, population, design, budget):  # type: ignore[no-untyped-def]
    """The answers of one user at the threshold x, one user per row of ``keys``."""
    for r in range(out.shape[0]):
        _, ones = ask(x, keys[r, 0], keys[r, 1], 0, 0, 1.0, population, design, budget)
        out[r, 0] = ones


def audit_protocol(protocol: Protocol, samples: int, confidence: float, seed: int) -> Audit:
    """Hold one user's report to the protocol's claim.

    Parameters
    ----------
    protocol : Protocol
        Every user answers, and honestly, whatever its settings: a liar's report depends on no value.
    samples : int
        Reports on each value, once to choose the test and once to count it.
    confidence : float
    seed : int
    """
    protocol = protocol.model_copy(update={"answer_below": 1.0, "answer_above": 1.0, "liars": 0.0})
    if isinstance(protocol, Rounds):
        neighbours = [rounds_neighbours(protocol, seed)]
    elif isinstance(protocol, OneShot):
        k = protocol.bins(USERS)
        pairs = dict.fromkeys([(0, k - 1), (k // 2 - 1, k // 2), (0, 1)])
        neighbours = [bin_neighbours(protocol, k, pair, seed) for pair in pairs]
    else:
        raise InputError("protocol.kind", protocol.kind, "a protocol of one round, or rounds of thresholds")
    return audited(protocol, claim_of(protocol.privacy()), neighbours, samples, confidence)


def keys_of(seed: int, which: int, count: int, stage: int, name: str) -> NDArray[np.uint64]:
    """Key words of users with one of the two values."""
    first = stage * 2**32
    stream = f"audit/{name}/{which}"
    keys = [counter_keys(seed, "mechanism", stream, replicate) for replicate in range(first, first + count)]
    return np.array(keys, dtype=np.uint64)


def bin_neighbours(protocol: OneShot, k: int, pair: tuple[int, int], seed: int) -> Neighbours:
    """A user whose value lies in either of two bins."""
    draw_counts, _ = protocol.kernels()
    cdfs = [(np.arange(k + 1) > place).astype(np.float64) for place in pair]

    def draw(which: int, count: int, stage: int) -> Floats:
        values, received, empty = np.empty((count, k - 1)), np.empty(count), np.empty(count)
        keys = keys_of(seed, which, count, stage, f"{protocol.kind}/{pair}")
        design, budget = protocol.design(cdfs[which], 1), protocol.budget()
        call(collect, values, received, empty, keys, 1.0, 1.0, 0.0, design, budget, draw=draw_counts)
        return values

    name = f"values in bins {pair[0] + 1} and {pair[1] + 1} of {k}"
    return Neighbours(name, draw, (cdfs[0][1:-1], cdfs[1][1:-1]))


def rounds_neighbours(protocol: Rounds, seed: int) -> Neighbours:
    """A user whose value lies below the threshold, or above it."""
    low, high = protocol.ends
    width = high - low
    design = protocol.design(USERS, 0.5)
    values = (low + 0.25 * width, low + 0.75 * width)

    def draw(which: int, count: int, stage: int) -> Floats:
        # A law so narrow that all of it lies on one side.
        population = population_of(Law("uniform", values[which], 1e-3 * width))
        out = np.empty((count, 1))
        keys = keys_of(seed, which, count, stage, protocol.kind)
        call(ask_once, out, keys, low + 0.5 * width, population, design, protocol.budget())
        return out

    centres = (np.array([float(protocol.answers)]), np.array([0.0]))
    return Neighbours("values below and above the threshold", draw, centres)
