"""For authors of components: the random numbers of a replicate, and checks of a plug-in."""

from ldpflow.testing.checks import Finding, check_plugin
from ldpflow.testing.drawn import Draws, draws

__all__ = ["Draws", "Finding", "check_plugin", "draws"]
