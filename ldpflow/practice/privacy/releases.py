"""Guarantees of k reports about one user, and of reports in a secret order.

An eps-DP release reveals at most as much as randomised response with this eps. The k-fold composition of
randomised response is known (Kairouz, Oh and Viswanath, 2015).

Laplace noise of scale sensitivity/eps reveals less. Among all shifts of equal L1 norm, the shift of a
single coordinate reveals most. Proof: compare the privacy loss of shifts a and b of two
coordinates with that of one shift a + b. The loss of the two shifts has a larger density inside
(-(a + b), a + b) and less mass at both ends, so the two distribution functions cross once.
"""

from __future__ import annotations

import math
from typing import Any

from mpmath import mp, mpf

from ldpflow.components.mechanisms.mechanism import PrivacyStatement
from ldpflow.errors import InputError
from ldpflow.numerics import accounting
from ldpflow.numerics.accounting import largest_local_epsilon, shuffled_guarantee
from ldpflow.numerics.constants import DIGITS, workdps

DONG = "Dong, Roth and Su 2022"
KAIROUZ = "Kairouz, Oh and Viswanath 2015, Theorem 3.3"
MIRONOV = "Mironov 2017"
BUN = "Bun and Steinke 2016, Proposition 1.4"
ZHU = "Zhu, Dong and Wang 2022 (composition of dominating pairs)"

SHOWN_ORDERS = (2.0, 8.0, 32.0)  # orders of the Renyi divergences on a page
LARGEST_COUNT = 100_000
LEAST_DELTA = 1e-10  # for a smaller delta rounding errors of composed Laplace noise could show


def count_of(reports: int) -> int:
    if isinstance(reports, bool) or reports not in range(1, LARGEST_COUNT + 1):
        raise InputError("reports", reports, f"a whole number from 1 to {LARGEST_COUNT:,}")
    return int(reports)


def composed_delta(epsilon: float, reports: int, at: float) -> float:
    """The smallest delta for which k = ``reports`` eps-DP reports together are (``at``, delta)-DP.

    delta = sum over l of C(k, l) max(0, p^(k-l) (1-p)^l - e^at p^l (1-p)^(k-l)), p = e^eps/(1 + e^eps).
    """
    k, log_p = reports, -math.log1p(math.exp(-epsilon))
    terms = []
    log_choose = 0.0
    for l in range(k + 1):
        # ln p^(k-l) (1-p)^l - ln e^at p^l (1-p)^(k-l)
        gap = (k - 2 * l) * epsilon - at
        if gap <= 0:
            break
        terms.append(math.exp(log_choose + k * log_p - l * epsilon) * -math.expm1(-gap))
        log_choose += math.log(k - l) - math.log(l + 1)
    return min(1.0, math.fsum(terms))


def composed_epsilon(epsilon: float, reports: int, delta: float) -> float:
    """The smallest ``at`` of :func:`composed_delta` for delta in (0, 1), by bisection."""
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

    r_1 and r_0 are the probabilities of an answer if the value of the user lies below or above a point. The
    largest log ratio of the probabilities of an outcome is at most

        max(eps + |log(r_1/r_0)|, |log((1 - r_1)/(1 - r_0))|)

    with equality for randomised response. It is infinite if r_1 != r_0 and one of them is 0 or 1.
    """
    accounting.check_positive("epsilon", epsilon)
    if below == above:
        return epsilon
    low, high = sorted((below, above))
    if low <= 0.0 or high >= 1.0:
        return math.inf
    return max(epsilon + math.log(high / low), math.log1p(-low) - math.log1p(-high))


def notions(name: str, statement: PrivacyStatement, count: int, delta: float) -> dict[str, Any]:
    """Guarantee of ``count`` reports together. The statement is for ``statement.reports`` reports.

    Keys are fields of ``Guarantee``. A notion that does not follow from the statement is missing. ``name`` is
    the kind of the mechanism.

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
    """Guarantee of ``count`` eps-DP reports. It is stronger if their noise is Laplace noise (``laplace``)."""
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
        "renyi": {order: count * renyi_divergence(epsilon, order, laplace) for order in SHOWN_ORDERS},
        "sources": (KAIROUZ, f"{DONG} (trade-off function of pure DP)", BUN, *more),
    }


def renyi_divergence(epsilon: float, order: float, laplace: bool = False) -> float:
    """Renyi divergence of order a > 1 of randomised response, or of Laplace noise (Mironov, 2017).

    Proposition 5: ln(p^a (1-p)^(1-a) + (1-p)^a p^(1-a))/(a - 1) with p = e^eps/(1 + e^eps).
    Proposition 6: ln(a/(2a-1) e^((a-1) eps) + (a-1)/(2a-1) e^(-a eps))/(a - 1).
    """
    with workdps(DIGITS):
        a, eps = mpf(order), mpf(epsilon)
        grown, shrunk = mp.expm1((a - 1) * eps), mp.expm1(-a * eps)
        # The argument of the logarithm, less 1. If eps is small, it is near a (a-1) eps^2/2.
        excess = -grown * shrunk / (1 + mp.exp(-eps))
        if laplace:
            excess = (a * grown + (a - 1) * shrunk) / (2 * a - 1)
        return float(mp.log1p(excess) / (a - 1))


def shuffled_epsilon(statement: PrivacyStatement, users: int, delta: float) -> float | None:
    """Epsilon at delta of the reports of all users in a secret random order. Each user sends one report.

    None if Theorem 3.8 of Feldman, McMillan and Talwar (2021) does not cover the reports. Epsilon is at most
    that of a single report. Gaussian reports have many pairs (eps_0, delta_0). The pair with the
    least epsilon is taken. Half of delta is for delta_0.
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
