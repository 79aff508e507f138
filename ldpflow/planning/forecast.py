"""Accuracy of one protocol for one quantile, by simulation of the interval that it gives by default.

The formula for the asymptotic variance of the estimate knows neither the bias inside bins, nor what
isotonic regression gains, nor what steering costs, nor how long an interval is. Simulation of the exact law
of the counts knows all of it and takes a fraction of a second; LDP-SGD is simulated user by user.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldpflow.problems.laws import Law
from ldpflow.theory.private_quantile import level_with_dropout, level_with_liars

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Target:
    """The quantile that is to be estimated.

    Parameters
    ----------
    law : Law
    tau : float in (0, 1)
    level : float in (0, 1)
        Nominal coverage.
    z : float
        Normal quantile of the level.
    response : float in (0, 1]
        Probability that a user answers, whatever the value.
    liars : float in [0, 1)
        Share of those who answer that send the worst report.
    together : tuple of float
        Levels of all quantiles that are wanted from the same users, tau among them.
    answer_below, answer_above : float in (0, 1]
        Probability that a user answers whose value is at most the quantile, or above it, beside
        ``response``.
    answers : int
        Answers of every user to the same question, each with epsilon/answers.
    """

    law: Law
    tau: float
    level: float
    z: float
    response: float = 1.0
    liars: float = 0.0
    together: tuple[float, ...] = ()
    answer_below: float = 1.0
    answer_above: float = 1.0
    answers: int = 1

    @property
    def answering(self) -> float:
        """Share of the users asked who answer."""
        return self.response * (self.tau * self.answer_below + (1.0 - self.tau) * self.answer_above)

    @property
    def dropout_bias(self) -> float:
        """Bias of every estimate from drop-out that depends on the value, in the unit of the data."""
        if self.answer_below == self.answer_above:
            return 0.0
        level = level_with_dropout(self.tau, self.answer_below, self.answer_above)
        return self.law.quantile(level) - self.truth

    @property
    def quantiles(self) -> int:
        """Q, quantiles that are wanted from the same users."""
        return max(len(self.together), 1)

    @property
    def truth(self) -> float:
        """theta*."""
        return self.law.quantile(self.tau)

    @property
    def density(self) -> float:
        """f(theta*)."""
        return self.law.density_at_quantile(self.tau)


@dataclass(frozen=True)
class Steps:
    """Start and steps c i^-gamma of LDP-SGD, one per ``batch`` users or ``rounds`` of them in all.

    ``undeclared`` is the kind of an algorithm that does not declare its steps: nothing is computed then.
    """

    c: float = 1.0
    gamma: float = 0.51
    theta0: float = 0.0
    batch: int = 1
    rounds: int | None = None
    undeclared: str | None = None

    def count(self, n: int) -> int:
        """Steps that n users make."""
        return n // self.batch if self.rounds is None else min(n, self.rounds)

    def users_per_step(self, n: int) -> int:
        """Users of a step where n are asked."""
        return self.batch if self.rounds is None else max(n // self.rounds, 1)


@dataclass(frozen=True)
class Simulated:
    """Replicates of a protocol: errors and default intervals (outer, or Fieller's).

    Parameters
    ----------
    estimate, lower, upper : ndarray, shape (replicates,)
        Limits are NaN where the interval is undefined.
    range_end : ndarray of bool, shape (replicates,)
    """

    estimate: Floats
    lower: Floats
    upper: Floats
    range_end: NDArray[np.bool_]

    @property
    def defined(self) -> Floats:
        """Estimates of the replicates that have one."""
        return self.estimate[np.isfinite(self.estimate)]

    def rmse(self, truth: float) -> float:
        """Root mean squared error of the estimates."""
        return math.sqrt(float(np.mean((self.defined - truth) ** 2)))

    def rmse_error(self, truth: float) -> float:
        """Monte Carlo standard error of the RMSE over the RMSE."""
        squares = (self.defined - truth) ** 2
        return float(squares.std() / (2.0 * squares.mean() * math.sqrt(len(squares))))

    def median_error(self, truth: float) -> float:
        """Median of the absolute errors."""
        return float(np.median(np.abs(self.defined - truth)))

    def far(self, truth: float, distance: float) -> float:
        """Share of estimates farther from the truth than this."""
        return 1.0 - float(np.mean(np.abs(self.estimate - truth) <= distance))

    def joined(self, other: Simulated) -> Simulated:
        """These replicates and further ones."""
        return Simulated(
            np.concatenate([self.estimate, other.estimate]),
            np.concatenate([self.lower, other.lower]),
            np.concatenate([self.upper, other.upper]),
            np.concatenate([self.range_end, other.range_end]),
        )

    def coverage(self, truth: float) -> float:
        """Share of intervals that hold the truth; an undefined one does not."""
        return float(np.mean((self.lower <= truth) & (truth <= self.upper)))

    def half_width(self) -> float:
        """Median of half the lengths; an undefined interval is infinitely long."""
        lengths = self.upper - self.lower
        return float(np.median(np.where(np.isfinite(lengths), lengths, np.inf)) / 2)

    def share_within(self, half_width: float) -> float:
        """Share of intervals whose half width is at most this."""
        return float(np.mean(self.upper - self.lower <= 2.0 * half_width * (1 + 1e-9)))


class Forecast(ABC):
    """One protocol for one target; n counts users asked."""

    name: str
    needs: str
    batches = 4
    """Times as many replicates as asked for that are made, at most, until the RMSE is precise."""

    def __init__(self, target: Target) -> None:
        self.target = target

    @abstractmethod
    def rounds(self, n: int) -> int:
        """Rounds of interaction."""

    @abstractmethod
    def bits(self, n: int, epsilon: float) -> float:
        """Bits that a user sends."""

    def bins(self, n: int, epsilon: float) -> int | None:
        """Bins of a histogram, None for a protocol without."""
        return None

    @abstractmethod
    def variance(self, n: int, epsilon: float) -> float:
        """Asymptotic variance of the estimate times the number of answers, unit of the data squared."""

    @abstractmethod
    def simulate(self, n: int, epsilon: float, replicates: int, seed: int) -> Simulated | None:
        """Replicates with the default interval; None where there is none, with a caution that says why."""

    @abstractmethod
    def interval(self, n: int, epsilon: float) -> str | None:
        """Name of the default interval, to which all numbers belong; None where there is none."""

    def method_at(self, n: int, epsilon: float) -> str | None:
        """Name of the interval to use at n users, also where an average does not arrive."""
        return self.interval(n, epsilon)

    def users(self, n: int) -> int:
        """Users who answer about the quantile."""
        return int(self.target.answering * n)

    def standard_error(self, n: int, epsilon: float) -> float:
        """sqrt(variance/(answers of n users)), unit of the data."""
        return math.sqrt(self.variance(n, epsilon) / (self.target.answering * n))

    def cautions(self, n: int, epsilon: float) -> list[str]:
        """Limits of the formula, in words."""
        return []

    def liars_shift(self, n: int, epsilon: float, seed: int) -> float:
        """Bias that the liars cause, unit of the data, whichever way they push: the larger one."""
        t = self.target
        levels = [level_with_liars(t.tau, epsilon / t.answers, t.liars, push) for push in ("down", "up")]
        if not all(0.0 < level < 1.0 for level in levels):
            return math.inf
        return max(abs(t.law.quantile(level) - t.truth) for level in levels)
