"""Randomised response on a gradient that is a bit (Warner 1965; Dette and Graw, Section 2).

The bit b is reported with probability p = e^eps/(1 + e^eps), and 1 - b with probability 1 - p. Then
(report - (1 - p))/(2p - 1) is unbiased for b. Its variance given b is
p(1 - p)/(2p - 1)^2 = e^eps/(e^eps - 1)^2. The paper's formula for it, S_LDP, lacks the square. Table 1
of the paper agrees with the square.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from mpmath import mp, mpf
from pydantic import Field

from ldpflow.components.mechanisms.mechanism import EPSILON, Mechanism, PrivacyStatement
from ldpflow.components.problems.laws import Variate
from ldpflow.components.problems.problem import Matrix, Problem
from ldpflow.numerics import constants
from ldpflow.settings import Parameters

# sup |F'''| of laws for which a kernel replaces the distribution function F by a Taylor polynomial.
THIRD_DERIVATIVES = {"normal": 0.39894228040143276, "logistic": 0.125}


class RandomizedResponse(Mechanism):
    """Randomised response, eps-LDP, for scalar gradients with two values.

    Parameters
    ----------
    epsilon : float in [1e-6, 30]
        Budget of one record. Above 30 less than one in 10^13 reports would be false.
    sampling : str
        What is simulated. ``data``: the user's record, then the report. ``private_bit``: the report alone,
        which is 1 with probability (1 - p) + (2p - 1) P(b = 1 | theta). Paths have the same law and are
        faster, but two mechanisms do not meet the same users. ``private_bit_32``: as ``private_bit``, but
        from 32 random bits, and from further bits if the 32 do not decide the report. This is the fastest.
    """

    cites: ClassVar = ("warner1965",)
    kind: Literal["randomized_response"] = "randomized_response"
    epsilon: Annotated[float, Field(ge=1e-6, le=30), EPSILON] = 1.0
    sampling: Literal["data", "private_bit", "private_bit_32"] = "data"

    def unsuitable(self, problem: Problem) -> str | None:
        if problem.gradient_values() is None:
            return "randomised response needs a scalar gradient that takes two values"
        if self.replaces_data() and problem.bit_law() is None:
            return f"sampling = {self.sampling!r} needs a law whose distribution function is implemented"
        return None

    def replaces_data(self) -> bool:
        return self.sampling != "data"

    def reads_bit(self) -> bool:
        return True

    def variates(self, problem: Problem) -> tuple[Variate, ...]:
        return (Variate("uniform_32" if self.sampling == "private_bit_32" else "uniform"),)

    def kernel_parameters(self, problem: Problem) -> Parameters:
        low, high = bit_values(problem)
        with constants.workdps(40):
            p = 1 / (1 + mp.exp(-mpf(self.epsilon)))
            spread = mpf(high) - mpf(low)
            # low + spread (report - (1 - p))/(2p - 1) for report = 1 and 0.
            one = low + spread * p / (2 * p - 1)
            zero = low - spread * (1 - p) / (2 * p - 1)
            return {"keep": float(p), "one": float(one), "zero": float(zero)}

    def noise_covariance(self, problem: Problem) -> Matrix:
        return response_covariance(problem, self.epsilon)

    def privacy(self) -> PrivacyStatement:
        return PrivacyStatement("eps-LDP", epsilon=self.epsilon)


def response_covariance(problem: Problem, epsilon: float, answers: int = 1) -> Matrix:
    """Variance of the mean of a = ``answers`` debiased bits: (high - low)^2 e^(eps/a)/(e^(eps/a) - 1)^2/a."""
    low, high = bit_values(problem)
    with constants.workdps(40):
        e = mp.exp(mpf(epsilon) / answers)
        return [[float((mpf(high) - mpf(low)) ** 2 * e / (e - 1) ** 2 / answers)]]


def bit_values(problem: Problem) -> tuple[float, float]:
    values = problem.gradient_values()
    assert values is not None  # unsuitable refuses other problems
    return values


def randomise(g, noise, at, lane, mechanism, counts):  # type: ignore[no-untyped-def]
    """Replace g by A(g) = low + (high - low)(report - (1 - p))/(2p - 1), report = b if U < p else 1 - b.

    b = 1{g > 0}, and U is uniform. ``keep`` is p. ``one`` and ``zero`` are A(g) for report = 1 and 0.
    """
    report = (g[lane] > 0.0) == (noise[at] < mechanism.keep)
    g[lane] = mechanism.one if report else mechanism.zero


def randomise_probability(g, noise, at, lane, mechanism, counts):  # type: ignore[no-untyped-def]
    """Replace P(b = 1 | theta) in g by A(g). The report is 1 if U < (1 - p) + (2p - 1) P(b = 1 | theta)."""
    p = mechanism.keep
    report = noise[at] < (1.0 - p) + (2.0 * p - 1.0) * g[lane]
    g[lane] = mechanism.one if report else mechanism.zero
