"""Efficiency bound of any eps-LDP protocol for a quantile, also with liars and drop-out.

S(tau, eps) = tau (1 - tau) + e^eps/(e^eps - 1)^2 is the variance of one debiased randomised bit, and
S/f^2 the least asymptotic variance of a regular estimator of the tau-quantile when every user's value
enters under pure eps-LDP, interactively or not; f is the density at the quantile. The proof is in
docs/which_protocol.md: every eps-LDP report about a bit is a garbling of randomised response, so a
transcript carries at most the information of n randomised bits 1{X <= theta*}.
"""

from __future__ import annotations

from mpmath import mp, mpf

from ldpflow.components.protocols.protocol import budget
from ldpflow.numerics import constants


def bit_variance(probability: float, epsilon: float, answers: int = 1) -> float:
    """Variance per user of a debiased randomised bit that is 1 with this probability.

    F (1 - F) + v(eps/a)/(4 a) for a answers that share the budget evenly: S(F, eps) for one answer, and about
    a times S for a of them.
    """
    return probability * (1.0 - probability) + 0.25 * budget(epsilon, answers).noise / answers


def level_with_dropout(tau: float, answer_below: float, answer_above: float) -> float:
    """Population level of the quantile that is estimated if drop-out depends on the value.

    A user answers with probability r_1 (``answer_below``) when the value is at most the tau-quantile
    and r_0 (``answer_above``) when it is larger. The responders' tau-quantile has the population level
    tau - tau (1 - tau) (1 - r_0/r_1) if r_0 < r_1 and tau + tau (1 - tau) (1 - r_1/r_0) otherwise.
    More users do not reduce the difference.
    """
    if answer_above < answer_below:
        return tau - tau * (1.0 - tau) * (1.0 - answer_above / answer_below)
    return tau + tau * (1.0 - tau) * (1.0 - answer_below / answer_above)


def level_with_liars(
    tau: float, epsilon: float, liars: float, push: str, place: int = 1, quantiles: int = 1
) -> float:
    """F at the root that is found when a share of the users always sends the first or the last report.

    With Q quantiles (``cells``) a user reports the number of a cell, and the moment of quantile q is
    (C - q/(e^eps + Q)) (e^eps + Q)/(e^eps - 1), C = 1 if the reported cell lies below it. A liar's C is 1
    or 0.
    With Q = 1 it is the debiased bit of randomised response. ``liars``: share of those who answer, who send 1
    to push ``down`` every quantile and 0 to push it ``up``. ``place`` is q and ``quantiles`` Q.
    """
    with constants.workdps(constants.DIGITS):
        level, share, odds = mpf(tau), mpf(liars), mp.exp(mpf(epsilon))
        moment = ((odds + quantiles if push == "down" else 0) - place) / (odds - 1)
        return float(level - share / (1 - share) * (moment - level))
