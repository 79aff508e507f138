"""One-pass SGD with constant steps and tail averaging (Jain, Kakade, Kidambi, Netrapalli and Sidford, 2018).

    theta_i = theta_{i-1} - eta A(g(X_i, theta_{i-1})),   output (1/(n - floor(n/2))) sum_{i > n/2} theta_i

Without a mechanism it is the non-private baseline. Under clipped_gaussian it is DP-SSGD of Varshney,
Thakurta and Jain (2022) without the shuffler: every step is a local randomiser of one user's record.
Interval methods take the average of all iterates as their centre.
"""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from ldpflow.algorithms.algorithm import Algorithm, StepLength, combined
from ldpflow.algorithms.ldp_sgd import recursion  # noqa: F401 (its kernel function)
from ldpflow.mechanisms import Mechanism, PrivacyStatement
from ldpflow.problems import Problem
from ldpflow.problems.least_squares import LeastSquares
from ldpflow.problems.problem import Matrix
from ldpflow.problems.units import Units
from ldpflow.settings import Parameters


class TailSgd(Algorithm):
    """SGD with constant steps, one record each.

    Parameters
    ----------
    eta : float > 0, optional
        Step length; 1/(2 R_x^2) unless given, the largest that the theory of least squares admits
        (Lemma 3.5 there).
    """

    counts_in_mechanism: ClassVar[bool] = True
    averages_tail: ClassVar[bool] = True
    cites: ClassVar = ("jain2018",)
    kind: Literal["tail_sgd"] = "tail_sgd"
    eta: StepLength | None = None

    def unsuitable(self, problem: Problem, mechanism: Mechanism) -> str | None:
        if self.eta is None and not isinstance(problem, LeastSquares):
            return "eta must be given but for least_squares"
        if mechanism.replaces_data():
            return "its steps are constant; private bits drawn directly go with ldp_sgd"
        return None

    def in_units(self, units: Units) -> Self:
        assert self.eta is not None  # a problem with units has no steps of its own
        return self.model_copy(update={"eta": units.size(self.eta), "theta0": units.place(self.theta0)})

    def resolved(self, problem: Problem, horizon: int | None) -> Self:
        if self.eta is not None or not isinstance(problem, LeastSquares):
            return self
        return self.model_copy(update={"eta": 0.5 / problem.radius_square()})

    def step_exponent(self) -> float:
        return 0.0

    def step_constant(self) -> float:
        assert self.eta is not None  # resolved
        return self.eta

    def kernel_parameters(self, horizon: int | None) -> Parameters:
        return {"c": self.step_constant(), "gamma": 0.0, "theta0": self.theta0, "radius": 0.0}

    def step_covariance(self, problem: Problem, mechanism: Mechanism) -> Matrix:
        """At theta*, and for a simulated least_squares in the stationary state around it."""
        noise = mechanism.noise_covariance(problem)
        at_truth = combined(problem.gradient_covariance(), noise, 1.0, 1.0)
        if not isinstance(problem, LeastSquares) or problem.stored_records():
            return at_truth
        extra = multiplicative_noise(problem, self.step_constant(), noise[0][0])
        return [
            [value + (extra[i] if i == j else 0.0) for j, value in enumerate(row)]
            for i, row in enumerate(at_truth)
        ]

    def privacy(self, mechanism: Mechanism) -> PrivacyStatement:
        return mechanism.privacy()


def multiplicative_noise(problem: LeastSquares, eta: float, noise: float) -> list[float]:
    """Variances of (x x' - H)(theta - theta*), theta in its stationary law (no clipping).

    The second moments c_i of theta - theta* solve c_i = c_i (1 - 2 eta l_i + eta^2 (k - 1) l_i^2)
    + eta^2 l_i A + eta^2 (sigma^2 l_i + noise), A = sum_j l_j c_j, k the design's kurtosis; NaN where
    the mean square diverges.
    """
    lambdas, k = problem.lambdas, problem.kurtosis()
    left = [2.0 * v - eta * (k - 1.0) * v * v for v in lambdas]
    share = sum(eta * v * v / f for v, f in zip(lambdas, left, strict=True))
    if min(left) <= 0.0 or share >= 1.0:
        return [float("nan")] * len(lambdas)
    own = [problem.error_variance() * v + noise for v in lambdas]
    total = sum(eta * v * s / f for v, s, f in zip(lambdas, own, left, strict=True)) / (1.0 - share)
    c = [eta * (v * total + s) / f for v, s, f in zip(lambdas, own, left, strict=True)]
    return [v * total + (k - 2.0) * v * v * m for v, m in zip(lambdas, c, strict=True)]
