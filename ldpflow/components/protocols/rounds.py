"""A few rounds of thresholds, steered by a small Bayesian model."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

import numpy as np
from mpmath import mp, mpf
from pydantic import Field

from ldpflow.components.protocols.protocol import Array, Protocol
from ldpflow.numerics import constants

FIRST, INNER, LAST = 8, 3, 2  # thresholds of the first round, of a later one, of the last
MOST_ROUNDS = 12
SCALES = 6
"""Scales on the grid of the working model."""


class RoundsDesign(NamedTuple):
    """Settings of a run."""

    low: float  # the range
    high: float
    tau: float
    logit: float  # log(tau/(1 - tau))
    asked: Array  # users asked at each threshold, by round
    scales: Array  # grid of the working model's scale
    answer_below: float
    answer_above: float
    liars: float
    lie: float  # their report
    worth: float  # number of independent bits with the information of one user's answers


class Rounds(Protocol):
    """RR of 1{X <= x} at thresholds x that move towards the quantile from round to round.

    Round 1 asks at 8 equally spaced thresholds of the range; rounds 2..T-1 at m - 2s, m, m + 2s with
    m and s the posterior mean and standard deviation of a working model; the last at m - 2s and
    m + 2s. The estimate and Fieller's interval come from a local logistic fit to all thresholds
    within 2.5 s. No start and no step length has to be chosen; no theorem covers the interval.

    Parameters
    ----------
    rounds : int in [3, 12]
        T. Three are too few if the range is more than about eight times the law's scale.
    """

    kind: Literal["rounds"] = "rounds"
    cites = ("warner1965", "fieller1954")
    rounds: Annotated[int, Field(ge=3, le=MOST_ROUNDS)] = 5

    def interaction_rounds(self) -> int:
        return self.rounds

    def least_users(self) -> int:
        """Fewest users with one at each of the 8 thresholds of round 1, if its share is .4/(T - 1)."""
        return 20 * (self.rounds - 1)

    def shares(self, n: int, tau: float) -> list[float]:
        """Share of the users of every round: equal in the first T - 1, the rest in the last.

        clip(9 S(tau, eps)/(min(tau, 1 - tau)^2 n), .10, .15) 4/(T - 1) each.
        """
        b = self.budget()
        spread = tau * (1.0 - tau) + 0.25 * b.noise / b.answers
        tail = min(tau, 1.0 - tau)
        pilot = min(max(9.0 * spread / (tail * tail) / n, 0.1), 0.15) * 4.0 / (self.rounds - 1)
        return [pilot] * (self.rounds - 1) + [1.0 - (self.rounds - 1) * pilot]

    def thresholds(self) -> list[int]:
        """Number of thresholds, by round."""
        return [FIRST, *[INNER] * (self.rounds - 2), LAST]

    def asked(self, n: int, tau: float) -> list[int]:
        """Users asked at each threshold, by round. A remainder is not asked."""
        shares = self.shares(n, tau)
        return [int(n * share) // count for share, count in zip(shares, self.thresholds(), strict=True)]

    def design(self, n: int, tau: float) -> RoundsDesign:
        low, high = self.ends
        b = self.budget()
        once = tau * (1.0 - tau) + 0.25 * b.noise
        with constants.workdps(constants.DIGITS):
            logit = float(mp.log(mpf(tau) / (1 - mpf(tau))))
            # (U - L) geomspace(1/200, 1/10, 6)
            scales = [float(mpf(20) ** (mpf(i) / (SCALES - 1)) / 200) for i in range(SCALES)]
        return RoundsDesign(
            low=low,
            high=high,
            tau=tau,
            logit=logit,
            asked=np.array(self.asked(n, tau), dtype=np.float64),
            scales=(high - low) * np.array(scales),
            answer_below=self.answer_below,
            answer_above=self.answer_above,
            liars=self.liars,
            lie=1.0 if self.liars_push == "down" else 0.0,
            worth=once / (tau * (1.0 - tau) + 0.25 * b.noise / b.answers) if self.answers > 1 else 1.0,
        )
