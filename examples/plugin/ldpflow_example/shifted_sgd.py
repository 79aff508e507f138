"""Algorithm shifted_sgd: SGD on private gradients with steps c (i + shift)^(-gamma)."""

import math
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

import ldpflow as lf
from ldpflow.components.algorithms.algorithm import DecayingSteps, add_matrices
from ldpflow.numerics import exp, log
from ldpflow.numerics.registers import register_array
from ldpflow.numerics.streams import CHUNK, LANES, STRIDE
from ldpflow.settings import Setting


@lf.register
class ShiftedSgd(DecayingSteps):
    """theta_i = theta_{i-1} - c (i + shift)^(-gamma) A(g(X_i, theta_{i-1})).

    Parameters
    ----------
    shift : float >= 0
        Number of steps by which the schedule starts later. It makes the first steps shorter.
    """

    kind: Literal["shifted_sgd"] = "shifted_sgd"
    shift: Annotated[float, Field(ge=0, le=1e6), Setting("steps", "shift of the schedule")] = 10.0

    def step_constant(self):
        """NaN: c is not declared, because these steps are not c i^(-gamma)."""
        return math.nan

    def kernel_parameters(self, horizon):
        """Values that ``recursion`` reads by name from its argument ``settings``."""
        return {"c": self.c, "gamma": self.gamma, "theta0": self.theta0, "shift": self.shift}

    def step_covariance(self, problem, mechanism):
        """Covariance of one step's private gradient at theta*."""
        return add_matrices(problem.gradient_covariance(), mechanism.noise_covariance(problem), 1.0, 1.0)

    def privacy(self, mechanism):
        """Guarantee of the mechanism, since every record is used once."""
        return mechanism.privacy()


def step_length(step, c, gamma, shift):
    """c (step + shift)^(-gamma). exp and log of ldpflow.numerics have equal bits on every machine."""
    return c * exp(-gamma * log(step + shift))


def recursion(kernel, users, noises, problem, mechanism, settings, record):
    """Run LANES replicates in lockstep. Coordinate j of a lane is ``theta[j * LANES + lane]``."""
    c, gamma, start, shift = settings.c, settings.gamma, settings.theta0, settings.shift
    times, marks, centre = record.times, record.marks, record.centre
    total, sums, tile, counts = record.total, record.sums, record.tile, record.counts
    data = np.empty(kernel.DATA_PLANES * STRIDE)
    noise = np.empty(kernel.NOISE_PLANES * STRIDE)
    theta = register_array(kernel.STATE)
    g = register_array(kernel.STATE)
    theta[:] = start
    kept = 0
    i = 0
    t = 0
    while t < times.shape[0]:
        kernel.draw_data(*users, data)
        kernel.draw_noise(*noises, noise)
        for k in range(CHUNK):
            i += 1
            step = float(i)
            eta = step_length(step, c, gamma, shift)
            for lane in range(LANES):
                at = k * LANES + lane
                kernel.gradient(g, theta, data, at, lane, problem)
                kernel.randomise(g, noise, at, lane, mechanism, counts)
                kernel.keep_step(tile, centre, theta, g, kept, lane)
                for j in range(kernel.D):
                    theta[j * LANES + lane] -= eta * g[j * LANES + lane]
                kernel.add_iterate(total, centre, sums, theta, step, lane)
            ends = i == times[t] and marks[t] >= 0
            kept = kernel.end_step(sums, tile, kept, ends)
            if i == times[t]:
                kernel.keep_path(record, theta, t)
                t += 1
                if t == times.shape[0]:
                    break
            kept = kernel.restart(sums, i, kept)
