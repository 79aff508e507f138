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
    cls.model_fields["kind"].default: cls
    for cls in (
        Quantile,
        Quantiles,
        QuantileRegression,
        LinearRegression,
        LogisticRegression,
        Quadratic,
        LeastSquares,
        NonconvexLogistic,
        SigmoidLoss,
        RobustRegression,
    )
}
