"""Algorithms: a class in a module of this package is registered by its kind."""

from ldpflow.components.algorithms.algorithm import Algorithm, BaseAlgorithm
from ldpflow.settings import find_components

__all__ = ["ALGORITHMS", "Algorithm", "BaseAlgorithm"]

ALGORITHMS: dict[str, type[BaseAlgorithm]] = find_components(__name__, BaseAlgorithm)
