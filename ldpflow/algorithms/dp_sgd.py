"""DP-SGD (Abadi and others, 2016): fresh Gaussian noise on the mean gradient of a random batch.

    w_{t+1} = w_t - eta (mean over a random batch of b records of grad f(w_t, .) + N(0, (2 G sigma / b)^2 I))

The baseline that trees compete with. Batches are drawn without replacement, anew in every step, and
sigma accounts for that (:mod:`ldpflow.privacy.subsampling`). Losses have bounded gradients: nothing is
clipped.
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal

from ldpflow.algorithms.algorithm import BatchSize
from ldpflow.algorithms.dp_gd import recursion  # noqa: F401 (its kernel function)
from ldpflow.algorithms.finite_sum import (
    DEFAULT_EPOCHS,
    LARGEST_STEPS,
    FiniteSumAlgorithm,
    RunPlan,
    Schedule,
)
from ldpflow.errors import InputError
from ldpflow.problems.finite_sum import FiniteSumProblem
from ldpflow.random.lockstep import LANES


class DpSgd(FiniteSumAlgorithm):
    """SGD with fresh noise on random batches.

    Parameters
    ----------
    batch_size : int
        b, drawn without replacement in every step; T = epochs N / b.
    eta : float, optional
        Step length; min(1/L, sqrt(2 gap / (L T v))) unless given, v = G^2/b + d (noise's variance), h
        included: what the analysis of non-convex SGD asks for.
    """

    cites: ClassVar = ("abadi2016",)
    kind: Literal["dp_sgd"] = "dp_sgd"
    batch_size: BatchSize = 100

    def memory(self, problem: FiniteSumProblem, n: int) -> int:
        return 8 * LANES * n

    def steps_of(self, n: int) -> int:
        """T."""
        if self.batch_size > n:
            raise InputError("algorithm.batch_size", self.batch_size, f"at most n = {n:,}")
        epochs = DEFAULT_EPOCHS if self.epochs is None else self.epochs
        steps = max(1, round(epochs * n / self.batch_size))
        if steps > LARGEST_STEPS:
            raise InputError("algorithm.epochs", epochs, f"at most {LARGEST_STEPS:,} steps")
        return steps

    def sigma_of(self, n: int) -> float:
        """sigma."""
        from ldpflow.privacy.subsampling import sampled_noise_multiplier

        rate = self.batch_size / n
        return sampled_noise_multiplier(self.epsilon, self.delta, rate, self.steps_of(n))

    def multiplier(self, problem: FiniteSumProblem, n: int, at: Schedule) -> tuple[float, float]:
        return self.sigma_of(n), math.nan

    def schedule(self, problem: FiniteSumProblem, n: int) -> Schedule:
        steps, b = self.steps_of(n), self.batch_size
        eta = self.eta
        if eta is None:
            noise = 2.0 * problem.lipschitz_of_loss() * self.sigma_of(n) / b
            variance = problem.lipschitz() ** 2 / b + problem.dimension * noise * noise
            gap = problem.gap()
            smooth = problem.smoothness()
            best = math.sqrt(2.0 * (1.0 if gap is None else gap) / (smooth * steps * variance))
            eta = min(1.0 / smooth, best)
        return Schedule(max(1, n // b), steps, eta)

    def kernel_settings(self, plan: RunPlan) -> dict[str, float]:
        deviation = 2.0 * plan.lipschitz * plan.sigma / plan.batch_size
        batch = float(plan.batch_size)
        return {"n": float(plan.n), "eta": plan.eta, "deviation": deviation, "batch": batch}
