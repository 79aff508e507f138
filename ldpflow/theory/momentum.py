"""Utility of momentum with tree noise: Tran and Cutkosky (2022), as printed and put right.

The gradient's norm at the random output is at most, for any settings (their Lemmas 5, 11, 12 and 7),

    gap / (eta T) + L eta / 2 + 2 (bias of the momentum + noise),
    bias = 2 G sqrt(alpha) + 2 eta M L + eta L / alpha + (1 - alpha)^t G,

where the lemma prints 1.5 times the whole and leaves out the start, (1 - alpha)^t G. G and L are those of
the full loss. The bias' bound needs fresh orders in every epoch; for one fixed order there is none. At
every practical N these bounds are above G: they say how errors scale, not how large they are.

R is called gap, and the paper's gamma cross.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpflow.algorithms.dp_nsgd import DpNsgd
from ldpflow.algorithms.dp_nsgd_reduced import DpNsgdReduced
from ldpflow.algorithms.finite_sum import FiniteSumAlgorithm, RunPlan
from ldpflow.privacy.tree_noise import chi_mean, power, prefix_discount, reduced_variance
from ldpflow.problems.finite_sum import FiniteSumProblem
from ldpflow.simulators.finite_sum import FiniteSum

__all__ = [
    "bounds",
    "descent_bound",
    "limits",
    "momentum_bias_bound",
    "noise_variance",
    "printed_reduced_noise_bound",
    "rate",
    "reduced_noise_variance_bound",
    "reshuffling_bias_bound",
    "theorem6_bound",
    "theorem6_printed",
    "theorem9_printed",
    "tree_noise_bound",
]

Array = NDArray[np.float64]


def descent_bound(gap: float, smooth: float, eta: float, steps: int, error: float) -> float:
    """Lemma 5 in its sharper form: gap/(eta T) + L eta/2 + 2 (mean error); holds on every path."""
    return gap / (eta * steps) + smooth * eta / 2.0 + 2.0 * error


def momentum_bias_bound(
    lipschitz: float, smooth: float, alpha: float, eta: float, batches: int, t: float
) -> float:
    """Lemma 11 with its start: E||m_t - grad F(w_t)|| for fresh orders."""
    start = power(1.0 - alpha, int(t)) * lipschitz
    return 2.0 * lipschitz * math.sqrt(alpha) + 2.0 * eta * batches * smooth + eta * smooth / alpha + start


def reshuffling_bias_bound(lipschitz: float, smooth: float, alpha: float) -> float:
    """Bound (ours) on the RMS distance of Algorithm 2 without noise to the momentum in fresh orders."""
    return (6.4 * lipschitz + 3.2 * smooth) * math.sqrt(alpha)


def tree_noise_bound(lipschitz: float, sigma: float, alpha: float, d: int, nodes: float, steps: int) -> float:
    """Lemma 12: E||noise|| <= 4 alpha G sigma sqrt(d V floor(log2(T + 1))); print has log2 T."""
    levels = (steps + 1).bit_length() - 1
    return 4.0 * alpha * lipschitz * sigma * math.sqrt(d * nodes * levels)


def theorem6_bound(
    n: int,
    d: int,
    epsilon: float,
    delta: float,
    lipschitz: float,
    smooth: float,
    gap: float,
    steps: float,
) -> float:
    """Theorem 6, its proof carried out with the constants that it has: 48 G where print has 12.

    (1.5 R + 9 L + 48 G) sqrt(X/(eps N)) + 0.75 L/sqrt(N T) + 6 G/sqrt(N) + 3 G X/(eps N),
    X = log2(T) sqrt(d log(1/delta)).
    """
    x = math.log2(steps) * math.sqrt(d * math.log(1 / delta))
    return (
        (1.5 * gap + 9.0 * smooth + 48.0 * lipschitz) * math.sqrt(x / (epsilon * n))
        + 0.75 * smooth / math.sqrt(n * steps)
        + 6.0 * lipschitz / math.sqrt(n)
        + 3.0 * lipschitz * x / (epsilon * n)
    )


def theorem6_printed(
    n: int,
    d: int,
    epsilon: float,
    delta: float,
    lipschitz: float,
    smooth: float,
    gap: float,
    steps: float,
) -> float:
    """Theorem 6 as printed."""
    log2, log = math.log2(steps), math.log(1 / delta)
    factor = (
        1.5 * gap + 6.0 * smooth * math.sqrt(log2 * log) + 12.0 * lipschitz * math.sqrt(log2 * math.sqrt(log))
    )
    return (
        factor * math.sqrt(math.sqrt(d) / (epsilon * n))
        + 0.75 * smooth * math.sqrt(math.sqrt(d * log) * log2 / (epsilon * n)) / n
        + 6.0 * lipschitz / math.sqrt(n)
        + 6.0 * lipschitz * log2 * math.sqrt(d * log) / (epsilon * n)
    )


def theorem9_printed(
    n: int,
    d: int,
    epsilon: float,
    delta: float,
    lipschitz: float,
    smooth: float,
    gap: float,
    steps: float,
) -> float:
    """Theorem 9 as printed, but K = 16 log2(T) sqrt(log(1/delta)), as its proof has it."""
    k = 16.0 * math.log2(steps) * math.sqrt(math.log(1 / delta))
    return (
        (1.5 * gap + 24.0 * k * (lipschitz + 2.0 * smooth) + 12.0 * smooth)
        * math.cbrt(d / (epsilon * n) ** 2)
        + 6.0 * lipschitz / math.sqrt(n)
        + (36.0 * lipschitz * k + 9.0 * k * smooth) * math.sqrt(d) / (epsilon * n)
    )


def printed_reduced_noise_bound(
    n: int,
    d: int,
    epsilon: float,
    delta: float,
    lipschitz: float,
    smooth: float,
    eta: float,
    steps: float,
    alpha: float,
) -> float:
    """Lemma 7 as printed: E||noise|| of Algorithm 2 with sigma = 4 sqrt(log(1/delta))/epsilon."""
    parts = (
        192.0 * lipschitz
        + 128.0 * (lipschitz + 2.0 * smooth) * math.sqrt(eta * steps)
        + 16.0 * eta * smooth * math.sqrt(3.0 * steps * n)
    )
    return math.sqrt(d * math.log(1 / delta)) * math.log2(steps) * alpha * parts / epsilon


def reduced_noise_variance_bound(
    batches: int,
    steps: int,
    alpha: float,
    eta: float,
    cross: float,
    sigma: float,
    lipschitz: float,
    smooth: float,
) -> float:
    """Bound of Algorithm 2's variance per coordinate at difference_scale 4 (ours; B < 1 - cross).

    192 (1 + s^2) (alpha G sigma l)^2 + 256 s^2 (alpha sigma l)^2 (T/M) (cross G^2 + (eta M L)^2/cross)
    + 192 (alpha sigma eta M L)^2 (T/M) l log2 T,   l = log2 M, s = 1/(1 - B/(1 - cross)).
    """
    log2 = math.log2(batches)
    epochs = steps / batches
    moved = eta * batches * smooth
    s = 1.0 / (1.0 - power(1.0 - alpha, batches) / (1.0 - cross))
    return (
        192.0 * (1.0 + s * s) * (alpha * lipschitz * sigma * log2) ** 2
        + 256.0 * (s * alpha * sigma * log2) ** 2 * epochs * (cross * lipschitz**2 + moved**2 / cross)
        + 192.0 * (alpha * sigma * moved) ** 2 * epochs * log2 * math.log2(steps)
    )


def noise_variance(algorithm: FiniteSumAlgorithm, plan: RunPlan, t: int) -> float:
    """Variance per coordinate of mhat_t - m_t, exactly; of the reconstruction, where that is biased."""
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


def rate(algorithm: FiniteSumAlgorithm, problem: FiniteSumProblem, n: int) -> float | None:
    """The theorem's rate without constants, logarithms and the term 1/sqrt(N).

    d^(1/4)/sqrt(eps N) for Algorithm 1, d^(1/3)/(eps N)^(2/3) for Algorithm 2.
    """
    signal = algorithm.epsilon * n
    if isinstance(algorithm, DpNsgdReduced):
        return math.cbrt(problem.dimension / signal**2)
    if isinstance(algorithm, DpNsgd) and algorithm.noise == "tree":
        return math.sqrt(math.sqrt(problem.dimension) / signal)
    return None


def expected_noise(simulator: FiniteSum, steps: Sequence[int]) -> Array:
    """E||noise|| at steps: exact in a fixed order, and wherever the momentum is not reconstructed."""
    mean = chi_mean(simulator.problem.dimension)
    plan = simulator.plan
    return np.array([mean * math.sqrt(noise_variance(simulator.algorithm, plan, t)) for t in steps])


def over_steps(values: Array) -> Array:
    """A number for the last step alone: the mean over the checkpoints before it."""
    result = np.full(len(values), np.nan)
    if len(values) > 1:
        result[-1] = values[:-1].mean()
    return result


def bounds(simulator: FiniteSum, checkpoints: ArrayLike) -> dict[str, Array]:
    """Proved upper bounds by statistic, at steps: those of the noise, and of the mean gradient norm."""
    problem, algorithm, plan = simulator.problem, simulator.algorithm, simulator.plan
    steps = np.atleast_1d(checkpoints).tolist()
    noise = expected_noise(simulator, steps)
    reshuffled = getattr(algorithm, "order", "fixed") == "reshuffle"
    # E||noise|| <= sqrt(E||noise||^2), whatever the law.
    noise = noise * (math.sqrt(problem.dimension) / chi_mean(problem.dimension))
    if isinstance(algorithm, DpNsgdReduced) and reshuffled:
        noise = noise + reshuffling_bias_bound(plan.lipschitz, plan.smoothness, plan.alpha)
    found = {"noise_norm": noise, "mean_noise_norm": over_steps(noise)}
    gap = problem.gap()
    if reshuffled and gap is not None and algorithm.theta0 == 0.0:
        bias: Callable[[float], float] = lambda t: momentum_bias_bound(  # noqa: E731
            problem.lipschitz(), problem.smoothness(), plan.alpha, plan.eta, plan.batches, t
        )
        errors = over_steps(noise + np.array([bias(t) for t in steps]))
        whole = np.full(len(steps), np.nan)
        whole[-1] = descent_bound(gap, problem.smoothness(), plan.eta, plan.steps, float(errors[-1]))
        found |= {"mean_gradient_norm": whole, "output_gradient_norm": whole}
    return found


def limits(simulator: FiniteSum, checkpoints: ArrayLike) -> dict[str, Array]:
    """Values of the theory that are not bounds: the noise's mean norm, and the rate without its constant."""
    problem, algorithm, plan = simulator.problem, simulator.algorithm, simulator.plan
    steps = np.atleast_1d(checkpoints).tolist()
    noise = expected_noise(simulator, steps)
    found = {}
    if not (isinstance(algorithm, DpNsgdReduced) and algorithm.order == "reshuffle"):
        found = {"noise_norm": noise, "mean_noise_norm": over_steps(noise)}
    law = rate(algorithm, problem, plan.n)
    if law is not None:
        found["mean_gradient_norm"] = np.full(len(steps), law)
    return found
