"""Efficiency bound of any eps-LDP protocol for a quantile, also with liars and drop-out.

S(tau, eps) = tau (1 - tau) + e^eps/(e^eps - 1)^2 is the variance of one debiased randomised bit, and
S/f^2 the least asymptotic variance of a regular estimator of the tau-quantile when every user's value
enters under pure eps-LDP, interactively or not; f is the density at the quantile. The proof is in
docs/which_protocol.md: every eps-LDP report about a bit is a garbling of randomised response, so a
transcript carries at most the information of n randomised bits 1{X <= theta*}.
"""

from __future__ import annotations

from collections.abc import Sequence

from mpmath import mp, mpf

from ldpflow.numerics import constants


def bit_variance(probability: float, epsilon: float) -> float:
    """S(F, eps): variance of a debiased randomised bit that is 1 with this probability."""
    with constants.workdps(constants.DIGITS):
        chance = mpf(probability)
        return float(chance * (1 - chance) + 1 / (4 * mp.sinh(mpf(epsilon) / 2) ** 2))


def cells_covariance(taus: Sequence[float], epsilon: float) -> list[list[float]]:
    """Covariance of the steps of LDP-SGD for Q quantiles from one report over the cells between them.

    S_qr = A_q (1 - A_r) ((e^eps + Q)/(e^eps - 1))^2 for q <= r, A_q = (q + tau_q (e^eps - 1))/(e^eps + Q):
    generalised randomised response over Q + 1 cells at the quantiles themselves. For Q = 1 it is S.
    """
    count = len(taus)
    with constants.workdps(constants.DIGITS):
        excess = mp.expm1(mpf(epsilon))
        total = excess + 1 + count
        below = [(q + 1 + mpf(tau) * excess) / total for q, tau in enumerate(taus)]
        scale = (total / excess) ** 2
        return [
            [float(scale * below[min(q, r)] * (1 - below[max(q, r)])) for r in range(count)]
            for q in range(count)
        ]


def repeated_bit_variance(tau: float, epsilon: float, answers: int) -> float:
    """Variance per user when each answers several times with the budget split evenly.

    F (1 - F) + v(eps/a)/(4 a) for a answers about one bit: about a times S.
    """
    noise = bit_variance(tau, epsilon / answers) - tau * (1.0 - tau)
    return tau * (1.0 - tau) + noise / answers


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
