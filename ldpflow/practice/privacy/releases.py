"""Guarantees of a release, by notion: pure DP, Gaussian DP, one pair (epsilon, delta).

A release gives the guarantee of k such releases about one user together, and that in a secret order. None
stands for a parameter that does not follow: Gaussian noise has no pure epsilon, one pair has no mu.

An eps-DP release reveals no more than randomised response with this eps, whose k-fold composition is known
exactly (Kairouz, Oh and Viswanath, 2015). Laplace noise of scale sensitivity/eps reveals less. For it a
shift of one coordinate is the worst case among vectors of equal L1 distance. Compare the privacy losses of
shifts a and b of two coordinates and of one shift a + b: the first has at least the density of the second
inside (-(a + b), a + b) and less mass at both ends, so that their distribution functions cross once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ldpflow.components.mechanisms.mechanism import PrivacyStatement
from ldpflow.errors import InputError
from ldpflow.numerics import accounting
from ldpflow.numerics.accounting import largest_local_epsilon, shuffled_guarantee

DONG = "Dong, Roth and Su 2022"
KAIROUZ = "Kairouz, Oh and Viswanath 2015, Theorem 3.3"
MIRONOV = "Mironov 2017"
BUN = "Bun and Steinke 2016, Proposition 1.4"
ZHU = "Zhu, Dong and Wang 2022 (composition of dominating pairs)"

LARGEST_COUNT = 100_000
LEAST_DELTA = 1e-10
"""Below it, rounding of the transforms that compose losses of Laplace noise could show."""


def count_of(reports: int) -> int:
    """Refuse a number of reports that is not a whole number, or too large for a sum over all outcomes."""
    if isinstance(reports, bool) or int(reports) != reports or not 1 <= reports <= LARGEST_COUNT:
        raise InputError("reports", reports, f"a whole number from 1 to {LARGEST_COUNT:,}")
    return int(reports)


def composed_delta(epsilon: float, reports: int, at: float) -> float:
    """The smallest delta for which k eps-DP reports are (at, delta)-DP together.

    delta = sum over l of C(k, l) max(0, p^(k-l) (1-p)^l - e^at p^l (1-p)^(k-l)), p = e^eps/(1 + e^eps).
    The sum over outcomes is exact, whereas privacy loss distributions are rounded to a grid.

    ``epsilon`` is the budget of one report, k = ``reports``, and ``at`` the epsilon of the pair.
    """
    accounting.check_positive("epsilon", epsilon)
    accounting.check_epsilon(at)
    k = count_of(reports)
    log_p = -math.log1p(math.exp(-epsilon))
    terms = []
    log_choose = 0.0
    for l in range(k + 1):
        # ln of p^(k-l) (1-p)^l less ln of e^at p^l (1-p)^(k-l)
        gap = (k - 2 * l) * epsilon - at
        if gap <= 0:
            break
        terms.append(math.exp(log_choose + k * log_p - l * epsilon) * -math.expm1(-gap))
        log_choose += math.log(k - l) - math.log(l + 1)
    return min(1.0, math.fsum(terms))


def composed_epsilon(epsilon: float, reports: int, delta: float) -> float:
    """The smallest epsilon for which k eps-DP reports are (epsilon, delta)-DP together.

    The inverse of :func:`composed_delta`, by bisection; k eps if delta is 0.
    """
    low, high = 0.0, count_of(reports) * epsilon
    if delta == 0.0:
        return high
    accounting.check_probability("delta", delta)
    if composed_delta(epsilon, reports, 0.0) <= delta:
        return 0.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        enough = composed_delta(epsilon, reports, middle) <= delta
        low, high = (low, middle) if enough else (middle, high)
    return high


def nonresponse_epsilon(epsilon: float, below: float, above: float) -> float:
    """Epsilon of the outcome of an invitation: no answer, or answers that are eps-DP together.

    Let r_1 and r_0 be the probabilities of an answer if the user's value lies below or above a point. Then

        max(eps + |log(r_1/r_0)|, |log((1 - r_1)/(1 - r_0))|)

    is the largest log ratio of probabilities over all outcomes: an answer of either side, or silence. It is
    exact for randomised response, which gives both answers to its question for every value, and an upper
    bound for all others.

    ``epsilon`` is that of all answers together; the result is infinite if silence, or an answer, comes from
    one side alone.
    """
    accounting.check_positive("epsilon", epsilon)
    if below == above:
        return epsilon
    low, high = sorted((below, above))
    if low <= 0.0 or high >= 1.0:
        return math.inf
    return max(epsilon + math.log(high / low), math.log1p(-low) - math.log1p(-high))


class Release:
    """Release about one record, with its privacy guarantee."""

    def pure(self, count: int) -> float | None:
        """Epsilon of pure DP of ``count`` releases about one user."""
        return None

    def epsilon_at(self, delta: float, count: int) -> float | None:
        """The least epsilon known at delta."""
        raise NotImplementedError

    def mu(self, count: int) -> float | None:
        return None

    def rho(self, count: int) -> float | None:
        return None

    def renyi(self, orders: tuple[float, ...], count: int) -> dict[float, float]:
        """Renyi divergence by order; empty if none is known."""
        return {}

    def shuffled(self, users: int, delta: float) -> float | None:
        """Epsilon at delta of the reports of all users in a secret random order; None if unproved."""
        return None

    def sources(self, count: int) -> tuple[str, ...]:
        raise NotImplementedError


@dataclass(frozen=True)
class PureRelease(Release):
    """An eps-DP release. ``laplace``: it is Laplace noise, of which more is known."""

    epsilon: float
    laplace: bool = False

    def pure(self, count: int) -> float:
        return count * self.epsilon

    def epsilon_at(self, delta: float, count: int) -> float:
        known = composed_epsilon(self.epsilon, count, delta)
        if not self.laplace or delta < LEAST_DELTA:
            return known
        from dp_accounting import pld

        step = self.epsilon / (1000 if count <= 1000 else 100)
        one = pld.privacy_loss_distribution.from_laplace_mechanism(
            1.0 / self.epsilon, value_discretization_interval=step
        )
        return min(known, float(one.self_compose(count).get_epsilon_for_delta(delta)))

    def mu(self, count: int) -> float:
        return math.sqrt(count) * accounting.mu_of_pure(self.epsilon)

    def rho(self, count: int) -> float:
        return count * self.epsilon**2 / 2

    def renyi(self, orders: tuple[float, ...], count: int) -> dict[float, float]:
        import dp_accounting
        from scipy import special

        event: Any
        if self.laplace:
            relation, event = "ADD_OR_REMOVE_ONE", dp_accounting.LaplaceDpEvent(1.0 / self.epsilon)
        else:  # probability that a fair coin replaces the answer
            coin = 2.0 * float(special.expit(-self.epsilon))
            relation, event = "REPLACE_ONE", dp_accounting.RandomizedResponseDpEvent(coin, 2)
        accountant = dp_accounting.rdp.RdpAccountant(orders, dp_accounting.NeighboringRelation[relation])
        accountant.compose(event, count)
        # Capped by pure DP, the value if the coin's probability underflows.
        return {o: min(float(r), self.pure(count)) for o, r in zip(orders, accountant.rdp, strict=True)}

    def shuffled(self, users: int, delta: float) -> float | None:
        if self.epsilon > largest_local_epsilon(users, delta):
            return None
        # The guarantee of a single report holds for any shuffler.
        return min(shuffled_guarantee(self.epsilon, 0.0, users, delta)[0], self.epsilon)

    def sources(self, count: int) -> tuple[str, ...]:
        more = (ZHU, f"{MIRONOV}, Proposition 6") if self.laplace else (f"{MIRONOV}, Proposition 5",)
        return (KAIROUZ, f"{DONG} (trade-off function of pure DP)", BUN, *more)


@dataclass(frozen=True)
class GaussianRelease(Release):
    budget: float

    def epsilon_at(self, delta: float, count: int) -> float:
        return accounting.epsilon_of(delta, self.mu(count))

    def mu(self, count: int) -> float:
        """mu of ``count`` releases: they compose to sqrt(k) mu."""
        return math.sqrt(count) * self.budget

    def rho(self, count: int) -> float:
        return accounting.zcdp_of(self.mu(count))

    def renyi(self, orders: tuple[float, ...], count: int) -> dict[float, float]:
        return {order: order * self.rho(count) for order in orders}

    def shuffled(self, users: int, delta: float) -> float | None:
        """The least epsilon over pairs (eps_0, delta_0) of one report; half of delta is for delta_0."""
        largest = largest_local_epsilon(users, delta / 2)
        if largest <= 0:
            return None
        found = []
        for step in range(1, 129):
            local = largest * step / 128
            pair = shuffled_guarantee(local, accounting.delta_of(local, self.budget), users, delta / 2)
            if pair[1] <= delta:
                found.append(pair[0])
        return min(accounting.epsilon_of(delta, self.budget), *found) if found else None

    def sources(self, count: int) -> tuple[str, ...]:
        return (f"{DONG}, Corollaries 2.13 and 3.3", f"{MIRONOV}, Proposition 7")


@dataclass(frozen=True)
class PairRelease(Release):
    """A release known by one pair (epsilon, delta) alone."""

    epsilon: float
    delta: float

    def epsilon_at(self, delta: float, count: int) -> float | None:
        return count * self.epsilon if delta >= count * self.delta else None

    def sources(self, count: int) -> tuple[str, ...]:
        return ("Dwork and Roth 2014, Theorem 3.16",)


def release_of(name: str, statement: PrivacyStatement) -> Release | None:
    """One of the reports that a privacy statement is about; None if nothing is protected.

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
        return PairRelease(statement.epsilon, statement.delta)
    if statement.epsilon is not None:
        return PureRelease(statement.epsilon / statement.reports, laplace=name == "laplace")
    raise InputError("privacy_notion", statement.notion, "pure DP, Gaussian DP or (epsilon, delta)-DP")
