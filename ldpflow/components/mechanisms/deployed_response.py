"""Randomised response with liars, drop-out and several answers of a user.

The kernel draws reports from their law, without users' values. Let F be the distribution function of the
value and tau the level of the quantile. A user answers with probability r_1 if the value is at most the
quantile, and r_0 otherwise. The distribution function among the responders is

    F_R = (r_1 min(F, tau) + r_0 max(F - tau, 0))/(r_1 tau + r_0 (1 - tau)).

A share lambda of the responders sends a fixed bit. An honest user gives ``a`` answers with the budget eps/a
each, and their mean is debiased. At least j of the a reports are 1 with probability

    (1 - lambda) (F_R P(Bin(a, p) >= j) + (1 - F_R) P(Bin(a, 1 - p) >= j)) + lambda 1{they send 1}.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

from mpmath import mp, mpf
from pydantic import Field

from ldpflow.components.mechanisms.mechanism import PrivacyStatement
from ldpflow.components.mechanisms.randomized_response import (
    RandomizedResponse,
    bit_values,
    response_covariance,
)
from ldpflow.components.problems.problem import Matrix, Problem
from ldpflow.numerics import constants
from ldpflow.settings import Parameters, Setting

Share = Annotated[float, Field(gt=0, le=1), Setting("share")]


class DeployedResponse(RandomizedResponse):
    """Randomised response with liars, drop-out that depends on the value, and several answers of a user.

    n counts users who answer. The oracle's variance assumes that there are no liars and no drop-out.

    Parameters
    ----------
    epsilon : float
        Budget of all answers of a user together.
    sampling : str
        ``private_bit``: the report is drawn from its law given theta.
    liars : float in [0, 1)
        Share of the responders who send a fixed bit.
    liars_push : str
        ``down``: liars send 1, and the estimated quantile becomes smaller. ``up``: liars send 0.
    answer_below : float in (0, 1]
        Probability that a user answers whose value is at most the quantile.
    answer_above : float in (0, 1]
        Probability that a user answers whose value is above the quantile. If the two probabilities differ,
        the estimate is for the quantile of the responders.
    answers : int in [1, 64]
        Number a of independent answers of a user to one question, each with epsilon/a. One answer is the
        best.
    """

    kind: Literal["deployed_response"] = "deployed_response"  # type: ignore[assignment]
    sampling: Literal["private_bit"] = "private_bit"  # type: ignore[assignment]
    liars: Annotated[float, Field(ge=0, lt=1), Setting("share")] = 0.0
    liars_push: Literal["down", "up"] = "down"
    answer_below: Share = 1.0
    answer_above: Share = 1.0
    answers: Annotated[int, Field(ge=1, le=64)] = 1

    def unsuitable(self, problem: Problem) -> str | None:
        levels = problem.levels()
        if levels is None or len(levels) != 1:
            return "it needs a problem that estimates one quantile of one value"
        return super().unsuitable(problem)

    def kernel_parameters(self, problem: Problem) -> Parameters:
        (tau,) = problem.levels() or (0.5,)
        low, high = bit_values(problem)
        a = self.answers
        answering = self.answer_below * tau + self.answer_above * (1.0 - tau)
        with constants.workdps(constants.DIGITS):
            p = 1 / (1 + mp.exp(-mpf(self.epsilon) / a))
            true, false = tails(a, p), tails(a, 1 - p)
            honest = 1 - mpf(self.liars)
            lie = mpf(self.liars) if self.liars_push == "down" else mpf(0)
            spread = mpf(high) - mpf(low)
            return {
                "answers": float(a),
                "tau": tau,
                "below": self.answer_below / answering,
                "above": self.answer_above / answering,
                # P(at least j reports of 1) = base_j + slope_j F_R, j = 1..a.
                "base": tuple(float(honest * f + lie) for f in false),
                "slope": tuple(float(honest * (t - f)) for t, f in zip(true, false, strict=True)),
                # A(g) for 0..a reports of 1.
                "values": tuple(
                    float(low + spread * (mpf(j) / a - (1 - p)) / (2 * p - 1)) for j in range(a + 1)
                ),
            }

    def noise_covariance(self, problem: Problem) -> Matrix:
        return response_covariance(problem, self.epsilon, self.answers)

    def privacy(self) -> PrivacyStatement:
        rates = (self.answer_below, self.answer_above)
        return PrivacyStatement("eps-LDP", epsilon=self.epsilon, reports=self.answers, answer_rates=rates)


def tails(count: int, p: mpf) -> list[mpf]:
    masses = [math.comb(count, j) * p**j * (1 - p) ** (count - j) for j in range(count + 1)]
    return [mp.fsum(masses[j:]) for j in range(1, count + 1)]


def randomise_probability(g, noise, at, lane, mechanism, counts):  # type: ignore[no-untyped-def]
    """Replace F(theta) in g by A(g). Let U be uniform: at least j reports are 1 if U < P(at least j)."""
    below = min(g[lane], mechanism.tau)
    above = max(g[lane] - mechanism.tau, 0.0)
    share = mechanism.below * below + mechanism.above * above
    ones = 0
    for j in range(int(mechanism.answers)):
        if noise[at] < mechanism.base[j] + mechanism.slope[j] * share:
            ones += 1
    g[lane] = mechanism.values[ones]
