"""Randomised response on a gradient that is a bit (Warner 1965; Dette and Graw, Section 2).

With p = e^eps/(1 + e^eps) the bit b is reported with probability p, its complement with 1 - p;
(report - (1 - p))/(2p - 1) is unbiased for b. Its variance given b is
p(1 - p)/(2p - 1)^2 = e^eps/(e^eps - 1)^2 (the paper's S_LDP lacks the square; its own Table 1 agrees
with the square).
"""

from __future__ import annotations

from typing import Annotated, Literal

from mpmath import mp, mpf
from pydantic import Field

from ldpflow import constants
from ldpflow.mechanisms.mechanism import EPSILON, Mechanism, PrivacyStatement
from ldpflow.problems import Problem
from ldpflow.problems.laws import Variate
from ldpflow.problems.problem import Matrix
from ldpflow.random import register_array
from ldpflow.random.lockstep import CHUNK, LANES, PLANE
from ldpflow.settings import Parameters

__all__ = [
    "THIRD_DERIVATIVES",
    "RandomizedResponse",
    "anchor_private_bit",
    "draw_private_bit",
    "draw_private_bits",
    "randomise",
    "randomise_probability",
]

# sup of the third derivative's size, for the laws smooth enough to expand around an anchor.
THIRD_DERIVATIVES = {"normal": 0.39894228040143276, "logistic": 0.125}


class RandomizedResponse(Mechanism):
    """Randomised response, eps-LDP, for scalar gradients with two values.

    Parameters
    ----------
    epsilon : float in [1e-6, 30]
        Budget of one record. Above 30 a complement is reported less than once in 10^13 records.
    sampling : str
        What is simulated. ``data``: the user's record, then the response. ``private_bit``: what the
        algorithm sees, a Bernoulli report of probability (1 - p) + (2p - 1) P(b = 1 | theta), drawn
        with one uniform; the same law of the whole path, faster, but the users cannot be compared
        across mechanisms.
    """

    kind: Literal["randomized_response"] = "randomized_response"
    epsilon: Annotated[float, Field(ge=1e-6, le=30), EPSILON] = 1.0
    sampling: Literal["data", "private_bit"] = "data"

    def unsuitable(self, problem: Problem) -> str | None:
        if problem.gradient_values() is None:
            return "randomised response needs a scalar gradient that takes two values"
        if self.sampling == "private_bit" and problem.bit_law() is None:
            return "sampling = 'private_bit' needs a law whose distribution function is implemented"
        return None

    def replaces_data(self) -> bool:
        return self.sampling == "private_bit"

    def reads_bit(self) -> bool:
        return True

    def keep_probability(self) -> float:
        """p = e^eps/(1 + e^eps)."""
        with constants.workdps(40):
            return float(1 / (1 + mp.exp(-mpf(self.epsilon))))

    def variates(self, problem: Problem) -> tuple[Variate, ...]:
        return (Variate("uniform"),)

    def kernel_parameters(self, problem: Problem) -> Parameters:
        values = problem.gradient_values()
        assert values is not None
        low, high = values
        with constants.workdps(40):
            p = 1 / (1 + mp.exp(-mpf(self.epsilon)))
            spread = mpf(high) - mpf(low)
            # low + spread (report - (1 - p))/(2p - 1) for report = 1 and 0.
            one = low + spread * p / (2 * p - 1)
            zero = low - spread * (1 - p) / (2 * p - 1)
            return {"keep": float(p), "one": float(one), "zero": float(zero)}

    def noise_covariance(self, problem: Problem) -> Matrix:
        values = problem.gradient_values()
        assert values is not None
        with constants.workdps(40):
            e = mp.exp(mpf(self.epsilon))
            return [[float((mpf(values[1]) - mpf(values[0])) ** 2 * e / (e - 1) ** 2)]]

    def privacy(self) -> PrivacyStatement:
        return PrivacyStatement("eps-LDP", epsilon=self.epsilon)


def randomise(g, noise, at, lane, mechanism, counts):  # type: ignore[no-untyped-def]
    """A(g) = low + (high - low)(report - (1 - p))/(2p - 1), report = b where U < p else 1 - b.

    b = 1{g > 0}; ``keep`` is p, ``one`` and ``zero`` are the values of A(g) for report = 1 and 0.
    """
    report = (g[lane] > 0.0) == (noise[at] < mechanism.keep)
    g[lane] = mechanism.one if report else mechanism.zero


