"""One-pass private least squares: exact mean risks, closed forms, and the paper's bounds.

Source: Varshney, Thakurta and Jain (2022). Risks are excess risks ||w - w*||_H^2 / 2. The exact moments are
ours: x has independent coordinates of mean 0, variance lambda_i and fourth moment k lambda_i^2 (k = 3 for
the normal law), z is independent of x, nothing is clipped, and the averaged gradient of b records gets noise
of variance tau^2 per coordinate. They hold at every finite T. Printed constants that are wrong are noted
where they stand.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpflow.algorithms.dp_ambssgd import DpAmbssgd
from ldpflow.algorithms.dp_mbssgd import DpMbssgd
from ldpflow.algorithms.sufficient_statistics import OrdinaryLeastSquares, SufficientStatistics
from ldpflow.algorithms.tail_sgd import TailSgd
from ldpflow.problems.least_squares import LeastSquares
from ldpflow.simulators.one_pass import OnePass

Array = NDArray[np.float64]
LOOPED = 5000  # steps up to which noise may vary


def second_moments(
    lambdas: ArrayLike,
    start: ArrayLike,
    b: int,
    eta: float,
    variance: float,
    noise: ArrayLike,
    steps: int,
    kurtosis: float = 3.0,
) -> Array:
    """c_i(t) = E (w_t - w*)_i^2 for t = 0, ..., steps; shape (steps + 1, d).

    c_i(t+1) = c_i (1 - 2 eta l_i + eta^2 ((b + k - 2)/b) l_i^2) + (eta^2/b) l_i sum_j l_j c_j
    + eta^2 (sigma^2 l_i/b + tau_t^2), k the kurtosis.

    Parameters
    ----------
    lambdas, start : array_like, shape (d,)
        Eigenvalues, and c(0).
    variance : float
        sigma^2.
    noise : array_like
        tau^2, one number, or one per step.
    """
    lam = np.asarray(lambdas, dtype=float)
    tau = np.asarray(noise, dtype=float)
    own = 1.0 - 2.0 * eta * lam + eta**2 * (b + kurtosis - 2.0) / b * lam**2
    matrix = np.diag(own) + eta**2 / b * np.outer(lam, lam)
    c = np.empty((steps + 1, len(lam)))
    c[0] = np.asarray(start, dtype=float)
    if tau.ndim == 0 and steps > LOOPED:
        # The matrix is symmetric: its powers follow from its eigenvalues.
        values, vectors = np.linalg.eigh(matrix)
        rest = np.linalg.solve(np.eye(len(lam)) - matrix, eta**2 * (variance * lam / b + tau))
        with np.errstate(over="ignore", under="ignore"):
            powers = values[None, :] ** np.arange(1, steps + 1)[:, None]
        c[1:] = rest + (powers * (vectors.T @ (c[0] - rest))) @ vectors.T
        return c
    tau = np.broadcast_to(tau, (steps,))
    for t in range(steps):
        c[t + 1] = matrix @ c[t] + eta**2 * (variance * lam / b + tau[t])
    return c


def mean_risks(c: Array, lambdas: ArrayLike, eta: float, steps: int) -> tuple[float, float]:
    """Mean risk of w_T and of the average of w_t over T/2 < t <= T, for T = steps <= len(c) - 1.

    Sum over i of l_i c_i(T)/2, and of l_i/(2 n^2) sum_t c_i(t) (1 + 2 m_i (1 - m_i^(T-t))/(1 - m_i)), m_i =
    1 - eta l_i, because E omega_t omega_s = m^(s-t) c(t) for s > t.
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
    """tau^2 of an algorithm with a fixed clipping norm; 0 without noise."""
    algorithm = path.algorithm
    if isinstance(algorithm, DpMbssgd):
        assert path.horizon is not None and algorithm.clip is not None
        return (2.0 * algorithm.alpha() * algorithm.clip / algorithm.batches(path.horizon)[1]) ** 2
    return float(path.randomiser.noise_covariance(path.problem)[0][0])


def expected_thresholds(algorithm: DpAmbssgd, problem: LeastSquares, horizon: int) -> tuple[Array, Array]:
    """E zeta_t^2 for t = 1, ..., T, and the second moments that go with them.

    Step by step: residuals are taken as N(0, sigma^2 + sum_i l_i c_i), counts as normal, and successive
    queries as independent. A prediction, not a theorem.
    """
    from scipy import special

    assert algorithm.domain is not None and algorithm.radius is not None
    s, b = algorithm.batches(horizon)
    settings = algorithm.kernel_parameters(horizon)
    queries, level = int(settings["queries"]), settings["level"]
    grid = algorithm.domain * 2.0 ** (np.arange(queries + 1) - algorithm.doublings)
    grid[-1] = algorithm.domain  # where no query stops
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
    """sigma^2 d/(2 (N - d - 1)): ordinary least squares with normal x."""
    return 0.5 * sigma**2 * d / (n - d - 1)


