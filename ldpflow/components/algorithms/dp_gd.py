"""Gradient descent with fresh Gaussian noise in every step, on all records or on random batches.

DP-GD:  w_{t+1} = w_t - eta (grad F(w_t) + N(0, (2 G / N)^2 sigma^2 T I)),   t = 1..T

F is the mean of f over N records, G the Lipschitz constant of the loss, and sigma the noise multiplier.
Replacing a record moves grad F by at most 2 G / N in each step. The T steps together are
(z, c z / (2 sigma^2))-RDP for each order z, with the cost c = 1.

DP-SGD (Abadi and others, 2016), on batches of b records:

    w_{t+1} = w_t - eta (mean over a random batch of grad f(w_t, .) + N(0, (2 G sigma / b)^2 I))

Each step draws a new batch without replacement, and sigma accounts for the sampling
(:mod:`ldpflow.numerics.accounting`). Gradients of the loss are bounded by G, so they are not clipped.
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np

from ldpflow.components.algorithms.algorithm import BatchSize
from ldpflow.components.algorithms.finite_sum import (
    DEFAULT_EPOCHS,
    FiniteSumAlgorithm,
    RunPlan,
    Schedule,
)
from ldpflow.components.problems.finite_sum import FiniteSumProblem
from ldpflow.errors import InputError
from ldpflow.numerics import register_array
from ldpflow.numerics.accounting import sampled_noise_multiplier, zcdp_noise_multiplier
from ldpflow.numerics.streams import CHUNK, LANES, PLANE


class DpGd(FiniteSumAlgorithm):
    """Noisy gradient descent. Each step uses all N records, so an epoch is one step.

    Parameters
    ----------
    epochs : float, optional
        Number T of steps, 20 by default. It is rounded to a whole number of at least 1.
    eta : float, optional
        Step length, by default 1/L. L is the Lipschitz constant of grad f. f includes the regulariser h.
    """

    kind: Literal["dp_gd"] = "dp_gd"

    def schedule(self, problem: FiniteSumProblem, n: int) -> Schedule:
        epochs = DEFAULT_EPOCHS if self.epochs is None else self.epochs
        return Schedule(1, self.whole_steps(epochs), self.eta or 1.0 / problem.smoothness())

    def multiplier(self, problem: FiniteSumProblem, n: int, at: Schedule) -> tuple[float, float]:
        return zcdp_noise_multiplier(self.epsilon, self.delta, 1.0), 1.0

    def kernel_settings(self, plan: RunPlan) -> dict[str, float]:
        deviation = 2.0 * plan.lipschitz / plan.n * plan.sigma * math.sqrt(plan.steps)
        return {"n": float(plan.n), "eta": plan.eta, "deviation": deviation, "batch": float(plan.n)}


def recursion(kernel, keys, order_state, records, problem, settings, w, record):  # type: ignore[no-untyped-def]
    """Run noisy gradient descent for LANES replicates (see simulators.finite_sum).

    A step uses all records (``dp_gd``) or a random subset (``dp_sgd``). ``estimates`` gets the gradient with
    noise, and ``momenta`` the gradient without noise.
    """
    n, batch = int(settings.n), int(settings.batch)
    eta, deviation = settings.eta, settings.deviation
    rows, targets, base = records
    times, chosen_times, chosen_lanes, iterates, estimates, momenta, chosen = record
    g = register_array(kernel.STATE)
    noisy = register_array(kernel.STATE)
    x = register_array(kernel.STATE)
    y = register_array(LANES)
    zeta = np.zeros(kernel.BLOCKS)
    places = np.empty(LANES, np.int64)
    sampled = batch < n
    order = np.empty(n * LANES if sampled else 0, np.int64)
    for i in range(order.shape[0]):
        order[i] = i // LANES
    planes = np.empty(PLANE)
    used = CHUNK
    k = 0
    c = 0
    for t in range(1, times[-1] + 1):
        if sampled:
            used = kernel.draw_subset(order, order_state, planes, used, n, batch)
        g[:] = 0.0
        for i in range(batch):
            for lane in range(LANES):
                places[lane] = base[lane] + (order[i * LANES + lane] if sampled else i)
            kernel.fetch(x, y, rows, targets, places)
            kernel.add_gradient(g, w, x, y, problem)
        kernel.node_noise(zeta, keys, 1, 0, t - 1, deviation)
        for i in range(kernel.STATE):
            g[i] /= batch
            noisy[i] = g[i] + zeta[i]
        k = kernel.keep(k, t, times, w, noisy, g, iterates, estimates, momenta)
        c = kernel.choose(c, t, chosen_times, chosen_lanes, w, chosen)
        for i in range(kernel.STATE):
            w[i] -= eta * noisy[i]


class DpSgd(FiniteSumAlgorithm):
    """SGD with fresh noise on random batches.

    Parameters
    ----------
    batch_size : int
        Number b of records that a step draws without replacement. The number of steps is T = epochs N / b.
    eta : float, optional
        Step length, by default min(1/L, sqrt(2 gap / (L T v))) as in the analysis of non-convex SGD. L and G
        include h, and v is G^2/b plus d times the variance of the noise. The gap is a bound of F(0) - inf F,
        or 1 if no bound is known.
    """

    cites: ClassVar = ("abadi2016",)
    kind: Literal["dp_sgd"] = "dp_sgd"
    batch_size: BatchSize = 100

    def memory(self, problem: FiniteSumProblem, n: int) -> int:
        return 8 * LANES * n

    def sigma(self, n: int, steps: int) -> float:
        return sampled_noise_multiplier(self.epsilon, self.delta, self.batch_size / n, steps)

    def multiplier(self, problem: FiniteSumProblem, n: int, at: Schedule) -> tuple[float, float]:
        return self.sigma(n, at.steps), math.nan

    def schedule(self, problem: FiniteSumProblem, n: int) -> Schedule:
        b, eta = self.batch_size, self.eta
        if b > n:
            raise InputError("algorithm.batch_size", b, f"at most n = {n:,}")
        epochs = DEFAULT_EPOCHS if self.epochs is None else self.epochs
        steps = self.whole_steps(epochs * n / b)
        if eta is None:
            noise = 2.0 * problem.lipschitz_of_loss() * self.sigma(n, steps) / b
            variance = problem.lipschitz() ** 2 / b + problem.dimension * noise * noise
            gap, smooth = problem.gap(), problem.smoothness()
            best = math.sqrt(2.0 * (1.0 if gap is None else gap) / (smooth * steps * variance))
            eta = min(1.0 / smooth, best)
        return Schedule(max(1, n // b), steps, eta)

    def kernel_settings(self, plan: RunPlan) -> dict[str, float]:
        deviation = 2.0 * plan.lipschitz * plan.sigma / plan.batch_size
        return {"n": float(plan.n), "eta": plan.eta, "deviation": deviation, "batch": float(plan.batch_size)}
