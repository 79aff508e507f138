"""LDP-SGD (Dette and Graw, Algorithm 1): one user, one private gradient, one step.

    theta_i = theta_{i-1} - eta_i A(g(X_i, theta_{i-1})),   eta_i = c i^(-gamma)

The paper's Algorithm 1 prints a plus sign; its equation 6 has the minus that descends. Each record is
used once, so the transcript has the mechanism's own guarantee per record.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field

from ldpflow.algorithms.algorithm import CoordinateSteps, combined
from ldpflow.mechanisms import Mechanism, PrivacyStatement
from ldpflow.problems import Problem
from ldpflow.problems.problem import Matrix
from ldpflow.problems.units import Units
from ldpflow.random import register_array, step_sizes
from ldpflow.random.lockstep import CHUNK, LANES, STRIDE
from ldpflow.settings import Parameters


class LdpSgd(CoordinateSteps):
    """One-pass stochastic gradient descent on privatised gradients.

    Parameters
    ----------
    radius : float > 0, optional
        Every iterate is projected onto the ball of this radius around the start; not unless given.
    """

    counts_in_mechanism: ClassVar[bool] = True
    cites: ClassVar = ("dette2024",)
    kind: Literal["ldp_sgd"] = "ldp_sgd"
    radius: Annotated[float, Field(gt=0)] | None = None

    def in_units(self, units: Units) -> Self:
        found = super().in_units(units)
        return found if self.radius is None else found.model_copy(update={"radius": units.size(self.radius)})

    def projects(self) -> bool:
        return self.radius is not None

    def kernel_parameters(self, horizon: int | None) -> Parameters:
        own = {"c": self.c, "gamma": self.gamma, "theta0": self.theta0, "radius": self.radius or 0.0}
        return {**own, **self.coordinate_parameters()}

    def step_covariance(self, problem: Problem, mechanism: Mechanism) -> Matrix:
        return combined(problem.gradient_covariance(), mechanism.noise_covariance(problem), 1.0, 1.0)

    def privacy(self, mechanism: Mechanism) -> PrivacyStatement:
        return mechanism.privacy()


def project(kernel, theta, start, radius, lane):  # type: ignore[no-untyped-def]
    """theta <- start + (theta - start) min(1, radius/||theta - start||)."""
    square = 0.0
    for j in range(kernel.D):
        distance = theta[j * LANES + lane] - start
        square += distance * distance
    # Infinite, not undefined, at the start itself.
    shrink = min(1.0, radius / np.sqrt(square))
    for j in range(kernel.D):
        theta[j * LANES + lane] = start + shrink * (theta[j * LANES + lane] - start)


def put_in_order(kernel, theta, lane):  # type: ignore[no-untyped-def]
    """theta_1 <= .. <= theta_Q: the iterates of several quantiles, sorted by exchanges of neighbours."""
    for k in range(kernel.D):
        for j in range(kernel.D):
            if k > 0 and j > 0:
                low = theta[(j - 1) * LANES + lane]
                high = theta[j * LANES + lane]
                theta[(j - 1) * LANES + lane] = min(low, high)
                theta[j * LANES + lane] = max(low, high)


def recursion(kernel, users, noises, problem, mechanism, settings, record):  # type: ignore[no-untyped-def]
    """LDP-SGD of LANES replicates (see one_pass), the variates of CHUNK steps drawn together.

    What the mechanism counts goes to extras.
    """
    c, gamma, start, radius = settings.c, settings.gamma, settings.theta0, settings.radius
    times, marks, centre = record.times, record.marks, record.centre
    total, sums, tile, counts = record.total, record.sums, record.tile, record.counts
    data = np.empty(kernel.DATA_PLANES * STRIDE)
    noise = np.empty(kernel.NOISE_PLANES * STRIDE)
    eta = np.empty(CHUNK)
    theta = register_array(kernel.STATE)
    g = register_array(kernel.STATE)
    theta[:] = start
    if kernel.BY_COORDINATE:
        for j in range(kernel.D):
            theta[j * LANES : (j + 1) * LANES] = start + settings.offsets[j]
    kept = 0
    i = 0
    t = 0
    while t < times.shape[0]:
        kernel.draw_data(*users, data)
        kernel.draw_noise(*noises, noise)
        step_sizes(i + 1, c, gamma, eta)
        for k in range(CHUNK):
            i += 1
            eta_i = eta[k]
            step = float(i)
            for lane in range(LANES):
                at = k * LANES + lane
                kernel.gradient(g, theta, data, at, lane, problem)  # g(X_i, theta_{i-1})
                kernel.randomise(g, noise, at, lane, mechanism, counts)  # A(g(X_i, theta_{i-1}))
                kernel.keep_step(tile, centre, theta, g, kept, lane)
                for j in range(kernel.D):
                    # theta_i = theta_{i-1} - eta_i A(g(X_i, theta_{i-1}))
                    if kernel.BY_COORDINATE:
                        theta[j * LANES + lane] -= eta_i * settings.factors[j] * g[j * LANES + lane]
                    else:
                        theta[j * LANES + lane] -= eta_i * g[j * LANES + lane]
                if kernel.PROJECTED:
                    project(kernel, theta, start, radius, lane)
                if kernel.ORDERED:
                    put_in_order(kernel, theta, lane)
                kernel.add_iterate(total, centre, sums, theta, step, lane)
            ends = i == times[t] and marks[t] >= 0
            kept = kernel.end_step(sums, tile, kept, ends)
            if i == times[t]:
                kernel.keep_path(record, theta, t)
                for s in range(kernel.EXTRAS):
                    record.extras[t, s] = counts[s]
                t += 1
                if t == times.shape[0]:
                    break
            kept = kernel.restart(sums, i, kept)
