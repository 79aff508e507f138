"""An algorithm that stays at one point and records every private gradient: for checks by simulation."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ldpflow.algorithms.algorithm import DecayingSteps, combined
from ldpflow.mechanisms import Mechanism, PrivacyStatement
from ldpflow.problems import Problem
from ldpflow.problems.problem import Matrix
from ldpflow.random.lockstep import CHUNK, LANES, STRIDE
from ldpflow.random.registers import register_array
from ldpflow.settings import Parameters


class Probe(DecayingSteps):
    """theta stays at ``point``; the recorded iterate at step i is A(g(X_i, point)).

    Parameters
    ----------
    point : tuple of float
        theta, length d.
    """

    kind: Literal["probe"] = "probe"
    point: tuple[float, ...] = (0.0,)

    def kernel_parameters(self, horizon: int | None) -> Parameters:
        return {"point": self.point}

    def step_covariance(self, problem: Problem, mechanism: Mechanism) -> Matrix:
        return combined(problem.gradient_covariance(), mechanism.noise_covariance(problem), 1.0, 1.0)

    def privacy(self, mechanism: Mechanism) -> PrivacyStatement:
        return mechanism.privacy()


def recursion(kernel, users, noises, problem, mechanism, settings, record):  # type: ignore[no-untyped-def]
    """The private gradients at one point, in LANES replicates."""
    times, centre, total, sums, counts = record.times, record.centre, record.total, record.sums, record.counts
    data = np.empty(kernel.DATA_PLANES * STRIDE)
    noise = np.empty(kernel.NOISE_PLANES * STRIDE)
    theta = register_array(kernel.STATE)
    g = register_array(kernel.STATE)
    for j in range(kernel.D):
        for lane in range(LANES):
            theta[j * LANES + lane] = settings.point[j]
    i = 0
    t = 0
    while t < times.shape[0]:
        kernel.draw_data(*users, data)
        kernel.draw_noise(*noises, noise)
        for k in range(CHUNK):
            i += 1
            step = float(i)
            for lane in range(LANES):
                at = k * LANES + lane
                kernel.gradient(g, theta, data, at, lane, problem)
                kernel.randomise(g, noise, at, lane, mechanism, counts)
                kernel.add_iterate(total, centre, sums, g, step, lane)
            if i == times[t]:
                kernel.keep_path(record, g, t)
                t += 1
                if t == times.shape[0]:
                    break
