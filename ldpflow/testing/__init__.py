"""For authors of components: the random numbers of a replicate, and checks of a plug-in."""

from ldpflow.testing.checks import Draws, Finding, check_plugin, draws

__all__ = ["Draws", "Finding", "check_plugin", "draws"]
