"""Full-batch gradient descent with Gaussian noise: the baseline that looks at everything each step.

    w_{t+1} = w_t - eta (grad F(w_t) + N(0, (2 G / N)^2 sigma^2 T I)),   t = 1..T

Replacing a record moves grad F by at most 2 G / N in every step, so the T steps together are
(z, z / (2 sigma^2))-RDP: c = 1.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field

from ldpflow.algorithms.erm import ErmAlgorithm, RunPlan
from ldpflow.privacy.rdp import noise_multiplier
from ldpflow.problems.erm import ErmProblem
from ldpflow.random.lockstep import LANES

if TYPE_CHECKING:  # supplied by the kernel that this recursion becomes part of
    from ldpflow.kernel_parts import (
        BLOCKS,
        PROBLEM_SIZE,
        STATE,
        D,
        add_gradient,
        fetch,
        node_noise,
        register_array,
    )

__all__ = ["DpGd", "recursion"]


class DpGd(ErmAlgorithm):
    """Noisy gradient descent; an epoch is one step.

    Parameters
    ----------
    epochs : float
        T, rounded: every step takes all N gradients.
    eta : float, optional
        Step length; 1 / L, h included, unless given.
    """

    kind: Literal["dp_gd"] = "dp_gd"
    epochs: Annotated[float, Field(ge=1, le=1e6)] = 20.0

    def plan(self, problem: ErmProblem, n: int) -> RunPlan:
        steps = round(self.epochs)
        sigma = noise_multiplier(self.epsilon, self.delta, 1.0)
        eta = 1.0 / problem.smoothness() if self.eta is None else self.eta
        return RunPlan(
            n, 1, n, steps, eta, 1.0, math.nan, sigma, 1.0, 1.0 / (2.0 * sigma * sigma),
            problem.lipschitz_of_loss(), problem.smoothness_of_loss(),
        )  # fmt: skip

    def kernel_settings(self, plan: RunPlan) -> tuple[float, ...]:
        deviation = 2.0 * plan.lipschitz / plan.n * plan.sigma * math.sqrt(plan.steps)
        return (float(plan.n), plan.eta, deviation)


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
    """Run LANES replicates in lockstep and record them (see dp_nsgd.recursion).

    The noisy and the exact gradient take the places of mhat_t and m_t.
    """
    n = int(settings[0])
    eta = settings[1]
    parameters = register_array(PROBLEM_SIZE)
    parameters[:] = problem_parameters
    w = register_array(STATE)
    g = register_array(STATE)
    noisy = register_array(STATE)
    x = register_array(STATE)
    y = register_array(LANES)
    zeta = np.zeros(BLOCKS)
    places = np.empty(LANES, np.int64)
    for j in range(D):
        w[j * LANES : (j + 1) * LANES] = start[j]
    k = 0
    c = 0
    for t in range(1, times[times.shape[0] - 1] + 1):
        g[:] = 0.0
        for i in range(n):
            for lane in range(LANES):
                places[lane] = base[lane] + i
            fetch(x, y, rows, targets, places)
            add_gradient(g, w, x, y, parameters)
        node_noise(zeta, keys, 1, 0, t - 1, settings[2])
        for i in range(STATE):
            g[i] /= n
            noisy[i] = g[i] + zeta[i]
        if t == times[k]:
            iterates[k, :] = w
            estimates[k, :] = noisy
            momenta[k, :] = g
            k += 1
        while c < LANES and chosen_times[c] == t:
            lane = chosen_lanes[c]
            for j in range(D):
                chosen[j * LANES + lane] = w[j * LANES + lane]
            c += 1
        for i in range(STATE):
            w[i] -= eta * noisy[i]
    iterates[k, :] = w
