"""Accuracy of one protocol for one quantile: by formula at any n and epsilon, and by simulation.

The formula is the asymptotic variance of the estimate; it knows neither the bias inside bins, nor what
isotonic regression gains, nor what steering costs. Simulation of the exact law of the counts knows all
of it and takes a fraction of a second.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldpflow.problems.laws import Law
from ldpflow.theory.private_quantile import (
    cells_covariance,
    level_with_dropout,
    level_with_liars,
    repeated_bit_variance,
)

__all__ = [
    "CellsForecast",
    "Forecast",
    "SgdForecast",
    "Simulated",
    "Steps",
    "Target",
]

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
    """Start and steps c i^-gamma of LDP-SGD, one per ``batch`` users or ``rounds`` of them in all."""

    c: float = 1.0
    gamma: float = 0.51
    theta0: float = 0.0
    batch: int = 1
    rounds: int | None = None

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

    def rmse(self, truth: float) -> float:
        """Root mean squared error of the estimates."""
        return math.sqrt(float(np.mean((self.estimate - truth) ** 2)))

    def rmse_error(self, truth: float) -> float:
        """Monte Carlo standard error of the RMSE over the RMSE."""
        squares = (self.estimate - truth) ** 2
        return float(squares.std() / (2.0 * squares.mean() * math.sqrt(len(squares))))

    def median_error(self, truth: float) -> float:
        """Median of the absolute errors."""
        return float(np.median(np.abs(self.estimate - truth)))

    def far(self, truth: float, distance: float) -> float:
        """Share of estimates farther from the truth than this."""
        return float(np.mean(np.abs(self.estimate - truth) > distance))

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
        """Median of half the lengths of the defined intervals."""
        lengths = (self.upper - self.lower)[np.isfinite(self.upper - self.lower)]
        return float(np.median(lengths) / 2) if len(lengths) else math.nan


class Forecast(ABC):
    """One protocol for one target; n counts users asked."""

    name: str
    needs: str

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
        """Replicates; None where the protocol has a theory to rely on (LDP-SGD)."""

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


class SgdForecast(Forecast):
    """LDP-SGD with randomised response: attains the efficiency bound once it has arrived."""

    name = "sgd"
    needs = "start, step"

    def __init__(self, target: Target, steps: Steps) -> None:
        super().__init__(target)
        self.steps = steps

    def rounds(self, n: int) -> int:
        return self.steps.count(n)

    def bits(self, n: int, epsilon: float) -> float:
        return float(self.target.answers)

    def users(self, n: int) -> int:
        """Users who answer about one quantile."""
        return int(self.target.answering * n) // self.target.quantiles

    def step_variance(self, epsilon: float) -> float:
        """Variance of a private gradient of one user."""
        return repeated_bit_variance(self.target.tau, epsilon, self.target.answers)

    def variance(self, n: int, epsilon: float) -> float:
        split = self.target.answering * n / max(self.users(n), 1)
        return split * self.step_variance(epsilon) / self.target.density**2

    def simulate(self, n: int, epsilon: float, replicates: int, seed: int) -> Simulated | None:
        return None

    def cautions(self, n: int, epsilon: float) -> list[str]:
        """The verdict on the path's arrival, where it is not ``arrived``."""
        from ldpflow.simulators.approach import Approach
        from ldpflow.theory.arrival import approaches

        t = self.target
        s = self.steps
        users = self.users(n)
        count, batch = max(s.count(users), 1), s.users_per_step(users)
        noise = self.step_variance(epsilon) - t.tau * (1.0 - t.tau)
        case = Approach(t.law, t.tau, noise, s.c, s.gamma, s.theta0, count, batch)
        (arrival,) = approaches([case])
        if arrival.verdict == "arrived":
            return []
        said = arrival.verdict.replace("_", " ")
        cause = "start" if abs(arrival.bias_start) >= abs(arrival.bias_steps) else "steps"
        return [f"{cause}: {said}, predicted coverage {arrival.coverage(t.level):.2f}"]


class CellsForecast(SgdForecast):
    """LDP-SGD for several quantiles at once: every user reports a cell between the iterates."""

    name = "cells"

    def bits(self, n: int, epsilon: float) -> float:
        return self.target.answers * math.log2(self.target.quantiles + 1)

    def users(self, n: int) -> int:
        return int(self.target.answering * n)

    def step_variance(self, epsilon: float) -> float:
        levels = sorted(self.target.together)
        at = levels.index(self.target.tau)
        truth = self.target.tau * (1.0 - self.target.tau)
        once = cells_covariance(levels, epsilon / self.target.answers)[at][at]
        return truth + (once - truth) / self.target.answers
