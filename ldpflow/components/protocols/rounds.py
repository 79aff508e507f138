"""A few rounds of thresholds, steered by a small Bayesian model."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

import numpy as np
from mpmath import mp, mpf
from pydantic import Field

from ldpflow.components.protocols.protocol import Array, Protocol
from ldpflow.numerics import constants

FIRST, INNER, LAST = 8, 3, 2  # numbers of thresholds in the first round, in each inner one, and in the last
MOST_ROUNDS = 12
SCALES = 6  # number of scales on the grid of the working model


class RoundsDesign(NamedTuple):
    """Settings of a run, as kernels read them."""

    low: float  # lower end of the range
    high: float  # upper end of the range
    tau: float
    logit: float  # log(tau/(1 - tau))
    asked: Array  # users asked at each threshold of a round, shape (rounds,)
    scales: Array  # grid of the scale of the working model
    answer_below: float
    answer_above: float
    liars: float
    lie: float  # report of a liar
    worth: float  # number of independent bits with as much information as the answers of one user


class Rounds(Protocol):
    """Randomised response to 1{X <= x} at thresholds x that move towards the quantile from round to round.

    Round 1 of T asks at 8 equally spaced thresholds of the range. Rounds 2..T-1 ask at m - 2s, m and m + 2s,
    and the last round at m - 2s and m + 2s. m and s are posterior mean and standard deviation of the quantile
    in a working model after the round before. The estimate and Fieller's interval come from a local logistic
    fit to all thresholds from m - 2.5s to m + 2.5s. No theorem covers the interval.

    Parameters
    ----------
    rounds : int in [3, 12]
        T. Three rounds are too few if the range is more than about eight times the scale of the law.
    """

    kind: Literal["rounds"] = "rounds"
    cites = ("warner1965", "fieller1954")
    rounds: Annotated[int, Field(ge=3, le=MOST_ROUNDS)] = 5

    def interaction_rounds(self) -> int:
        return self.rounds

    def least_users(self) -> int:
        """Fewest users of a run: each of the 8 thresholds of round 1, with share .4/(T - 1), gets one."""
        return 20 * (self.rounds - 1)

    def shares(self, n: int, tau: float) -> list[float]:
        """Share of the users that each round asks.

        Each of the first T - 1 rounds has clip(9 S/(min(tau, 1 - tau)^2 n), .10, .15) 4/(T - 1), with S the
        variance of a debiased bit. The last round has the rest.
        """
        tail = min(tau, 1.0 - tau)
        wanted = 9.0 * self.budget().bit_variance(tau) / (tail * tail) / n
        pilot = min(max(wanted, 0.1), 0.15) * 4.0 / (self.rounds - 1)
        return [pilot] * (self.rounds - 1) + [1.0 - (self.rounds - 1) * pilot]

    def thresholds(self) -> list[int]:
        """Number of thresholds of each round."""
        return [FIRST, *[INNER] * (self.rounds - 2), LAST]

    def asked(self, n: int, tau: float) -> list[int]:
        """Number of users that are asked at each threshold of a round. Users that remain are not asked."""
        shares = self.shares(n, tau)
        return [int(n * share) // count for share, count in zip(shares, self.thresholds(), strict=True)]

    def design(self, n: int, tau: float) -> RoundsDesign:
        low, high = self.range
        b = self.budget()
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
            worth=b._replace(answers=1.0).bit_variance(tau) / b.bit_variance(tau),
        )
