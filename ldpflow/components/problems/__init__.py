"""Problems: a class in a module of this package is registered by its kind."""

from ldpflow.components.problems.problem import BaseProblem, Problem
from ldpflow.settings import find_components

__all__ = ["PROBLEMS", "BaseProblem", "Problem"]

PROBLEMS: dict[str, type[BaseProblem]] = find_components(__name__, BaseProblem)