def statistics_risk(algorithm: SufficientStatistics, problem: LeastSquares, n: int) -> float:
    """Least squares' risk plus, to first order, that of the noise in its moments."""
    settings = algorithm.kernel_parameters(n)
    spread, other = settings["moment_noise"], settings["cross_noise"]
    w = np.array(problem.truth())
    noise = other**2 + 0.5 * spread**2 * (w @ w + w**2)
    private = 0.5 * float((noise / np.array(problem.lambdas)).sum())
    return ols_risk(math.sqrt(problem.error_variance()), problem.dimension, n) + private


def lemma_35(
    lambdas: ArrayLike,
    radius_square: float,
    eta: float,
    n: int,
    start: float,
    variance: float,
    noise: float,
) -> float:
    """Lemma 3.5: DP-SSGD after n records without clipping, eta <= 1/(2 R_x^2); an expectation.

    (R^2/2) e^(-eta mu (n/2 + 1)) ||w*||^2 + (1/n) (eta R^2/(1 - eta R^2)) d ||S||_H + (1/n) Tr(H^-1 S), S =
    sigma^2 H + tau^2 I. For z independent of x, as here, the printed constants hold.
    """
    lam = np.asarray(lambdas, dtype=float)
    if eta * radius_square > 0.5 * (1.0 + 1e-12):
        return math.inf
    relative = variance + noise / lam  # of H^-1/2 S H^-1/2
    share = eta * radius_square / (1.0 - eta * radius_square)
    bias = 0.5 * radius_square * math.exp(-eta * float(lam.min()) * (n / 2 + 1)) * start
    return bias + (share * len(lam) * float(relative.max()) + float(relative.sum())) / n


def limits(path: OnePass, steps: ArrayLike) -> dict[str, Array]:
    """Mean risks that theory expects after some steps, without clipping, for simulated records.

    Exact at every T for fixed clipping and none, and for ordinary least squares with normal x; a
    prediction for dp_ambssgd and sufficient_statistics.
    """
    problem, algorithm = path.problem, path.algorithm
    found = np.asarray(steps, dtype=np.int64)
    if not isinstance(problem, LeastSquares) or problem.stored_records():
        return {}
    if isinstance(algorithm, OrdinaryLeastSquares):
        assert path.horizon is not None
        if problem.design != "normal" or path.horizon <= problem.dimension + 1:
            return {}
        if isinstance(algorithm, SufficientStatistics):
            value = statistics_risk(algorithm, problem, path.horizon)
        else:
            value = ols_risk(problem.error_variance() ** 0.5, problem.dimension, path.horizon)
        return {"tail_exc": np.full(found.shape, value)}
    b, last = 1, int(found.max())
    start = (np.array(problem.truth()) - algorithm.theta0) ** 2
    if isinstance(algorithm, DpAmbssgd):
        assert path.horizon is not None
        _, c = expected_thresholds(algorithm, problem, path.horizon)
    elif isinstance(algorithm, (TailSgd, DpMbssgd)):
        if isinstance(algorithm, DpMbssgd):
            assert path.horizon is not None
            b = algorithm.batches(path.horizon)[1]
        c = second_moments(
            problem.lambdas,
            start,
            b,
            algorithm.step_constant(),
            problem.error_variance(),
            squared_noise(path),
            last,
            problem.kurtosis(),
        )
    else:
        return {}
    eta = algorithm.step_constant()
    pairs = [mean_risks(c, problem.lambdas, eta, t) for t in found.tolist()]
    return {
        "last_exc": np.array([pair[0] for pair in pairs]),
        "tail_exc": np.array([pair[1] for pair in pairs]),
    }


def bounds(path: OnePass, steps: ArrayLike) -> dict[str, Array]:
    """Lemma 3.5 for single-record steps without privacy: it is proved where nothing is clipped."""
    problem, algorithm = path.problem, path.algorithm
    if not (isinstance(problem, LeastSquares) and isinstance(algorithm, TailSgd)):
        return {}
    if path.randomiser.kind != "none":
        return {}
    if problem.stored_records() or algorithm.theta0 != 0.0:
        return {}
    start = math.fsum(w * w for w in problem.truth())
    values: Sequence[float] = [
        lemma_35(
            problem.lambdas,
            problem.radius_square(),
            algorithm.step_constant(),
            t,
            start,
            problem.error_variance(),
            squared_noise(path),
        )
        for t in np.asarray(steps).tolist()
    ]
    return {"tail_exc": np.array(values)} if np.isfinite(values).all() else {}
