"""LDP-SGD (Dette and Graw, Algorithm 1): one user, one private gradient, one step.

    theta_i = theta_{i-1} - eta_i A(g(X_i, theta_{i-1})),   eta_i = c i^(-gamma)

The paper's Algorithm 1 prints a plus sign; its equation 6 has the minus that descends. Each record is
used once, so the transcript has the mechanism's own guarantee per record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field

from ldpflow.algorithms.algorithm import DecayingSteps, combined
from ldpflow.mechanisms import Mechanism, PrivacyStatement
from ldpflow.problems import Problem
from ldpflow.problems.problem import Matrix
from ldpflow.random.lockstep import CHUNK, LANES, PLANE

if TYPE_CHECKING:  # supplied by the kernel that this recursion becomes part of
    from ldpflow.kernel_parts import (
        ANCHORS,
        DATA_PLANES,
        EXTRAS,
        MECHANISM_SIZE,
        NOISE_PLANES,
        PROJECTED,
        STATE,
        D,
        add_iterate,
        draw_data,
        draw_noise,
        end_step,
        gradient,
        keep_path,
        keep_step,
        prepare_chunk,
        prepare_step,
        randomise,
        register_array,
        restart,
        step_sizes,
    )

__all__ = ["LdpSgd", "project", "recursion"]


class LdpSgd(DecayingSteps):
    """One-pass stochastic gradient descent on privatised gradients.

    Parameters
    ----------
    radius : float > 0, optional
        Every iterate is projected onto the ball of this radius around the start; not unless given.
    """

    kind: Literal["ldp_sgd"] = "ldp_sgd"
    radius: Annotated[float, Field(gt=0)] | None = None

    def projects(self) -> bool:
        return self.radius is not None

    def counts_in_mechanism(self) -> bool:
        return True

    def kernel_parameters(self, horizon: int | None) -> tuple[float, ...]:
        return (self.c, self.gamma, self.theta0, self.radius or 0.0)

    def step_covariance(self, problem: Problem, mechanism: Mechanism) -> Matrix:
        return combined(problem.gradient_covariance(), mechanism.noise_covariance(problem), 1.0, 1.0)

    def privacy(self, mechanism: Mechanism) -> PrivacyStatement:
        return mechanism.privacy()


def project(theta, settings, lane):  # type: ignore[no-untyped-def]
    """theta <- start + (theta - start) min(1, radius/||theta - start||)."""
    square = 0.0
    for j in range(D):
        distance = theta[j * LANES + lane] - settings[2]
        square += distance * distance
    # Infinite, not undefined, at the start itself.
    shrink = min(1.0, settings[3] / np.sqrt(square))
    for j in range(D):
        theta[j * LANES + lane] = settings[2] + shrink * (theta[j * LANES + lane] - settings[2])


def recursion(users, noises, problem, mechanism, settings, record):  # type: ignore[no-untyped-def]
    """LDP-SGD of LANES replicates (see one_pass), the variates of CHUNK steps drawn together.

    What the mechanism counts, at the end of its parameters, goes to extras.
    """
    times, marks, centre = record.times, record.marks, record.centre
    total, sums, tile = record.total, record.sums, record.tile
    data = np.empty(DATA_PLANES * PLANE)
    noise = np.empty(NOISE_PLANES * PLANE)
    eta = np.empty(CHUNK)
    theta = register_array(STATE)
    g = register_array(STATE)
    anchors = register_array(ANCHORS)
    theta[:] = settings[2]
    kept = 0
    i = 0
    t = 0
    while t < times.shape[0]:
        draw_data(*users, data)
        draw_noise(*noises, noise)
        step_sizes(i + 1, settings[0], settings[1], eta)
        prepare_chunk(anchors, theta, problem, mechanism)
        for k in range(CHUNK):
            i += 1
            eta_i = eta[k]
            step = float(i)
            prepare_step(g, theta, noise, k, anchors, problem, mechanism)
            for lane in range(LANES):
                at = k * LANES + lane
                gradient(g, theta, data, at, lane, problem)  # g(X_i, theta_{i-1})
                randomise(g, noise, at, lane, mechanism)  # A(g(X_i, theta_{i-1}))
                keep_step(tile, centre, theta, g, kept, lane)
                for j in range(D):
                    # theta_i = theta_{i-1} - eta_i A(g(X_i, theta_{i-1}))
                    theta[j * LANES + lane] -= eta_i * g[j * LANES + lane]
                if PROJECTED:
                    project(theta, settings, lane)
                add_iterate(total, centre, sums, theta, step, lane)
            ends = i == times[t] and marks[t] >= 0
            kept = end_step(sums, tile, kept, ends)
            if i == times[t]:
                keep_path(record, theta, t)
                for s in range(EXTRAS):
                    record.extras[t, s] = mechanism[MECHANISM_SIZE - EXTRAS + s]
                t += 1
                if t == times.shape[0]:
                    break
            kept = restart(sums, i, kept)
