"""Protocols for quantiles without a path: one-shot histograms, and a few rounds of thresholds.

Every user answers one question under eps-LDP. A simulation draws the counts of the reports from their exact
law. A class in a module of this package is registered by its kind.
"""

from ldpflow.components.protocols.protocol import OneShot, Protocol
from ldpflow.settings import find_components

__all__ = ["PROTOCOLS", "OneShot", "Protocol"]

PROTOCOLS: dict[str, type[Protocol]] = find_components(__name__, Protocol)
