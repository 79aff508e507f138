"""Curves over a trajectory: a proved bound of the mean of a statistic, and its limit, exact value or rate.

**One-pass SGD under per-user Gaussian LDP.** The bounds are Theorems 3 to 6 of "Non-asymptotic analysis of
SGD under local differential privacy guarantee" (2024), in corrected forms that hold for every n. Step k has
size eta_k = eta k^-alpha (elsewhere in this package c k^-gamma). A gradient g of d coordinates satisfies
||g||_2 <= C0. The noise A_k of user k with budget mu_k has the covariance (2 C0/mu_k)^2 I, hence
E||A_k||^2 = 4 C0^2 d/mu_k^2. (The paper prints 64 in the place of 4.) Theorem 3 bounds the squared distance
of the last iterate, Theorem 4 that of the average. Both need strong convexity, which a loss with a bounded
gradient cannot have on all of R^d. So Theorem 3 is used for projected iterates, with the constant m of
:class:`BoundConstants` over the ball, and Theorem 4 for a quadratic. Theorems 5 and 6 bound the excess loss
of the last iterate and of the average for a convex loss.

**Momentum with tree noise** (Tran and Cutkosky 2022, Lemmas 5, 7, 11 and 12). A step has size eta, and a new
gradient has the weight alpha in the momentum. There are T steps and M batches. G bounds the gradient of the
full loss, L the Lipschitz constant of this gradient, and gap (R in the paper) bounds the loss at the start
less its infimum. The mean norm of the gradient at the random output is at most gap/(eta T) + L eta/2 + 2
(bias of the momentum + norm of the noise). If every epoch has a new random order of the batches (fresh
orders), the bias at step t is at most 2 G sqrt(alpha) + 2 eta M L + eta L/alpha + (1 - alpha)^t G. (The paper
prints 1.5 times the first three terms.) In practice these bounds exceed G: they only show how errors scale.

**One-pass private least squares** (Varshney, Thakurta and Jain 2022). The risk of an iterate w is its excess
risk, ||w - w*||_H^2/2 with H = E x x^T. The exact formulas are ours. They assume that x has independent
coordinates of mean 0, variance lambda_i and fourth moment k lambda_i^2 (k = 3 for the normal law), that the
error is independent of x, that no gradient is clipped, and that the averaged gradient of b records gets noise
of variance tau^2 per coordinate. They hold after any number T of steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpflow.components.algorithms.dp_ambssgd import DpAmbssgd, DpMbssgd
from ldpflow.components.algorithms.dp_nsgd import DpNsgd
from ldpflow.components.algorithms.dp_nsgd_reduced import DpNsgdReduced
from ldpflow.components.algorithms.finite_sum import FiniteSumAlgorithm, RunPlan
from ldpflow.components.algorithms.ldp_sgd import LdpSgd, TailSgd
from ldpflow.components.algorithms.sufficient_statistics import OrdinaryLeastSquares, SufficientStatistics
from ldpflow.components.mechanisms.gaussian import Gaussian
from ldpflow.components.problems.finite_sum import FiniteSumProblem
from ldpflow.components.problems.least_squares import LeastSquares
from ldpflow.components.problems.quadratic import Quadratic
from ldpflow.numerics.tree import chi_mean, power, prefix_discount, reduced_variance
from ldpflow.simulators.finite_sum import FiniteSum
from ldpflow.simulators.one_pass import OnePass
from ldpflow.simulators.simulator import Simulator

Array = NDArray[np.float64]
Steps = NDArray[np.int64]
Curves = dict[str, Array]
"""Values at the checkpoints, by statistic."""


@dataclass(frozen=True)
class BoundConstants:
    """Constants of the bounds under Gaussian LDP.

    ``bound`` is C0, half the L2 sensitivity of the gradient, ``mu`` the smallest budget of a user, ``start``
    Delta_0 = ||theta_0 - theta*||^2, and ``smoothness`` M, the Lipschitz constant of the gradient.
    ``convexity`` is m >= 0 with <grad F(theta), theta - theta*> >= m ||theta - theta*||^2.
    """

    eta: float
    alpha: float
    bound: float
    dimension: int
    mu: float
    start: float
    convexity: float = 0.0
    smoothness: float = 1.0

    def steps(self, n: int) -> Array:
        return self.eta * np.arange(1, n + 1, dtype=float) ** -self.alpha

    def second_moment(self) -> float:
        """sigma^2 = C0^2 (1 + 4 d/mu^2), the largest E||g_k + A_k||^2."""
        return self.bound**2 * (1 + 4 * self.dimension / self.mu**2)

    def energy(self, n: int) -> Array:
        """K_0, ..., K_n with K_n = Delta_0 + sigma^2 sum_{k <= n} eta_k^2."""
        added = self.steps(n) ** 2 * self.second_moment()
        return np.concatenate([[self.start], self.start + np.cumsum(added)])


def distance_bound(s: BoundConstants, n: Steps) -> Array:
    """Theorem 3 in its sharpest form, a recursion: R_n >= E||theta_n - theta*||^2 for n >= 0.

    R_0 = Delta_0 and R_k = max(0, 1 - 2 m eta_k) R_{k-1} + eta_k^2 sigma^2, for m > 0.
    """
    eta = s.steps(int(n.max()))
    kept, added = np.maximum(0.0, 1 - 2 * s.convexity * eta), eta**2 * s.second_moment()
    return affine_recursion(s.start, kept, added)[n]


def affine_recursion(start: float, kept: Array, added: Array) -> Array:
    """r_0 = start and r_k = kept_k r_{k-1} + added_k."""
    pairs = zip(kept.tolist(), added.tolist(), strict=True)
    return np.array([*accumulate(pairs, lambda r, pair: pair[0] * r + pair[1], initial=start)])


def leading_term(curvature: ArrayLike, covariance: ArrayLike) -> float:
    """tr(H^-1 S H^-1), the limit of n E||average - theta*||^2, for curvature H and covariance S of a step."""
    inverse = np.linalg.inv(np.asarray(curvature, dtype=float))
    return float(np.trace(inverse @ np.asarray(covariance, dtype=float) @ inverse.T))


def average_bound(s: BoundConstants, n: Steps, leading: float, distances: Array, post: bool) -> Array:
    """Theorem 4 for a quadratic and unprojected iterates: a bound of E||average - theta*||^2.

    It follows from Minkowski's inequality. ``s.convexity`` is at most the smallest eigenvalue of the
    curvature H. ``leading`` is the :func:`leading_term`. ``distances`` are E||theta_k - theta*||^2, k >= 0.
    The average is (1/n) sum_{k=0}^{n-1} theta_k, or with ``post`` (1/n) sum_{k=1}^n theta_k.
    """
    last = int(n.max())
    root = np.sqrt(distances[: last + 1])
    inverse = 1 / s.steps(last + 1)
    turns = np.concatenate([[0.0, 0.0], np.cumsum(np.diff(inverse)[: last - 1] * root[1:last])])
    rest = root[0] * inverse[0] + root[n] * inverse[n - 1] + turns[n]
    total = np.sqrt(leading / n) + rest / (s.convexity * n)
    if post:
        total = total + (root[n] + root[0]) / n
    return np.asarray(total**2)


def excess_bound(s: BoundConstants, n: Steps) -> Array:
    """Theorem 5 in closed form, for unprojected iterates: D_n >= E F(theta_n) - F*.

    F* is the minimum of the loss F. With F0 = M Delta_0/2,
    r_j = sqrt(eta_j M sigma^2 K_n) + eta_j^2 M sigma^2/2 and E_j = eta_1 + ... + eta_j, the bound D_n is the
    largest of [1/F0 + E_n/(2 K_n)]^-1 and, over j <= n, [1/r_j + (E_n - E_j)/(2 K_n)]^-1. Proof: at each step
    k either 1/D_k >= 1/D_{k-1} + eta_k/(2 K_n) (a contraction) or D_k <= r_k. Chain the contractions after
    the last step j of the second kind.
    """
    last = int(n.max())
    eta, energy = s.steps(last), s.energy(last)
    sums = np.cumsum(eta)
    force = s.smoothness * s.second_moment()
    f0 = s.smoothness * s.start / 2
    result = []
    for k in n.tolist():
        e, total = eta[:k], energy[k]
        r = np.sqrt(e * force * total) + e**2 * force / 2
        chained = 1 / (1 / r + (sums[k - 1] - sums[:k]) / (2 * total))
        first = 0.0 if f0 == 0 else 1 / (1 / f0 + sums[k - 1] / (2 * total))
        result.append(max(first, float(chained.max())))
    return np.array(result)


def average_excess_bound(s: BoundConstants, n: Steps) -> Array:
    """Theorem 6, also for projected iterates: a bound of E F(average of theta_1, ..., theta_n) - F*.

    It is (1/(2 n)) [K_{n+1}/eta_{n+1} + sigma^2 sum_{k=2}^{n+1} eta_k].
    """
    last = int(n.max()) + 1
    eta, energy = s.steps(last), s.energy(last)
    sums = np.concatenate([[0.0], np.cumsum(eta * s.second_moment())])
    return np.asarray((energy[n + 1] / eta[n] + sums[n + 1] - sums[1]) / (2 * n))


def momentum_bias_bound(
    lipschitz: float, smooth: float, alpha: float, eta: float, batches: int, t: int
) -> float:
    """Lemma 11 with the term of the start: a bound of E||momentum - gradient|| at step t in fresh orders."""
    start = power(1.0 - alpha, t) * lipschitz
    return 2.0 * lipschitz * math.sqrt(alpha) + 2.0 * eta * batches * smooth + eta * smooth / alpha + start


def noise_variance(algorithm: FiniteSumAlgorithm, plan: RunPlan, t: int) -> float:
    """Exact variance, per coordinate, of the noise in the private momentum of step t."""
    settings = algorithm.kernel_settings(plan)
    if isinstance(algorithm, DpNsgdReduced):
        early, late, small = (settings[name] ** 2 for name in ("early", "late", "small"))
        return math.fsum(reduced_variance(t, plan.batches, plan.alpha, plan.cross, early, late, small))
    if isinstance(algorithm, DpNsgd):
        variance = settings["deviation"] ** 2
        if algorithm.noise == "tree":
            return variance * prefix_discount(t, plan.alpha)
        square = (1.0 - plan.alpha) ** 2
        weights = 1.0 if square == 0.0 else (1.0 - power(square, t)) / (1.0 - square)
        return variance * plan.alpha**2 * weights
    return settings["deviation"] ** 2  # fresh noise on every step


def theorem_rate(algorithm: FiniteSumAlgorithm, problem: FiniteSumProblem, n: int) -> float | None:
    """Rate for N = n in Tran and Cutkosky's theorems, without constants, logarithms and the term 1/sqrt(N).

    It is d^(1/4)/sqrt(eps N) for their Algorithm 1 (dp_nsgd with tree noise) and d^(1/3)/(eps N)^(2/3) for
    their Algorithm 2 (dp_nsgd_reduced). None for other algorithms.
    """
    signal = algorithm.epsilon * n
    if isinstance(algorithm, DpNsgdReduced):
        return math.cbrt(problem.dimension / signal**2)
    if isinstance(algorithm, DpNsgd) and algorithm.noise == "tree":
        return math.sqrt(math.sqrt(problem.dimension) / signal)
    return None


def over_steps(values: Array) -> Array:
    """Array of NaN, but its last place has the mean of all values except the last."""
    result = np.full(len(values), np.nan)
    if len(values) > 1:
        result[-1] = values[:-1].mean()
    return result


def momentum_curves(simulator: FiniteSum, checkpoints: Steps) -> tuple[Curves, Curves]:
    problem, algorithm, plan = simulator.problem, simulator.algorithm, simulator.plan
    steps = checkpoints.tolist()
    mean = chi_mean(problem.dimension)
    expected = np.array([mean * math.sqrt(noise_variance(algorithm, plan, t)) for t in steps])
    reshuffled = getattr(algorithm, "order", "fixed") == "reshuffle"
    biased = isinstance(algorithm, DpNsgdReduced) and reshuffled
    # E||noise|| <= sqrt(E||noise||^2)
    noise = expected * (math.sqrt(problem.dimension) / mean)
    if biased:
        # Bound (ours), in fresh orders, of the RMS error of the momentum of Algorithm 2 without noise.
        noise = noise + (6.4 * plan.lipschitz + 3.2 * plan.smoothness) * math.sqrt(plan.alpha)
    bounds = {"noise_norm": noise, "mean_noise_norm": over_steps(noise)}
    limits = {} if biased else {"noise_norm": expected, "mean_noise_norm": over_steps(expected)}
    gap = problem.gap()
    if reshuffled and gap is not None and algorithm.theta0 == 0.0:
        lipschitz, smooth = problem.lipschitz(), problem.smoothness()
        bias = [momentum_bias_bound(lipschitz, smooth, plan.alpha, plan.eta, plan.batches, t) for t in steps]
        error = float(over_steps(noise + np.array(bias))[-1])
        whole = np.full(len(steps), np.nan)
        whole[-1] = gap / (plan.eta * plan.steps) + smooth * plan.eta / 2.0 + 2.0 * error
        bounds |= {"mean_gradient_norm": whole, "output_gradient_norm": whole}
    rate = theorem_rate(algorithm, problem, plan.n)
    if rate is not None:
        limits["mean_gradient_norm"] = np.full(len(steps), rate)
    return bounds, limits


def second_moments(
    lambdas: ArrayLike,
    start: ArrayLike,
    b: int,
    eta: float,
    variance: float,
    noise: float,
    steps: int,
    kurtosis: float = 3.0,
) -> Array:
    """c_i(t) = E (w_t - w*)_i^2 for t = 0, ..., steps. The shape is (steps + 1, d).

    With eigenvalues l_i = ``lambdas``, kurtosis k, sigma^2 = ``variance`` and tau^2 = ``noise``,
    c_i(t+1) = c_i (1 - 2 eta l_i + eta^2 ((b + k - 2)/b) l_i^2) + (eta^2/b) l_i sum_j l_j c_j
    + eta^2 (sigma^2 l_i/b + tau^2), where c_i is c_i(t).
    """
    lam = np.asarray(lambdas, dtype=float)
    own = 1.0 - 2.0 * eta * lam + eta**2 * (b + kurtosis - 2.0) / b * lam**2
    matrix = np.diag(own) + eta**2 / b * np.outer(lam, lam)
    added = eta**2 * (variance * lam / b + noise)
    # The matrix is symmetric: its powers, and their sums, follow from its eigenvalues.
    values, vectors = np.linalg.eigh(matrix)
    times = np.arange(steps + 1)[:, None]
    with np.errstate(all="ignore"):
        powers = values**times
        sums = np.where(values == 1.0, times, (powers - 1.0) / (values - 1.0))
        c = (powers * (np.asarray(start) @ vectors) + sums * (added @ vectors)) @ vectors.T
    return np.asarray(np.nan_to_num(c, nan=np.inf, posinf=np.inf, neginf=np.inf))


def mean_risks(c: Array, lambdas: ArrayLike, eta: float, steps: int) -> tuple[float, float]:
    """Mean risk of w_T, and of the average of w_t over T/2 < t <= T, for T = ``steps``.

    ``c`` is the result of :func:`second_moments` for at least T steps. The first risk is sum_i l_i c_i(T)/2.
    With m_i = 1 - eta l_i and an average of n iterates, the second is sum_i l_i/(2 n^2) sum_t c_i(t)
    (1 + 2 m_i (1 - m_i^(T-t))/(1 - m_i)), because E (w_t - w*)_i (w_s - w*)_i = m_i^(s-t) c_i(t) for s > t.
    """
    lam = np.asarray(lambdas, dtype=float)
    half = steps // 2
    times = np.arange(half + 1, steps + 1)
    m = 1.0 - eta * lam
    with np.errstate(under="ignore"):
        weights = 1.0 + 2.0 * m * (1.0 - m ** (steps - times)[:, None]) / (eta * lam)
    tail = 0.5 * float((lam * c[times] * weights).sum()) / (steps - half) ** 2
    return 0.5 * float(lam @ c[steps]), tail


def squared_noise(path: OnePass) -> float:
    """Variance tau^2 per coordinate of the noise in a gradient, for a fixed clipping norm."""
    algorithm = path.algorithm
    if isinstance(algorithm, DpMbssgd):
        clip = algorithm.clip or 0.0
        return (2.0 * algorithm.alpha() * clip / algorithm.batches(path.horizon or 0)[1]) ** 2
    return float(path.randomiser.noise_covariance(path.problem)[0][0])


def expected_thresholds(algorithm: DpAmbssgd, problem: LeastSquares, horizon: int) -> tuple[Array, Array]:
    """Predict E zeta_t^2 of the thresholds zeta_t, and the second moments of the iterates with them.

    The prediction is no theorem. It takes residuals as N(0, sigma^2 + sum_i l_i c_i), counts of residuals
    below a threshold as normal, and successive queries as independent.
    """
    from scipy import special

    assert algorithm.domain is not None and algorithm.radius is not None
    s, b = algorithm.batches(horizon)
    settings = algorithm.kernel_parameters(horizon)
    queries, level = int(settings["queries"]), settings["level"]
    grid = algorithm.domain * 2.0 ** (np.arange(queries + 1) - algorithm.doublings)
    grid[-1] = algorithm.domain  # if no query stops
    squares = np.empty(algorithm.steps(horizon))
    c = np.empty((len(squares) + 1, problem.dimension))
    c[0] = (np.array(problem.truth()) - algorithm.theta0) ** 2
    lam, eta = np.array(problem.lambdas), algorithm.step_constant()
    for t in range(len(squares)):
        spread = math.sqrt(problem.error_variance() + float(lam @ c[t]))
        below = special.erf(grid[:-1] / (spread * math.sqrt(2.0)))
        sd = np.sqrt(s * below * (1.0 - below) + algorithm.alpha() ** 2 * algorithm.doublings)
        stops = np.append(special.ndtr((s * below - level) / sd), 1.0)
        reached = np.append(1.0, np.cumprod(1.0 - stops[:-1]))
        squares[t] = (algorithm.c_zeta * algorithm.radius) ** 2 * float((grid**2 * stops) @ reached)
        tau2 = (2.0 * algorithm.alpha() / b) ** 2 * squares[t]
        c[t + 1] = second_moments(lam, c[t], b, eta, problem.error_variance(), tau2, 1, problem.kurtosis())[1]
    return squares, c


def ols_risk(sigma: float, d: int, n: int) -> float:
    """Mean risk of ordinary least squares with normal x: sigma^2 d/(2 (n - d - 1))."""
    return 0.5 * sigma**2 * d / (n - d - 1)


def statistics_risk(algorithm: SufficientStatistics, problem: LeastSquares, n: int) -> float:
    """Mean risk of ordinary least squares plus, to first order, the effect of the noise in the moments."""
    settings = algorithm.kernel_parameters(n)
    spread, other = settings["moment_noise"], settings["cross_noise"]
    w = np.array(problem.truth())
    noise = other**2 + 0.5 * spread**2 * (w @ w + w**2)
    private = 0.5 * float((noise / np.array(problem.lambdas)).sum())
    return ols_risk(math.sqrt(problem.error_variance()), problem.dimension, n) + private


def regression_limits(path: OnePass, steps: Steps) -> Curves:
    """Mean risks at some steps if no gradient is clipped.

    For dp_ambssgd and sufficient_statistics they are predictions.
    """
    problem, algorithm, n = path.problem, path.algorithm, path.horizon or 0
    if not isinstance(problem, LeastSquares) or problem.stored_records():
        return {}
    if isinstance(algorithm, OrdinaryLeastSquares):
        if problem.design != "normal" or n <= problem.dimension + 1:
            return {}
        value = ols_risk(problem.error_variance() ** 0.5, problem.dimension, n)
        if isinstance(algorithm, SufficientStatistics):
            value = statistics_risk(algorithm, problem, n)
        return {"tail_exc": np.full(len(steps), value)}
    if not isinstance(algorithm, (TailSgd, DpMbssgd, DpAmbssgd)):
        return {}
    eta = algorithm.step_constant()
    if isinstance(algorithm, DpAmbssgd):
        _, c = expected_thresholds(algorithm, problem, n)
    else:
        b = algorithm.batches(n)[1] if isinstance(algorithm, DpMbssgd) else 1
        start = (np.array(problem.truth()) - algorithm.theta0) ** 2
        noises = problem.error_variance(), squared_noise(path)
        last = int(steps.max())
        c = second_moments(problem.lambdas, start, b, eta, *noises, last, problem.kurtosis())
    pairs = np.array([mean_risks(c, problem.lambdas, eta, t) for t in steps.tolist()])
    return {"last_exc": pairs[:, 0], "tail_exc": pairs[:, 1]}


def theory_curves(simulator: Simulator[Any, Any], checkpoints: ArrayLike) -> dict[str, Curves]:
    """Proved bounds (``bound``) and limits, predictions or rates (``limit``) of the means at some steps."""
    n = np.asarray(checkpoints, dtype=np.int64)
    bounds: Curves = {}
    limits: Curves = {}
    if isinstance(simulator, FiniteSum):
        bounds, limits = momentum_curves(simulator, n)
    elif isinstance(simulator, OnePass) and isinstance(simulator.problem, LeastSquares):
        limits = regression_limits(simulator, n)
    elif isinstance(simulator, OnePass):
        bounds, limits = one_pass_bounds(simulator, n), one_pass_limits(simulator, n)
    return {"bound": bounds, "limit": limits}


def constants_of(path: OnePass) -> BoundConstants | None:
    """Constants of the bounds for LDP-SGD under Gaussian noise. None if there is no bound for the path.

    m is 0, because a loss with bounded gradients is not strongly convex on all of R^d.
    """
    problem, algorithm = path.problem, path.algorithm
    bound, smooth = problem.gradient_bound(), problem.smoothness()
    if not (isinstance(path.mechanism, Gaussian) and isinstance(algorithm, LdpSgd)):
        return None
    if bound is None or smooth is None:
        return None
    start = math.fsum((algorithm.theta0 - t) ** 2 for t in problem.truth())
    settings = algorithm.c, algorithm.gamma, bound, problem.dimension, path.mechanism.smallest(), start
    return BoundConstants(*settings, smoothness=smooth)


def one_pass_bounds(path: OnePass, n: Steps) -> Curves:
    """Bounds by Theorems 3 to 6.

    A quadratic has the bound of Theorem 4 with exact distances. Other problems have that of Theorem 6 for the
    average. For the last iterate they have that of Theorem 5, or that of Theorem 3 if the iterates are
    projected onto a ball around the start that contains theta*.
    """
    s = constants_of(path)
    if s is None:
        return {}
    if isinstance(path.problem, Quadratic):
        return quadratic_bound(path, path.problem, s, n)
    found = {"avg_exc": average_excess_bound(s, n)}
    radius = getattr(path.algorithm, "radius", None)
    if radius is None:
        found["last_exc"] = excess_bound(s, n)
        return found
    away = math.sqrt(s.start)
    m = path.problem.one_point_convexity(radius + away) if away <= radius else None
    if m is not None:
        found["last_sq"] = distance_bound(replace(s, convexity=m), n)
    return found


def quadratic_bound(path: OnePass, problem: Quadratic, s: BoundConstants, n: Steps) -> Curves:
    """Theorem 4 with the exact E||theta_k - theta*||^2, for at most a million steps.

    In a coordinate of curvature h the exact squared distance p becomes (1 - eta_k h)^2 p + eta_k^2 V at step
    k, with the variance V of the private gradient. There is no bound for projected iterates or for budgets
    that are listed by user.
    """
    last = int(n.max())
    if path.algorithm.projects() or getattr(path.mechanism, "budgets", None) or last > 1_000_000:
        return {}
    covariance = np.array(path.algorithm.step_covariance(problem, path.mechanism))
    eta, distances = s.steps(last), np.zeros(last + 1)
    for h, centre, noise in zip(problem.curvatures, problem.truth(), covariance.diagonal(), strict=True):
        start = (path.algorithm.theta0 - centre) ** 2
        distances += affine_recursion(start, (1 - eta * h) ** 2, eta**2 * noise)
    leading = leading_term(problem.curvature(), covariance)
    within = replace(s, convexity=min(problem.curvatures))
    return {
        "avg_sq": average_bound(within, n, leading, distances, post=True),
        "avg_pre_sq": average_bound(within, n, leading, distances, post=False),
    }


def one_pass_limits(path: OnePass, n: Steps) -> Curves:
    """Leading terms of the squared distance of the last iterate and of the average from theta*.

    They are (eta/2) n^-alpha tr(H^-1 V) and tr(H^-1 V H^-1)/n, with the curvature H and the covariance V of
    a private gradient, averaged over users.
    """
    h = np.array(path.problem.curvature())
    covariance = np.array(path.algorithm.step_covariance(path.problem, path.mechanism))
    if not (np.isfinite(h).all() and isinstance(path.algorithm, LdpSgd)):
        return {}
    average = leading_term(h, covariance) / n
    trace = float(np.trace(np.linalg.inv(h) @ covariance))
    last = path.algorithm.c / 2 * n.astype(float) ** -path.algorithm.gamma * trace
    return {"last_sq": last, "avg_sq": average, "avg_pre_sq": average}
