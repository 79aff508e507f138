"""Problems: one file each, registered here by its kind."""

from ldpflow.problems.least_squares import LeastSquares
from ldpflow.problems.linear_regression import LinearRegression
from ldpflow.problems.logistic_regression import LogisticRegression
from ldpflow.problems.nonconvex_logistic import NonconvexLogistic
from ldpflow.problems.problem import BaseProblem, Problem
from ldpflow.problems.quadratic import Quadratic
from ldpflow.problems.quantile import Quantile
from ldpflow.problems.quantile_regression import QuantileRegression
from ldpflow.problems.quantiles import Quantiles
from ldpflow.problems.robust_regression import RobustRegression
from ldpflow.problems.sigmoid_loss import SigmoidLoss

__all__ = ["PROBLEMS", "BaseProblem", "Problem"]

PROBLEMS: dict[str, type[BaseProblem]] = {
    "quantile": Quantile,
    "quantiles": Quantiles,
    "quantile_regression": QuantileRegression,
    "linear_regression": LinearRegression,
    "logistic_regression": LogisticRegression,
    "quadratic": Quadratic,
    "least_squares": LeastSquares,
    "nonconvex_logistic": NonconvexLogistic,
    "sigmoid_loss": SigmoidLoss,
    "robust_regression": RobustRegression,
}
