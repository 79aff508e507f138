"""Algorithms: a class in a module of this package is registered by its kind."""

from ldpflow.components.algorithms.algorithm import Algorithm, BaseAlgorithm
from ldpflow.settings import find_components

__all__ = ["ALGORITHMS", "Algorithm", "BaseAlgorithm"]

# Sorted by kind: the order of columns follows it.
ALGORITHMS: dict[str, type[BaseAlgorithm]] = dict(sorted(find_components(__name__, BaseAlgorithm).items()))
