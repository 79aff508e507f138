"""Guarantees of k reports about one user, and of reports in a secret order.

An eps-DP release reveals no more than randomised response with this eps, whose k-fold composition is known
exactly (Kairouz, Oh and Viswanath, 2015). Laplace noise of scale sensitivity/eps reveals less. For it a
shift of one coordinate is the worst case among vectors of equal L1 distance. Compare the privacy losses of
shifts a and b of two coordinates and of one shift a + b: the first has at least the density of the second
inside (-(a + b), a + b) and less mass at both ends, so that their distribution functions cross once.
"""

from __future__ import annotations

import math
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

SHOWN_ORDERS = (2.0, 8.0, 32.0)
LARGEST_COUNT = 100_000
LEAST_DELTA = 1e-10  # below it, rounding of the transforms that compose losses of Laplace noise could show


def count_of(reports: int) -> int:
    if isinstance(reports, bool) or reports not in range(1, LARGEST_COUNT + 1):
        raise InputError("reports", reports, f"a whole number from 1 to {LARGEST_COUNT:,}")
    return int(reports)


def composed_delta(epsilon: float, reports: int, at: float) -> float:
    """The smallest delta for which k = ``reports`` eps-DP reports are (at, delta)-DP together.

    delta = sum over l of C(k, l) max(0, p^(k-l) (1-p)^l - e^at p^l (1-p)^(k-l)), p = e^eps/(1 + e^eps).
    The sum over outcomes is exact, whereas privacy loss distributions are rounded to a grid.
    """
    k, log_p = reports, -math.log1p(math.exp(-epsilon))
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
    """The inverse of :func:`composed_delta` for delta in (0, 1), by bisection."""
    count = count_of(reports)
    low, high = 0.0, count * epsilon
    if composed_delta(epsilon, count, 0.0) <= delta:
        return 0.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        enough = composed_delta(epsilon, count, middle) <= delta
        low, high = (low, middle) if enough else (middle, high)
    return high


def nonresponse_epsilon(epsilon: float, below: float, above: float) -> float:
    """Epsilon of the outcome of an invitation: no answer, or answers that are eps-DP together.

    With r_1 and r_0 the probabilities of an answer if the user's value lies below or above a point,

        max(eps + |log(r_1/r_0)|, |log((1 - r_1)/(1 - r_0))|)

    is the largest log ratio of probabilities over all outcomes, infinite if silence, or an answer, comes from
    one side alone. It is exact for randomised response, and an upper bound for all others.
    """
    accounting.check_positive("epsilon", epsilon)
    if below == above:
        return epsilon
    low, high = sorted((below, above))
    if low <= 0.0 or high >= 1.0:
        return math.inf
    return max(epsilon + math.log(high / low), math.log1p(-low) - math.log1p(-high))


def notions(name: str, statement: PrivacyStatement, count: int, delta: float) -> dict[str, Any]:
    """Guarantee of ``count`` of the reports that a statement is about, together, and its sources.

    epsilon of pure DP, the least epsilon known at delta, mu, rho and the Renyi divergence by order. A missing
    one does not follow.

    Raises
    ------
    InputError
        If the notion is none of pure DP, Gaussian DP and (epsilon, delta)-DP.
    """
    found: dict[str, Any]
    if statement.mu is not None:
        mu = math.sqrt(count) * statement.mu
        rho = accounting.zcdp_of(mu)
        found = {
            "epsilon_at_delta": accounting.epsilon_of(delta, mu),
            "mu": mu,
            "rho": rho,
            "renyi": {order: order * rho for order in SHOWN_ORDERS},
            "sources": (f"{DONG}, Corollaries 2.13 and 3.3", f"{MIRONOV}, Proposition 7"),
        }
    elif statement.epsilon is not None and statement.delta:
        known = count * statement.epsilon if delta >= count * statement.delta else None
        found = {"epsilon_at_delta": known, "sources": ("Dwork and Roth 2014, Theorem 3.16",)}
    elif statement.epsilon is not None:
        found = pure_notions(statement.epsilon / statement.reports, count, delta, name == "laplace")
    else:
        allowed = "pure DP, Gaussian DP or (epsilon, delta)-DP"
        raise InputError("privacy_notion", statement.notion, allowed)
    return {"delta": delta, **found}


def pure_notions(epsilon: float, count: int, delta: float, laplace: bool = False) -> dict[str, Any]:
    """Guarantee of eps-DP reports. ``laplace``: they have Laplace noise, of which more is known."""
    least, more = composed_epsilon(epsilon, count, delta), [f"{MIRONOV}, Proposition 5"]
    if laplace:
        more = [ZHU, f"{MIRONOV}, Proposition 6"]
        if delta >= LEAST_DELTA:
            from dp_accounting import pld

            one = pld.privacy_loss_distribution.from_laplace_mechanism(
                1.0 / epsilon, value_discretization_interval=epsilon / (1000 if count <= 1000 else 100)
            )
            least = min(least, float(one.self_compose(count).get_epsilon_for_delta(delta)))
    return {
        "epsilon": count * epsilon,
        "epsilon_at_delta": least,
        "mu": math.sqrt(count) * accounting.mu_of_pure(epsilon),
        "rho": count * epsilon**2 / 2,
        "renyi": renyi_of_pure(epsilon, SHOWN_ORDERS, count, laplace),
        "sources": (KAIROUZ, f"{DONG} (trade-off function of pure DP)", BUN, *more),
    }


def renyi_of_pure(
    epsilon: float, orders: tuple[float, ...], count: int, laplace: bool = False
) -> dict[float, float]:
    import dp_accounting
    from scipy import special

    event: Any
    if laplace:
        relation, event = "ADD_OR_REMOVE_ONE", dp_accounting.LaplaceDpEvent(1.0 / epsilon)
    else:  # probability that a fair coin replaces the answer
        coin = 2.0 * float(special.expit(-epsilon))
        relation, event = "REPLACE_ONE", dp_accounting.RandomizedResponseDpEvent(coin, 2)
    accountant = dp_accounting.rdp.RdpAccountant(orders, dp_accounting.NeighboringRelation[relation])
    accountant.compose(event, count)
    # Capped by pure DP, the value if the coin's probability underflows.
    return {o: min(float(r), count * epsilon) for o, r in zip(orders, accountant.rdp, strict=True)}


def shuffled_epsilon(statement: PrivacyStatement, users: int, delta: float) -> float | None:
    """Epsilon at delta of the reports of all users in a secret random order, one each; None if unproved.

    The guarantee of a single report holds for any shuffler. That of Gaussian reports is the least over their
    pairs (eps_0, delta_0); half of delta is for delta_0.
    """
    if statement.mu is not None:
        largest, found = largest_local_epsilon(users, delta / 2), []
        for local in (largest * step / 128 for step in range(1, 129) if largest > 0):
            pair = shuffled_guarantee(local, accounting.delta_of(local, statement.mu), users, delta / 2)
            if pair[1] <= delta:
                found.append(pair[0])
        return min(accounting.epsilon_of(delta, statement.mu), *found) if found else None
    epsilon = statement.epsilon
    if epsilon is None or statement.delta or epsilon > largest_local_epsilon(users, delta):
        return None
    return min(shuffled_guarantee(epsilon, 0.0, users, delta)[0], epsilon)
