"""Guarantees of a release, by notion: pure DP, Gaussian DP, one pair (epsilon, delta).

A release knows what k of it about one user promise together, and what a secret order adds. None stands for
what does not follow: Gaussian noise has no pure epsilon, one pair no mu.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from ldpflow.errors import InputError
from ldpflow.mechanisms.mechanism import PrivacyStatement
from ldpflow.privacy import gaussian, pure
from ldpflow.privacy.shuffling import amplified, largest_local_epsilon

__all__ = ["GaussianRelease", "Pair", "PureRelease", "Release", "release_of"]

DONG = "Dong, Roth and Su 2022"
KAIROUZ = "Kairouz, Oh and Viswanath 2015, Theorem 3.3"
MIRONOV = "Mironov 2017"
BUN = "Bun and Steinke 2016, Proposition 1.4"
CANONNE = "Canonne, Kamath and Steinke 2020, Proposition 12"


class Release(Protocol):
    """Release about one record, with its privacy guarantee."""

    def pure(self, count: int) -> float | None:
        """epsilon of pure DP of ``count`` releases about one user."""

    def epsilon_at(self, delta: float, count: int) -> float | None:
        """The least epsilon known at delta."""

    def mu(self, count: int) -> float | None:
        """mu of Gaussian DP."""

    def rho(self, count: int) -> float | None:
        """rho of zero-concentrated DP."""

    def renyi(self, order: float, count: int) -> float | None:
        """Renyi divergence of an order."""

    def shuffled(self, users: int, delta: float) -> float | None:
        """epsilon at delta of the reports of all users in a secret random order; None where unproved."""

    def sources(self, count: int) -> tuple[str, ...]:
        """References that prove the numbers."""


@dataclass(frozen=True)
class PureRelease:
    """An eps-DP release; ``laplace`` where it is Laplace noise, whose Renyi divergence is smaller."""

    epsilon: float
    laplace: bool = False

    def pure(self, count: int) -> float:
        return count * self.epsilon

    def epsilon_at(self, delta: float, count: int) -> float:
        """The better of the optimal composition and the best Renyi order."""
        best = pure.composed_epsilon(self.epsilon, count, delta)
        for order in pure.RENYI_ORDERS:
            best = min(best, pure.epsilon_of_renyi(self.renyi(order, count), order, delta))
        return best

    def mu(self, count: int) -> float:
        return math.sqrt(count) * gaussian.mu_of_pure(self.epsilon)

    def rho(self, count: int) -> float:
        return count * self.epsilon**2 / 2

    def renyi(self, order: float, count: int) -> float:
        one = pure.laplace_renyi if self.laplace else pure.renyi
        return count * one(self.epsilon, order)

    def shuffled(self, users: int, delta: float) -> float | None:
        if self.epsilon > largest_local_epsilon(users, delta):
            return None
        # What the users' own reports promise holds whatever the shuffler does.
        return min(amplified(self.epsilon, 0.0, users, delta)[0], self.epsilon)

    def sources(self, count: int) -> tuple[str, ...]:
        proposition = "6" if self.laplace else "5"
        return (
            KAIROUZ,
            f"{DONG} (trade-off function of pure DP)",
            BUN,
            f"{MIRONOV}, Proposition {proposition}",
            CANONNE,
        )


@dataclass(frozen=True)
class GaussianRelease:
    """A mu-GDP release."""

    budget: float

    def total(self, count: int) -> float:
        """mu of ``count`` releases: they compose to sqrt(k) mu."""
        return math.sqrt(count) * self.budget

    def pure(self, count: int) -> None:
        return None

    def epsilon_at(self, delta: float, count: int) -> float:
        return gaussian.epsilon_of(delta, self.total(count))

    def mu(self, count: int) -> float:
        return self.total(count)

    def rho(self, count: int) -> float:
        return gaussian.zcdp_of(self.total(count))

    def renyi(self, order: float, count: int) -> float:
        return order * gaussian.zcdp_of(self.total(count))

    def shuffled(self, users: int, delta: float) -> float | None:
        """The least over the pairs (eps_0, delta_0) of one report; half of delta is for delta_0."""
        largest = largest_local_epsilon(users, delta / 2)
        if largest <= 0:
            return None
        best = gaussian.epsilon_of(delta, self.budget)
        found = False
        for step in range(1, 129):
            local = largest * step / 128
            local_delta = gaussian.delta_of(local, self.budget)
            epsilon, total = amplified(local, local_delta, users, delta / 2)
            if total <= delta:
                best, found = min(best, epsilon), True
        return best if found else None

    def sources(self, count: int) -> tuple[str, ...]:
        return (f"{DONG}, Corollaries 2.13 and 3.3", f"{MIRONOV}, Proposition 7")


@dataclass(frozen=True)
class Pair:
    """A release known by one pair (epsilon, delta) alone."""

    epsilon: float
    delta: float

    def pure(self, count: int) -> None:
        return None

    def epsilon_at(self, delta: float, count: int) -> float | None:
        return count * self.epsilon if delta >= count * self.delta else None

    def mu(self, count: int) -> None:
        return None

    def rho(self, count: int) -> None:
        return None

    def renyi(self, order: float, count: int) -> None:
        return None

    def shuffled(self, users: int, delta: float) -> None:
        return None

    def sources(self, count: int) -> tuple[str, ...]:
        return ("Dwork and Roth 2014, Theorem 3.16",)


def release_of(name: str, statement: PrivacyStatement) -> Release | None:
    """One of the reports that a privacy statement is about; None where nothing is protected.

    Raises
    ------
    InputError
        If the notion is none of pure DP, Gaussian DP and (epsilon, delta)-DP.
    """
    if statement.notion == "none":
        return None
    if statement.mu is not None:
        return GaussianRelease(statement.mu)
    if statement.epsilon is not None and statement.delta:
        return Pair(statement.epsilon, statement.delta)
    if statement.epsilon is not None:
        return PureRelease(statement.epsilon / statement.reports, laplace=name == "laplace")
    raise InputError("privacy_notion", statement.notion, "pure DP, Gaussian DP or (epsilon, delta)-DP")
