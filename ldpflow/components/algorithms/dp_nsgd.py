"""DP-NSGD: normalised SGD with tree-aggregated momentum (Tran and Cutkosky, 2022, Algorithm 1).

    m_t = (1 - alpha) m_{t-1} + alpha grad f(w_t, x_t)
    w_{t+1} = w_t - eta (m_t + n_t) / ||m_t + n_t||
    n_t = sum over nodes [y, z] of the dyadic cover of [1, t] of (1 - alpha)^(t - z) zeta[y, z]
    zeta ~ N(0, 16 alpha^2 G^2 sigma^2 V I)

V bounds the number of nodes that one record enters. The paper has a tree of depth floor(log2 T), whose root
gets no noise, and T/M visits of a record for M batches in an epoch. Here each level has noise, and V is for
ceil(T/M) visits. The streaming form of the noise is ours. Let low(t) be the lowest set bit of t. Then

    n_t = zeta[t - low(t) + 1, t] + (1 - alpha)^low(t) n_{t - low(t)}.

A step draws one new vector, and floor(log2 T) + 1 vectors are kept.
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal, Self

import numpy as np
from mpmath import mp, mpf
from pydantic import model_validator

from ldpflow.components.algorithms.finite_sum import MomentumAlgorithm, RunPlan, Schedule
from ldpflow.components.mechanisms import PrivacyStatement
from ldpflow.components.problems.finite_sum import FiniteSumProblem
from ldpflow.errors import InputError
from ldpflow.numerics import register_array
from ldpflow.numerics.accounting import zcdp_noise_multiplier
from ldpflow.numerics.constants import workdps
from ldpflow.numerics.streams import LANES
from ldpflow.numerics.tree import (
    NoiseTree,
    chi_mean,
    cost_bound,
    mean_prefix_discount,
    touched_nodes,
    tree_cost,
)


class DpNsgd(MomentumAlgorithm):
    """Normalised SGD with momentum, private or not.

    Parameters
    ----------
    noise : str
        ``tree``: the noise of the paper. ``independent``: a baseline with fresh noise of standard deviation
        2 G sigma sqrt(T/M) / b on each gradient, for T steps, M batches of b records and the Lipschitz
        constant G. ``none``: a baseline without privacy.
    """

    cites: ClassVar = ("tran2022",)
    kind: Literal["dp_nsgd"] = "dp_nsgd"
    noise: Literal["tree", "independent", "none"] = "tree"
    printed_constant: ClassVar[float] = 2.0

    def noise_kind(self) -> int:
        return {"none": 0, "tree": 1, "independent": 2}[self.noise]

    @model_validator(mode="after")
    def without_budget(self) -> Self:
        if self.noise == "none":  # one path serves all budgets
            for name in ("epsilon", "delta", "calibration"):
                object.__setattr__(self, name, type(self).model_fields[name].default)
        return self

    def privacy(self) -> PrivacyStatement:
        return PrivacyStatement("none") if self.noise == "none" else super().privacy()

    def cost(self, batches: int, steps: int, alpha: float) -> float:
        if self.noise == "independent":
            # There are ceil(T/M) visits, each with the cost M/T.
            return -(-steps // batches) * batches / steps
        tree = NoiseTree(4.0 * touched_nodes(steps, batches), left=self.calibration == "exact")
        return tree_cost([tree], steps, batches, alpha, fixed=self.order == "fixed")

    def theorem_steps(self, problem: FiniteSumProblem, batches: int) -> float:
        """T of Theorem 6: T log2 T = b epsilon M^2 / sqrt(d log(1/delta)), M = N/b batches."""
        with workdps(40):
            scale = mp.sqrt(problem.dimension * mp.log(1 / mpf(self.delta)))
            target = mpf(self.batch_size * self.epsilon) * batches**2 / scale * mp.log(2)
            return float(mp.exp(mp.lambertw(target).real))

    def mean_noise(self, problem: FiniteSumProblem, batches: int, epochs: int) -> float:
        if self.noise == "none":
            hint = "There is no noise to balance."
            raise InputError("algorithm.parameters", self.parameters, "'given' or 'theorem'", hint)
        steps, alpha = epochs * batches, 1.0 / batches
        unit = 2.0 * problem.lipschitz_of_loss() / self.batch_size
        if self.noise == "independent":
            sigma = zcdp_noise_multiplier(self.epsilon, self.delta, 1.0)
            variance = epochs * alpha / (2.0 - alpha)
        else:
            v = 4.0 * touched_nodes(steps, batches)
            tree = NoiseTree(v, left=self.calibration == "exact")
            cost = cost_bound(tree, steps, batches, alpha, fixed=self.order == "fixed")
            sigma = zcdp_noise_multiplier(self.epsilon, self.delta, cost)
            variance = alpha * alpha * v * mean_prefix_discount(steps.bit_length(), alpha)
        return chi_mean(problem.dimension) * unit * sigma * math.sqrt(variance)

    def multiplier(self, problem: FiniteSumProblem, n: int, at: Schedule) -> tuple[float, float]:
        return (0.0, math.inf) if self.noise == "none" else super().multiplier(problem, n, at)

    def kernel_settings(self, plan: RunPlan) -> dict[str, float]:
        sensitivity = 2.0 * plan.lipschitz / plan.batch_size
        if self.noise == "tree":
            v = 4.0 * touched_nodes(plan.steps, plan.batches)
            deviation = plan.alpha * sensitivity * plan.sigma * math.sqrt(v)
        else:
            deviation = sensitivity * plan.sigma * math.sqrt(plan.steps / plan.batches)
        return super().kernel_settings(plan) | {"deviation": deviation}


def recursion(kernel, keys, order_state, records, problem, settings, w, record):  # type: ignore[no-untyped-def]
    """Run DP-NSGD for LANES replicates (see simulators.finite_sum)."""
    batches, batch_size, fixed = int(settings.batches), int(settings.batch_size), settings.fixed > 0.0
    alpha, eta, deviation = settings.alpha, settings.eta, settings.deviation
    rows, targets, base = records
    times, chosen_times, chosen_lanes, iterates, estimates, momenta, chosen = record
    g = register_array(kernel.STATE)
    m = register_array(kernel.STATE)
    mhat = register_array(kernel.STATE)
    x = register_array(kernel.STATE)
    y = register_array(LANES)
    zeta = np.zeros(kernel.BLOCKS)
    places = np.empty(LANES, np.int64)
    order = np.empty(batches * LANES, np.int64)
    prefixes = np.zeros((64 if kernel.NOISE == 1 else 0, kernel.STATE))
    doubled = np.empty(64)
    kernel.halvings(doubled, alpha)
    m[:] = 0.0
    mhat[:] = 0.0
    share = alpha / batch_size
    position = batches
    epoch = -1
    k = 0
    c = 0
    for t in range(1, times[-1] + 1):
        if position == batches:
            position = 0
            epoch += 1
            if epoch == 0 or not fixed:
                kernel.draw_order(order, order_state, epoch, batches)
        g[:] = 0.0
        for r in range(batch_size):
            for lane in range(LANES):
                places[lane] = base[lane] + order[position * LANES + lane] * batch_size + r
            kernel.fetch(x, y, rows, targets, places)
            kernel.add_gradient(g, w, x, y, problem)
        position += 1
        for i in range(kernel.STATE):
            m[i] = (1.0 - alpha) * m[i] + share * g[i]
        if kernel.NOISE == 1:
            kernel.prefix_noise(zeta, prefixes, doubled, keys, 0, t, deviation)
            for i in range(kernel.STATE):
                mhat[i] = m[i] + zeta[i]
        elif kernel.NOISE == 2:
            kernel.node_noise(zeta, keys, 1, 0, t - 1, deviation)
            for i in range(kernel.STATE):
                mhat[i] = (1.0 - alpha) * mhat[i] + share * g[i] + alpha * zeta[i]
        else:
            kernel.copy(mhat, m)
        k = kernel.keep(k, t, times, w, mhat, m, iterates, estimates, momenta)
        c = kernel.choose(c, t, chosen_times, chosen_lanes, w, chosen)
        kernel.move(w, mhat, eta)
