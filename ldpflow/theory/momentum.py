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
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpflow.algorithms.dp_nsgd import DpNsgd
from ldpflow.algorithms.dp_nsgd_reduced import DpNsgdReduced
from ldpflow.algorithms.finite_sum import FiniteSumAlgorithm, RunPlan
from ldpflow.privacy.tree import chi_mean, power, prefix_discount, reduced_variance
from ldpflow.problems.finite_sum import FiniteSumProblem
from ldpflow.simulators.finite_sum import FiniteSum

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


def curves(simulator: FiniteSum, checkpoints: ArrayLike) -> tuple[dict[str, Array], dict[str, Array]]:
    """Bounds of the noise and of the mean gradient norm at steps; the noise's mean norm, and the rate."""
    problem, algorithm, plan = simulator.problem, simulator.algorithm, simulator.plan
    steps = np.atleast_1d(checkpoints).tolist()
    expected = expected_noise(simulator, steps)
    reshuffled = getattr(algorithm, "order", "fixed") == "reshuffle"
    biased = isinstance(algorithm, DpNsgdReduced) and reshuffled
    # E||noise|| <= sqrt(E||noise||^2), whatever the law.
    noise = expected * (math.sqrt(problem.dimension) / chi_mean(problem.dimension))
    if biased:
        noise = noise + reshuffling_bias_bound(plan.lipschitz, plan.smoothness, plan.alpha)
    bounds = {"noise_norm": noise, "mean_noise_norm": over_steps(noise)}
    limits = {} if biased else {"noise_norm": expected, "mean_noise_norm": over_steps(expected)}
    gap = problem.gap()
    if reshuffled and gap is not None and algorithm.theta0 == 0.0:
        lipschitz, smooth = problem.lipschitz(), problem.smoothness()
        bias = [momentum_bias_bound(lipschitz, smooth, plan.alpha, plan.eta, plan.batches, t) for t in steps]
        errors = over_steps(noise + np.array(bias))
        whole = np.full(len(steps), np.nan)
        whole[-1] = descent_bound(gap, smooth, plan.eta, plan.steps, float(errors[-1]))
        bounds |= {"mean_gradient_norm": whole, "output_gradient_norm": whole}
    law = rate(algorithm, problem, plan.n)
    if law is not None:
        limits["mean_gradient_norm"] = np.full(len(steps), law)
    return bounds, limits
