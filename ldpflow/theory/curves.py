"""Curves over a trajectory: a proved bound of the mean of every statistic, and its limit, where known."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ldpflow.algorithms.ldp_sgd import LdpSgd
from ldpflow.mechanisms.gaussian import Gaussian
from ldpflow.problems.least_squares import LeastSquares
from ldpflow.problems.quadratic import Quadratic
from ldpflow.simulators.finite_sum import FiniteSum
from ldpflow.simulators.one_pass import OnePass
from ldpflow.simulators.simulator import Simulator
from ldpflow.theory import gaussian_bounds, momentum, private_regression
from ldpflow.theory.gaussian_bounds import Array, Setting


def curves(simulator: Simulator[Any, Any], n: ArrayLike) -> dict[str, dict[str, Array]]:
    """Proved upper bounds of the means of a trajectory, and their leading terms, by statistic.

    Parameters
    ----------
    simulator : Simulator
    n : array_like
        Checkpoints: steps.

    Returns
    -------
    dict
        ``bound`` and ``limit``: curves by statistic, none where there is no theory.
    """
    bounds: dict[str, Array] = {}
    limits: dict[str, Array] = {}
    if isinstance(simulator, FiniteSum):
        bounds, limits = momentum.curves(simulator, n)
    elif isinstance(simulator, OnePass) and isinstance(simulator.problem, LeastSquares):
        bounds, limits = private_regression.bounds(simulator, n), private_regression.limits(simulator, n)
    elif isinstance(simulator, OnePass):
        bounds, limits = one_pass_bounds(simulator, n), one_pass_limits(simulator, n)
    return {"bound": bounds, "limit": limits}


def setting_of(path: OnePass) -> Setting | None:
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
        algorithm.c,
        algorithm.gamma,
        bound,
        problem.dimension,
        path.mechanism.smallest(),
        start,
        smoothness=smooth,
    )


def one_pass_bounds(path: OnePass, n: ArrayLike) -> dict[str, Array]:
    """Bounds by statistic, in their corrected forms.

    Theorem 6; Theorem 5 of unprojected iterates; Theorem 3 of iterates that are projected onto a ball
    around the start that holds theta*, with the curvature that the problem has within it; Theorem 4 for
    the quadratic, from its exact distances. Otherwise Theorem 4 needs distances that nothing bounds.
    """
    s = setting_of(path)
    if s is None:
        return {}
    if isinstance(path.problem, Quadratic):  # whose gradient is unbounded
        return quadratic_bound(path, path.problem, s, n)
    found = {"avg_exc": gaussian_bounds.average_excess_bound(s, n, post=True)}
    radius = getattr(path.algorithm, "radius", None)
    if radius is None:
        found["last_exc"] = gaussian_bounds.excess_bound(s, n)
        return found
    away = math.sqrt(s.start)
    m = path.problem.one_point_convexity(radius + away) if away <= radius else None
    if m is not None:
        found["last_sq"] = gaussian_bounds.distance_bound(replace(s, convexity=m), n)
    return found


def quadratic_bound(path: OnePass, problem: Quadratic, s: Setting, n: ArrayLike) -> dict[str, Array]:
    """Theorem 4 with the exact E||theta_k - theta*||^2: p' = (1 - eta_k h)^2 p + eta_k^2 (S + s^2), summed.

    Budgets that are alike in law for all users, unprojected iterates, and at most a million steps.
    """
    last = int(np.max(n))
    if path.algorithm.projects() or getattr(path.mechanism, "budgets", None) or last > 1_000_000:
        return {}
    covariance = np.array(path.algorithm.step_covariance(problem, path.mechanism))
    etas = s.steps(last).tolist()
    distances = np.zeros(last + 1)
    theta0 = path.algorithm.theta0
    for h, centre, noise in zip(
        problem.curvatures, problem.truth(), covariance.diagonal().tolist(), strict=True
    ):
        p = (theta0 - centre) ** 2
        values = [p]
        for eta in etas:
            p = (1 - eta * h) ** 2 * p + eta**2 * noise
            values.append(p)
        distances += np.array(values)
    leading = gaussian_bounds.leading_term(problem.curvature(), covariance, 0.0)
    within = replace(s, convexity=min(problem.curvatures))
    zero = np.zeros(last + 1)
    return {
        name: gaussian_bounds.average_bound(within, n, leading, distances, zero, 0.0, 0.0, post)
        for name, post in (("avg_sq", True), ("avg_pre_sq", False))
    }


def one_pass_limits(path: OnePass, n: ArrayLike) -> dict[str, Array]:
    """Leading terms: (eta/2) n^-alpha tr(H^-1 (S + s^2 I)) and tr(H^-1 (S + s^2 I) H^-1)/n.

    For the squared distance of the last iterate and of the average; s^2 from the mean of mu_k^-2.
    """
    h = np.array(path.problem.curvature())
    covariance = np.array(path.algorithm.step_covariance(path.problem, path.mechanism))
    if not (np.isfinite(h).all() and isinstance(path.algorithm, LdpSgd)):
        return {}
    k = np.asarray(n, dtype=float)
    inverse = np.linalg.inv(h)
    average = gaussian_bounds.leading_term(h, covariance, 0.0) / k
    last = path.algorithm.c / 2 * k**-path.algorithm.gamma * float(np.trace(inverse @ covariance))
    return {"last_sq": last, "avg_sq": average, "avg_pre_sq": average}
