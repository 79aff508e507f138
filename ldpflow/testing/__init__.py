"""For authors of components: the random numbers of a replicate, and checks of a plug-in."""

from ldpflow.testing.checks import ComponentFinding, Draws, check_plugin, draws

__all__ = ["ComponentFinding", "Draws", "check_plugin", "draws"]
