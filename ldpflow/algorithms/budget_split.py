"""Multiplier bootstrap with a split budget: what the block bootstrap spares its users.

Fang, Xu and Yang (2018, Journal of Machine Learning Research 19(78)) bootstrap SGD online by running
B perturbed paths beside the path itself,

    theta_i^(k) = theta_{i-1}^(k) - eta_i w_i^(k) g(X_i, theta_{i-1}^(k)),   k = 1..B,

with weights w >= 0 of mean and variance 1, here Exponential(1). Under local privacy every path asks
the user about another gradient: B + 1 answers, each of which gets eps/(B + 1), so that one record is
eps-LDP in total (sequential composition). Dette and Graw, Section 1, name this as the reason for a
bootstrap that needs one path only. They speak of B paths with eps/B; the path that is the estimate
needs its own share, so it is B + 1 here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field

from ldpflow.algorithms.algorithm import DecayingSteps, combined
from ldpflow.mechanisms import Mechanism, PrivacyStatement
from ldpflow.mechanisms.gaussian import Gaussian
from ldpflow.problems import Problem
from ldpflow.problems.problem import Matrix
from ldpflow.random.lockstep import CHUNK, LANES, PLANE

if TYPE_CHECKING:  # supplied by the kernel that this recursion becomes part of
    from ldpflow.kernel_parts import (
        DATA_PLANES,
        MECHANISM_SIZE,
        NOISE_PLANES,
        PROBLEM_SIZE,
        STATE,
        SUMS,
        TILE_SIZE,
        D,
        after_step,
        draw_data,
        draw_noise,
        end_step,
        fill_exponential,
        gradient,
        keep_step,
        randomise,
        register_array,
        restart,
        step_sizes,
    )

__all__ = ["BudgetSplit", "recursion"]


class BudgetSplit(DecayingSteps):
    """LDP-SGD beside perturbed paths of its own, each with a share of the budget.

    A replicate costs as many paths as it has: meant for n up to about 10^5.

    Parameters
    ----------
    perturbations : int in [2, 1000]
        Perturbed paths B; each of the B + 1 paths gets eps/(B + 1).
    """

    kind: Literal["budget_split"] = "budget_split"
    perturbations: Annotated[int, Field(ge=2, le=1000)] = 20

    def unsuitable(self, problem: Problem, mechanism: Mechanism) -> str | None:
        if mechanism.replaces_data():
            return "its paths share their users, and private bits drawn directly have none"
        return None

    def perturbed_paths(self) -> int:
        return self.perturbations

    def randomiser(self, mechanism: Mechanism) -> Mechanism:
        if isinstance(mechanism, Gaussian):
            return mechanism.shared(self.perturbations + 1)  # mu composes in squares
        if "epsilon" not in type(mechanism).model_fields:
            return mechanism
        epsilon: float = mechanism.model_dump()["epsilon"]
        return mechanism.model_copy(update={"epsilon": epsilon / (self.perturbations + 1)})

    def kernel_parameters(self, horizon: int | None) -> tuple[float, ...]:
        return (self.c, self.gamma, self.theta0)

    def step_covariance(self, problem: Problem, mechanism: Mechanism) -> Matrix:
        return combined(
            problem.gradient_covariance(), self.randomiser(mechanism).noise_covariance(problem), 1.0, 1.0
        )

    def privacy(self, mechanism: Mechanism) -> PrivacyStatement:
        # B + 1 answers about one record with eps/(B + 1) each: the mechanism's eps in total.
        return mechanism.privacy()


def recursion(  # type: ignore[no-untyped-def]
    data_state,
    noise_state,
    data_parameters,
    noise_parameters,
    problem_parameters,
    mechanism_parameters,
    settings,
    origin,
    times,
    marks,
    prefix_sums,
    iterates,
    running_sums,
    extras,
):
    """Run one of the paths of LANES replicates (see ldp_sgd.recursion).

    The last of the settings says whether it is perturbed; then weights are drawn after the noise.
    """
    c = settings[0]
    gamma = settings[1]
    perturbed = settings[-1] > 0.0
    data = np.empty(DATA_PLANES * PLANE)
    noise = np.empty(NOISE_PLANES * PLANE)
    weights = np.ones(PLANE)
    eta = np.empty(CHUNK)
    # Copies that the compiler knows to be its own: they stay in registers.
    problem = register_array(PROBLEM_SIZE)
    mechanism = register_array(MECHANISM_SIZE)
    centre = register_array(D)
    problem[:] = problem_parameters
    mechanism[:] = mechanism_parameters
    centre[:] = origin
    theta = register_array(STATE)
    total = register_array(STATE)
    g = register_array(STATE)
    sums = register_array(SUMS)
    tile = register_array(TILE_SIZE)
    theta[:] = settings[2]
    total[:] = 0.0
    sums[:] = 0.0
    kept = 0
    i = 0
    t = 0
    while t < times.shape[0]:
        draw_data(data_state, data_parameters, data)
        draw_noise(noise_state, noise_parameters, noise)
        if perturbed:
            fill_exponential(noise_state, 0.0, weights)
        step_sizes(i + 1, c, gamma, eta)
        for k in range(CHUNK):
            i += 1
            eta_i = eta[k]
            step = float(i)
            for lane in range(LANES):
                at = k * LANES + lane
                gradient(g, theta, data, at, lane, problem)  # g(X_i, theta_{i-1})
                randomise(g, noise, at, lane, mechanism)  # A(g(X_i, theta_{i-1}))
                if TILE_SIZE:
                    keep_step(tile, theta, g, centre, kept, lane)
                for j in range(D):
                    # theta_i = theta_{i-1} - eta_i w_i A(g(X_i, theta_{i-1}))
                    theta[j * LANES + lane] -= eta_i * (weights[at] * g[j * LANES + lane])
                    # S(i) = S(i-1) + theta_i, around the origin
                    total[j * LANES + lane] += theta[j * LANES + lane] - centre[j]
                after_step(sums, total, step, lane)
            if TILE_SIZE:
                ends = i == times[t] and marks[t] >= 0
                kept = end_step(sums, tile, kept, ends)
            if i == times[t]:
                prefix_sums[t, :] = total
                iterates[t, :] = theta
                if marks[t] >= 0:
                    running_sums[marks[t], :] = sums
                t += 1
                if t == times.shape[0]:
                    break
            if TILE_SIZE and i & (i - 1) == 0:
                restart(sums)
                kept = 0
