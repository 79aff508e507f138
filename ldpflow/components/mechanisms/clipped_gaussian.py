"""Clipping and Gaussian noise: A(g) = clip(g) + (2 zeta/mu) N(0, I), mu-GDP for every gradient.

    clip(g) = g min(1, zeta/||g||),   clip(0) = 0, and 0 if g is not finite

The noise multiplier of Varshney, Thakurta and Jain (2022), Lemma A.1, is alpha = 1/mu. Replacing the record
moves clip(g) by at most 2 zeta, and the standard deviation is 2 zeta alpha. A(g) is biased for clipped
gradients. Simulated noise is seeded and in floating point. It protects no data.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from ldpflow.components.mechanisms.gaussian import Budget
from ldpflow.components.mechanisms.mechanism import CLIPPED, Mechanism, PrivacyStatement
from ldpflow.components.problems.laws import Variate
from ldpflow.components.problems.problem import Matrix, Problem, isotropic
from ldpflow.numerics.streams import LANES, STRIDE
from ldpflow.settings import Parameters


class ClippedGaussian(Mechanism):
    """Gradient clipping, and Gaussian noise calibrated to its bound.

    Parameters
    ----------
    clip : float > 0
        Threshold zeta of clipping, in the unit of the gradient.
    mu : float in [1e-3, 1e6]
        Budget of each user. The noise multiplier is 1/mu.
    """

    measures: ClassVar = (CLIPPED,)

    cites: ClassVar = ("varshney2022", "dong2022")
    kind: Literal["clipped_gaussian"] = "clipped_gaussian"
    clip: Annotated[float, Field(ge=1e-9, le=1e9)] = 1.0
    mu: Budget = 1.0

    def variates(self, problem: Problem) -> tuple[Variate, ...]:
        return (Variate("normal"),) * problem.dimension

    def kernel_parameters(self, problem: Problem) -> Parameters:
        return {"clip": self.clip, "deviation": 2.0 * self.clip / self.mu}

    def noise_covariance(self, problem: Problem) -> Matrix:
        return isotropic(problem.dimension, (2.0 * self.clip / self.mu) ** 2)

    def privacy(self) -> PrivacyStatement:
        return PrivacyStatement("mu-GDP (local)", "record (replacement)", mu=self.mu)


def randomise(kernel, g, noise, at, lane, mechanism, counts):  # type: ignore[no-untyped-def]
    """Replace g by A(g), and count clipped gradients in counts[lane]."""
    square = 0.0
    for j in range(kernel.D):
        square += g[j * LANES + lane] * g[j * LANES + lane]
    factor = min(1.0, mechanism.clip / np.sqrt(square))  # at g = 0 the ratio is infinite
    factor = factor if square < np.inf else 0.0
    counts[lane] += 1.0 if factor < 1.0 else 0.0
    for j in range(kernel.D):
        v = g[j * LANES + lane]
        v = factor * v if factor > 0.0 else 0.0
        g[j * LANES + lane] = v + mechanism.deviation * noise[j * STRIDE + at]
