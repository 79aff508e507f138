"""Runs of protocols for tests: replicates' F^, estimates and limits."""

from __future__ import annotations

import numpy as np

from ldpflow.problems.laws import Law
from ldpflow.protocols.counts.collect import collect
from ldpflow.protocols.counts.estimate import estimate_all
from ldpflow.protocols.counts.population_cdf import cdf_at
from ldpflow.protocols.counts.rounds import fieller_all, search_all
from ldpflow.protocols.population import population_of
from ldpflow.random.streams import counter_keys

Z90 = 1.6448536269514722


def keys(label, replicates, first=0, seed=20261122):
    return np.array(
        [counter_keys(seed, "reports", label, r) for r in range(first, first + replicates)],
        dtype=np.uint64,
    )


def edge_cdf(law: Law, edges):
    """F at the edges, 0 and 1 at the ends: values outside are moved to them."""
    values = cdf_at(population_of(law), edges)
    values[0], values[-1] = 0.0, 1.0
    return values


def one_shot(protocol, cdf, n, keys, tau=0.5, target=None):
    """F^ of every replicate, reports, and questions that no user was asked."""
    k = len(cdf) - 1
    values = np.empty((len(keys), k - 1))
    received, empty = np.empty(len(keys)), np.empty(len(keys))
    draw, _ = protocol.kernels()
    design = protocol.design(protocol.responders(cdf, tau), k // 2 if target is None else target)
    answer = protocol.answer_probability(tau)
    collect(values, received, empty, draw, keys, float(n), answer, protocol.liars, design, protocol.budget())
    return values, received, empty


def inverted(protocol, values, received, edges, taus=(0.5,), z=(Z90,)):
    """Estimates (quantiles, replicates) and limits (levels, quantiles, replicates, 5)."""
    estimates = np.empty((len(taus), len(values)))
    limits = np.empty((len(z), len(taus), len(values), 5))
    _, spread = protocol.kernels()
    flat = np.arange(len(edges)) / (len(edges) - 1)
    design = protocol.design(flat, 1)
    estimate_all(
        estimates,
        limits,
        spread,
        values,
        received,
        edges,
        np.array(taus),
        np.array(z),
        design,
        protocol.budget(),
    )
    return estimates, limits


def searched(protocol, law: Law, n, keys, tau, z=(Z90,)):
    """Estimates, limits (levels, replicates, 2) and reports of ``rounds``."""
    estimates, fits, received = np.empty(len(keys)), np.empty((len(keys), 7)), np.empty(len(keys))
    design = protocol.design(n, tau)
    search_all(estimates, fits, received, keys, population_of(law), design, protocol.budget())
    limits = np.empty((len(z), len(keys), 2))
    fieller_all(limits, fits, design.logit, *protocol.ends, np.array(z))
    return estimates, limits, received
