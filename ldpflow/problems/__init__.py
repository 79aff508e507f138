"""Problems: one file each, registered here by its kind."""

from ldpflow.problems.problem import Problem
from ldpflow.problems.quantile import Quantile
from ldpflow.problems.quantile_regression import QuantileRegression

__all__ = ["PROBLEMS", "Problem"]

PROBLEMS: dict[str, type[Problem]] = {
    "quantile": Quantile,
    "quantile_regression": QuantileRegression,
}
