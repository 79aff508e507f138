"""Mechanism averaged_laplace: a user answers several times, with a part of the budget for each answer."""

import math
from typing import Annotated, Literal

from pydantic import Field

import ldpflow as lf
from ldpflow.components.mechanisms import PrivacyStatement
from ldpflow.components.problems.laws import Variate
from ldpflow.numerics.streams import LANES, STRIDE
from ldpflow.settings import Setting


@lf.register
class AveragedLaplace(lf.Mechanism):
    """Mean of ``answers`` Laplace answers, each with the budget epsilon / answers; together they are eps-LDP.

    Parameters
    ----------
    epsilon : float > 0
        Budget of one record, for all its answers together.
    answers : int >= 1
        Number of answers.
    """

    kind: Literal["averaged_laplace"] = "averaged_laplace"
    epsilon: Annotated[float, Field(ge=1e-6, le=1e6), Setting("1", "privacy budget of one record")] = 1.0
    answers: Annotated[int, Field(ge=1, le=20), Setting("1", "answers that are averaged")] = 2

    def unsuitable(self, problem):
        """Why the mechanism cannot be applied to the problem, or None."""
        return "its gradient is unbounded" if math.isinf(problem.l1_sensitivity()) else None

    def scale(self, problem):
        """Scale of the noise of one answer."""
        return problem.l1_sensitivity() * self.answers / self.epsilon

    def variates(self, problem):
        """One Laplace variate for each answer and coordinate."""
        return (Variate("laplace"),) * (problem.dimension * self.answers)

    def kernel_parameters(self, problem):
        """Values that ``randomise`` reads by name from its argument ``mechanism``."""
        return {"scale": self.scale(problem), "answers": float(self.answers)}

    def noise_covariance(self, problem):
        """Covariance of A(g) given g. Coordinates are independent, with the variance of a mean."""
        d, variance = problem.dimension, 2.0 * self.scale(problem) ** 2 / self.answers
        return [[variance if i == j else 0.0 for j in range(d)] for i in range(d)]

    def privacy(self):
        return PrivacyStatement("eps-LDP", epsilon=self.epsilon)


def mean_noise(noise, at, coordinate, count):
    """Mean of the Laplace draws of one coordinate."""
    total = 0.0
    for k in range(count):
        total += noise[(coordinate * count + k) * STRIDE + at]
    return total / count


def randomise(kernel, g, noise, at, lane, mechanism, counts):
    """A(g) = g + scale * (mean of Laplace draws), for one lane (one replicate)."""
    for j in range(kernel.D):
        g[j * LANES + lane] += mechanism.scale * mean_noise(noise, at, j, int(mechanism.answers))
