"""Efficiency bound of eps-LDP protocols for a quantile, and the effect of liars and drop-out.

S(tau, eps) = tau (1 - tau) + e^eps/(e^eps - 1)^2 is the variance of one debiased randomised bit. Let f be the
density at the quantile. S/f^2 is the least asymptotic variance of a regular estimator of the tau-quantile if
the value of every user enters under pure eps-LDP, with interaction or without. Proof
(docs/which_protocol.md): every eps-LDP report about a bit is a garbling of randomised response, so a
transcript of n users has at most the information of n randomised bits 1{X <= theta*}.
"""

from __future__ import annotations

from mpmath import mp, mpf

from ldpflow.components.protocols.protocol import budget
from ldpflow.numerics import constants


def bit_variance(probability: float, epsilon: float, answers: int = 1) -> float:
    """Variance per user of a debiased randomised bit that is 1 with probability F = ``probability``.

    For a = ``answers`` that share the budget evenly it is F (1 - F) + v(eps/a)/(4 a), with v(eps) =
    4 e^eps/(e^eps - 1)^2. For one answer it is S(F, eps).
    """
    return probability * (1.0 - probability) + 0.25 * budget(epsilon, answers).noise / answers


def level_with_dropout(tau: float, answer_below: float, answer_above: float) -> float:
    """Level, in the population, of the tau-quantile of those users who answer.

    A user answers with probability r_1 (``answer_below``) if the value is at most the tau-quantile of the
    population, and with probability r_0 (``answer_above``) if it is larger. The level is
    tau - tau (1 - tau) (1 - r_0/r_1) if r_0 < r_1, and tau + tau (1 - tau) (1 - r_1/r_0) otherwise.
    """
    if answer_above < answer_below:
        return tau - tau * (1.0 - tau) * (1.0 - answer_above / answer_below)
    return tau + tau * (1.0 - tau) * (1.0 - answer_below / answer_above)


def level_with_liars(
    tau: float, epsilon: float, liars: float, push: str, place: int = 1, quantiles: int = 1
) -> float:
    """Distribution function at the estimate of quantile q = ``place`` of Q = ``quantiles`` if users lie.

    With the mechanism ``cells`` a user reports the number of a cell. Let C be 1 if this cell lies below
    quantile q, and 0 otherwise. The moment of quantile q is (C - q/(e^eps + Q)) (e^eps + Q)/(e^eps - 1). With
    Q = 1 it is the debiased bit of randomised response. The share ``liars`` of those who answer sends a
    report with C = 1 to push all quantiles ``down``, or with C = 0 to push them ``up``.
    """
    with constants.workdps(constants.DIGITS):
        level, share, odds = mpf(tau), mpf(liars), mp.exp(mpf(epsilon))
        moment = ((odds + quantiles if push == "down" else 0) - place) / (odds - 1)
        return float(level - share / (1 - share) * (moment - level))
