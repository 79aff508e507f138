"""Protocols for quantiles that make no path: one-shot histograms, and a few rounds of thresholds.

Every user answers once through an eps-LDP randomiser; all of the rest is post-processing. The counts that the
server sees are drawn from their exact law. A class in a module of this package is registered by its kind.
"""

from ldpflow.components.protocols.protocol import OneShot, Protocol
from ldpflow.settings import find_components

__all__ = ["PROTOCOLS", "OneShot", "Protocol"]

PROTOCOLS: dict[str, type[Protocol]] = find_components(__name__, Protocol)
