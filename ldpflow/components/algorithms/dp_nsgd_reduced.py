"""Sensitivity-reduced DP-NSGD (Tran and Cutkosky, 2022, Algorithm 2), in O(log N) per step.

An epoch has N steps. (In the code it has M steps, one for each batch.) Epoch e has the anchor A_e = w_{eN+1}.
A gradient is split at the anchor:

    g_t = grad f(A_e, x_t)                            tree G,     sensitivity O(G)
    D_t = g_t - grad f(A_{e-1}, x_t)      (e >= 1)    tree D,     sensitivity O(L eta N)
    u_t = grad f(w_t, x_t) - g_t                      tree r,     sensitivity O(L eta N)

The record of step t is x_t. In sensitivities, G and L are the Lipschitz constants of the loss and its
gradient, and eta is the step length. The momentum gives a new gradient the weight alpha.

Let X[a, b] be the sum of (1 - alpha)^(b - t) X_t over t = a, ..., b, read from noisy nodes of the tree of X.
Let B = (1 - alpha)^N, and let ``cross`` be the paper's gamma. The momentum is alpha (P_t + r[1, t]), where

    t < N:        P_t = G[1, t]
    N <= t < 2N:  U_t = G[t-N+1, t],                                        P_t = U_t + B P_{t-N}
    t >= 2N:      U_t = (1 - cross) (D[t-N+1, t] + U_{t-N}) + cross G[t-N+1, t],  P_t as before.

This recursion is ours and reads O(log N) nodes in a step. It equals the paper's sum over all earlier windows
(Algorithm 4) with two corrections: the sum starts at window 1, and for t < N the second term is left out.

Without noise the recursion gives the exact momentum if all epochs have one order (Lemma 17 of the paper). If
each epoch has an order of its own, as printed, the error is O((G + L) sqrt(alpha)). Gradients and noise go
through the same recursion. The momentum is therefore a function of the released nodes, which have the
guarantee. The printed algorithm lacks L in the noise of D and r. The proof has L and a factor 4, and so has
this module.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

import numpy as np
from mpmath import mp, mpf
from pydantic import Field

from ldpflow.components.algorithms.finite_sum import MomentumAlgorithm, RunPlan, Schedule
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
    mean_window_discount,
    power,
    squared_weights,
    tree_cost,
)


def tree_variances(batches: int, steps: int) -> tuple[float, float]:
    """Bounds of the number of nodes that one record enters: V1 up to step 2M, and V2 up to step T.

    V1 = max(3 log2 M, 2 floor(log2 M) + 3). The paper has 3 log2 M, which is too small for M < 6.
    V2 = 4 ceil(T/M) log2 M. The paper has T/M in place of ceil(T/M).
    """
    with workdps(40):
        log2 = float(mp.log(batches, 2))
    return max(3.0 * log2, 2 * (batches.bit_length() - 1) + 3.0), 4.0 * -(-steps // batches) * log2


class DpNsgdReduced(MomentumAlgorithm):
    """DP-NSGD with less noise if iterates move little in an epoch.

    Parameters
    ----------
    cross : float in (0, 1), optional
        Weight gamma of the paper, by default eta M.
    """

    cites: ClassVar = ("tran2022",)
    kind: Literal["dp_nsgd_reduced"] = "dp_nsgd_reduced"
    cross: Annotated[float, Field(gt=0, lt=1)] | None = None
    least_epochs: ClassVar[int] = 4
    printed_constant: ClassVar[float] = 4.0

    def trees(self, batches: int, steps: int) -> list[NoiseTree]:
        """Trees of the released sums G, D and r, in this order."""
        v1, v2 = tree_variances(batches, steps)
        exact = self.calibration == "exact"
        # A window has at most M steps, so nodes of more steps are neither read nor drawn.
        levels = batches.bit_length() if exact else None
        return [
            NoiseTree(4.0 * v2, 4.0 * v1, early=2 * batches, levels=levels),
            NoiseTree(4.0 * v2, levels=levels, after=batches),
            NoiseTree(4.0 * v2, left=exact),
        ]

    def cost(self, batches: int, steps: int, alpha: float) -> float:
        return tree_cost(self.trees(batches, steps), steps, batches, alpha, fixed=self.order == "fixed")

    def theorem_steps(self, problem: FiniteSumProblem, batches: int) -> float:
        """T of Theorem 9: N^(7/3) epsilon^(4/3) / d^(2/3)."""
        with workdps(40):
            epsilon = mpf(self.batch_size * self.epsilon)
            return float(mp.cbrt(mpf(batches) ** 7 * epsilon**4 / mpf(problem.dimension) ** 2))

    def mean_noise(self, problem: FiniteSumProblem, batches: int, epochs: int) -> float:
        steps, alpha = epochs * batches, 1.0 / batches
        cross = math.sqrt(1.0 / epochs)  # eta M
        fixed = self.order == "fixed"
        trees = self.trees(batches, steps)
        cost = sum(cost_bound(tree, steps, batches, alpha, fixed=fixed) for tree in trees)
        sigma = zcdp_noise_multiplier(self.epsilon, self.delta, cost)
        _, v2 = tree_variances(batches, steps)
        large = (4.0 * problem.lipschitz_of_loss()) ** 2 * v2
        small = (4.0 * cross * problem.smoothness_of_loss()) ** 2 * v2
        weights = squared_weights(power(1.0 - alpha, batches), cross)
        windows = cross * cross * large + (1.0 - cross) ** 2 * small
        variance = weights * windows * mean_window_discount(batches, alpha)
        variance += small * mean_prefix_discount(steps.bit_length(), alpha)
        unit = alpha * sigma / self.batch_size
        return chi_mean(problem.dimension) * unit * math.sqrt(variance)

    def schedule(self, problem: FiniteSumProblem, n: int) -> Schedule:
        at = super().schedule(problem, n)
        if at.batches < 2:
            raise InputError("algorithm.batch_size", self.batch_size, f"at most {n // 2:,} for n = {n:,}")
        cross = at.eta * at.batches if self.cross is None else self.cross
        if cross >= 1.0:
            hint = f"cross = eta M is {cross:.4g}."
            raise InputError("algorithm.epochs", self.epochs, "more than 1 epoch", hint)
        return replace(at, cross=cross)

    def memory(self, problem: FiniteSumProblem, n: int) -> int:
        batches = n // self.batch_size
        vectors = 2 * batches + 2 * sum((batches >> level) + 2 for level in range(batches.bit_length()))
        return 8 * LANES * problem.dimension * vectors

    def kernel_settings(self, plan: RunPlan) -> dict[str, float]:
        v1, v2 = tree_variances(plan.batches, plan.steps)
        large = 4.0 * plan.lipschitz / plan.batch_size * plan.sigma
        moved = plan.eta * plan.batches * plan.smoothness / plan.batch_size
        small = 4.0 * moved * plan.sigma * math.sqrt(v2)
        return super().kernel_settings(plan) | {
            "cross": plan.cross,
            "early": large * math.sqrt(v1),
            "late": large * math.sqrt(v2),
            "small": small,
        }


def recursion(kernel, keys, order_state, records, problem, settings, w, record):  # type: ignore[no-untyped-def]
    """Run sensitivity-reduced DP-NSGD for LANES replicates (see simulators.finite_sum)."""
    batches, batch_size, fixed = int(settings.batches), int(settings.batch_size), settings.fixed > 0.0
    alpha, eta, cross = settings.alpha, settings.eta, settings.cross
    early, late, small = settings.early, settings.late, settings.small
    rows, targets, base = records
    times, chosen_times, chosen_lanes, iterates, estimates, momenta, chosen = record
    anchor = register_array(kernel.STATE)
    before = register_array(kernel.STATE)
    at_w = register_array(kernel.STATE)
    at_anchor = register_array(kernel.STATE)
    at_before = register_array(kernel.STATE)
    m = register_array(kernel.STATE)
    mhat = register_array(kernel.STATE)
    residual = register_array(kernel.STATE)
    window = register_array(kernel.STATE)
    differences = register_array(kernel.STATE)
    x = register_array(kernel.STATE)
    y = register_array(LANES)
    zeta = np.zeros(kernel.BLOCKS)
    places = np.empty(LANES, np.int64)
    order = np.empty(batches * LANES, np.int64)
    top = 0
    while batches >> (top + 1) > 0:
        top += 1
    # Noisy nodes of the last M steps, by level. left_g and left_d are sums without noise over the left halves
    # of nodes that have not ended.
    offset = np.zeros(top + 2, np.int64)
    for level in range(top + 1):
        offset[level + 1] = offset[level] + (batches >> level) + 2
    nodes_g = np.zeros((offset[top + 1], kernel.STATE))
    nodes_d = np.zeros((offset[top + 1], kernel.STATE))
    left_g = np.zeros((top + 1, kernel.STATE))
    left_d = np.zeros((top + 1, kernel.STATE))
    ring_u = np.zeros((batches, kernel.STATE))
    ring_p = np.zeros((batches, kernel.STATE))
    prefixes = np.zeros((64, kernel.STATE))
    decay = np.empty(batches + 1)
    decay[0] = 1.0
    for i in range(batches):
        decay[i + 1] = (1.0 - alpha) * decay[i]
    doubled = np.empty(64)
    kernel.halvings(doubled, alpha)
    kernel.copy(anchor, w)
    m[:] = 0.0
    residual[:] = 0.0
    position = batches
    epoch = -1
    k = 0
    c = 0
    for t in range(1, times[-1] + 1):
        if position == batches:
            position = 0
            epoch += 1
            kernel.copy(before, anchor)
            kernel.copy(anchor, w)
            if epoch == 0 or not fixed:
                kernel.draw_order(order, order_state, epoch, batches)
        at_w[:] = 0.0
        at_anchor[:] = 0.0
        at_before[:] = 0.0
        for r in range(batch_size):
            for lane in range(LANES):
                places[lane] = base[lane] + order[position * LANES + lane] * batch_size + r
            kernel.fetch(x, y, rows, targets, places)
            kernel.add_gradient(at_w, w, x, y, problem)
            kernel.add_gradient(at_anchor, anchor, x, y, problem)
            if epoch > 0:
                kernel.add_gradient(at_before, before, x, y, problem)
        position += 1
        for i in range(kernel.STATE):
            at_w[i] /= batch_size
            at_anchor[i] /= batch_size
            m[i] = (1.0 - alpha) * m[i] + alpha * at_w[i]
            residual[i] = (1.0 - alpha) * residual[i] + (at_w[i] - at_anchor[i])
            # Now at_anchor holds g_t, and at_before D_t. The loop turns both into sums over the node
            # that ends at t.
            at_before[i] = at_anchor[i] - at_before[i] / batch_size
        level = 0
        while level <= top:
            index = (t >> level) - 1
            place = offset[level] + index % ((batches >> level) + 2)
            kernel.node_noise(zeta, keys, 2, level, index, early if t <= 2 * batches else late)
            node = nodes_g[place]
            for i in range(kernel.STATE):
                node[i] = at_anchor[i] + zeta[i]
            if (index << level) >= batches:
                kernel.node_noise(zeta, keys, 3, level, index, small)
                node = nodes_d[place]
                for i in range(kernel.STATE):
                    node[i] = at_before[i] + zeta[i]
            if index & 1 == 0:
                kernel.copy(left_g[level], at_anchor)
                kernel.copy(left_d[level], at_before)
                break
            kernel.add_scaled(at_anchor, doubled[level], left_g[level])
            kernel.add_scaled(at_before, doubled[level], left_d[level])
            level += 1
        window[:] = 0.0
        differences[:] = 0.0
        a = max(t - batches + 1, 1)
        while a <= t:
            level = 0
            while ((a - 1) >> level) & 1 == 0 and a + (2 << level) - 1 <= t and level < top:
                level += 1
            place = offset[level] + ((a - 1) >> level) % ((batches >> level) + 2)
            a += 1 << level
            factor = decay[t - a + 1]
            kernel.add_scaled(window, factor, nodes_g[place])
            if t >= 2 * batches:
                kernel.add_scaled(differences, factor, nodes_d[place])
        u = ring_u[t % batches]
        p = ring_p[t % batches]
        if t < batches:
            kernel.copy(p, window)
        else:
            if t < 2 * batches:
                kernel.copy(u, window)
            else:
                for i in range(kernel.STATE):
                    u[i] = (1.0 - cross) * (differences[i] + u[i]) + cross * window[i]
            for i in range(kernel.STATE):
                p[i] = u[i] + decay[batches] * p[i]
        kernel.prefix_noise(zeta, prefixes, doubled, keys, 4, t, small)  # noise of r[1, t]
        for i in range(kernel.STATE):
            mhat[i] = alpha * (p[i] + residual[i] + zeta[i])
        k = kernel.keep(k, t, times, w, mhat, m, iterates, estimates, momenta)
        c = kernel.choose(c, t, chosen_times, chosen_lanes, w, chosen)
        kernel.move(w, mhat, eta)