def randomise_probability(g, noise, at, lane, mechanism, counts):  # type: ignore[no-untyped-def]
    """A(g) where g holds P(b = 1 | theta): a report of 1 where U < (1 - p) + (2p - 1) P(b = 1)."""
    p = mechanism.keep
    report = noise[at] < (1.0 - p) + (2.0 * p - 1.0) * g[lane]
    g[lane] = mechanism.one if report else mechanism.zero


def anchor_private_bit(kernel, anchors, theta, problem, mechanism):  # type: ignore[no-untyped-def]
    """At the start of a chunk: the report's probability around theta, to second order.

    q(theta) = (1 - p) + (2p - 1) F((theta - location)/scale); anchors hold theta, q, q' and q"/2.
    """
    unit = problem.inverse_scale
    spread = 2.0 * mechanism.keep - 1.0
    for lane in range(LANES):
        x = (theta[lane] - problem.location) * unit
        anchors[lane] = theta[lane]
        anchors[LANES + lane] = (1.0 - mechanism.keep) + spread * kernel.cdf(x)
        anchors[2 * LANES + lane] = spread * kernel.density(x) * unit
        anchors[3 * LANES + lane] = 0.5 * spread * kernel.slope(x) * unit * unit


def draw_private_bit(kernel, answers, at, theta, noise, k, anchors, problem, mechanism):  # type: ignore[no-untyped-def]
    """A(g) of step k in every lane, from answers[at] on: a report of 1 where U < q(theta_{i-1}).

    U is compared with q's expansion around the anchor, whose error is at most |h|^3/6 times the
    largest third derivative. Where U lies within that error of it (or theta is not finite) the
    lanes are compared with q itself: the reports are those of the exact probability, always.
    """
    p = mechanism.keep
    unit = problem.inverse_scale
    spread = 2.0 * p - 1.0
    rest = spread * kernel.THIRD_DERIVATIVE * unit * unit * unit / 6.0
    doubtful = 0
    for lane in range(LANES):
        h = theta[lane] - anchors[lane]
        q = anchors[LANES + lane] + h * (anchors[2 * LANES + lane] + h * anchors[3 * LANES + lane])
        gap = noise[k * LANES + lane] - q
        answers[at + lane] = mechanism.one if gap < 0.0 else mechanism.zero
        clear = abs(gap) > 1e-12 + rest * abs(h * h * h)
        doubtful += 0 if clear else 1
    if doubtful > 0:
        for lane in range(LANES):
            q = (1.0 - p) + spread * kernel.cdf((theta[lane] - problem.location) * unit)
            answers[at + lane] = mechanism.one if noise[k * LANES + lane] < q else mechanism.zero


def draw_private_bits(kernel, answers, start, theta, noise, eta, anchors, problem, mechanism):  # type: ignore[no-untyped-def]
    """A(g) of all lanes in the CHUNK steps from ``start`` on; ``theta`` is left where they lead.

    The steps are made twice: here for the answers alone, then by the recursion with its sums. That the
    expansion decides every answer is judged at the end of a chunk; where it does not decide all of
    them, the chunk is drawn again with a judgement at every step. The answers are the same.
    """
    unit = problem.inverse_scale
    rest = (2.0 * mechanism.keep - 1.0) * kernel.THIRD_DERIVATIVE * unit * unit * unit / 6.0
    far = 10.0 * eta[0] * max(abs(mechanism.one), abs(mechanism.zero))
    for at in range(LANES):
        theta[at] = start[at]
    kernel.anchor_private_bit(anchors, theta, problem, mechanism)
    doubtful = 0
    if rest * far * far * far * 2.0 * PLANE < 0.5:  # else some answer will be in doubt
        doubts = register_array(LANES)
        doubts[:] = 0.0
        for k in range(CHUNK):
            for lane in range(LANES):
                h = theta[lane] - anchors[lane]
                q = anchors[LANES + lane] + h * (anchors[2 * LANES + lane] + h * anchors[3 * LANES + lane])
                gap = noise[k * LANES + lane] - q
                answer = mechanism.one if gap < 0.0 else mechanism.zero
                clear = abs(gap) > 1e-12 + rest * abs(h * h * h)
                doubts[lane] = doubts[lane] if clear else 1.0
                answers[k * LANES + lane] = answer
                theta[lane] -= eta[k] * answer
        for lane in range(LANES):
            doubtful += 1 if doubts[lane] > 0.0 else 0
        if doubtful == 0:
            return
    for at in range(LANES):
        theta[at] = start[at]
    for k in range(CHUNK):
        kernel.draw_private_bit(answers, k * LANES, theta, noise, k, anchors, problem, mechanism)
        for lane in range(LANES):
            theta[lane] -= eta[k] * answers[k * LANES + lane]
