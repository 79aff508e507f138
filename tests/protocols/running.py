"""Runs of protocols for tests: replicates' F^, estimates and limits."""

from __future__ import annotations

import numpy as np

from ldpflow.components.problems.laws import Law
from ldpflow.components.protocols import PROTOCOLS
from ldpflow.components.protocols.collections import Histograms, call, edge_variances, run_rounds
from ldpflow.components.protocols.histogram_counts import collect
from ldpflow.numerics.streams import counter_keys

Z90 = 1.6448536269514722

ONE_SHOT = [name for name in PROTOCOLS if name != "rounds"]


def keys(label, replicates, first=0, seed=20261122):
    return np.array(
        [counter_keys(seed, "reports", label, r) for r in range(first, first + replicates)], dtype=np.uint64
    )


def one_shot(protocol, cdf, n, keys, tau=0.5, target=None):
    """F^ of every replicate, reports, and questions that no user was asked."""
    k = len(cdf) - 1
    values = np.empty((len(keys), k - 1))
    received, empty = np.empty(len(keys)), np.empty(len(keys))
    design = protocol.design(protocol.responders(cdf, tau), k // 2 if target is None else target)
    answer = protocol.answer_probability(tau)
    counts = np.empty((2, protocol.questions(k)))
    arguments = (*counts, keys, float(n), answer, protocol.liars, design, protocol.budget())
    call(collect, values, received, empty, *arguments, draw=protocol.draw, fold=protocol.fold)
    return values, received, empty


def inverted(protocol, values, received, edges, taus=(0.5,), z=(Z90,)):
    """Estimates (quantiles, replicates) and limits (levels, quantiles, replicates, 5)."""
    histograms = Histograms(protocol, edges, values, received, np.zeros(len(values)))
    line = histograms.intervals(taus, z, "line")
    outer = histograms.intervals(taus, z, "outer")
    assert (line.range_end == outer.range_end).all()
    limits = [line.lower, line.upper, outer.lower, outer.upper, outer.range_end.astype(float)]
    return outer.estimate, np.stack(limits, axis=-1)


def searched(protocol, law: Law, n, keys, tau, z=(Z90,)):
    """Estimates, limits (levels, replicates, 2) and reports of ``rounds``."""
    run, _ = run_rounds(protocol, law, tau, n, keys)
    limits = run.intervals(z)
    return run.estimate, np.stack([limits.lower[:, 0], limits.upper[:, 0]], axis=-1), run.received


def spread_of(protocol, cdf, tau):
    """Variance of F^ per answer at the inner edges, were F tau there."""
    return edge_variances(protocol, cdf, tau, protocol.design(cdf, 1))
