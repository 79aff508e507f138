"""Checks of a plug-in, and the random numbers of a replicate, for authors of components."""

from ldpflow.testing.checks import ComponentFinding, Draws, check_plugin, draws

__all__ = ["ComponentFinding", "Draws", "check_plugin", "draws"]
