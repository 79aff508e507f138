"""Lines over a trajectory: for every statistic a proved bound and the limit, where there are any."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from ldpflow.algorithms.ldp_sgd import LdpSgd
from ldpflow.mechanisms.gaussian import Gaussian
from ldpflow.path import Path
from ldpflow.problems.least_squares import LeastSquares
from ldpflow.problems.quadratic import Quadratic
from ldpflow.theory import convex, private_regression, strongly_convex
from ldpflow.theory.bounds import Array, Setting

__all__ = ["bounds", "limits", "setting_of"]


def setting_of(path: Path) -> Setting | None:
    """The bounds' constants for LDP-SGD under Gaussian noise; None for any other path.

    The smallest budget counts. m is 0: bounded gradients and strong convexity exclude each other.
    """
    problem, algorithm = path.problem, path.algorithm
    bound, smooth = problem.gradient_bound(), problem.smoothness()
    if not (isinstance(path.mechanism, Gaussian) and isinstance(algorithm, LdpSgd)):
        return None
    if bound is None or smooth is None:
        return None
    start = math.fsum((algorithm.theta0 - t) ** 2 for t in problem.truth())
    return Setting(
        algorithm.c, algorithm.gamma, bound, problem.dimension, path.mechanism.smallest(), start,
        smoothness=smooth,
    )


def bounds(path: Path, n: ArrayLike) -> dict[str, Array]:
    """Bounds by statistic: Theorem 5 (unprojected iterates) and 6, in their corrected forms."""
    if isinstance(path.problem, LeastSquares):
        return private_regression.bounds(path, n)
    s = setting_of(path)
    if s is None or isinstance(path.problem, Quadratic):  # whose gradient is unbounded
        return {}
    found = {"avg_exc": convex.average_excess_bound(s, n, post=True)}
    if not path.algorithm.projects():
        found["last_exc"] = convex.excess_bound(s, n)
    return found


def limits(path: Path, n: ArrayLike) -> dict[str, Array]:
    """Leading terms: (eta/2) n^-alpha tr(H^-1 (S + s^2 I)) and tr(H^-1 (S + s^2 I) H^-1)/n.

    For the squared distance of the last iterate and of the average; s^2 from the mean of mu_k^-2.
    """
    if isinstance(path.problem, LeastSquares):
        return private_regression.limits(path, n)
    h = np.array(path.problem.curvature())
    covariance = np.array(path.algorithm.step_covariance(path.problem, path.mechanism))
    if not (np.isfinite(h).all() and isinstance(path.algorithm, LdpSgd)):
        return {}
    k = np.asarray(n, dtype=float)
    inverse = np.linalg.inv(h)
    average = strongly_convex.leading_term(h, covariance, 0.0) / k
    last = path.algorithm.c / 2 * k**-path.algorithm.gamma * float(np.trace(inverse @ covariance))
    return {"last_sq": last, "avg_sq": average, "avg_pre_sq": average}
