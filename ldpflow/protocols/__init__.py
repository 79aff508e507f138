"""Protocols for quantiles that make no path: one-shot histograms, and a few rounds of thresholds.

Every user answers once through an eps-LDP randomiser; all of the rest is post-processing. The
counts that the server sees are drawn from their exact law.
"""

from ldpflow.protocols.grr import Grr
from ldpflow.protocols.hadamard import Haar, Hrr
from ldpflow.protocols.oue import Oue
from ldpflow.protocols.protocol import OneShot, Protocol
from ldpflow.protocols.rounds import Rounds
from ldpflow.protocols.thresholds import Thresholds
from ldpflow.protocols.tree import Tree

__all__ = [
    "PROTOCOLS",
    "Grr",
    "Haar",
    "Hrr",
    "OneShot",
    "Oue",
    "Protocol",
    "Rounds",
    "Thresholds",
    "Tree",
]

PROTOCOLS: dict[str, type[Protocol]] = {
    "rounds": Rounds,
    "thresholds": Thresholds,
    "grr": Grr,
    "oue": Oue,
    "hrr": Hrr,
    "haar": Haar,
    "tree": Tree,
}
