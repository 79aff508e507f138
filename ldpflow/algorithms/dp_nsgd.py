"""DP-NSGD: normalised SGD with tree-aggregated momentum (Tran and Cutkosky, 2022, Algorithm 1).

    m_t = (1 - alpha) m_{t-1} + alpha grad f(w_t, x_t)
    w_{t+1} = w_t - eta (m_t + n_t) / ||m_t + n_t||
    n_t = sum over nodes [y, z] of the dyadic cover of [1, t] of (1 - alpha)^(t - z) zeta[y, z]
    zeta ~ N(0, 16 alpha^2 G^2 sigma^2 V I)

Print leaves the root without noise when the depth is floor(log2 T), and takes T/N for the number of
visits; here every level has noise and V counts ceil(T/N) visits. The noise comes in a streaming form
that is ours: with low(t) the lowest set bit of t,

    n_t = zeta[t - low(t) + 1, t] + (1 - alpha)^low(t) n_{t - low(t)},

one new vector a step, and only floor(log2 T) + 1 vectors are alive.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np

from ldpflow.algorithms.erm import MomentumAlgorithm, RunPlan
from ldpflow.mechanisms import PrivacyStatement
from ldpflow.privacy.rdp import noise_multiplier, printed_noise_multiplier
from ldpflow.privacy.tree import Tree, touched_nodes, tree_cost
from ldpflow.problems.erm import ErmProblem
from ldpflow.random.lockstep import LANES

if TYPE_CHECKING:  # supplied by the kernel that this recursion becomes part of
    from ldpflow.kernel_parts import (
        BLOCKS,
        NOISE,
        PROBLEM_SIZE,
        STATE,
        D,
        add_gradient,
        draw_order,
        fetch,
        move,
        node_noise,
        register_array,
    )

__all__ = ["DpNsgd", "recursion"]


class DpNsgd(MomentumAlgorithm):
    """Normalised SGD with momentum, private or not.

    Parameters
    ----------
    noise : str
        ``tree``: the paper's; ``independent``: a baseline, fresh noise of standard deviation
        2 G sigma sqrt(T/M) / b on every gradient; ``none``: the non-private baseline.
    """

    kind: Literal["dp_nsgd"] = "dp_nsgd"
    noise: Literal["tree", "independent", "none"] = "tree"

    def noise_kind(self) -> int:
        return {"none": 0, "tree": 1, "independent": 2}[self.noise]

    def privacy(self) -> PrivacyStatement:
        return PrivacyStatement("none", "record") if self.noise == "none" else super().privacy()

    def cost(self, batches: int, steps: int, alpha: float) -> float:
        """c of the transcript's RDP c z / (2 sigma^2)."""
        if self.noise == "independent":
            # ceil(T/M) visits, each of cost M/T.
            return -(-steps // batches) * batches / steps
        tree = Tree(4.0 * touched_nodes(steps, batches), left=self.calibration == "exact")
        return tree_cost([tree], steps, batches, alpha, fixed=self.order == "fixed")

    def plan(self, problem: ErmProblem, n: int) -> RunPlan:
        batches, steps, alpha, eta = self.schedule(n)
        sigma, cost, rho = 0.0, math.inf, math.inf
        if self.noise != "none":
            cost = self.cost(batches, steps, alpha)
            if self.calibration == "printed":
                sigma = printed_noise_multiplier(self.epsilon, self.delta, 2.0)
            else:
                sigma = noise_multiplier(self.epsilon, self.delta, cost)
            rho = cost / (2.0 * sigma * sigma)
        return RunPlan(
            n, batches, self.batch_size, steps, eta, alpha, math.nan, sigma, cost, rho,
            problem.lipschitz_of_loss(), problem.smoothness_of_loss(),
        )  # fmt: skip

    def kernel_settings(self, plan: RunPlan) -> tuple[float, ...]:
        sensitivity = 2.0 * plan.lipschitz / plan.batch_size
        if self.noise == "tree":
            v = 4.0 * touched_nodes(plan.steps, plan.batches)
            deviation = plan.alpha * sensitivity * plan.sigma * math.sqrt(v)
        else:
            deviation = sensitivity * plan.sigma * math.sqrt(plan.steps / plan.batches)
        return (
            float(plan.batches),
            float(plan.batch_size),
            1.0 if self.order == "fixed" else 0.0,
            plan.alpha,
            plan.eta,
            deviation,
        )


def recursion(  # type: ignore[no-untyped-def]
    keys,
    order_state,
    rows,
    targets,
    base,
    problem_parameters,
    settings,
    start,
    times,
    chosen_times,
    chosen_lanes,
    iterates,
    estimates,
    momenta,
    chosen,
):
    """Run LANES replicates in lockstep; record w_t, mhat_t and m_t at ``times``.

    ``iterates`` has one row more, for the iterate after the last step. ``chosen`` gets every lane's
    iterate at its own time: lane chosen_lanes[i] at chosen_times[i], sorted.
    """
    batches = int(settings[0])
    batch_size = int(settings[1])
    fixed = settings[2] > 0.0
    alpha = settings[3]
    eta = settings[4]
    deviation = settings[5]
    parameters = register_array(PROBLEM_SIZE)
    parameters[:] = problem_parameters
    w = register_array(STATE)
    g = register_array(STATE)
    m = register_array(STATE)
    mhat = register_array(STATE)
    x = register_array(STATE)
    y = register_array(LANES)
    zeta = np.zeros(BLOCKS)
    places = np.empty(LANES, np.int64)
    order = np.empty(batches * LANES, np.int64)
    # n_t of the prefixes of t, by their lowest set bit; row 63 stays 0: the empty prefix.
    prefixes = np.zeros((64 if NOISE == 1 else 0, STATE))
    decay = np.empty(64)
    decay[0] = 1.0 - alpha
    for level in range(63):
        decay[level + 1] = decay[level] * decay[level]  # (1 - alpha)^(2^(level + 1))
    for j in range(D):
        w[j * LANES : (j + 1) * LANES] = start[j]
    m[:] = 0.0
    mhat[:] = 0.0
    share = alpha / batch_size
    position = batches
    epoch = -1
    k = 0
    c = 0
    steps = times[times.shape[0] - 1]
    for t in range(1, steps + 1):
        if position == batches:
            position = 0
            epoch += 1
            if epoch == 0 or not fixed:
                draw_order(order, order_state, epoch, batches)
        g[:] = 0.0
        for r in range(batch_size):
            for lane in range(LANES):
                places[lane] = base[lane] + order[position * LANES + lane] * batch_size + r
            fetch(x, y, rows, targets, places)
            add_gradient(g, w, x, y, parameters)
        position += 1
        for i in range(STATE):
            m[i] = (1.0 - alpha) * m[i] + share * g[i]
        if NOISE == 1:
            level = 0
            while (t >> level) & 1 == 0:
                level += 1
            rest = (t >> level) - 1  # t - low(t), in units of low(t)
            before = 63
            if rest > 0:
                before = level
                while (rest >> (before - level)) & 1 == 0:
                    before += 1
            node_noise(zeta, keys, 0, level, rest, deviation)
            factor = decay[level]
            previous = prefixes[before]
            for i in range(STATE):
                zeta[i] += factor * previous[i]
                mhat[i] = m[i] + zeta[i]
            if level > 0:
                # Prefixes of odd length are nobody's prefix.
                prefixes[level, :] = zeta[:STATE]
        elif NOISE == 2:
            node_noise(zeta, keys, 1, 0, t - 1, deviation)
            for i in range(STATE):
                mhat[i] = (1.0 - alpha) * mhat[i] + share * g[i] + alpha * zeta[i]
        else:
            for i in range(STATE):
                mhat[i] = m[i]
        if t == times[k]:
            iterates[k, :] = w
            estimates[k, :] = mhat
            momenta[k, :] = m
            k += 1
        while c < LANES and chosen_times[c] == t:
            lane = chosen_lanes[c]
            for j in range(D):
                chosen[j * LANES + lane] = w[j * LANES + lane]
            c += 1
        move(w, mhat, eta)
    iterates[k, :] = w
