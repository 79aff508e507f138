"""Constants of an eps-LDP report, correct to the last bit."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from mpmath import mp, mpf

from ldpflow import constants

__all__ = ["Budget", "budget"]


class Budget(NamedTuple):
    """Epsilon, and the quantities of it that formulas and kernels use.

    Parameters
    ----------
    epsilon : float
        Of one answer.
    odds : float
        e^eps: odds of the true answer in randomised response.
    excess : float
        e^eps - 1.
    keep, flip : float
        p = e^eps/(1 + e^eps) and 1 - p.
    gap : float
        2p - 1 = tanh(eps/2).
    inflation : float
        c = 1/(2p - 1): length of a debiased bit.
    noise : float
        v = c^2 - 1 = 4 e^eps/(e^eps - 1)^2: four times the noise variance of a debiased bit.
    answers : float
        Answers of every user to the same question.
    """

    epsilon: float
    odds: float
    excess: float
    keep: float
    flip: float
    gap: float
    inflation: float
    noise: float
    answers: float


@lru_cache(maxsize=4096)
def budget(epsilon: float, answers: int = 1) -> Budget:
    """The constants of a budget epsilon > 0 that a user's answers share evenly."""
    with constants.workdps(constants.DIGITS):
        eps = mpf(epsilon) / answers
        half = mp.tanh(eps / 2)
        return Budget(
            epsilon=float(eps),
            odds=float(mp.exp(eps)),
            excess=float(mp.expm1(eps)),
            keep=float(1 / (1 + mp.exp(-eps))),
            flip=float(1 / (1 + mp.exp(eps))),
            gap=float(half),
            inflation=float(1 / half),
            noise=float(1 / mp.sinh(eps / 2) ** 2),
            answers=float(answers),
        )
