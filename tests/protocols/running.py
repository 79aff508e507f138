"""Streams of protocols' replicates, and variances of F^."""

import numpy as np

from ldpflow.components.protocols import PROTOCOLS
from ldpflow.components.protocols.collections import edge_variances
from ldpflow.numerics.streams import counter_keys

Z90 = 1.6448536269514722

ONE_SHOT = [name for name in PROTOCOLS if name != "rounds"]


def keys(label, replicates, seed=20261122):
    return np.array([counter_keys(seed, "reports", label, r) for r in range(replicates)], dtype=np.uint64)


def spread_of(protocol, cdf, tau):
    """Variance of F^ per answer at the inner edges, were F tau there."""
    return edge_variances(protocol, cdf, tau, protocol.design(cdf, 1))
