"""Protocols for quantiles without a path: one-shot histograms, and a few rounds of thresholds.

Every user answers once through an eps-LDP randomiser. The rest is post-processing. The server's counts are
drawn from their exact law. A class in a module of this package is registered by its kind.
"""

from ldpflow.components.protocols.protocol import OneShot, Protocol
from ldpflow.settings import find_components

__all__ = ["PROTOCOLS", "OneShot", "Protocol"]

PROTOCOLS: dict[str, type[Protocol]] = find_components(__name__, Protocol)
